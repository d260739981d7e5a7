"""Files that others left in a store: fifos are not waited for, large ones take no memory, folders are left alone."""

from __future__ import annotations

import os
import resource
import subprocess

import pytest

from lib.damage import objects_of

SECONDS = 60


@pytest.fixture
def model(steelyard, checkpoint) -> str:
    return steelyard("import", checkpoint, "m", "--chunk-size", "1MiB").last


def to_fifo(path) -> None:
    path.unlink(missing_ok=True)
    os.mkfifo(path)


@pytest.mark.parametrize("content", [False, True])
def test_a_fifo_in_the_place_of_an_object(steelyard, model, checkpoint, tmp_path, content):
    objects = objects_of(steelyard, model)
    to_fifo(objects[0])
    if content:
        for path in (steelyard.store / "cold/content").glob("*/*"):
            to_fifo(path)
    steelyard("materialize", model, tmp_path / "out", code=5, timeout=SECONDS)
    steelyard("verify", model, code=5, timeout=SECONDS)
    steelyard.run("reconcile", timeout=SECONDS)
    steelyard("repair", model, "--source", checkpoint, timeout=SECONDS)
    assert steelyard("verify", model, timeout=SECONDS).last == "ok"


def test_a_fifo_in_the_place_of_the_store_file(steelyard, model):
    to_fifo(steelyard.store / "cold/store.json")
    assert "store.json is not a regular file" in steelyard.error("list", code=5, timeout=SECONDS)["message"]
    steelyard("doctor", "--adopt", timeout=SECONDS)
    assert steelyard("verify", model, timeout=SECONDS).last == "ok"


def test_a_large_file_with_the_name_of_a_copy(steelyard, model):
    copy = steelyard.store / "cold/catalog" / f"{999:020}"
    copy.parent.mkdir(exist_ok=True)
    copy.touch()
    os.truncate(copy, 15 * 1024**3)
    limited = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_AS, (2 * 1024**3, 2 * 1024**3))}
    document = steelyard.json("recover", "--dry-run", timeout=SECONDS, **limited)
    assert document["recovered"] == [model] and "magic" in document["skipped"][0]["reason"]
    steelyard("doctor", timeout=SECONDS, **limited)


@pytest.mark.parametrize("name", ["doctor-notes", "doctor-0123456789abcdef", "doctor-0123456789ABCDEF", "doctor-"])
def test_folders_with_the_name_of_a_trial_stay(steelyard, model, name):
    folder = steelyard.store / "cold" / name
    folder.mkdir()
    (folder / "precious").write_text("mine")
    steelyard("doctor")
    steelyard("bench")
    assert (folder / "precious").read_text() == "mine"


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
def test_what_is_mounted_on_a_trial_folder_stays(steelyard, model, tmp_path):
    precious = tmp_path / "precious"
    (precious / "steelyard-trial").mkdir(parents=True)
    (precious / "steelyard-trial" / "p").write_text("mine")
    folder = steelyard.store / "cold" / "doctor-0123456789abcdef"
    folder.mkdir()
    if subprocess.run(["mount", "--bind", precious, folder], capture_output=True).returncode != 0:
        pytest.skip("this machine does not let us mount")
    try:
        steelyard("doctor")
    finally:
        subprocess.run(["umount", folder], check=True)
    assert (precious / "steelyard-trial" / "p").read_text() == "mine"
