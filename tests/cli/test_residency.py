"""What evict, rehydrate, repair and those that look at them say: the command that goes on, what moved, what cannot be brought."""

from __future__ import annotations

import os
import re
import shutil
import signal
from pathlib import Path

import pytest

from crash import harness
from lib.damage import flip, large, objects_of, state
from lib.permissions import let_others_in, nobody_writes
from lib.waiting import wait_until

MIB = 1024 * 1024
COMMAND = re.compile(r"`steelyard ((?:rehydrate|evict|repair) [^`]*)`")


@pytest.fixture
def model(hot, tmp_path) -> str:
    return hot(*harness.import_args(harness.small_checkpoint(tmp_path / "source"), "m")).last


@pytest.fixture
def empty(tmp_path) -> Path:
    """A source whose only file has no bytes, and so no object."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "notes.txt").touch()
    return tmp_path / "empty"


@pytest.mark.parametrize("first", ["rehydrate", "evict"])
def test_the_command_that_goes_on_has_the_ratio(hot, model, first):
    if first == "evict":
        hot("rehydrate", model)
    started = hot(first, model, "--ratio", "0.5", "--no-wait").stdout
    operation = hot.json("inspect", model)["operation"]["operation_id"]
    told = {
        COMMAND.search(text).group(1)
        for text in (started, hot("operation", "show", operation).stdout, hot("inspect", model).stdout, hot("doctor").stdout)
    }
    assert told == {f"{first} {model} --ratio 0.5"}
    hot(*told.pop().split())
    assert hot.json("inspect", model)["revision"]["residency"] == "MIXED"


def test_the_share_is_in_the_documents(hot, model):
    assert hot.json("inspect", model)["revision"]["hot_ratio"] is None
    operation = hot.json("rehydrate", model, "--ratio", "0.5", "--no-wait")["operation"]
    assert operation["ratio"] == 0.5 and operation["started_at"].endswith("Z") and operation["ended_at"] is None
    for document in (hot.json("operation", "show", operation["operation_id"]), hot.json("inspect", model)):
        assert document["runner"] is None and document["source"] is None
        assert document["operation"]["ratio"] == 0.5
    assert "ratio         0.5\n" in hot("operation", "show", operation["operation_id"]).stdout
    done = hot.json("rehydrate", model, "--ratio", "0.5")
    assert done["operation"]["ended_at"] >= operation["started_at"]
    shown = hot.json("inspect", model)
    assert 0 < done["revision"]["hot_ratio"] < 1
    assert shown["revision"]["hot_ratio"] == shown["memory"]["hot_ratio"] == done["revision"]["hot_ratio"]
    assert hot.json("list")["revisions"][0]["hot_ratio"] == done["revision"]["hot_ratio"]


def test_what_moved_is_told_apart(hot, model):
    objects = hot.json("inspect", model)["revision"]["payload_count"]
    assert f"moved {objects} objects into memory, " in hot("rehydrate", model).stdout
    down = hot("rehydrate", model, "--ratio", "0.25").stdout
    assert re.search(r"^removed \d+ objects? from memory, ", down, re.MULTILINE) and "into memory" not in down
    assert re.search(r"^removed \d+ objects? from memory, ", hot("evict", model).stdout, re.MULTILINE)


def test_it_says_where_nothing_had_to_be_moved(hot, model):
    assert f"no object is in memory already: {model} is COLD, and nothing had to be moved" in hot("evict", model).stdout
    hot("rehydrate", model)
    assert f"every object is in memory already: {model} is HOT, and nothing had to be moved" in hot("rehydrate", model).stdout


def test_a_share_is_never_rounded_to_nothing_or_to_all(hot, tmp_path):
    source = tmp_path / "many"
    source.mkdir()
    for number in range(4):
        (source / f"{number}.bin").write_bytes(bytes([number]) * (1 << 20))
    (source / "tiny.bin").write_bytes(b"tiny")
    ref = hot("import", source, "many", "--allow-empty").last
    for ratio, words in (("0.000001", "MIXED <1 %"), ("0.5", "MIXED 50 %"), ("0.999999", "MIXED >99 %")):
        hot("rehydrate", ref, "--ratio", ratio)
        for command in (("list",), ("inspect", ref), ("policy", "show", ref), ("watch", ref, "--until", "mixed")):
            assert words in hot(*command).stdout, command


def test_there_is_nothing_to_bring(hot, empty):
    imported = hot("import", empty, "e", "--allow-empty", "--residency", "hot")
    assert "nothing to bring into memory: e@main#1 has no payload objects" in imported.stdout
    assert "nothing to bring into memory: e@main#1 has no payload objects" in hot("rehydrate", "e").stdout
    assert hot.json("inspect", "e")["revision"]["residency"] == "COLD"
    for wanted in ("HOT", "MIXED"):
        watched = hot("watch", "e@main#1", "--until", wanted, code=11)
        assert f"has no payload objects, and will never be {wanted}" in watched.stderr
        assert "hint: it is always COLD" in watched.stderr
    hot("watch", "e@main#1", "--until", "COLD")
    assert "no payload objects" in hot("policy", "set", "e", "--prefer", "hot", "--mode", "pinned").stdout


def test_what_goes_on_where_that_memory_is(hot, model, memory):
    hot("rehydrate", model, "--no-wait")
    elsewhere = memory / "elsewhere"
    elsewhere.mkdir()
    error = hot.error("evict", model, "--hot-path", elsewhere, code=6)
    assert re.search(r"goes on with it where memory instance [0-9a-f]{32} is mounted; or end it", error["hint"])
    assert "operation cancel" in error["hint"]


def test_memory_that_was_wiped_keeps_nobody_waiting(hot, model, memory):
    def wipe():
        for folder in memory.glob("steelyard-*"):
            shutil.rmtree(folder)

    hot("rehydrate", model)
    wipe()
    assert "not mounted here" in hot("inspect", model).stdout
    hot("evict", model)
    assert hot.json("inspect", model)["revision"]["residency"] == "COLD"
    hot("rehydrate", model, "--no-wait")
    wipe()
    hint = hot.error("evict", model, code=6)["hint"]
    assert f"steelyard reconcile {model}" in hint and "is mounted" not in hint
    assert "the rehydration that was begun is done" in hot("reconcile", model).stdout
    hot("evict", model, "--no-wait")
    wipe()
    assert "the eviction that was begun is ended" in hot("reconcile", model).stdout
    assert hot.json("inspect", model)["revision"]["residency"] == "COLD"


def test_a_repair_leads_nowhere_else(hot, model, memory):
    hot("rehydrate", model)
    replica = sorted(path for path in memory.glob("steelyard-*/groups/*/*/*/p/*") if path.stat().st_size == MIB)[0]
    flip(replica)
    hot("verify", model, code=5)
    assert state(hot, model) == ("READY", "REPAIRING")
    message = hot.error("evict", model, code=6)["message"]
    assert "REPAIRING" in message and ", to " not in message


def test_memory_that_may_not_be_read_is_not_elsewhere(hot, model, memory, tmp_path, unprivileged):
    hot("rehydrate", model)
    let_others_in(tmp_path)
    memory.chmod(0)
    try:
        with nobody_writes(hot.store):
            shown = hot("inspect", model, **unprivileged).stdout
            document = hot.json("inspect", model, **unprivileged)
            verified = hot("verify", model, **unprivileged)
            checked = hot.json("verify", model, **unprivileged)
            flip(large(objects_of(hot, model))[0])
            damaged = hot("--json", "verify", model, code=5, **unprivileged).error()
    finally:
        memory.chmod(0o755)
    assert "not mounted here" not in shown and "what is mounted here cannot be read: " in shown
    assert document["memory"]["recorded_is_mounted"] is None
    recorded = document["memory"]["recorded_instance"]
    assert f"memory instance {recorded} was not read: what is mounted here cannot be read" in verified.stdout
    assert "warning: what lies in memory is not verified: " in verified.stderr
    assert checked["memory"] == {"instance": None, "recorded_instance": recorded, "recorded_is_mounted": None}
    assert f"memory instance {recorded} may hold what is missing, but what is mounted here cannot be read" in damaged["hint"]


def test_doctor_tells_what_other_stores_left_in_memory(hot, model, memory):
    gone = memory / ("steelyard-" + "ab" * 16)
    (gone / "groups").mkdir(parents=True)
    (gone / "groups" / "one").write_bytes(bytes(3 * MIB))
    os.link(gone / "groups" / "one", gone / "groups" / "the-same")
    (found,) = [one for one in hot.json("doctor")["checks"] if "of other stores" in one["found"]]
    assert f"{gone.name} (3MiB)" in found["found"] or f"{gone.name} (3.0MiB)" in found["found"]
    assert found["state"] == "ok" and "remove the folder" in found["next_step"]


def test_a_command_that_is_ended_names_itself(hot, model):
    """Also where nothing of its work could be ended cleanly."""
    process = harness.stop_at(hot, "log.before_commit", 1, "policy", "set", model, "--mode", "auto")
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGCONT)
    code, _, error = harness.finish(process)
    assert code == 143
    assert error == {"code": "UNAVAILABLE", "message": "policy was interrupted", "hint": "run the command again"}


def test_one_that_runs_already_is_not_started_again(hot, model):
    process = harness.stop_at(hot, "rehydrate.after_object", 1, "rehydrate", model)
    said = hot("rehydrate", model, "--no-wait").stdout
    assert "runs already" in said and f"(pid {process.pid}) carries it out" in said
    process.send_signal(signal.SIGCONT)
    assert harness.finish(process)[0] == 0


def leases_of(steelyard, model: str) -> list[str]:
    return [lease["lease_id"] for lease in steelyard.json("lease", "list", model)["leases"]]


@pytest.mark.parametrize("held", [False, True])
def test_an_acquire_that_is_interrupted_gives_its_lease_back(hot, model, held):
    """But not one that was held before, which the same nonce only renews."""
    acquire = ("lease", "acquire", model, "--holder", "server", "--nonce", "one", "--ttl", "1h")
    before = [hot("-q", *acquire).last] if held else []
    hot("policy", "set", model, "--prefer", "hot", "--mode", "auto")
    process = harness.stop_at(hot, "rehydrate.after_object", 1, *acquire)
    (lease,) = leases_of(hot, model)
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGCONT)
    assert harness.finish(process)[0] == 130
    assert leases_of(hot, model) == before and (not held or before == [lease])


def test_the_time_of_a_lease_counts_from_the_end_of_the_move(hot, model):
    """One that is shorter than the move is granted again when that is over."""
    acquire = ("lease", "acquire", model, "--holder", "server", "--nonce", "one", "--ttl", "1s")
    lease = hot("-q", *acquire).last
    hot("lease", "release", lease)
    hot("policy", "set", model, "--prefer", "hot", "--mode", "auto")
    process = harness.stop_at(hot, "rehydrate.after_object", 1, *acquire)
    wait_until(lambda: not leases_of(hot, model))
    hot("reconcile", model)  # and is forgotten
    hot("lease", "renew", lease, code=3)
    process.send_signal(signal.SIGCONT)
    code, document, _ = harness.finish(process)
    assert code == 0 and document["lease"]["lease_id"] == lease
    renewed = hot.run("lease", "renew", lease)
    assert renewed.code in (0, 12), "granted again, be it that it has ended since"


def cancelled_after_a_kill(hot, verb: str, point: str) -> dict:
    """The revision, of which `verb` was killed at `point` and then cancelled."""
    assert hot.run(verb, "m", env={"STEELYARD_FAULT": f"kill@{point}"}).code == -signal.SIGKILL
    operation = hot.json("inspect", "m")["operation"]["operation_id"]
    answer = hot.json("operation", "cancel", operation)
    assert answer["operation"]["state"] == "CANCELLED"
    document = hot.json("inspect", "m")
    assert answer["revision"] == document["revision"]
    assert document["memory"]["recorded_objects"] == document["replicas"]["hot"]["objects"]
    return document["revision"]


def test_what_a_killed_move_did_is_known_once_it_is_cancelled(hot, model):
    assert cancelled_after_a_kill(hot, "rehydrate", "rehydrate.after_object")["residency"] == "MIXED"
    hot("rehydrate", "m")
    # The record ceases to count what is about to be removed before it goes.
    assert cancelled_after_a_kill(hot, "evict", "evict.after_permission")["residency"] == "HOT"
