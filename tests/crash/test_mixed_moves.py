"""Sixteen processes at a time bring revisions into a memory that has no room for all, evict them, read, lease and delete them."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from crash import checker, harness
from crash.test_mixed_verbs import EXITS, WORKERS, Ledger, Worker, work
from lib.runner import Steelyard

STEPS = 12
NAMES = 4
SIZE_MIB = 64


class Mover(Worker):
    # No room, however much is evicted (8); an operation or a lease in the way (6); a policy that wants it elsewhere (13).
    exits = {**EXITS, "evict": (0, 3, 6, 8, 11, 13), "rehydrate": (0, 3, 6, 8, 11, 13), "policy": (0, 3, 6, 11)}
    in_the_way = re.compile(r"lease|import|writer|operation|replicas|being read")

    def __init__(self, *args):
        super().__init__(*args)
        self.seen: Counter[str] = Counter()

    def a_name(self) -> str:
        return f"model-{self.rng.randrange(NAMES)}"

    def a_ratio(self) -> tuple:
        return ("--ratio", self.rng.choice(["0.3", "0.7"])) if self.rng.random() < 0.3 else ()

    def a_rehydration(self):
        ratio = self.a_ratio()
        make_room = ("--make-room",) if self.rng.random() < 0.8 else ()
        code, document, _ = self.call("rehydrate", self.a_name(), *ratio, *make_room)
        if code == 0:
            # A ratio's second half, an eviction, is left out where others took everything out meanwhile.
            assert document["revision"]["residency"] in (("MIXED", "COLD") if ratio else ("HOT",)), document
            self.seen["room made"] += bool(document["evicted"])
        self.seen[f"rehydrate: {code}"] += 1

    def an_eviction(self):
        ratio = self.a_ratio()
        code, document, _ = self.call("evict", self.a_name(), *ratio)
        self.seen[f"evict: {code}"] += 1
        if code == 0:
            assert document["revision"]["residency"] in (("MIXED", "COLD") if ratio else ("COLD",)), document

    def a_policy(self):
        prefer = self.rng.choice([("hot",), ("cold",), ("mixed", "--ratio", "0.5")])
        self.call("policy", "set", self.a_name(), "--prefer", *prefer, "--mode", self.rng.choice(["manual", "manual", "auto", "pinned"]))

    def under_a_lease(self, ref: str) -> None:
        """What is HOT now stays in memory, to the last object, while the lease lives."""
        super().under_a_lease(ref)
        before = self.call("inspect", ref)[1]["revision"]
        code, report, _ = self.call("verify", ref)
        if code != 0 or before["residency"] != "HOT":
            return
        self.seen["hot under a lease"] += 1
        assert report["hot_objects"] == before["payload_count"], (before, report)
        after = self.call("inspect", ref)[1]["revision"]
        assert after["availability"] == "DELETING" or after["residency"] == "HOT", (before, after)

    def run(self) -> None:
        steps = [(self.an_import, 2), (self.a_delete, 1), (self.a_read, 5), (self.whole_store, 3), (self.a_policy, 2)]
        steps += [(self.a_rehydration, 7), (self.an_eviction, 4)]
        for _ in range(STEPS):
            self.rng.choices([step for step, _ in steps], [weight for _, weight in steps])[0]()


@pytest.mark.slow
@pytest.mark.parametrize("locks", ["locks", "no locks"])
def test_sixteen_processes_that_move_revisions(memory_path, noflock, locks):
    hot = memory_path / "hot"
    hot.mkdir()
    env = {"STEELYARD_HOT_PATH": str(hot), "STEELYARD_HOT_CAPACITY": f"{SIZE_MIB}MiB", "STEELYARD_POLICY_COOLDOWN": "0s"}
    steelyard = Steelyard(memory_path / "store", memory_path / "home", {**env, **({"LD_PRELOAD": str(noflock)} if locks == "no locks" else {})})
    sources = [harness.small_checkpoint(memory_path / f"source-{number}", seed=number, mib_per_shard=12) for number in range(NAMES)]
    ledger = Ledger()
    for number, source in enumerate(sources):
        ledger.imported[steelyard("-q", *harness.import_args(source, f"model-{number}")).last] = source
    workers = [Mover(number, steelyard, sources, ledger, memory_path) for number in range(WORKERS)]
    work(workers)
    seen = sum((worker.seen for worker in workers), Counter())
    print(dict(seen))
    assert seen["rehydrate: 0"] and seen["evict: 0"], seen
    assert {"evict", "rehydrate", "policy", "lease", "verify"} <= {verb for worker in workers for verb in worker.done}

    listed = checker.assert_sound(steelyard)
    assert sum(path.stat().st_size for path in checker.content_in_memory(steelyard)) <= SIZE_MIB << 20
    steelyard("reconcile")
    assert [one["ref"] for one in checker.assert_sound(steelyard) if one["operation"] != "NONE"] == [], "nobody is in the way of a move any more"
    for one in listed:
        if one["availability"] == "READY":
            steelyard("materialize", one["ref"], memory_path / "last" / one["ref"])
            checker.assert_one_of(memory_path / "last" / one["ref"], [ledger.imported[one["ref"]]])
    checker.assert_back_to_nothing(steelyard)
