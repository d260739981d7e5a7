"""Sixteen processes at a time do everything on one store, and a checker holds each to what it was told."""

from __future__ import annotations

import json
import random
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock

import pytest

from crash import checker, harness
from lib.runner import Steelyard

WORKERS = 16
STEPS = 20
NAMES = 5
SEED = 16

# What a verb may end with while others import and delete the same names: done; not there (any more); published already,
# or aborted; damage that is none, never; in use by a lease or a writer; not ready.
EXITS = {
    "import": (0, 4, 6, 7),
    "delete": (0, 3, 6, 11),
    "abort": (0, 3, 4, 6),
    "verify": (0, 3, 11),
    "materialize": (0, 3, 11),
    "cat": (0, 3, 11),
    "inspect": (0, 3),
    "lease": (0, 3, 11),
    "list": (0,),
    "usage": (0,),
    "reconcile": (0,),
    "gc": (0,),
}
# Who is in the way of a BUSY: a reader or a writer, never the catalog, for which everybody has his turn.
IN_THE_WAY = re.compile(r"lease|import|writer")


class Ledger:
    """What was acknowledged, by everybody."""

    def __init__(self):
        self.lock = Lock()
        self.imported: dict[str, Path] = {}
        self.deleted: set[str] = set()
        self.asked_to_delete: set[str] = set()


class Worker:
    exits = EXITS
    in_the_way = IN_THE_WAY

    def __init__(self, number: int, steelyard: Steelyard, sources: list[Path], ledger: Ledger, folder: Path):
        self.number, self.steelyard, self.sources, self.ledger, self.folder = number, steelyard, sources, ledger, folder
        self.rng = random.Random(SEED * 1000 + number)
        self.generations: dict[str, int] = {}
        self.done: list[str] = []

    def see(self, document) -> None:
        """A record never goes back, and what is a tombstone stays one."""
        if not isinstance(document, dict):
            return
        for one in [document.get("revision"), *document.get("revisions", [])]:
            if one and "metadata_generation" in one:
                assert one["metadata_generation"] >= self.generations.get(one["ref"], 0), one
                self.generations[one["ref"]] = one["metadata_generation"]

    def call(self, *words):
        process = self.steelyard.start("--json", *words)
        out, err = process.communicate(timeout=300)
        explain = f"{words}: {process.returncode}\n{err.decode()}"
        assert process.returncode in self.exits[words[0]], explain
        error = json.loads(err.decode().splitlines()[-1])["error"] if process.returncode else None
        if process.returncode == 6:
            assert self.in_the_way.search(error["message"]), explain
        self.done.append(words[0])
        document = None
        if process.returncode == 0 and words[0] != "cat":
            document = json.loads(out)
            self.see(document)
        return process.returncode, document, out

    def an_import(self):
        source = self.rng.choice(self.sources)
        code, document, _ = self.call(*harness.import_args(source, f"model-{self.rng.randrange(NAMES)}"))
        if code == 0:
            assert document["revision"]["availability"] == "READY"
            with self.ledger.lock:
                known = self.ledger.imported.setdefault(document["revision"]["ref"], source)
            assert known == source or document["stats"]["already_there"], f"two imports were told that they made {document}"

    def a_delete(self):
        with self.ledger.lock:
            refs = sorted(set(self.ledger.imported) - self.ledger.deleted)
            if not refs:
                return
            ref = self.rng.choice(refs)
            self.ledger.asked_to_delete.add(ref)
        options = ("--wait", "5s") if self.rng.random() < 0.3 else ()
        code, document, _ = self.call("delete", ref, "--yes", *options)
        if code == 0:
            assert document["revision"]["availability"] == "DELETED"
            with self.ledger.lock:
                self.ledger.deleted.add(ref)
            assert self.call("inspect", ref)[1]["revision"]["availability"] == "DELETED", "an acknowledged delete stays"

    def a_read(self):
        name = f"model-{self.rng.randrange(NAMES)}"
        verb = self.rng.choice(["verify", "materialize", "cat", "lease"])
        if verb == "verify":
            code, document, _ = self.call("verify", name)
            assert code != 0 or document["ok"]
        elif verb == "materialize":
            target = self.folder / f"out-{self.number}-{len(self.done)}"
            code, document, _ = self.call("materialize", name, target)
            assert (code == 0) == target.exists(), "a folder appears whole, or not at all"
            if code == 0:
                checker.assert_one_of(target, self.sources)
        elif verb == "cat":
            code, _, out = self.call("cat", name, "config.json")
            assert code != 0 or out in [(source / "config.json").read_bytes() for source in self.sources]
        else:
            code, document, _ = self.call("lease", "acquire", name, "--holder", f"worker-{self.number}", "--ttl", "1h")
            if code == 0:
                self.under_a_lease(document["lease"]["ref"])
                self.call("lease", "release", document["lease"]["lease_id"])

    def under_a_lease(self, ref: str) -> None:
        # Whoever asked to delete it before may go on after this lease only.
        assert self.call("inspect", ref)[1]["revision"]["availability"] in ("READY", "DEGRADED", "DELETING"), ref
        assert self.call("cat", ref, "config.json")[0] in (0, 11), ref

    def whole_store(self):
        words = self.rng.choice([("gc", "--yes", "--gc-grace", "0s"), ("reconcile",), ("list", "--all"), ("usage",)])
        self.call(*words)

    def an_abort(self):
        self.call("abort", f"model-{self.rng.randrange(NAMES)}", "--yes")

    def run(self) -> None:
        for _ in range(STEPS):
            step = self.rng.choices([self.an_import, self.a_delete, self.a_read, self.whole_store, self.an_abort], [4, 3, 5, 3, 1])[0]
            step()


