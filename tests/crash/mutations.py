"""Every verb that changes something, each in a store where it has something to do.

A mutation prepares a store once (the copies of it are cheap), and names the words that are killed, and repeated after it.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Callable

from crash import harness
from lib.checkpoints import flip_bit
from lib.runner import ROOT, Steelyard
from lib.waiting import wait_until

SNAPSHOTS = {"STEELYARD_LOG_SNAPSHOT_EVERY": "1"}
MOVES = ("residency.", "rehydrate.", "evict.")
SMALL_MEMORY = {"STEELYARD_HOT_CAPACITY": "6MiB"}
NOW = ("gc", "--yes", "--gc-grace", "0s")


@dataclass
class Place:
    """A store, a source of its revision `m` beside it, another one of the same names and sizes, and room for what is made."""

    steelyard: Steelyard
    folder: Path

    @property
    def source(self) -> Path:
        return self.folder / "source"

    @property
    def hot(self) -> Path:
        """A tmpfs, where the folder lies on one."""
        return self.folder / "hot"

    @property
    def other(self) -> Path:
        return self.folder / "other"


@dataclass(frozen=True)
class Mutation:
    """`words` may refer to the place; `repeat` are the exits of the same words after a kill, 0 among them."""

    prepare: Callable[[Place], None]
    words: Callable[[Place], tuple]
    env: dict[str, str] = field(default_factory=dict)
    faults: str = ""
    repeat: tuple[int, ...] = (0,)
    killed_here: bool = True  # False: another module kills it at every point, and looks closer
    beside: str = ""  # the mutations whose points need not be tried again
    then: tuple[str, ...] = ()  # what may stand when the words were repeated: see `standing`

    def fault(self, rule: str) -> dict[str, str]:
        return {**self.env, "STEELYARD_FAULT": ",".join(filter(None, (self.faults, rule)))}


def model(place: Place) -> None:
    place.steelyard(*harness.import_args(place.source, "m"))


def first_object(place: Place) -> Path:
    return min(path for path in harness.groups_folder(place.steelyard.store).glob("*/*/*/p/*") if path.stat().st_size == 1 << 20)


def damaged(place: Place) -> None:
    """Two revisions share the damaged object; it is not recorded."""
    model(place)
    place.steelyard(*harness.import_args(place.source, "twin"))
    flip_bit(first_object(place))


def degraded(place: Place) -> None:
    damaged(place)
    place.steelyard("verify", "m", code=5)


def with_a_whole_copy(place: Place) -> None:
    """The index has the bytes again, since another import of them did not link what was damaged."""
    degraded(place)
    place.steelyard(*harness.import_args(place.source, "whole"))


def repairing(place: Place) -> None:
    degraded(place)
    place.steelyard("repair", "m", "--no-wait")


def repairing_from_the_store(place: Place) -> None:
    with_a_whole_copy(place)
    place.steelyard("repair", "m", "--no-wait")


def garbage(place: Place) -> None:
    """A tombstone, an older attempt with a temporary file, one that no record names, content that nobody uses."""
    model(place)
    for point in ("import.after_flush", "import.after_committed_marker"):
        place.steelyard(*harness.import_args(place.other, "n"), code=-signal.SIGKILL, env={"STEELYARD_FAULT": f"kill@{point}"})
    place.steelyard("delete", "m", "--yes")
    groups = place.steelyard.store / "cold" / "groups"
    lost = groups / "ab" / ("ab" + "0" * 62) / "1"
    (lost / "p").mkdir(parents=True)
    (lost / "p" / "00000000").write_bytes(b"x" * 1000)
    (next(groups.glob("*/*/2")) / "tmp" / ("ab" * 8)).write_bytes(b"half")


def leased(place: Place) -> None:
    model(place)
    lease = place.steelyard("-q", "lease", "acquire", "m", "--holder", "h", "--ttl", "1h").last
    (place.folder / "lease").write_text(lease)


def abandoned(place: Place) -> None:
    """An import whose writer is gone for longer than the age at which it counts as abandoned."""
    model(place)
    killed = {"STEELYARD_FAULT": "kill@import.after_flush", "STEELYARD_IMPORT_WRITER_TTL": "2s"}
    place.steelyard(*harness.import_args(place.other, "half"), code=-signal.SIGKILL, env=killed)
    probe = place.steelyard.at(place.folder / "probe")

    def is_abandoned() -> bool:
        copy_store(place.steelyard.store, probe.store)
        return "half" in probe("reconcile", "--import-abandon-after", "2s").stdout

    wait_until(is_abandoned, every_s=0.2)
    shutil.rmtree(probe.store)


def with_a_target(place: Place) -> None:
    model(place)
    place.steelyard("materialize", "m", place.folder / "out")
    (place.folder / "out" / "mine").write_text("of another time")


def interrupted(place: Place) -> None:
    """A revision to delete, one whose delete was killed, an import that was killed."""
    model(place)
    place.steelyard(*harness.import_args(place.other, "going"))
    place.steelyard("delete", "going", "--yes", code=-signal.SIGKILL, env={"STEELYARD_FAULT": "kill@delete.after_marker"})
    place.steelyard(*harness.import_args(place.other, "half"), code=-signal.SIGKILL, env={"STEELYARD_FAULT": "kill@import.after_flush"})


def rehydrating(place: Place) -> None:
    model(place)
    place.steelyard("rehydrate", "m", "--no-wait")


def killed_on_the_way(place: Place) -> None:
    """A part of it is in memory, which nobody told."""
    model(place)
    place.steelyard("rehydrate", "m", env={"STEELYARD_FAULT": "kill@rehydrate.after_object"}, code=-9)


def in_memory(place: Place) -> None:
    model(place)
    place.steelyard("rehydrate", "m")


def evicting(place: Place) -> None:
    in_memory(place)
    place.steelyard("evict", "m", "--no-wait")


def evicting_under_a_lease(place: Place) -> None:
    """The lease was taken when the eviction was begun, and pauses it."""
    evicting(place)
    place.steelyard("lease", "acquire", "m", "--holder", "h", "--ttl", "1h")


def memory_is_full(place: Place) -> None:
    """`m` fills it, and nobody uses that; `n` wants to come in."""
    in_memory(place)
    place.steelyard(*harness.import_args(place.other, "n"))


def with_a_policy(prefer: str, mode: str, before: Callable[[Place], None]) -> Callable[[Place], None]:
    """The revision is not where its policy wants it."""

    def prepare(place: Place) -> None:
        before(place)
        place.steelyard("policy", "set", "m", "--prefer", *prefer.split(), "--mode", mode)

    return prepare


def left_in_memory(place: Place) -> None:
    """Who deleted it had not mounted that memory."""
    in_memory(place)
    place.steelyard("delete", "m", "--yes", env={"STEELYARD_HOT_PATH": str(place.folder)})


def evicting_what_is_bad_below(place: Place) -> None:
    in_memory(place)
    flip_bit(first_object(place))


def hot_and_bad_below(place: Place) -> None:
    """Memory has what the cold tier lacks; the repair is begun."""
    evicting_what_is_bad_below(place)
    place.steelyard("verify", "m", code=5)


def bad_in_memory(place: Place) -> None:
    in_memory(place)
    flip_bit(max(place.hot.glob("*/groups/*/*/*/p/*"), key=lambda path: path.stat().st_size))


def rehydrating_elsewhere(place: Place) -> None:
    """Nobody runs it, and its memory is gone."""
    rehydrating(place)
    for instance in place.hot.iterdir():
        shutil.rmtree(instance)


def with_a_stray_marker(place: Place) -> None:
    """A `deleting` marker beside a revision that nobody deletes."""
    model(place)
    group = next(harness.groups_folder(place.steelyard.store).glob("*/*/1")).parent
    (group / "deleting").touch()


def without_identity(place: Place) -> None:
    model(place)
    (place.steelyard.store / "cold" / "store.json").unlink()


MUTATIONS: dict[str, Mutation] = {
    "import": Mutation(lambda place: None, lambda place: harness.import_args(place.source, "m"), killed_here=False),
    "import-again": Mutation(model, lambda place: harness.import_args(place.other, "m"), env=SNAPSHOTS, beside="import", then=("m READY COLD NONE",)),
    "import-read-back": Mutation(model, lambda place: (*harness.import_args(place.other, "n"), "--verify-after-write"), faults="EMLINK@tier.link_content", beside="import", then=("m READY COLD NONE, n READY COLD NONE",)),
    "materialize": Mutation(model, lambda place: ("materialize", "m", place.folder / "out"), killed_here=False),
    "materialize-over": Mutation(with_a_target, lambda place: ("materialize", "m", place.folder / "out", "--force"), beside="materialize", then=("m READY COLD NONE",)),
    "materialize-over-without-exchange": Mutation(
        with_a_target, lambda place: ("materialize", "m", place.folder / "out", "--force"), faults="EINVAL@materialize.exchange", beside="materialize-over", then=("m READY COLD NONE",)
    ),
    "delete": Mutation(model, lambda place: ("delete", "m", "--yes"), killed_here=False),
    "delete-with-snapshots": Mutation(model, lambda place: ("delete", "m", "--yes", "--wait", "1s"), env=SNAPSHOTS, beside="delete", then=("m DELETED ABSENT NONE",)),
    "abort": Mutation(interrupted, lambda place: ("abort", "half", "--yes"), killed_here=False),
    "gc": Mutation(interrupted, lambda place: NOW, killed_here=False),
    "gc-with-garbage": Mutation(garbage, lambda place: NOW, then=("m DELETED ABSENT NONE, n READY COLD NONE",)),
    "reconcile": Mutation(interrupted, lambda place: ("reconcile",), killed_here=False),
    "reconcile-abandoned": Mutation(abandoned, lambda place: ("reconcile", "--import-abandon-after", "2s"), then=("half DELETED ABSENT NONE, m READY COLD NONE",)),
    "reconcile-stray-marker": Mutation(with_a_stray_marker, lambda place: ("reconcile",), beside="reconcile", then=("m READY COLD NONE",)),
    "reconcile-repair": Mutation(repairing_from_the_store, lambda place: ("reconcile",), beside="repair", then=("m READY COLD NONE, twin READY COLD NONE, whole READY COLD NONE",)),
    "repair": Mutation(degraded, lambda place: ("repair", "m", "--source", place.source), killed_here=False),
    "repair-by-link": Mutation(with_a_whole_copy, lambda place: ("repair", "m"), beside="repair", then=("m READY COLD NONE, twin READY COLD NONE, whole READY COLD NONE",)),
    "repair-start": Mutation(degraded, lambda place: ("repair", "m", "--no-wait"), then=("m DEGRADED COLD REPAIRING, twin READY COLD NONE", "m DEGRADED COLD REPAIRING, twin DEGRADED COLD NONE")),
    "rehydrate": Mutation(model, lambda place: ("rehydrate", "m"), then=("m READY HOT NONE",)),
    "rehydrate-anew": Mutation(rehydrating_elsewhere, lambda place: ("rehydrate", "m"), beside="rehydrate", then=("m READY HOT NONE",)),
    "rehydrate-ratio": Mutation(model, lambda place: ("rehydrate", "m", "--ratio", "0.5"), beside="rehydrate", then=("m READY MIXED NONE",)),
    "rehydrate-make-room": Mutation(memory_is_full, lambda place: ("rehydrate", "n", "--make-room"), env=SMALL_MEMORY, beside="rehydrate evict", then=("m READY COLD NONE, n READY HOT NONE", "m READY COLD EVICTING, n READY HOT NONE")),
    "reconcile-rehydrate": Mutation(rehydrating, lambda place: ("reconcile",), beside="rehydrate", then=("m READY HOT NONE",)),
    "import-hot": Mutation(lambda place: None, lambda place: (*harness.import_args(place.source, "m"), "--residency", "hot"), beside="import rehydrate", then=("m READY HOT NONE", "m READY COLD NONE, m READY HOT NONE")),
    "evict": Mutation(in_memory, lambda place: ("evict", "m"), then=("m READY COLD NONE",)),
    "evict-ratio": Mutation(in_memory, lambda place: ("evict", "m", "--ratio", "0.5"), beside="evict", then=("m READY MIXED NONE",)),
    "evict-what-is-bad-below": Mutation(evicting_what_is_bad_below, lambda place: ("evict", "m"), repeat=(5, 6), beside="evict", then=("m READY HOT REPAIRING",)),
    "reconcile-evict": Mutation(evicting, lambda place: ("reconcile",), beside="evict", then=("m READY COLD NONE",)),
    "reconcile-evict-paused": Mutation(evicting_under_a_lease, lambda place: ("reconcile",), beside="evict", then=("m READY HOT EVICTING",)),
    "delete-in-memory": Mutation(in_memory, lambda place: ("delete", "m", "--yes"), beside="delete", then=("m DELETED ABSENT NONE",)),
    "gc-in-memory": Mutation(left_in_memory, lambda place: NOW, beside="gc", then=("m DELETED ABSENT NONE",)),
    "policy-set": Mutation(model, lambda place: ("policy", "set", "m", "--prefer", "hot", "--mode", "auto", "--expect-generation", generation_of(place)), env=SNAPSHOTS, then=("m READY COLD NONE", "m READY HOT NONE")),
    "reconcile-policy-hot": Mutation(with_a_policy("hot", "pinned", model), lambda place: ("reconcile",), beside="reconcile rehydrate", then=("m READY HOT NONE",)),
    "reconcile-policy-cold": Mutation(with_a_policy("cold", "pinned", in_memory), lambda place: ("reconcile",), beside="reconcile evict", then=("m READY COLD NONE",)),
    "reconcile-policy-mixed": Mutation(with_a_policy("mixed --ratio 0.5", "pinned", in_memory), lambda place: ("reconcile",), beside="reconcile evict", then=("m READY MIXED NONE",)),
    "lease-acquire-policy": Mutation(with_a_policy("hot", "auto", model), lambda place: ("lease", "acquire", "m", "--holder", "h", "--nonce", "n"), beside="lease-acquire rehydrate", then=("m READY HOT NONE",)),
    "repair-from-memory": Mutation(hot_and_bad_below, lambda place: ("repair", "m"), beside="repair", then=("m READY HOT NONE",)),
    "repair-in-memory": Mutation(bad_in_memory, lambda place: ("repair", "m"), beside="repair", then=("m READY HOT NONE",)),
    "verify-beside-memory": Mutation(bad_in_memory, lambda place: ("verify", "m"), repeat=(5,), beside="verify", then=("m READY MIXED REPAIRING",)),
    "operation-cancel": Mutation(repairing, lambda place: ("operation", "cancel", operation_of(place)), then=("m DEGRADED COLD NONE, twin READY COLD NONE", "m DEGRADED COLD NONE, twin DEGRADED COLD NONE")),
    "operation-cancel-move": Mutation(killed_on_the_way, lambda place: ("operation", "cancel", operation_of(place)), beside="operation-cancel", then=("m READY MIXED NONE",)),
    "verify": Mutation(damaged, lambda place: ("verify", "m"), repeat=(5,), then=("m DEGRADED COLD NONE, twin DEGRADED COLD NONE",)),
    "lease-acquire": Mutation(model, lambda place: ("lease", "acquire", "m", "--holder", "h", "--nonce", "n"), env=SNAPSHOTS, then=("m READY COLD NONE",)),
    "lease-renew": Mutation(leased, lambda place: ("lease", "renew", (place.folder / "lease").read_text(), "--ttl", "2h"), then=("m READY COLD NONE",)),
    "lease-release": Mutation(leased, lambda place: ("lease", "release", (place.folder / "lease").read_text()), then=("m READY COLD NONE",)),
    "lease-uncertain": Mutation(model, lambda place: ("lease", "acquire", "m", "--holder", "h", "--nonce", "n"), faults="EIO@log.commit", then=("m READY COLD NONE",)),
    "recover": Mutation(model, lambda place: ("recover", "--force", "--yes"), repeat=(0,), then=("m READY COLD NONE",)),
    "doctor-adopt": Mutation(without_identity, lambda place: ("doctor", "--adopt", "--yes"), beside="import", then=("m READY COLD NONE",)),
}  # fmt: skip


def standing(steelyard: Steelyard) -> str:
    """Of each revision its name, availability, residency and operation. Generations of one name that stand alike, which an
    import that was killed when it had published leaves, count once."""
    revisions = harness.revisions(steelyard, "--all")
    return ", ".join(sorted({"{resource_id} {availability} {residency} {operation}".format(**one) for one in revisions}))


def generation_of(place: Place) -> int:
    return place.steelyard.json("inspect", "m")["revision"]["metadata_generation"]


def operation_of(place: Place) -> str:
    return place.steelyard.json("inspect", "m")["operation"]["operation_id"]


def copy_store(origin: Path, copy: Path) -> None:
    shutil.rmtree(copy, ignore_errors=True)
    copy.parent.mkdir(parents=True, exist_ok=True)
    if origin.exists():
        subprocess.run(["cp", "-a", origin, copy], check=True)


def prepare(name: str, folder: Path) -> Place:
    """The mutation's store in `folder/store`, kept in `folder/template` too."""
    memory = {"STEELYARD_HOT_PATH": str(folder / "hot"), "STEELYARD_HOT_CAPACITY": "64MiB"}
    place = Place(Steelyard(folder / "store", folder / "home", memory), folder)
    place.hot.mkdir(exist_ok=True)
    harness.small_checkpoint(place.source)
    harness.small_checkpoint(place.other, seed="other")
    MUTATIONS[name].prepare(place)
    copy_store(place.steelyard.store, folder / "template")
    copy_store(place.hot, folder / "hot-template")
    if (folder / "out").exists():
        copy_store(folder / "out", folder / "out-template")
    return place


