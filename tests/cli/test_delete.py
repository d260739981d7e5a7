"""delete and abort: what goes, what protects it, and what stays of it."""

from __future__ import annotations

import json
import os
import shutil
import signal
from pathlib import Path

import pytest

from crash import harness
from lib.checkpoints import make_checkpoint
from lib.permissions import let_others_in, nobody_writes
from lib.waiting import wait_until


@pytest.fixture
def model(steelyard, checkpoint) -> str:
    return steelyard("import", checkpoint, "m").last


def group_of(steelyard, ref: str) -> Path:
    digest = steelyard.json("inspect", ref)["revision"]["payload_group_id"].removeprefix("weight:")
    return harness.groups_folder(steelyard.store) / digest[:2] / digest


def state_of(steelyard, ref: str) -> str:
    return steelyard.json("inspect", ref)["revision"]["availability"]


def test_delete_leaves_a_tombstone(steelyard, checkpoint, model):
    group = group_of(steelyard, model)
    assert list(group.glob("*/p/*"))
    document = steelyard.json("delete", "m", "--yes")
    assert document["schema_version"] == 1
    assert (document["revision"]["availability"], document["revision"]["residency"]) == ("DELETED", "ABSENT")
    assert [path.name for path in group.iterdir()] == ["deleting"]
    assert steelyard.json("list")["revisions"] == []
    assert steelyard.json("inspect", model)["manifest"] is None
    steelyard.error("verify", model, code=11)
    # The identity is used for ever.
    steelyard.error("import", checkpoint, model, code=4)
    assert steelyard("import", checkpoint, "m").last == "m@main#2"
    assert steelyard("verify", "m").last == "ok"


def test_a_retry_is_success(steelyard, model):
    assert steelyard("delete", model, "--yes").last == model
    first = steelyard.json("inspect", model)["revision"]
    assert steelyard.json("rm", model, "--yes")["revision"] == first
    assert steelyard("-q", "delete", "m", "-y").lines == [model]


def test_what_is_not_there(steelyard, model):
    assert steelyard.error("delete", "nobody", "--yes", code=3)["code"] == "NOT_FOUND"
    steelyard.error("delete", "m@main#7", "--yes", code=3)
    steelyard.error("abort", "nobody", "--yes", code=3)
    error = steelyard.error("abort", model, "--yes", code=4)
    assert "delete" in error["hint"]
    steelyard.error("delete", "m", "--yes", "--store", steelyard.store.parent / "none", code=3)


def test_it_asks(steelyard, model):
    error = steelyard.error("delete", "m", code=2)
    assert model in error["message"] and "--yes" in error["hint"]
    assert state_of(steelyard, model) == "READY"


def test_without_a_generation_the_newest_goes(steelyard, checkpoint, model):
    assert steelyard("import", checkpoint, "m").last == "m@main#2"
    assert steelyard("delete", "m", "--yes").last == "m@main#2"
    assert state_of(steelyard, model) == "READY"
    assert steelyard("verify", model).last == "ok"


def test_a_script_that_asks_again_deletes_no_other(steelyard, checkpoint, model):
    """Its first answer was lost, or it was killed after it: the same words again take no older generation."""
    newest = steelyard("import", checkpoint, "m").last
    killed = steelyard.run("delete", "m", "--yes", env={"STEELYARD_FAULT": "kill@delete.after_deleted"})
    assert killed.code == -signal.SIGKILL
    for _ in range(2):
        again = steelyard("delete", "m", "--yes")
        assert again.last == newest
        assert again.stderr.startswith("warning: ") and newest in again.stderr and model in again.stderr, again.explain()
    assert steelyard.json("delete", "m", "--yes")["revision"]["ref"] == newest
    assert state_of(steelyard, model) == "READY"
    # Another import under way changes nothing about it.
    steelyard.run("import", checkpoint, "m", env={"STEELYARD_FAULT": "kill@import.after_flush"})
    assert steelyard("delete", "m", "--yes").last == newest
    assert steelyard("verify", "m").last == "ok"
    steelyard("delete", model, "--yes")
    assert steelyard("delete", "m", "--yes").stderr == "", "nothing else is there"


def test_a_script_that_asks_again_aborts_no_other(steelyard, checkpoint):
    """Two imports of one lineage can only be under way where somebody numbered them."""
    for number in (5, 3):
        steelyard.run("import", checkpoint, f"m#{number}", env={"STEELYARD_FAULT": "kill@import.after_flush"})
    for _ in range(2):
        assert steelyard("abort", "m", "--yes").last == "m@main#5"
    assert state_of(steelyard, "m#3") == "IMPORTING"
    assert steelyard("abort", "m#3", "--yes").last == "m@main#3"


