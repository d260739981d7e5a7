"""gc: what no revision refers to goes, and nothing else."""

from __future__ import annotations

import shutil
import signal
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
    assert steelyard.json("inspect", model)["revision"]["availability"] == "DELETED"


def test_a_marker_goes_when_two_copies_know_the_tombstone(steelyard, model, checkpoint):
    groups = steelyard.store / "cold" / "groups"
    copies = steelyard.store / "cold" / "catalog"
    steelyard("delete", "m", "--yes")
    steelyard(*NOW)
    assert len(files_in(copies)) == 1
    steelyard(*NOW)
    assert [path.name for path in files_in(groups)] == ["deleting"]
    other = steelyard("import", checkpoint, "other").last
    steelyard("delete", other, "--yes")
    steelyard(*NOW)
    assert len(files_in(copies)) == 2
    left = files_in(groups)
    assert [path.name for path in left] == ["deleting"], "that of the second one"
    assert not list(groups.glob(f"*/{group_of(steelyard, model)}"))


@pytest.mark.parametrize("damaged", [0, 1])
def test_a_damaged_copy_brings_no_identity_back(steelyard, model, checkpoint, damaged):
    steelyard("delete", "m", "--yes")
    steelyard(*NOW)
    steelyard("delete", steelyard("import", checkpoint, "other").last, "--yes")
    steelyard(*NOW)
    copy = files_in(steelyard.store / "cold" / "catalog")[-1 - damaged]
    copy.chmod(0o644)
    copy.write_bytes(copy.read_bytes()[:-10])
    for path in steelyard.store.glob("catalog.*"):
        path.unlink()
    steelyard("recover")
    for ref in (model, "other#1"):
        steelyard.error("import", checkpoint, ref, code=4)


def test_an_older_catalog_that_was_put_back_has_copies(steelyard, model, checkpoint, tmp_path):
    """What it does from then on is copied, beside what the later history left."""
    often = {"STEELYARD_LOG_SNAPSHOT_EVERY": "1"}
    for path in steelyard.store.glob("catalog.*"):
        shutil.copy(path, tmp_path / path.name)
    for number in range(4):
        steelyard("import", checkpoint, f"later-{number}", env=often)
    later = [path.name for path in files_in(steelyard.store / "cold" / "catalog")]
    for path in steelyard.store.glob("catalog.*"):
        path.unlink()
        if (tmp_path / path.name).exists():
            shutil.copy(tmp_path / path.name, path)
    steelyard("lease", "acquire", "m", "--holder", "h", env=often)
    now = [path.name for path in files_in(steelyard.store / "cold" / "catalog")]
    assert set(later) < set(now) and now[0] < later[0]


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
    steelyard(*NOW)
    # A second copy of the catalog has to know them.
    steelyard("delete", steelyard("import", source, "other").last, "--yes")
    steelyard(*NOW)
    everything = [one["ref"] for one in steelyard.json("list", "--all")["revisions"]]
    assert everything == [*refs[2:], "other@main#1"]
    error = steelyard.error("inspect", refs[1], code=3)
    assert "compacted" in error["message"]
    assert steelyard.json("delete", refs[1], "--yes") == {"schema_version": 1, "revision": None}
    steelyard.error("import", source, refs[0], code=4)
    assert steelyard("import", source, "m").last == "m@main#19"