def reset(place: Place) -> None:
    copy_store(place.folder / "template", place.steelyard.store)
    copy_store(place.folder / "out-template", place.folder / "out")
    copy_store(place.folder / "hot-template", place.hot)


def trace(name: str, place: Place) -> list[str]:
    """The points that the mutation passes, whatever it exits with."""
    mutation, path = MUTATIONS[name], place.folder / "trace"
    env = {**mutation.fault("trace@any"), "STEELYARD_FAULT_TRACE": str(path)}
    place.steelyard(*mutation.words(place), code=(*mutation.repeat, 0), env=env)
    points = path.read_text().split()
    path.unlink()
    return points


def tries(name: str, place: Place) -> list[tuple[str, int]]:
    """The first and the last pass of each point; of what a mutation beside it passes too, the verb's own points and those
    of moves once."""
    mutation = MUTATIONS[name]
    own = (f"{mutation.words(place)[0]}.", *MOVES)
    points = Counter(trace(name, place))
    known = set().union(*(traced(one) for one in mutation.beside.split()))
    found = [(point, 1) for point in points if point not in known or point.startswith(own)]
    return found + [(point, count) for point, count in points.items() if point not in known and count > 1]


def memory_folder() -> str | None:
    """Where files lie in memory, if there is room: a kill takes nothing from the page cache, and nobody waits for a disk."""
    memory = Path("/dev/shm")
    if not memory.is_dir() or not os.access(memory, os.W_OK):
        return None
    room = os.statvfs(memory)
    return str(memory) if room.f_bavail * room.f_frsize >= 1 << 30 else None


@cache
def traced(name: str) -> tuple[str, ...]:
    with tempfile.TemporaryDirectory(prefix="steelyard-test-", dir=memory_folder()) as folder:
        return tuple(trace(name, prepare(name, Path(folder))))


def points_in_the_code() -> set[str]:
    """Every name that the program gives to a fault point."""
    found: set[str] = set()
    for path in [*(ROOT / "src").rglob("*.cc"), *(ROOT / "src").rglob("*.h")]:
        rooms = path.relative_to(ROOT / "src").parts
        if path.name.endswith("_test.cc") or rooms[0] == "sim" or "simulated" in rooms:
            continue
        text = path.read_text()
        for call in (r"SY_POINT\([^;]*?\"([^\"]+)\"\)", r"\bpoint\(\s*\"([^\"]+)\"", r"\"(tier\.[a-z_]+)\""):
            found.update(re.findall(call, text))
    return found
