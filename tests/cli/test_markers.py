"""The markers in the cold tier: what is wrong with one is found and mended while the catalog is there, and stops no verb."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from crash import harness
from lib.checkpoints import flip_bit, make_checkpoint
from lib.damage import objects_of, state

NOW = ("gc", "--yes", "--gc-grace", "0s")


@pytest.fixture
def model(steelyard, checkpoint) -> str:
    return steelyard("import", checkpoint, "m").last


def attempt_of(steelyard, ref: str) -> Path:
    return objects_of(steelyard, ref)[0].parent.parent


def lose_catalog(store: Path) -> None:
    for path in store.glob("catalog.*"):
        path.unlink()


def hurt(marker: Path, how: str) -> None:
    if how == "flipped":
        marker.chmod(0o644)
        flip_bit(marker, 100)
        return
    marker.unlink()
    if how == "empty":
        marker.touch()
    elif how == "fifo":
        os.mkfifo(marker)


@pytest.mark.parametrize("how", ["flipped", "empty", "fifo", "missing"])
def test_a_bad_committed_marker_is_written_anew(steelyard, model, how):
    marker = attempt_of(steelyard, model) / "committed"
    hurt(marker, how)
    found = [check["found"] for check in steelyard.json("doctor")["checks"] if check["state"] == "warning"]
    assert any("`committed` marker" in text and model in text for text in found)
    changes = steelyard.json("reconcile")["changes"]
    assert [change["ref"] for change in changes] == [model] and "committed marker" in changes[0]["what"]
    assert steelyard.json("reconcile")["changes"] == []
    lose_catalog(steelyard.store)
    assert steelyard.json("recover")["recovered"] == [model]


def test_a_reader_mends_a_bad_marker_too(steelyard, model):
    hurt(attempt_of(steelyard, model) / "committed", "empty")
    assert steelyard("verify", model).last == "ok"
    assert steelyard.json("reconcile")["changes"] == []


def test_a_stray_deleting_marker_is_removed(steelyard, model):
    marker = attempt_of(steelyard, model).parent / "deleting"
    marker.touch()
    found = [check["found"] for check in steelyard.json("doctor")["checks"] if check["state"] == "warning"]
    assert any("`deleting` marker" in text and model in text for text in found)
    changes = steelyard.json("reconcile")["changes"]
    assert [change["ref"] for change in changes] == [model] and not marker.exists()
    lose_catalog(steelyard.store)
    assert steelyard.json("recover")["recovered"] == [model]


def test_a_delete_that_waits_for_a_lease_is_not_undone_by_a_recovery(steelyard, model):
    steelyard("lease", "acquire", model, "--holder", "reader", "--ttl", "60s")
    steelyard.error("delete", model, "--wait", "1s", "--yes", code=6)
    lose_catalog(steelyard.store)
    document = steelyard.json("recover")
    assert document["recovered"] == [] and "is being deleted" in document["skipped"][0]["reason"]


@pytest.mark.parametrize("how", ["gone", "flipped"])
def test_a_revision_without_its_manifest_comes_back_degraded(steelyard, model, how):
    manifest = attempt_of(steelyard, model) / "manifest"
    if how == "gone":
        manifest.unlink()
    else:
        manifest.chmod(0o644)
        flip_bit(manifest, 100)
    lose_catalog(steelyard.store)
    document = steelyard.json("recover")
    assert document["recovered"] == [model]
    assert [skipped["reason"].count("DEGRADED") for skipped in document["skipped"]] == [1]
    assert state(steelyard, model)[0] == "DEGRADED"
    steelyard("delete", model, "--yes")
    steelyard(*NOW)
    assert not [path for path in (steelyard.store / "cold/content").rglob("*") if path.is_file()]


def test_a_deleted_revision_with_a_bad_manifest_is_named_once(steelyard, model, tmp_path):
    other = make_checkpoint(tmp_path / "other", shards=1, seed="other")
    steelyard("import", other, "other", env={"STEELYARD_LOG_SNAPSHOT_EVERY": "1"})
    (attempt_of(steelyard, model) / "manifest").unlink()
    steelyard("delete", model, "--yes", code=-9, env={"STEELYARD_FAULT": "kill@delete.after_marker"})
    lose_catalog(steelyard.store)
    reasons = [skipped["reason"] for skipped in steelyard.json("recover")["skipped"] if model in skipped["reason"]]
    assert len(reasons) == 1 and "is being deleted" in reasons[0]


@pytest.mark.parametrize("how", ["marker", "group"])
def test_gc_goes_on_past_what_it_cannot_judge(steelyard, model, tmp_path, how):
    other = steelyard("import", make_checkpoint(tmp_path / "other", shards=1, seed="other"), "other").last
    attempt = attempt_of(steelyard, model)
    if how == "marker":
        hurt(attempt / "committed", "fifo")
    else:
        group = attempt.parent
        group.rename(tmp_path / "elsewhere")
        group.symlink_to(tmp_path / "elsewhere")
    steelyard("recover", "--force", "--yes")
    steelyard("delete", other, "--yes")
    result = steelyard(*NOW)
    assert not result.last.startswith("freed 0 objects")
    assert how == "group" or attempt.parent.name in result.stderr
    assert (attempt / "manifest").exists(), "nothing of it was freed"


def test_who_may_not_change_the_tier_deletes_nothing(steelyard, model, unprivileged):
    if not unprivileged:
        pytest.skip("needs two users")
    os.chown(steelyard.store, 65534, 65534)
    for path in steelyard.store.glob("catalog.*"):
        os.chown(path, 65534, 65534)
    for folder in steelyard.store.parents:
        if folder != Path("/tmp") and str(folder).startswith("/tmp"):
            folder.chmod(0o755)
    error = steelyard.error("delete", model, "--yes", code=9, **unprivileged)
    assert "may not be changed" in error["message"] and error["hint"]
    assert state(steelyard, model)[0] == "READY"
