"""Every fuzz target runs for a while over its seeds; the canary must crash.

Built by `make fuzz-programs` (clang). STEELYARD_FUZZ_SECONDS is the time of each target (15). Seeds of NAME_fuzz.cc lie in
corpus/NAME/; what a run finds beyond them is kept in build/fuzz/corpus/NAME, a crash in build/fuzz/crash-NAME-*.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
BUILD = HERE.parent.parent / "build" / "fuzz"
SECONDS = int(os.environ.get("STEELYARD_FUZZ_SECONDS", "15"))
TARGETS = sorted(path.stem.removesuffix("_fuzz") for path in HERE.glob("*_fuzz.cc"))


def program(name: str) -> Path:
    path = BUILD / "bin" / f"{name}_fuzz"
    if not path.exists():
        pytest.fail(f"{path} is not there: run `make fuzz-programs`")
    return path


def fuzz(name: str, crash_prefix: str, *options: str) -> subprocess.CompletedProcess:
    grown = BUILD / "corpus" / name
    grown.mkdir(parents=True, exist_ok=True)
    folders = [str(grown)]
    if (HERE / "corpus" / name).is_dir():
        folders.append(str(HERE / "corpus" / name))
    command = [str(program(name)), f"-artifact_prefix={crash_prefix}", "-timeout=20", "-rss_limit_mb=3000", "-max_len=65536", *options]
    return subprocess.run([*command, *folders], capture_output=True, text=True, errors="replace", timeout=SECONDS + 120)


@pytest.mark.parametrize("name", [name for name in TARGETS if name != "canary"])
def test_nothing_crashes(name):
    done = fuzz(name, str(BUILD / f"crash-{name}-"), f"-max_total_time={SECONDS}")
    assert done.returncode == 0, f"replay: {program(name)} {BUILD}/crash-{name}-*\n{done.stderr[-4000:]}"
    assert "DONE" in done.stderr, done.stderr[-2000:]


def test_the_canary_crashes(tmp_path):
    shutil.rmtree(BUILD / "corpus" / "canary", ignore_errors=True)
    done = fuzz("canary", f"{tmp_path}/crash-", "-max_total_time=60", "-seed=1")
    assert done.returncode != 0, "the fuzzer missed a planted mistake: it finds nothing"
    assert [path.read_bytes()[:4] for path in tmp_path.glob("crash-*")] == [b"bad!"]