def test_reconcile_means_what_is_there(steelyard, checkpoint, model):
    """The newest one is deleted: a reconciliation without a generation looks at the newest that is left."""
    steelyard("import", checkpoint, "m")
    steelyard("delete", "m", "--yes")
    next(group_of(steelyard, model).glob("*/p/*")).unlink()
    assert model in steelyard("reconcile", "m").stdout
    assert state_of(steelyard, model) == "DEGRADED"


def test_a_live_lease_refuses(steelyard, model):
    lease = steelyard("lease", "acquire", "m", "--holder", "alice", "--ttl", "1h").last
    error = steelyard.error("delete", "m", "--yes", code=6)
    assert "alice" in error["message"] and "1 live lease" in error["message"]
    assert state_of(steelyard, model) == "READY"
    steelyard("lease", "release", lease)
    steelyard("delete", "m", "--yes")
    assert state_of(steelyard, model) == "DELETED"


def test_a_drain_that_is_over_leaves_it_deleting(steelyard, model):
    group = group_of(steelyard, model)
    lease = steelyard("lease", "acquire", "m", "--holder", "alice", "--ttl", "1h").last
    objects = sorted(group.glob("*/p/*"))
    error = steelyard.error("delete", "m", "--yes", "--wait", "0s", code=6)
    assert "alice" in error["message"]
    assert state_of(steelyard, model) == "DELETING"
    assert sorted(group.glob("*/p/*")) == objects, "no byte goes while a lease lives"
    steelyard.error("lease", "acquire", "m#1", "--holder", "bob", code=11)
    assert steelyard("lease", "renew", lease).last == lease
    steelyard.error("delete", model, "--yes", code=6)
    steelyard("lease", "release", lease)
    assert steelyard("delete", "m", "--yes").last == model
    assert state_of(steelyard, model) == "DELETED" and not list(group.glob("*/p/*"))


def test_a_drain_waits_for_the_last_lease(steelyard, model):
    lease = steelyard("lease", "acquire", "m", "--holder", "alice", "--ttl", "1h").last
    draining = steelyard.start("--json", "delete", "m", "--yes", "--wait", "1h")
    wait_until(lambda: state_of(steelyard, model) == "DELETING")
    steelyard("lease", "release", lease)
    out, err = draining.communicate()
    assert draining.returncode == 0, err
    assert json.loads(out)["revision"]["availability"] == "DELETED"


def test_an_interrupted_drain_goes_on_later(steelyard, model):
    lease = steelyard("lease", "acquire", "m", "--holder", "alice", "--ttl", "1h").last
    draining = steelyard.start("delete", "m", "--yes", "--wait", "1h")
    wait_until(lambda: state_of(steelyard, model) == "DELETING")
    draining.send_signal(signal.SIGINT)
    out, err = draining.communicate()
    assert draining.returncode == 130 and b"DELETING" in err, err
    steelyard("lease", "release", lease)
    assert f"{model}: the delete that was begun is done" in steelyard("reconcile").lines
    assert state_of(steelyard, model) == "DELETED"


def test_expect_generation(steelyard, model):
    generation = steelyard.json("inspect", model)["revision"]["metadata_generation"]
    error = steelyard.error("delete", "m", "--yes", "--expect-generation", generation + 1, code=7)
    assert str(generation) in error["message"]
    steelyard("delete", "m", "--yes", "--expect-generation", generation)
    # The same request again, as after a lost answer.
    steelyard("delete", "m", "--yes", "--expect-generation", generation)


def test_what_is_shared_stays(steelyard, checkpoint, model):
    assert steelyard("import", checkpoint, "twin").last == "twin@main#1"
    steelyard("delete", "m", "--yes")
    steelyard("gc", "--yes", "--gc-grace", "0s")
    assert steelyard("verify", "twin").last == "ok"


def test_a_damaged_revision_is_deleted_too(steelyard, model):
    group = group_of(steelyard, model)
    os.remove(next(group.glob("*/p/*")))
    os.remove(next(group.glob("*/manifest")))
    steelyard("reconcile")
    assert state_of(steelyard, model) == "DEGRADED"
    steelyard("delete", "m", "--yes")
    assert state_of(steelyard, model) == "DELETED"


