"""usage: bytes of each revision and tier, shared ones counted once."""

from __future__ import annotations

import os
from pathlib import Path

from lib.checkpoints import make_checkpoint
from lib.permissions import let_others_in, nobody_writes


def rows(steelyard, *words) -> dict[str, tuple[int, int]]:
    """(exclusive, shared) of each revision."""
    revisions = steelyard.json("usage", *words)["revisions"]
    return {row["ref"]: (row["exclusive_bytes"], row["shared_bytes"]) for row in revisions}


def payload_bytes(store: Path) -> int:
    """Of all payload files of the store, each inode once."""
    inodes = {}
    for folder, _, names in os.walk(store / "cold" / "groups"):
        if Path(folder).name == "p":
            for name in names:
                info = (Path(folder) / name).stat()
                inodes[info.st_ino] = info.st_size
    return sum(inodes.values())


def test_what_is_shared_counts_once(steelyard, checkpoint):
    steelyard("import", checkpoint, "one")
    size = steelyard.json("inspect", "one")["revision"]["logical_bytes"]
    first = rows(steelyard)["one@main#1"]
    assert first[1] == 0 and 0 < first[0] <= size
    steelyard("import", checkpoint, "two")
    assert rows(steelyard) == {"one@main#1": (0, first[0]), "two@main#1": (0, first[0])}
    # One file differs.
    (checkpoint / "notes.txt").write_bytes(b"n" * 5000)
    steelyard("import", checkpoint, "three")
    assert rows(steelyard)["three@main#1"] == (5000, first[0])
    assert payload_bytes(steelyard.store) == first[0] + 5000


def test_tiers(steelyard, checkpoint):
    steelyard("import", checkpoint, "one")
    document = steelyard.json("usage")
    cold = document["tiers"]["cold"]
    manifests = sum(path.stat().st_size for path in steelyard.store.glob("cold/groups/*/*/*/manifest"))
    assert cold["bytes"] == payload_bytes(steelyard.store) + manifests
    assert 0 < cold["free_bytes"] <= cold["capacity_bytes"] and cold["private_copies"] == 0
    before = cold["bytes"]
    steelyard("import", checkpoint, "two")
    assert steelyard.json("usage")["tiers"]["cold"]["bytes"] - before < before / 2


def test_other_namespaces_share_too(steelyard, checkpoint):
    steelyard("import", checkpoint, "one")
    steelyard("-n", "other", "import", checkpoint, "one")
    mine, theirs = rows(steelyard), rows(steelyard, "-n", "other")
    assert mine == theirs and mine["one@main#1"][0] == 0


def test_private_copies_are_counted(steelyard, tmp_path):
    source = make_checkpoint(tmp_path / "plain", shards=1)
    steelyard("import", source, "one", env={"STEELYARD_FAULT": "EPERM@tier.content_link"})
    assert steelyard.json("usage")["tiers"]["cold"]["private_copies"] > 0


def test_table_and_quiet(steelyard, checkpoint):
    steelyard("import", checkpoint, "one")
    lines = steelyard("usage").lines
    assert lines[0].split() == ["REF", "STATE", "SIZE", "EXCLUSIVE", "SHARED"]
    assert lines[1].split()[:2] == ["one@main#1", "READY"]
    assert lines[3].split()[:3] == ["TIER", "USED", "FREE"] and lines[4].split()[0] == "cold"
    assert steelyard("-q", "usage").lines == ["one@main#1"]


def test_an_absent_store(steelyard):
    assert str(steelyard.store) in steelyard.error("usage", code=3)["message"]


def test_without_write_permission(steelyard, checkpoint, tmp_path, unprivileged):
    steelyard("import", checkpoint, "one")
    let_others_in(tmp_path)
    with nobody_writes(steelyard.store):
        document = steelyard.json("usage", **unprivileged)
    assert [row["ref"] for row in document["revisions"]] == ["one@main#1"]
