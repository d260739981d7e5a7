"""Every verb that changes something is killed at every fault point that it passes; no point of the code is left out."""

from __future__ import annotations

import signal

import pytest

from crash import checker, harness, mutations
from crash.mutations import MUTATIONS
from lib.checkpoints import tree_digests

# Points that no mutation of the table passes when it is alone, and who kills at them.
ELSEWHERE = {
    "delete.waiting": "test_killed_while_it_waits",
    "evict.paused": "test_killed_while_a_lease_pauses_it",
    "import.waiting": "test_killed_while_it_waits",
    # Others take the room while a rehydration is under way.
    "rehydrate.before_room": "policies_test.cc",
    # No verb maps objects, and content without an object is met beside another process: src/tiers/memory/*_test.cc.
    "tier.map": "memory_capacity_test.cc",
    # A claim of another process that lives is met beside it alone.
    "tier.open_claim": "memory_capacity_test.cc",
    "tier.open_map": "memory_capacity_test.cc",
    "tier.open_content": "memory_capacity_test.cc",
}


def test_no_point_is_left_out():
    """A new point has to be passed by a mutation of the table, and a name that is gone must not be claimed."""
    passed = set().union(*(mutations.traced(name) for name in MUTATIONS))
    named = mutations.points_in_the_code()
    assert len(named) > 80
    assert named - passed == set(ELSEWHERE), "points that no mutation passes, or that one passes now"
    assert passed <= named, "the search in the code misses names"


@pytest.mark.parametrize("name", [name for name, mutation in MUTATIONS.items() if mutation.killed_here])
def test_killed_at_every_point(memory_path, name):
    mutation = MUTATIONS[name]
    place = mutations.prepare(name, memory_path)
    steelyard = place.steelyard
    damage = name.startswith(("repair", "operation", "reconcile-repair", "verify", "evict-what-is-bad"))
    tries = mutations.tries(name, place)
    killed = 0
    for point, number in tries:
        mutations.reset(place)
        words = mutation.words(place)
        run = steelyard.run(*words, env=mutation.fault(f"kill@{point}#{number}"))
        where = f"{point}#{number}\n{run.explain()}"
        # Threads may pass a point fewer times in another run; then the verb is simply done.
        assert run.code in (-signal.SIGKILL, 0, *mutation.repeat), where
        killed += run.code == -signal.SIGKILL
        if (steelyard.store / "catalog.db").exists() and (steelyard.store / "cold" / "store.json").exists():
            checker.assert_sound(steelyard, damage)
        if name.startswith("materialize"):
            # Killed between two renames, the old folder stands beside under another name.
            whole = tree_digests(place.folder / "out") if (place.folder / "out").exists() else None
            assert whole in (None, tree_digests(place.source), tree_digests(place.folder / "out-template")), where
        again = steelyard.run(*words, env=mutation.env)
        assert again.code in mutation.repeat, f"{where}\n{again.explain()}"
        assert "waiting for" not in again.stderr, f"{where}\n{again.explain()}"
        assert mutations.standing(steelyard) in mutation.then, f"{where}\n{again.explain()}"
        checker.assert_back_to_nothing(steelyard, asides=len(list(steelyard.store.glob("catalog.*.aside"))))
    assert killed >= len(tries) // 2


def test_killed_while_it_waits(steelyard, source):
    """An import waits for the other writer, a delete for the last lease."""
    writer = harness.stop_at(steelyard, "import.after_object_put", 1, *harness.import_args(source, "m#1"))
    waits = (*harness.import_args(source, "m#1"), "--wait", "1h")
    try:
        steelyard(*waits, code=-signal.SIGKILL, env={"STEELYARD_FAULT": "kill@import.waiting"})
        writer.send_signal(signal.SIGCONT)
        assert harness.finish(writer)[0] == 0
    finally:
        writer.kill()
    lease = steelyard("-q", "lease", "acquire", "m", "--holder", "h", "--ttl", "1h").last
    steelyard("delete", "m", "--yes", "--wait", "1h", code=-signal.SIGKILL, env={"STEELYARD_FAULT": "kill@delete.waiting"})
    assert steelyard.json("inspect", "m#1")["revision"]["availability"] == "DELETING"
    checker.assert_sound(steelyard)
    steelyard("lease", "release", lease)
    steelyard("delete", "m", "--yes")
    checker.assert_back_to_nothing(steelyard)


def test_killed_while_a_lease_pauses_it(memory_path):
    """The eviction stands as it stood, and goes on when the lease is given back."""
    place = mutations.prepare("reconcile-evict-paused", memory_path)
    steelyard = place.steelyard
    steelyard("evict", "m", code=-signal.SIGKILL, env={"STEELYARD_FAULT": "kill@evict.paused"})
    revision = steelyard.json("inspect", "m")["revision"]
    assert revision["residency"] == "HOT" and revision["operation"] == "EVICTING"
    checker.assert_sound(steelyard)
    checker.release_leases(steelyard)
    steelyard("evict", "m")
    assert steelyard.json("inspect", "m")["revision"]["residency"] == "COLD"
    assert checker.files_in_memory(steelyard) == []
    checker.assert_back_to_nothing(steelyard)
