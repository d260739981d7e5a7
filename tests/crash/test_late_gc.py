"""A gc that stood still, and what stood still while a gc ran: nothing that can be read goes, and nothing is told that is not so."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from crash import harness
from lib.checkpoints import flip_bit, make_checkpoint

NOW = ("gc", "--yes", "--gc-grace", "0s")


def lose_catalog(store: Path) -> None:
    for path in store.glob("catalog.*"):
        path.unlink()


def go_on(process):
    process.send_signal(signal.SIGCONT)
    return harness.finish(process)


def payloads(store: Path) -> list[Path]:
    return sorted(harness.groups_folder(store).glob("*/*/*/p/*"))


@pytest.mark.parametrize(
    "point,number",
    [("tier.hold", 1), ("gc.after_hold", 1), ("tier.remove", 1), ("tier.remove", 5), ("tier.remove_folder", 1), ("tier.remove_folder", 3)],
)
def test_a_revision_that_was_imported_since(steelyard, source, point, number):
    """Its attempt has the number and the name of the one that the late gc takes away."""
    steelyard.run(*harness.import_args(source), env={"STEELYARD_FAULT": "kill@import.after_flush"})
    lose_catalog(steelyard.store)
    steelyard("recover")
    late = harness.stop_at(steelyard, point, number, *NOW)
    assert steelyard.json(*NOW)["objects"] > 0
    done = steelyard.json(*harness.import_args(source))["revision"]
    assert done["import_attempt"] == 1
    before = payloads(steelyard.store)
    code, _, error = go_on(late)
    assert code == 0, error
    assert payloads(steelyard.store) == before
    report = steelyard.json("verify", done["ref"])
    assert report["ok"], report
    lose_catalog(steelyard.store)
    assert steelyard.json("recover")["recovered"] == [done["ref"]]


@pytest.mark.parametrize("gc", [("gc", "--yes"), NOW])
@pytest.mark.parametrize("point", ["tier.replace", "tier.after_replace_link"])
def test_a_repair_of_shared_bytes(steelyard, source, gc, point):
    """The names of another revision get their new bytes through a temporary name in its folder."""
    for ref in ("a", "b"):
        steelyard(*harness.import_args(source, ref))
    flip_bit(max(payloads(steelyard.store), key=lambda path: path.stat().st_size), 77)
    for ref in ("a", "b"):
        steelyard.json("verify", ref, code=5)
    repair = harness.stop_at(steelyard, point, 1, "repair", "a", "--source", source)
    steelyard(*gc)
    code, _, error = go_on(repair)
    assert code == 0, error
    for ref in ("a", "b"):
        report = steelyard.json("verify", ref)
        assert report["ok"], report


@pytest.mark.parametrize("gc", [("gc", "--yes"), NOW])
def test_the_marker_of_a_commit(steelyard, source, gc):
    """What was acknowledged comes back from the cold tier."""
    importing = harness.stop_at(steelyard, "tier.after_marker_write", 1, *harness.import_args(source))
    ref = harness.revisions(steelyard)[0]["ref"]
    steelyard(*gc)
    code, document, error = go_on(importing)
    assert code == 0 and document["revision"]["ref"] == ref, error
    lose_catalog(steelyard.store)
    assert steelyard.json("recover")["recovered"] == [ref]
    assert steelyard.json("verify", ref)["ok"]


def test_a_marker_that_cannot_be_written_is_said(steelyard, source):
    result = steelyard(*harness.import_args(source), env={"STEELYARD_FAULT": "EIO@tier.marker"})
    assert "`committed`" in result.stderr and "steelyard reconcile" in result.stderr
    ref = harness.revisions(steelyard)[0]["ref"]
    steelyard("reconcile")
    lose_catalog(steelyard.store)
    assert steelyard.json("recover")["recovered"] == [ref]


def test_a_published_group_below_the_watermark(steelyard, source, tmp_path):
    """A recovery that could not read its marker gave it no record; a removal of a later generation raised the watermark."""
    first = steelyard.json(*harness.import_args(source))["revision"]["ref"]
    other = make_checkpoint(tmp_path / "other", shards=1, seed="other")
    second = steelyard.json(*harness.import_args(other))["revision"]["ref"]
    steelyard.run("delete", second, "--yes", env={"STEELYARD_FAULT": "kill@delete.after_marker"})
    lose_catalog(steelyard.store)
    groups = harness.groups_folder(steelyard.store)
    [marker] = [path for path in groups.glob("*/*/*/committed") if not (path.parent.parent / "deleting").exists()]
    flip_bit(marker, 5)
    assert steelyard.json("recover")["recovered"] == []
    flip_bit(marker, 5)
    before = sorted(marker.parent.rglob("*"))
    result = steelyard(*NOW)
    assert first in result.stderr and "recover" in result.stderr
    assert sorted(marker.parent.rglob("*")) == before
    assert steelyard.json("recover", "--force", "--yes")["recovered"] == [first]
    assert steelyard.json("verify", first)["ok"]
