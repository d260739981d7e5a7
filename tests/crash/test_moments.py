"""Processes are killed at three hundred random moments, over a mix of all verbs that change something.

After each the store is looked at, and the interrupted verb is given again; in the end nothing is left that is not needed.
"""

from __future__ import annotations

import random
import signal
import subprocess
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from crash import checker, harness
from lib.checkpoints import flip_bit
from lib.runner import Steelyard

STORES = 4
KILLS_PER_STORE = 50
STORES_WITH_MEMORY = 3
KILLS_PER_STORE_WITH_MEMORY = 34
REVISIONS_MAX = 3
SNAPSHOTS = {"STEELYARD_LOG_SNAPSHOT_EVERY": "1"}


class History:
    """One store, and what happens to it."""

    def __init__(self, folder: Path, sources: list[Path], seed: int, env: dict[str, str] | None = None):
        self.rng = random.Random(seed)
        self.folder, self.sources = folder, sources
        self.steelyard = Steelyard(folder / "store", folder / "home", env)
        self.seconds: dict[str, float] = {}
        self.killed: Counter[str] = Counter()
        self.made_from: dict[str, Path] = {}
        self.targets = 0
        self.where = ""

    def states(self) -> dict[str, str]:
        if not (self.steelyard.store / "catalog.db").exists():
            return {}
        return {one["ref"]: one["availability"] for one in harness.revisions(self.steelyard, "--all")}

    # Each choice gives the words, the exits of the same words after a kill, and whether they may change what is published.

    def an_import(self, states):
        source, name = self.rng.choice(self.sources), f"model-{self.rng.randrange(2)}"
        # Who took an IMPORTING generation over may have another source than who began it: the newest one counts.
        return ("import", source, name, "--chunk-size", "1MiB", "--jobs", "2"), (0,)

    def a_delete(self, states):
        ref = self.rng.choice([ref for ref, state in states.items() if state in ("READY", "DEGRADED")])
        return ("delete", ref, "--yes", "--wait", "0s"), (0,)

    def an_abort(self, states):
        importing = [ref for ref, state in states.items() if state == "IMPORTING"]
        return (("abort", self.rng.choice(importing), "--yes", "--force"), (0,)) if importing else self.an_import(states)

    def a_repair(self, states):
        ref = self.rng.choice([ref for ref, state in states.items() if state == "READY"])
        payloads = list((self.steelyard.store / "cold" / "groups").glob("*/*/*/p/*"))
        flip_bit(self.rng.choice(payloads))
        for one, state in states.items():
            if state == "READY":
                self.steelyard("verify", one, code=(0, 5))
        degraded = [one for one, state in self.states().items() if state == "DEGRADED"] or [ref]
        return ("repair", self.rng.choice(degraded), "--source", self.folder.parent / "sources"), (0,)

    def a_lease(self, states):
        ref = self.rng.choice([ref for ref, state in states.items() if state == "READY"])
        return ("lease", "acquire", ref, "--holder", "h", "--nonce", str(self.rng.random()), "--ttl", "1h"), (0,)

    def a_materialize(self, states):
        ref = self.rng.choice([ref for ref, state in states.items() if state == "READY"])
        self.targets += 1
        return ("materialize", ref, self.folder / f"out-{self.targets}", *(["--force"] if self.rng.random() < 0.5 else [])), (0, 4)

    def a_verify(self, states):
        return ("verify", self.rng.choice([ref for ref, state in states.items() if state == "READY"])), (0,)

    def choose(self, states):
        there = [ref for ref, state in states.items() if state == "READY"]
        if not there:
            return self.an_import(states)
        choices = [(self.an_import, 6), (self.an_abort, 1), (self.a_repair, 2), (self.a_lease, 1), (self.a_materialize, 2), (self.a_verify, 1)]
        whole_store = [("gc", "--yes", "--gc-grace", "0s"), ("reconcile",), ("recover", "--force", "--yes"), ("doctor",)]
        choices += [(lambda _, words=words: (words, (0,)), 1) for words in whole_store]
        choices.append((self.a_delete, 3 if len(there) < REVISIONS_MAX else 20))
        chosen = self.rng.choices([choice for choice, _ in choices], [weight for _, weight in choices])[0]
        return chosen(states)

    def round(self) -> None:
        checker.release_leases(self.steelyard) if self.steelyard.store.exists() and self.states() else None
        words, exits = self.choose(self.states())
        before = self.states()
        verb = words[0]
        env = SNAPSHOTS if self.rng.random() < 0.3 else {}
        process = self.steelyard.start(*words, env=env)
        try:
            process.wait(timeout=self.rng.uniform(0, self.seconds.get(verb, 0.1)))
        except subprocess.TimeoutExpired:
            process.kill()
        _, err = process.communicate()
        self.where = f"{words}: {process.returncode}\n{err.decode()}"
        assert process.returncode in (-signal.SIGKILL, *exits), self.where
        self.killed[verb] += process.returncode == -signal.SIGKILL

        after = self.states()
        self.check_states(words, before, after)
        damage = "DEGRADED" in after.values() or verb == "repair"
        if (self.steelyard.store / "catalog.db").exists():
            checker.assert_sound(self.steelyard, damage)
            checker.release_leases(self.steelyard)

        begin = time.monotonic()
        again = self.steelyard.run(*words, env=env)
        self.seconds[verb] = time.monotonic() - begin
        assert again.code in exits and "waiting for" not in again.stderr, f"{self.where}\n{again.explain()}"
        for ref in [ref for ref, state in self.states().items() if state == "DEGRADED"]:
            # What a repair of another one did not need.
            self.steelyard("repair", ref, "--source", self.folder.parent / "sources")
        if again.code == 0:
            self.check_done(words)

    def check_done(self, words) -> None:
        """What the verb promises, beside what every store keeps."""

    def check_states(self, words, before: dict, after: dict) -> None:
        """Before or after, nothing in between, and nothing else."""

        def published(states):
            return {ref for ref, state in states.items() if state in ("READY", "DEGRADED")}

        gone, come = published(before) - published(after), published(after) - published(before)
        if words[0] == "recover" and not after:
            return  # killed between the old catalog and the new one; the same words bring it back
        assert gone <= ({words[1]} if words[0] == "delete" else set()), self.where
        assert len(come) <= (words[0] == "import"), self.where

    def run(self, kills: int) -> Counter[str]:
        # A machine that is quicker than the last time of a verb lets some of them end.
        for _ in range(4 * kills):
            self.round()
            if self.killed.total() == kills:
                break
        checker.assert_sound(self.steelyard)
        for one in harness.revisions(self.steelyard):
            self.steelyard("materialize", one["ref"], self.folder / "last" / one["ref"])
            checker.assert_one_of(self.folder / "last" / one["ref"], self.sources)
        asides = len(list(self.steelyard.store.glob("catalog.*.aside")))
        checker.assert_back_to_nothing(self.steelyard, asides)
        return self.killed


