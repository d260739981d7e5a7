"""Processes that stand still while a revision moves: who holds a lease, who removes replicas, who brings some."""

from __future__ import annotations

import signal
import time

import pytest

from crash import checker, harness
from lib.runner import Steelyard
from lib.waiting import wait_until

SHORT = {"STEELYARD_IMPORT_WRITER_TTL": "2s"}  # of a runner's token, too
NOW = ("gc", "--yes", "--gc-grace", "0s")


@pytest.fixture
def hot(memory_path, source) -> Steelyard:
    """A store with a memory tier of its own, and the revision `m` in both."""
    (memory_path / "hot").mkdir()
    env = {"STEELYARD_HOT_PATH": str(memory_path / "hot"), "STEELYARD_HOT_CAPACITY": "64MiB"}
    steelyard = Steelyard(memory_path / "store", memory_path / "home", env)
    steelyard(*harness.import_args(source, "m"), "--residency", "hot")
    return steelyard


def revision(steelyard, ref: str = "m") -> dict:
    return steelyard.json("inspect", ref)["revision"]


def message_of_operation(steelyard) -> str:
    operation = steelyard.json("inspect", "m")["operation"]["operation_id"]
    return steelyard.json("operation", "show", operation)["operation"]["message"] or ""


def wake(process):
    process.send_signal(signal.SIGCONT)
    return harness.finish(process)


def stopped_reader(steelyard, ttl: str):
    """A reader of `m` that stands still; also the earliest moment, by the boot's clock, at which its lease may end."""
    process = harness.stop_at(steelyard, "tier.read", 1, "verify", "m", STEELYARD_LEASE_TTL=ttl)
    before = time.clock_gettime(time.CLOCK_MONOTONIC)
    (lease,) = steelyard.json("lease", "list", "m")["leases"]
    return process, before + lease["ttl_seconds_left"] - 1


# --- who holds a lease ---


def test_a_lease_whose_holder_stands_still(hot):
    """It keeps the revision where it is until its time is over by the boot's clock, and no longer."""
    reader, ends = stopped_reader(hot, "4s")
    try:
        wait_until(lambda: hot.run("evict", "m").code != 6, every_s=0.2)
        assert time.clock_gettime(time.CLOCK_MONOTONIC) >= ends
        assert revision(hot)["residency"] == "COLD"
        code, _, error = wake(reader)
        assert code in (0, 12), error
    finally:
        reader.kill()
    checker.assert_sound(hot)


def test_a_lease_pauses_an_eviction_whatever_the_wall_clock_says(hot, wallclock):
    """Nothing is removed while the lease lives, and a reconcile waits for nobody; it goes on when the lease is given back."""
    hot("evict", "m", "--no-wait")
    reader, _ = stopped_reader(hot, "1h")
    (lease,) = hot.json("lease", "list", "m")["leases"]
    ahead, back = ({"LD_PRELOAD": str(wallclock), "WALLCLOCK_OFFSET": str(days * 86400)} for days in (3650, -3650))
    replicas = checker.files_in_memory(hot)
    evictions = [hot.start("--json", "evict", "m", env=env) for env in (ahead, back)]
    try:
        wait_until(lambda: message_of_operation(hot).startswith("paused: "), every_s=0.1)
        for env in (ahead, back):
            assert [one["ref"] for one in hot.json("reconcile", env=env)["waiting"]] == ["m@main#1"]
        assert checker.files_in_memory(hot) == replicas and revision(hot)["residency"] == "HOT"
        hot("lease", "release", lease["lease_id"])
        assert [harness.finish(process)[0] for process in evictions] == [0, 0]
        assert checker.files_in_memory(hot) == [] and revision(hot)["residency"] == "COLD"
        assert wake(reader)[0] in (0, 12)
    finally:
        for process in (reader, *evictions):
            process.kill()
    checker.assert_back_to_nothing(hot)


# --- who removes replicas ---


@pytest.mark.parametrize("point, ends", [("evict.after_permission", "goes on"), ("tier.remove", "is killed")])
def test_an_eviction_in_the_middle_of_its_removals(hot, source, tmp_path, point, ends):
    """Nobody takes what it will still remove for hot, and everybody reads on."""
    runner = hot.at(hot.store, **SHORT)
    stopped = harness.stop_at(runner, point, 2 if point == "tier.remove" else 1, "evict", "m")
    try:
        assert revision(hot)["residency"] == "COLD", "it says so before the first one goes"
        harness.assert_whole(hot, source, tmp_path, "m")
        assert hot.error("rehydrate", "m", code=6)["code"] == "BUSY"
        operation = hot.json("inspect", "m")["operation"]["operation_id"]
        hot("operation", "cancel", operation)
        # What it was permitted it may still do: nobody counts its replicas before it has come to an end.
        message = hot.error("rehydrate", "m", code=6)["message"]
        assert f"(process {stopped.pid}, which is stopped)" in message and "does not come to an end" in message
        generation = revision(hot)["metadata_generation"]
        hot("reconcile", code=(0, 6, 10))
        after = revision(hot)
        assert (after["residency"], after["metadata_generation"]) == ("COLD", generation)
        if ends == "goes on":
            code, _, error = wake(stopped)
            assert code in (4, 7), error
        else:
            stopped.kill()
            stopped.communicate()
    finally:
        stopped.kill()
    hot("rehydrate", "m")
    assert revision(hot)["residency"] == "HOT"
    checker.assert_sound(hot)
    checker.assert_back_to_nothing(hot)


# --- who brings replicas ---


@pytest.mark.parametrize(
    "point, then",
    [("residency.after_start", "deleted and collected"), ("rehydrate.after_object", "evicted"), ("residency.after_objects", "deleted")],
)
def test_a_rehydration_whose_place_was_taken(hot, source, tmp_path, point, then):
    """After its time to live another brings the revision; what the late one puts does no harm, whatever became of that."""
    hot("evict", "m")
    runner = hot.at(hot.store, **SHORT)
    stopped = harness.stop_at(runner, point, 1, "rehydrate", "m")
    try:
        runner("rehydrate", "m")
        assert revision(hot)["residency"] == "HOT"
        hot(*(("evict", "m") if then == "evicted" else ("delete", "m", "--yes")))
        if then == "deleted and collected":
            hot(*NOW)
        before = harness.revisions(hot, "--all")
        # Its operation is DONE, whoever did it.
        code, document, error = wake(stopped)
        assert code in (3, 4, 7, 10, 11) or document["operation"]["state"] == "DONE", error
    finally:
        stopped.kill()
    assert harness.revisions(hot, "--all") == before
    if then == "evicted":
        harness.assert_whole(hot, source, tmp_path, "m")
        hot("reconcile")
        checker.assert_sound(hot)
    checker.assert_back_to_nothing(hot)
