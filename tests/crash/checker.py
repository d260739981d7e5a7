"""What must hold of a store whatever happened to the processes that used it."""

from __future__ import annotations

import re
from pathlib import Path

from crash import harness
from lib.checkpoints import tree_digests
from lib.runner import Steelyard

KEPT = re.compile(
    r"catalog\.(db|db-wal|db-shm|turn|next|writer|ballast)|cold/store\.json|cold/catalog/\d{20}"
    r"|cold/groups/[0-9a-f]{2}/[0-9a-f]{64}/deleting"  # until two copies of the catalog know the tombstone (test_gc.py)
)


def assert_sound(steelyard: Steelyard, damage: bool = False) -> list[dict]:
    """Every revision can be looked at, whatever is READY verifies, and a writer need not wait. Returns all revisions.

    `damage`: objects were damaged on purpose, and what verify finds may be that.
    """
    listed = harness.revisions(steelyard, "--all")
    for one in listed:
        ref = one["ref"]
        shown = steelyard.json("inspect", ref)
        assert shown["revision"]["metadata_generation"] >= one["metadata_generation"], ref
        if one["availability"] in ("READY", "DEGRADED"):
            report = steelyard.json("verify", ref, code=(0, 5) if damage else 0)
            assert damage or report["ok"], report
            assert damage or shown["revision"]["residency"] != "HOT" or report["hot_objects"] == one["payload_count"], (shown, report)
    readable = [one["ref"] for one in listed if one["availability"] in ("READY", "DEGRADED")]
    if readable:
        taken = steelyard("-q", "lease", "acquire", readable[0], "--holder", "checker", "--allow-degraded", "--ttl", "1h")
        released = steelyard("lease", "release", taken.last)
        assert "waiting" not in taken.stderr + released.stderr, taken.explain()
    return listed


def assert_one_of(target: Path, sources: list[Path]) -> None:
    """The files of a folder are those of one of the sources, all of them."""
    assert tree_digests(target) in [tree_digests(source) for source in sources], target


def release_leases(steelyard: Steelyard) -> None:
    """A killed reader's lease lives until its time is over; nobody need wait for that here."""
    for lease in steelyard.json("lease", "list")["leases"]:
        steelyard("lease", "release", lease["lease_id"])


def files_of(store: Path) -> list[str]:
    return sorted(path.relative_to(store).as_posix() for path in store.rglob("*") if not path.is_dir())


def files_in_memory(steelyard: Steelyard) -> list[Path]:
    """What the store keeps in its own memory tier, but for the file that names the instance."""
    memory = steelyard.extra_env.get("STEELYARD_HOT_PATH")
    found = Path(memory).glob("steelyard-*/**/*") if memory else ()
    return [path for path in found if path.is_file() and not path.name.startswith("instance-")]


def replicas_in_memory(steelyard: Steelyard) -> list[Path]:
    """The payload files in memory."""
    return [path for path in files_in_memory(steelyard) if path.parent.name == "p"]


def content_in_memory(steelyard: Steelyard) -> list[Path]:
    """The same bytes once."""
    return [path for path in files_in_memory(steelyard) if path.parent.parent.name == "content"]


def assert_back_to_nothing(steelyard: Steelyard, asides: int = 0) -> None:
    """Everything is deleted or aborted, gc runs: what is left is the catalog, its copies and the store's identity. Memory is
    empty."""
    if not (steelyard.store / "catalog.db").exists():
        return
    release_leases(steelyard)
    for one in harness.revisions(steelyard, "--all"):
        if one["availability"] == "IMPORTING":
            steelyard("abort", one["ref"], "--yes", "--force")
        elif one["committed_seq"] is not None:
            steelyard("delete", one["ref"], "--yes")
        else:
            steelyard("abort", one["ref"], "--yes")
    steelyard("gc", "--yes", "--gc-grace", "0s")
    assert steelyard.json("list")["revisions"] == []
    left = [name for name in files_of(steelyard.store) if not KEPT.fullmatch(name)]
    aside = [name for name in left if ".aside" in name]
    assert left == aside and len([name for name in aside if name.endswith(".aside")]) == asides, left
    # The folder of a group holds its marker, and goes with it.
    beside = [path for path in (steelyard.store / "cold" / "groups").glob("*/*/*") if path.name != "deleting"]
    empty = [path for path in (steelyard.store / "cold" / "groups").glob("*/*") if not any(path.iterdir())]
    assert beside == [] and empty == [], (beside, empty)
    left = files_in_memory(steelyard)
    assert left == [], left