class HistoryOfMoves(History):
    """The same with memory for two revisions of four: they are brought, evicted, moved by their policies, and damaged there."""

    def __init__(self, folder: Path, sources: list[Path], seed: int):
        (folder / "hot").mkdir(parents=True)
        env = {"STEELYARD_HOT_PATH": str(folder / "hot"), "STEELYARD_HOT_CAPACITY": "5MiB", "STEELYARD_POLICY_COOLDOWN": "0s"}
        super().__init__(folder, sources, seed, env)

    def a_ref(self, states) -> str:
        return self.rng.choice([ref for ref, state in states.items() if state == "READY"])

    def a_ratio(self) -> tuple:
        return ("--ratio", self.rng.choice(["0.3", "0.7"])) if self.rng.random() < 0.4 else ()

    # No room (8), or a policy that is in the way (13), is an answer as well as any.

    def residencies(self) -> dict[str, str]:
        return {one["ref"]: one["residency"] for one in harness.revisions(self.steelyard)}

    def an_eviction(self, states):
        hot = [ref for ref, residency in self.residencies().items() if residency != "COLD"]
        if not hot:
            return self.a_rehydration(states)
        return ("evict", self.rng.choice(hot), *self.a_ratio()), (0, 8, 13)

    def a_rehydration(self, states):
        make_room = ("--make-room",) if self.rng.random() < 0.6 else ()
        colder = [ref for ref, residency in self.residencies().items() if residency != "HOT"]
        return ("rehydrate", self.rng.choice(colder or [self.a_ref(states)]), *self.a_ratio(), *make_room), (0, 8, 13)

    def a_policy(self, states):
        ref, prefer = self.a_ref(states), self.rng.choice([("hot",), ("cold",), ("mixed", "--ratio", "0.5")])
        mode = self.rng.choice(["manual", "pinned", "auto", "auto"])
        self.steelyard("policy", "set", ref, "--prefer", *prefer, "--mode", mode)
        lease = ("lease", "acquire", ref, "--holder", "h", "--nonce", str(self.rng.random()), "--ttl", "1h")
        return self.rng.choice([("reconcile",), lease]), (0,)

    def damage_in_memory(self, states):
        replicas = checker.replicas_in_memory(self.steelyard)
        if not replicas:
            return self.a_rehydration(states)
        flip_bit(self.rng.choice(replicas))
        for ref, state in states.items():
            if state == "READY":
                self.steelyard("verify", ref, code=(0, 5))
        return ("repair", self.rng.choice(list(self.being_repaired()) or [self.a_ref(states)])), (0,)

    def being_repaired(self) -> list[str]:
        return [one["ref"] for one in harness.revisions(self.steelyard) if one["operation"] == "REPAIRING"]

    def choose(self, states):
        there = [ref for ref, state in states.items() if state == "READY"]
        if len(there) < 2:
            return self.an_import(states)
        choices = [(self.an_import, 2), (self.a_repair, 2), (self.damage_in_memory, 2), (self.an_eviction, 6), (self.a_rehydration, 6)]
        choices += [(self.a_policy, 5), (lambda _: (("gc", "--yes", "--gc-grace", "0s"), (0,)), 1)]
        choices.append((self.a_delete, 2 if len(there) < 4 else 20))
        return self.rng.choices([choice for choice, _ in choices], [weight for _, weight in choices])[0](states)

    def check_done(self, words) -> None:
        if words[0] in ("evict", "rehydrate"):
            revision = self.steelyard.json("inspect", words[1])["revision"]
            to_a_ratio = {"evict": ("MIXED", "COLD"), "rehydrate": ("MIXED",)}
            wanted = to_a_ratio[words[0]] if "--ratio" in words else {"evict": ("COLD",), "rehydrate": ("HOT",)}[words[0]]
            assert revision["operation"] == "NONE" and revision["residency"] in wanted, (self.where, revision)
        if self.being_repaired():
            self.steelyard("reconcile")  # what a repair of another one did not need


