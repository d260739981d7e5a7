"""An older catalog is put back over a tier that knows more: what the lost history published is neither hidden nor freed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from crash import harness
from lib.checkpoints import make_checkpoint
from lib.waiting import wait_until

NOW = ("gc", "--yes", "--gc-grace", "0s")


def save(steelyard, folder: Path) -> Path:
    folder.mkdir()
    for path in steelyard.store.glob("catalog.db*"):
        shutil.copy2(path, folder)
    return folder


def put_back(steelyard, folder: Path) -> None:
    for path in steelyard.store.glob("catalog.db*"):
        path.unlink()
    for path in folder.iterdir():
        shutil.copy2(path, steelyard.store)


@pytest.fixture
def old(steelyard, tmp_path) -> Path:
    """A catalog that knows `other` alone."""
    steelyard("import", make_checkpoint(tmp_path / "other", shards=1, seed="other"), "other")
    return save(steelyard, tmp_path / "old")


def states(steelyard) -> dict[str, str]:
    return {row["ref"]: row["availability"] for row in steelyard.json("list", "--all")["revisions"]}


def test_a_refused_import_leaves_no_record(steelyard, old, checkpoint, tmp_path):
    steelyard("import", checkpoint, "m")
    new = save(steelyard, tmp_path / "new")
    put_back(steelyard, old)
    for arguments in (("m",), ("m", "--generation", "1")):
        error = steelyard.error("import", checkpoint, *arguments, code=4)
        assert "is published in the cold tier" in error["message"] and "recover --force" in error["hint"]
        assert "m@main#1" not in states(steelyard)
    put_back(steelyard, new)
    assert steelyard("verify", "m").last == "ok"


@pytest.mark.parametrize("verb", ["abort", "reconcile"])
def test_an_import_that_the_tier_knows_as_published_is_not_taken_away(steelyard, old, checkpoint, tmp_path, verb):
    import_args = harness.import_args(checkpoint)
    steelyard(*import_args, code=-9, env={"STEELYARD_FAULT": "kill@import.after_flush", "STEELYARD_IMPORT_WRITER_TTL": "2s"})
    ref = next(iter(set(states(steelyard)) - {"other@main#1"}))
    importing = save(steelyard, tmp_path / "importing")
    steelyard(*import_args)
    new = save(steelyard, tmp_path / "new")
    put_back(steelyard, importing)
    warned = [check["found"] for check in steelyard.json("doctor")["checks"] if check["state"] == "warning"]
    assert any("published in the cold tier" in found and ref in found for found in warned)
    if verb == "abort":
        error = steelyard.error("abort", ref, "--force", "--yes", code=4)
        assert "is published in the cold tier" in error["message"] and "recover --force" in error["hint"]
    else:
        def refused() -> bool:
            result = steelyard.run("reconcile", "--import-abandon-after", "2s")
            return "is published in the cold tier" in result.stderr

        wait_until(refused)
    assert states(steelyard)[ref] == "IMPORTING"
    put_back(steelyard, new)
    assert steelyard("verify", ref).last == "ok"


def test_a_tombstone_of_a_lost_history_hides_no_published_revision(steelyard, old, checkpoint):
    every = {"env": {"STEELYARD_LOG_SNAPSHOT_EVERY": "1"}}
    steelyard("import", checkpoint, "m", **every)
    steelyard("delete", "m", "--yes", **every)
    for holder in "ab":
        steelyard("lease", "acquire", "other", "--holder", holder, **every)
    steelyard(*NOW)
    put_back(steelyard, old)
    group_gone = not list(steelyard.store.glob("cold/groups/*/*/deleting"))
    assert group_gone, "two copies know the tombstone"
    assert steelyard("import", checkpoint, "m").last == "m@main#1"
    document = steelyard.json("recover", "--force", "--yes")
    assert states(steelyard)["m@main#1"] == "READY"
    assert any("m@main#1 was deleted" in skipped["reason"] for skipped in document["skipped"])
    steelyard(*NOW)
    assert steelyard("verify", "m").last == "ok"


def test_gc_keeps_what_a_tombstone_says_is_gone(steelyard, old, checkpoint, tmp_path):
    every = {"env": {"STEELYARD_LOG_SNAPSHOT_EVERY": "1"}}
    steelyard("import", checkpoint, "m", **every)
    steelyard("delete", "m", "--yes", **every)
    for holder in "ab":
        steelyard("lease", "acquire", "other", "--holder", holder, **every)
    steelyard(*NOW)
    deleted = save(steelyard, tmp_path / "deleted")
    put_back(steelyard, old)
    steelyard("import", checkpoint, "m")
    published = save(steelyard, tmp_path / "published")
    put_back(steelyard, deleted)
    assert "which this catalog knows as deleted" in steelyard(*NOW).stderr
    put_back(steelyard, published)
    assert steelyard("verify", "m").last == "ok"


def test_a_reconcile_over_an_older_catalog_takes_no_marker_away(steelyard, checkpoint, tmp_path):
    """The tier is the only witness of a delete that the catalog put back does not know: its identity stays used."""
    model = steelyard("import", checkpoint, "m").last
    before = save(steelyard, tmp_path / "before")
    steelyard("delete", model, "--yes")
    put_back(steelyard, before)
    failed = steelyard("--json", "reconcile", code=4).json()["failed"]
    assert [one["ref"] for one in failed] == [model] and "older catalog" in failed[0]["what"], failed
    for path in steelyard.store.glob("catalog.*"):
        path.unlink()
    steelyard("recover")
    steelyard.error("import", checkpoint, model, code=4)
