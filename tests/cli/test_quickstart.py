"""`make quickstart` on a real checkpoint, on a user's own, and where no package can be had; each of them twice."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from lib.checkpoints import make_checkpoint
from lib.runner import binary

ROOT = Path(__file__).resolve().parent.parent.parent


def quickstart(work: Path, *args, **env: str) -> str:
    if binary() != ROOT / "build" / "bin" / "steelyard":
        pytest.skip("the quickstart runs build/bin/steelyard, and STEELYARD_BIN is another program")
    done = subprocess.run(
        [ROOT / "tools" / "quickstart", *map(str, args)], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=300,
        env={**os.environ, "QUICKSTART_WORK": str(work), "STEELYARD_COLD_RESERVE_FREE": "0", **env},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_user_s_own_checkpoint_twice(tmp_path):
    model = make_checkpoint(tmp_path / "my model", nested=True)
    for _ in range(2):
        out = quickstart(tmp_path / "work", model)
        assert "identical: 8 of 8 files" in out
        assert "my model@main#1" in out


def test_a_checkpoint_that_a_package_carries(tmp_path):
    out = quickstart(tmp_path / "work")
    assert "identical: " in out and "steelyard import" in out
    if "The package cannot be had" in out:
        pytest.skip("the package could not be had; the synthetic checkpoint was used")
    assert "all-minilm-l6-v2@main#1" in out


def test_without_a_package_a_synthetic_one(tmp_path):
    out = quickstart(tmp_path / "work", PIP_NO_INDEX="1", PIP_FIND_LINKS="", PIP_CONFIG_FILE=os.devnull)
    assert "The package cannot be had from here" in out and "identical: " in out
    assert "synthetic@main#1" in out


def test_make_hands_a_path_with_spaces_on(tmp_path):
    # `-o build`: as if everything were built; the path is refused before anything else happens.
    done = subprocess.run(["make", "-s", "-o", "build", "quickstart", f"MODEL={tmp_path}/my  model's"], cwd=ROOT, capture_output=True, text=True)
    assert f"{tmp_path}/my  model's does not exist" in done.stderr, done.stderr


def test_a_model_that_is_not_there(tmp_path):
    done = subprocess.run([ROOT / "tools" / "quickstart", tmp_path / "none"], capture_output=True, text=True, env={**os.environ, "QUICKSTART_WORK": str(tmp_path)})
    assert done.returncode == 2 and "does not exist" in done.stderr