def test_a_foreign_file_is_left(steelyard, model):
    group = group_of(steelyard, model)
    (group / "1" / "notes.txt").write_text("mine")
    steelyard("delete", "m", "--yes")
    assert state_of(steelyard, model) == "DELETED"
    steelyard("gc", "--yes", "--gc-grace", "0s")
    assert (group / "1" / "notes.txt").read_text() == "mine"


@pytest.fixture
def unfinished(steelyard, checkpoint) -> str:
    """An import whose writer was killed before its commit."""
    killed = steelyard.run("import", checkpoint, "half", env={"STEELYARD_FAULT": "kill@import.after_flush"})
    assert killed.code == -signal.SIGKILL
    return "half@main#1"


def test_abort_frees_an_unfinished_import(steelyard, checkpoint, unfinished):
    group = group_of(steelyard, unfinished)
    document = steelyard.json("abort", "half", "--yes")
    assert (document["revision"]["ref"], document["revision"]["availability"]) == (unfinished, "DELETED")
    assert [path.name for path in group.iterdir()] == ["deleting"]
    assert steelyard("abort", unfinished, "--yes").last == unfinished
    steelyard.error("import", checkpoint, unfinished, code=4)
    assert steelyard("import", checkpoint, "half").last == "half@main#2"


def test_the_same_fence_aborts_again_what_a_gone_writer_left(steelyard, unfinished):
    generation = str(steelyard.json("inspect", unfinished)["revision"]["metadata_generation"])
    words = ("abort", unfinished, "--yes", "--expect-generation", generation)
    assert steelyard.run(*words, env={"STEELYARD_FAULT": "kill@abort.after_deleting"}).code == -signal.SIGKILL
    assert steelyard(*words).last == unfinished
    assert state_of(steelyard, unfinished) == "DELETED"


def test_an_import_is_not_for_delete(steelyard, unfinished):
    error = steelyard.error("delete", unfinished, "--yes", code=11)
    assert "abort" in error["hint"]
    steelyard.error("delete", "half", "--yes", code=11)
    assert state_of(steelyard, unfinished) == "IMPORTING"


def test_a_live_writer_is_aborted_by_force_only(steelyard, checkpoint):
    writer = harness.stop_at(steelyard, "import.after_flush", 1, "import", checkpoint, "half")
    try:
        error = steelyard.error("abort", "half", "--yes", code=6)
        assert "--force" in error["hint"]
        steelyard("abort", "half", "--yes", "--force")
        assert state_of(steelyard, "half#1") == "DELETED"
    finally:
        writer.send_signal(signal.SIGCONT)
    _, err = writer.communicate()
    assert writer.returncode in (4, 7) and b"resumes" not in err, err
    assert steelyard.json("list")["revisions"] == []
    steelyard("gc", "--yes", "--gc-grace", "0s")
    left = [path.name for path in (steelyard.store / "cold" / "groups").rglob("*") if path.is_file()]
    assert left == ["deleting"], "until two snapshot copies know the tombstone"


def test_a_read_only_store(steelyard, model, tmp_path, unprivileged):
    let_others_in(tmp_path)
    with nobody_writes(steelyard.store):
        steelyard.error("delete", "m", "--yes", code=9, **unprivileged)
        steelyard.error("abort", "m", "--yes", code=9, **unprivileged)
        steelyard.error("reconcile", code=9, **unprivileged)
        steelyard.error("gc", "--yes", code=9, **unprivileged)
        steelyard("gc", "--dry-run", **unprivileged)
    assert steelyard("verify", "m").last == "ok"


def test_bytes_are_kept_for_a_while_is_said_once(steelyard, model):
    assert "gc.grace" in steelyard("delete", model, "--yes").stdout
    assert steelyard("delete", model, "--yes").lines == [model]


def test_abandoned_imports_are_reaped(steelyard, checkpoint):
    unfinished = "half@main#1"
    steelyard.run("import", checkpoint, "half", "--import-writer-ttl", "2s", env={"STEELYARD_FAULT": "kill@import.after_flush"})
    assert steelyard("-q", "reconcile").lines == []
    assert state_of(steelyard, unfinished) == "IMPORTING"
    options = ("--import-abandon-after", "2s")
    wait_until(lambda: steelyard("-q", "reconcile", *options).lines != [] or state_of(steelyard, unfinished) == "DELETED")
    assert state_of(steelyard, unfinished) == "DELETED"
    assert steelyard("import", checkpoint, "half").last == "half@main#2"