def run_all(histories: list, kills: int) -> Counter[str]:
    with ThreadPoolExecutor(len(histories)) as pool:
        futures = [pool.submit(history.run, kills) for history in histories]
    for history, future in zip(histories, futures, strict=True):
        assert future.exception() is None or not print(history.where), future.exception()
    killed = sum((history.killed for history in histories), Counter())
    print(f"killed: {dict(killed)}")
    # A command that was faster than its moment counts for none.
    assert killed.total() * 2 >= len(histories) * kills, killed
    return killed


@pytest.mark.slow
def test_killed_at_two_hundred_random_moments(memory_path):
    sources = [harness.small_checkpoint(memory_path / "sources" / str(number), seed=number, mib_per_shard=1) for number in range(3)]
    killed = run_all([History(memory_path / f"history-{number}", sources, seed=number) for number in range(STORES)], KILLS_PER_STORE)
    # Which of the rare ones are slow enough to be met is chance.
    assert {"import", "delete", "repair", "materialize"} <= set(killed) and len(killed) >= 6, killed


@pytest.mark.slow
def test_killed_at_a_hundred_random_moments_of_moves(memory_path):
    sources = [harness.small_checkpoint(memory_path / "sources" / str(number), seed=number, mib_per_shard=1) for number in range(3)]
    histories = [HistoryOfMoves(memory_path / f"history-{number}", sources, seed=number) for number in range(STORES_WITH_MEMORY)]
    killed = run_all(histories, KILLS_PER_STORE_WITH_MEMORY)
    # `reconcile` and `lease` carry out the same policy, by turns.
    assert {"evict", "rehydrate", "repair", "delete"} <= set(killed) and {"reconcile", "lease"} & set(killed), killed
