"""gc: what no revision refers to goes, and nothing else."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from pathlib import Path

import pytest

from crash import harness
from lib.checkpoints import make_checkpoint

NOW = ("gc", "--yes", "--gc-grace", "0s")


@pytest.fixture
def model(steelyard, checkpoint) -> str:
    return steelyard("import", checkpoint, "m").last


def group_of(steelyard, ref: str) -> str:
    return steelyard.json("inspect", ref)["revision"]["payload_group_id"].removeprefix("weight:")


def files_in(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def append_something(steelyard) -> None:
    """A new import, so that the next snapshot copy has another number."""
    with tempfile.TemporaryDirectory() as folder:
        steelyard("import", make_checkpoint(Path(folder) / "more", shards=1, seed="more"), "more")


def copies_of(steelyard) -> list[Path]:
    return sorted(steelyard.store.glob("cold/catalog/[0-9]*"))


def test_nothing_to_free(steelyard, model):
    assert steelyard.json(*NOW) == {"schema_version": 1, "dry_run": False, "objects": 0, "bytes": 0}
    assert steelyard(*NOW).last == "freed 0 objects, 0B"
    assert steelyard("-q", *NOW).lines == ["0"]
    assert steelyard("verify", "m").last == "ok"


def test_it_asks(steelyard, model):
    assert "--yes" in steelyard.error("gc", code=2)["hint"]
    steelyard("gc", "--dry-run")


def test_what_a_delete_left(steelyard, model):
    content = steelyard.store / "cold" / "content"
    bytes_there = sum(path.stat().st_size for path in files_in(content))
    count = len(files_in(content))
    steelyard("delete", "m", "--yes")
    assert len(files_in(content)) == count, "kept for the grace"
    assert steelyard.json("gc", "--yes")["objects"] == 0
    would = steelyard.json("gc", "--dry-run", "--gc-grace", "0s")
    assert (would["dry_run"], would["objects"], would["bytes"]) == (True, count, bytes_there)
    assert len(files_in(content)) == count
    done = steelyard.json(*NOW)
    assert (done["objects"], done["bytes"]) == (count, bytes_there)
    assert files_in(content) == []
    # The tombstone stands in one snapshot copy now; when it stands in two, the group's folder goes.
    groups = steelyard.store / "cold" / "groups"
    assert [path.name for path in files_in(groups)] == ["deleting"]
    append_something(steelyard)
    steelyard(*NOW)
    assert not list(groups.rglob("deleting"))
    assert len(copies_of(steelyard)) == 2
    assert steelyard.json("inspect", model)["revision"]["availability"] == "DELETED"


def test_a_tombstone_outlives_the_catalog_and_one_copy_of_it(steelyard, checkpoint, model):
    steelyard("delete", "m", "--yes")
    steelyard(*NOW)
    append_something(steelyard)
    steelyard(*NOW)
    newest = copies_of(steelyard)[-1]
    newest.chmod(0o644)
    newest.write_bytes(newest.read_bytes()[:-10])
    for path in steelyard.store.glob("catalog.*"):
        path.unlink()
    steelyard("recover")
    steelyard.error("import", checkpoint, model, code=4)
    assert steelyard("import", checkpoint, "m").last == "m@main#2"


def test_copies_of_a_lost_history_do_not_stay(steelyard, model, tmp_path):
    """An older catalog was put back: copies with higher numbers are not newer ones."""
    often = {"STEELYARD_LOG_SNAPSHOT_EVERY": "1"}
    backup = tmp_path / "backup"
    shutil.copytree(steelyard.store, backup, ignore=shutil.ignore_patterns("cold"))
    for _ in range(3):
        append_something(steelyard)
    steelyard("lease", "acquire", "m", "--holder", "h", env=often)
    lost = copies_of(steelyard)
    assert lost
    for path in steelyard.store.glob("catalog.*"):
        path.unlink()
    for path in backup.glob("catalog.*"):
        shutil.copy(path, steelyard.store)
    for holder in ("a", "b"):
        steelyard("lease", "acquire", "m", "--holder", holder, env=often)
    left = copies_of(steelyard)
    assert len(left) == 2 and not set(left) & set(lost), (left, lost)


def test_the_marker_stays_without_snapshots(steelyard, model):
    steelyard("delete", "m", "--yes")
    steelyard(*NOW, "--log-snapshot-every", "0")
    assert [path.name for path in files_in(steelyard.store / "cold" / "groups")] == ["deleting"]


def test_older_attempts_and_temporary_files(steelyard, checkpoint):
    """What a writer that was thought dead wrote late."""
    steelyard.run("import", checkpoint, "m", env={"STEELYARD_FAULT": "kill@import.after_flush"})
    steelyard.run("import", checkpoint, "m", env={"STEELYARD_FAULT": "kill@import.after_committed_marker"})
    assert steelyard.json("list")["revisions"][0]["import_attempt"] == 2
    attempts = next((steelyard.store / "cold" / "groups").glob("*/*"))
    assert sorted(path.name for path in attempts.iterdir()) == ["1", "2"]
    (attempts / "2" / "tmp").mkdir(exist_ok=True)
    (attempts / "2" / "tmp" / "0123456789abcdef").write_bytes(b"half")
    steelyard(*NOW)
    assert [path.name for path in attempts.iterdir()] == ["2"]
    assert not files_in(attempts / "2" / "tmp")
    assert steelyard("verify", "m").last == "ok"


def test_what_killed_writers_of_markers_and_copies_left(steelyard, model):
    """Each leaves a temporary file; after the grace nobody writes it any more."""
    temporary = steelyard.store / "cold" / "catalog" / "tmp"
    for words in (["lease", "acquire", "m", "--holder", "h", "--ttl", "1s", "--log-snapshot-every", "1"], ["delete", "m", "--yes", "--wait", "1h"]):
        steelyard(*words, code=-signal.SIGKILL, env={"STEELYARD_FAULT": "kill@tier.after_marker_write"})
    assert len(files_in(temporary)) == 2
    (temporary / "notes").write_text("mine")
    steelyard("gc", "--yes")
    assert len(files_in(temporary)) == 3, "kept for the grace"
    steelyard("gc", "--dry-run", "--gc-grace", "0s")
    assert len(files_in(temporary)) == 3
    steelyard(*NOW)
    assert files_in(temporary) == [temporary / "notes"]


def test_a_writer_whose_temporary_file_went_writes_it_again(steelyard, model):
    stopped = harness.stop_at(steelyard, "tier.after_marker_write", 1, "delete", "m", "--yes")
    try:
        steelyard(*NOW)
        assert files_in(steelyard.store / "cold" / "catalog" / "tmp") == []
        stopped.send_signal(signal.SIGCONT)
        assert harness.finish(stopped)[0] == 0
    finally:
        stopped.kill()
    assert files_in(steelyard.store / "cold" / "groups")[0].stat().st_size > 0, "the marker has its record"


def test_an_import_under_way_is_left_alone(steelyard, checkpoint):
    writer = harness.stop_at(steelyard, "import.after_flush", 1, "import", checkpoint, "m")
    try:
        before = files_in(steelyard.store / "cold")
        assert steelyard.json(*NOW)["objects"] == 0
        assert files_in(steelyard.store / "cold") == before
    finally:
        writer.send_signal(signal.SIGCONT)
    writer.communicate()
    assert writer.returncode == 0
    assert steelyard("verify", "m").last == "ok"


def test_groups_that_no_record_names(steelyard, checkpoint, model):
    groups = steelyard.store / "cold" / "groups"
    lost = groups / "ab" / ("ab" + "0" * 62)
    (lost / "1" / "p").mkdir(parents=True)
    (lost / "1" / "p" / "00000000").write_bytes(b"x" * 1000)
    foreign = groups / "ab" / "notes"
    foreign.write_text("mine")
    would = steelyard.json("gc", "--dry-run", "--gc-grace", "0s")
    assert (would["objects"], would["bytes"]) == (1, 1000) and lost.exists()
    done = steelyard.json(*NOW)
    assert (done["objects"], done["bytes"]) == (1, 1000)
    assert not lost.exists() and foreign.exists()


def test_a_published_group_that_no_record_names_is_kept(steelyard, checkpoint, model, tmp_path):
    """An older catalog was put back: what it forgot may be the only copy."""
    for path in steelyard.store.glob("catalog.*"):
        path.unlink()
    other = make_checkpoint(tmp_path / "other", shards=1, seed="other")
    # A catalog of the same store that knows nothing.
    groups = steelyard.store / "cold" / "groups"
    groups.rename(tmp_path / "groups-away")
    steelyard("import", other, "n")
    for path in (tmp_path / "groups-away").iterdir():
        path.rename(groups / path.name)
    before = files_in(groups)
    result = steelyard(*NOW)
    assert files_in(groups) == before
    assert f"{model} and no record" in result.stderr and "recover" in result.stderr


def test_old_tombstones_become_the_watermark(steelyard, tmp_path):
    source = make_checkpoint(tmp_path / "tiny", shards=1, seed="tiny")
    refs = []
    for _ in range(18):
        refs.append(steelyard("import", source, "m").last)
        steelyard("delete", "m", "--yes")
    # Their folders go with the second snapshot copy that knows them, and their records after that.
    steelyard(*NOW)
    refs.append(steelyard("import", source, "m").last)
    steelyard(*NOW)
    # A second copy of the catalog has to know them.
    steelyard("delete", steelyard("import", source, "other").last, "--yes")
    steelyard(*NOW)
    everything = [one["ref"] for one in steelyard.json("list", "--all")["revisions"]]
    assert sorted(everything) == sorted([*refs[2:], "other@main#1"])
    error = steelyard.error("inspect", refs[1], code=3)
    assert "compacted" in error["message"]
    assert steelyard.json("delete", refs[1], "--yes") == {"schema_version": 1, "revision": None}
    steelyard.error("import", source, refs[0], code=4)
    assert steelyard("import", source, "m").last == "m@main#20"


def test_something_else_in_the_place_of_a_folder_of_the_index(steelyard, model):
    content = steelyard.store / "cold" / "content"
    free = next(name for name in (f"{number:02x}" for number in range(256)) if not (content / name).exists())
    os.mkfifo(content / free)
    steelyard("delete", model, "--yes")
    assert steelyard.json(*NOW)["objects"] > 0
    steelyard("usage")
    assert (content / free).exists()