def test_a_missing_committed_marker_is_written(steelyard, model):
    marker = next(group_of(steelyard, model).glob("*/committed"))
    marker.unlink()
    document = steelyard.json("reconcile", "m")
    assert [line["what"] for line in document["changes"]] == ["the committed marker was missing and is written"]
    assert marker.exists()
    assert steelyard.json("reconcile")["changes"] == []


def test_reconcile_publishes_what_is_missing(steelyard, model):
    victim = next(group_of(steelyard, model).glob("*/p/*"))
    shutil.move(victim, victim.parent.parent / "p-away")
    assert "DEGRADED: 1 missing or damaged object" in steelyard("reconcile").stdout
    assert state_of(steelyard, model) == "DEGRADED"
    assert steelyard.json("reconcile")["changes"] == []
    shutil.move(victim.parent.parent / "p-away", victim)
    assert "READY again" in steelyard("reconcile", "m").stdout
    assert steelyard("verify", "m").last == "ok"


def test_a_tombstone_is_known_as_damaged_no_more(steelyard, tmp_path, model):
    """A second store and namespace do not interfere."""
    other = make_checkpoint(tmp_path / "other", shards=1, seed="other")
    ref = steelyard("-n", "lab", "import", other, "m").last
    steelyard("delete", "m", "--yes")
    assert steelyard("-n", "lab", "verify", ref).last == "ok"


def test_a_recovered_catalog_knows_what_was_deleted(steelyard, checkpoint, model, unfinished):
    """No snapshot copy knows it yet: the markers do, for a tombstone and for what was under way."""
    steelyard("delete", "m", "--yes")
    steelyard("abort", "half", "--yes")
    twin = steelyard("import", checkpoint, "twin").last
    killed = steelyard.run("delete", "twin", "--yes", env={"STEELYARD_FAULT": "kill@delete.after_marker"})
    assert killed.code == -signal.SIGKILL
    for path in steelyard.store.glob("catalog.*"):
        path.unlink()
    steelyard("recover", "--yes")
    assert steelyard.json("list")["revisions"] == []
    for ref in (model, unfinished, twin):
        steelyard.error("import", checkpoint, ref, code=4)
    assert steelyard("import", checkpoint, "m").last == "m@main#2"
    assert steelyard("import", checkpoint, "half").last == "half@main#2"
    steelyard("reconcile")
    steelyard("gc", "--yes", "--gc-grace", "0s")
    assert steelyard("verify", "m").last == steelyard("verify", "half").last == "ok"


def test_an_import_after_a_recovery_does_not_meet_the_lost_one(steelyard, tmp_path, checkpoint, unfinished):
    """The recovered catalog does not know the import that was under way; another source takes its name and number."""
    for path in steelyard.store.glob("catalog.*"):
        path.unlink()
    steelyard("recover", "--yes")
    other = make_checkpoint(tmp_path / "other", shards=1, seed="other")
    assert steelyard("import", other, "half").last == unfinished
    assert steelyard("verify", unfinished).last == "ok"
    steelyard("gc", "--yes", "--gc-grace", "0s")
    assert [path.name for path in group_of(steelyard, unfinished).iterdir()] == ["2"]
    assert steelyard("verify", unfinished).last == "ok"


def test_holders_are_found_under_the_name_without_a_generation(steelyard, model):
    lease = steelyard("-q", "lease", "acquire", model, "--holder", "engine-0", "--ttl", "1h").last
    error = steelyard.error("delete", model, "--yes", "--wait", "0s", code=6)
    assert model in error["message"] and state_of(steelyard, model) == "DELETING"
    assert [row["lease_id"] for row in steelyard.json("lease", "list", "m")["leases"]] == [lease]
    steelyard.error("lease", "list", "nobody", code=3)


def test_inspect_names_what_other_commands_want(steelyard, model):
    record = steelyard.json("inspect", model)["revision"]
    assert f"metadata_generation {record['metadata_generation']}" in steelyard("inspect", model).stdout
    next(group_of(steelyard, model).glob("*/p/00000000")).unlink()
    assert "1 of" in steelyard("inspect", model).stdout
    started = steelyard.json("repair", model, "--no-wait")["operation"]
    assert f"{started['operation_id']}  REPAIRING RUNNING" in steelyard("inspect", model).stdout
    steelyard("operation", "cancel", started["operation_id"])
    assert f"{started['operation_id']}  REPAIRING CANCELLED" in steelyard("inspect", model).stdout
