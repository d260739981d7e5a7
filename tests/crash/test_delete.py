"""delete, abort and gc are killed at every fault point; the same command again ends what was begun."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path

import pytest

from crash import harness

VERBS = {
    "delete": ("delete", "m#1", "--yes"),
    "abort": ("abort", "half#1", "--yes"),
    "gc": ("gc", "--yes", "--gc-grace", "0s"),
    "reconcile": ("reconcile",),
}


@pytest.fixture(scope="module")
def template(tmp_path_factory, source) -> Path:
    """A store with two revisions that share everything, one of its own, a delete and an import that were interrupted."""
    from lib.runner import Steelyard

    folder = tmp_path_factory.mktemp("template")
    steelyard = Steelyard(folder / "store", folder / "home")
    other = harness.small_checkpoint(folder / "other", seed="other")
    steelyard(*harness.import_args(source, "m"))
    steelyard(*harness.import_args(source, "twin"))
    steelyard(*harness.import_args(other, "going"))
    killed = steelyard.run("delete", "going", "--yes", env={"STEELYARD_FAULT": "kill@delete.after_marker"})
    assert killed.code == -signal.SIGKILL, killed.explain()
    killed = steelyard.run(*harness.import_args(other, "half"), env={"STEELYARD_FAULT": "kill@import.after_flush"})
    assert killed.code == -signal.SIGKILL
    (folder / "points").mkdir()
    return folder


def copy_of(steelyard, template: Path):
    os.makedirs(steelyard.store.parent, exist_ok=True)
    shutil.rmtree(steelyard.store, ignore_errors=True)
    os.system(f"cp -a '{template / 'store'}' '{steelyard.store}'")
    return steelyard


def state_of(steelyard, ref: str) -> str:
    return steelyard.json("inspect", ref)["revision"]["availability"]


@pytest.mark.parametrize("verb", VERBS)
def test_killed_at_every_point(steelyard, template, source, tmp_path, verb):
    points = harness.trace(copy_of(steelyard, template), tmp_path, *VERBS[verb])
    tries = harness.passes_to_try(points)
    assert any(name.startswith(("delete.", "gc.")) for name, _ in tries), points
    for point, number in tries:
        copy_of(steelyard, template)
        killed = steelyard.run(*VERBS[verb], env={"STEELYARD_FAULT": f"kill@{point}#{number}"})
        assert killed.code in (-signal.SIGKILL, 0), killed.explain()
        if verb == "delete":
            assert state_of(steelyard, "m#1") in ("READY", "DELETING", "DELETED"), point
        if state_of(steelyard, "m#1") == "READY" and verb == "delete":
            assert steelyard("verify", "m#1").last == "ok", point
        steelyard(*VERBS[verb])
        if verb == "delete":
            assert state_of(steelyard, "m#1") == "DELETED"
        if verb == "abort":
            assert state_of(steelyard, "half#1") == "DELETED"
        if verb == "reconcile":
            assert state_of(steelyard, "going#1") == "DELETED"
        assert steelyard("verify", "twin").last == "ok", point
        # Whatever happened, nothing is left in the end.
        steelyard("reconcile")
        for ref in ("m#1", "twin#1", "going#1"):
            steelyard("delete", ref, "--yes")
        steelyard("abort", "half#1", "--yes")
        steelyard("gc", "--yes", "--gc-grace", "0s")
        left = [path for name in ("groups", "content") for path in (steelyard.store / "cold" / name).rglob("*") if path.is_file()]
        # Markers stay until two snapshot copies know their tombstones.
        assert [path for path in left if path.name != "deleting"] == [], f"{point}#{number}"


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("error", ["EIO", "ENOSPC"])
def test_failing_at_every_point(steelyard, template, tmp_path, verb, error):
    points = harness.trace(copy_of(steelyard, template), tmp_path, *VERBS[verb])
    names = [name for name in dict.fromkeys(points) if not name.startswith(("delete.", "gc.", "abort.", "reconcile.")) and ".after_" not in name]
    for point in names:
        copy_of(steelyard, template)
        failed = steelyard.run("--json", *VERBS[verb], env={"STEELYARD_FAULT": f"{error}@{point}"})
        if failed.code != 0:
            harness.assert_typed(failed)
        steelyard(*VERBS[verb])
        assert steelyard("verify", "twin").last == "ok", point


def test_two_at_once(steelyard, template, tmp_path):
    """Everybody deletes, aborts, collects and reconciles at the same time."""
    copy_of(steelyard, template)
    processes = [steelyard.start("--json", *VERBS[verb]) for verb in VERBS for _ in range(3)]
    for process in processes:
        _, err = process.communicate()
        assert process.returncode == 0, err
    assert state_of(steelyard, "m#1") == state_of(steelyard, "half#1") == state_of(steelyard, "going#1") == "DELETED"
    assert steelyard("verify", "twin").last == "ok"


def test_a_delete_that_stood_still(steelyard, template, tmp_path):
    """Another one ends it; the steps of the first come late and do no harm."""
    for point in ("delete.after_deleting", "delete.after_marker", "delete.after_objects"):
        copy_of(steelyard, template)
        first = harness.stop_at(steelyard, point, 1, *VERBS["delete"])
        try:
            steelyard(*VERBS["delete"])
            steelyard(*VERBS["gc"])
        finally:
            first.send_signal(signal.SIGCONT)
        _, err = first.communicate()
        assert first.returncode == 0, err
        assert steelyard("verify", "twin").last == "ok"
        steelyard(*VERBS["gc"])
        assert state_of(steelyard, "m#1") == "DELETED"