def work(workers: list[Worker]) -> None:
    """All at once, each to its end."""
    with ThreadPoolExecutor(len(workers)) as pool:
        futures = [pool.submit(worker.run) for worker in workers]
    failures = [future.exception() for future in futures if future.exception() is not None]
    assert not failures, "\n".join(map(str, failures))


@pytest.mark.slow
@pytest.mark.parametrize("locks", ["locks", "no locks"])
def test_sixteen_processes_of_mixed_verbs(memory_path, noflock, locks):
    """The same where file locks do nothing: they save work, and keep nothing true."""
    steelyard = Steelyard(memory_path / "store", memory_path / "home", {"LD_PRELOAD": str(noflock)} if locks == "no locks" else {})
    sources = [harness.small_checkpoint(memory_path / f"source-{number}", seed=number, mib_per_shard=1) for number in range(3)]
    steelyard(*harness.import_args(sources[0], "model-0"))
    ledger = Ledger()
    ledger.imported["model-0@main#1"] = sources[0]
    work([Worker(number, steelyard, sources, ledger, memory_path) for number in range(WORKERS)])

    assert len(ledger.imported) > 10 and len(ledger.deleted) > 3, "the mix has something to check"
    listed = {one["ref"]: one["availability"] for one in checker.assert_sound(steelyard)}
    for ref, source in ledger.imported.items():
        if ref in ledger.deleted:
            assert listed.get(ref, "DELETED") == "DELETED", ref  # a compacted tombstone is not listed
        elif ref in ledger.asked_to_delete:
            assert listed[ref] in ("READY", "DELETING", "DELETED"), ref
        else:
            assert listed[ref] == "READY", ref
        if listed.get(ref) == "READY":
            steelyard("materialize", ref, memory_path / "last" / ref)
            checker.assert_one_of(memory_path / "last" / ref, [source])
    assert set(listed) <= set(ledger.imported) | {ref for ref, state in listed.items() if state != "READY"}, "nothing else was published"
    checker.assert_back_to_nothing(steelyard)
