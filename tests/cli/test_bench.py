"""bench: it measures and leaves nothing behind. How fast the machine is, no test says."""

from __future__ import annotations

import signal

NAMES = ["memory copy", "checksums", "disk write", "disk read", "import", "verify", "materialize"]


def test_it_measures_and_leaves_nothing(steelyard, checkpoint):
    steelyard("import", checkpoint, "one")
    before = sorted(str(path) for path in steelyard.store.rglob("*"))
    rows = steelyard.json("bench", "one")["measurements"]
    assert [row["name"] for row in rows] == [*NAMES, "load"]
    for row in rows:
        assert row["bytes"] > 0 and row["bytes_per_second"] > 0 and row["of"]
    assert rows[-1]["bytes"] == steelyard.json("inspect", "one")["revision"]["logical_bytes"]
    assert sorted(str(path) for path in steelyard.store.rglob("*")) == before
    assert [row["ref"] for row in steelyard.json("list")["revisions"]] == ["one@main#1"]


def test_what_a_killed_bench_left_goes(steelyard, checkpoint):
    steelyard("import", checkpoint, "one")
    steelyard("bench", code=-signal.SIGKILL, env={"STEELYARD_FAULT": "kill@import.after_flush"})
    assert list(steelyard.store.glob("**/bench-*"))
    assert steelyard("list").lines[1].startswith("one@main#1")
    assert [line.split("  ")[0] for line in steelyard("bench").lines[1:]] == NAMES
    assert not list(steelyard.store.glob("**/bench-*"))


def test_without_room(steelyard, checkpoint):
    steelyard("import", checkpoint, "one")
    error = steelyard.error("bench", code=8, env={"STEELYARD_COLD_RESERVE_FREE": "900TB"})
    assert "576MiB" in error["message"]


def test_an_absent_store(steelyard):
    assert str(steelyard.store) in steelyard.error("bench", code=3)["message"]
