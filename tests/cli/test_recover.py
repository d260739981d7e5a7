"""recover: the catalog rebuilt from the cold tier."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path

import pytest

from crash import harness
from lib.checkpoints import make_checkpoint, tree_digests
from lib.permissions import let_others_in, nobody_writes
from lib.waiting import wait_until


def lose_catalog(store: Path) -> None:
    for path in store.glob("catalog.*"):
        path.unlink()


def refs(steelyard) -> list[str]:
    return [row["ref"] for row in steelyard.json("list")["revisions"]]


@pytest.fixture
def two(steelyard, checkpoint, tmp_path) -> list[str]:
    """Two revisions, one of them with a label and a policy."""
    other = make_checkpoint(tmp_path / "other", shards=1, seed="other")
    first = steelyard("import", checkpoint, "one", "--label", "team=red", "--policy-mode", "pinned").last
    return [first, steelyard("import", other, "two").last]


def test_a_lost_catalog_comes_back(steelyard, two, checkpoint, tmp_path):
    before = {row["ref"]: row for row in steelyard.json("list")["revisions"]}
    lose_catalog(steelyard.store)
    assert "recover" in steelyard.error("list", code=10)["hint"]
    document = steelyard.json("recover")
    assert document["recovered"] == two and document["skipped"] == [] and document["dry_run"] is False
    assert document["moved_to"] is None
    assert {row["ref"]: row for row in steelyard.json("list")["revisions"]} == before
    for ref in two:
        assert steelyard("verify", ref).last == "ok"
    assert tree_digests(Path(steelyard("materialize", "one", tmp_path / "out").last)) == tree_digests(checkpoint)
    # What is imported now goes on from there.
    assert steelyard("import", checkpoint, "one").last == "one@main#2"
    assert not list(steelyard.store.glob("catalog.recover*"))


def test_dry_run_changes_nothing(steelyard, two):
    lose_catalog(steelyard.store)
    before = sorted(str(path) for path in steelyard.store.rglob("*"))
    result = steelyard("recover", "--dry-run")
    assert result.lines[:2] == two and result.last == "2 revisions would be recovered"
    assert sorted(str(path) for path in steelyard.store.rglob("*")) == before
    assert steelyard("-q", "recover").lines == two


def test_a_catalog_with_records_is_kept(steelyard, two):
    error = steelyard.error("recover", code=4)
    assert "has records" in error["message"] and "--force" in error["hint"]
    # A dry run may look all the same.
    assert steelyard.json("recover", "--dry-run")["recovered"] == two
    # It is a question, and there is nobody to answer.
    assert "--yes" in steelyard.error("recover", "--force", code=2)["hint"]
    assert refs(steelyard) == two and not list(steelyard.store.glob("*.aside"))


def test_force_moves_the_catalog_aside(steelyard, two):
    document = steelyard.json("recover", "--force", "--yes")
    assert document["recovered"] == two
    aside = Path(document["moved_to"])
    assert aside.exists() and aside.parent == steelyard.store and refs(steelyard) == two
    # It is a whole catalog still.
    lose = [steelyard.store / name for name in ("catalog.db", "catalog.db-wal", "catalog.db-shm")]
    for path in lose:
        path.unlink(missing_ok=True)
    for suffix in ("", "-wal", "-shm"):
        moved = Path(str(aside) + suffix)
        if moved.exists():
            moved.rename(steelyard.store / f"catalog.db{suffix}")
    assert refs(steelyard) == two


@pytest.mark.parametrize("damage", ["garbage", "cut", "empty"])
def test_a_damaged_catalog_needs_force(steelyard, two, damage):
    catalog = steelyard.store / "catalog.db"
    for suffix in ("-wal", "-shm"):
        Path(f"{catalog}{suffix}").unlink(missing_ok=True)
    if damage == "garbage":
        catalog.write_bytes(b"garbage" * 1000)
    else:
        os.truncate(catalog, 5000 if damage == "cut" else 0)
    steelyard("list", code=5)
    error = steelyard.error("recover", code=4)
    assert "cannot be read" in error["message"] and "--force" in error["hint"]
    assert steelyard.json("recover", "--force", "--yes")["recovered"] == two
    assert refs(steelyard) == two


def test_what_is_damaged_is_named(steelyard, two):
    lose_catalog(steelyard.store)
    markers = sorted(steelyard.store.glob("cold/groups/*/*/1/committed"))
    markers[0].chmod(0o644)
    marker = markers[0].read_bytes()
    markers[0].write_bytes(marker[:-1] + bytes([marker[-1] ^ 1]))
    document = steelyard.json("recover")
    assert len(document["recovered"]) == 1
    (skipped,) = document["skipped"]
    assert skipped["path"] == str(markers[0].parent.relative_to(steelyard.store / "cold"))
    assert "SHA-256" in skipped["reason"]
    assert refs(steelyard) == document["recovered"]


def test_a_marker_of_another_group_is_refused(steelyard, two):
    lose_catalog(steelyard.store)
    first, second = sorted(steelyard.store.glob("cold/groups/*/*/1/committed"))
    first.chmod(0o644)
    first.write_bytes(second.read_bytes())
    document = steelyard.json("recover")
    assert len(document["recovered"]) == 1 and "is that of" in document["skipped"][0]["reason"]


def test_a_damaged_manifest_makes_its_revision_degraded(steelyard, two):
    lose_catalog(steelyard.store)
    manifest = sorted(steelyard.store.glob("cold/groups/*/*/1/manifest"))[0]
    manifest.chmod(0o644)
    manifest.write_bytes(manifest.read_bytes().replace(b'"schema_version":1', b'"schema_version":2'))
    document = steelyard.json("recover")
    assert document["recovered"] == two and len(document["skipped"]) == 1
    assert "is DEGRADED" in document["skipped"][0]["reason"] and "manifest" in document["skipped"][0]["reason"]
    assert sorted(row["availability"] for row in steelyard.json("list")["revisions"]) == ["DEGRADED", "READY"]


def test_a_snapshot_copy_brings_back_what_no_marker_has(steelyard, checkpoint, tmp_path):
    """Damage, and the catalog's other facts, are in the copies alone."""
    often = {"STEELYARD_LOG_SNAPSHOT_EVERY": "1"}
    steelyard("import", checkpoint, "one", env=often)
    payload = sorted(steelyard.store.glob("cold/groups/*/*/1/p/*"))[0]
    payload.chmod(0o644)
    payload.write_bytes(b"x" + payload.read_bytes()[1:])
    steelyard("verify", "one", code=5, env=often)
    copies = sorted(steelyard.store.glob("cold/catalog/[0-9]*"))
    assert copies
    lose_catalog(steelyard.store)
    assert steelyard("recover").lines == ["one@main#1 (DEGRADED)", "1 revision recovered"]
    row = steelyard.json("list")["revisions"][0]
    assert row["availability"] == "DEGRADED" and row["active_lease_count"] == 0
    # The copy that the recovery leaves is the newest one, and gives the same again.
    lose_catalog(steelyard.store)
    for copy in copies:
        copy.unlink(missing_ok=True)
    assert steelyard.json("recover")["skipped"] == []
    assert steelyard.json("list")["revisions"] == [row]


def test_a_damaged_copy_is_passed_over(steelyard, two):
    steelyard("lease", "acquire", "one", "--holder", "h", env={"STEELYARD_LOG_SNAPSHOT_EVERY": "1"})
    copy = sorted(steelyard.store.glob("cold/catalog/[0-9]*"))[-1]
    copy.chmod(0o644)
    copy.write_bytes(copy.read_bytes()[:-10])
    lose_catalog(steelyard.store)
    document = steelyard.json("recover")
    assert document["recovered"] == two
    assert [skipped["path"] for skipped in document["skipped"]] == [f"catalog/{copy.name}"]
    assert steelyard.json("lease", "list")["leases"] == []


@pytest.mark.parametrize("number", ["04611686018427387903", "09223372036854775807", "18446744073709551615"])
def test_a_file_with_a_number_that_no_log_has(steelyard, two, checkpoint, number):
    lose_catalog(steelyard.store)
    copy = steelyard.store / "cold" / "catalog" / number
    copy.parent.mkdir(exist_ok=True)
    copy.write_bytes(b"anything")
    document = steelyard.json("recover")
    assert document["recovered"] == two
    assert [skipped["path"] for skipped in document["skipped"]] == [f"catalog/{number}"]
    assert steelyard("import", checkpoint, "one").last == "one@main#2"


def test_an_unreadable_copy_keeps_its_number(steelyard, two, checkpoint):
    lose_catalog(steelyard.store)
    copy = steelyard.store / "cold" / "catalog" / "00000000000000001000"
    copy.parent.mkdir(exist_ok=True)
    copy.write_bytes(b"anything")
    assert steelyard.json("recover")["recovered"] == two
    steelyard("lease", "acquire", "one", "--holder", "h", env={"STEELYARD_LOG_SNAPSHOT_EVERY": "1"})
    assert sorted(steelyard.store.glob("cold/catalog/[0-9]*"))[-1].name > copy.name


def test_a_marker_that_was_written_during_a_repair(steelyard, two):
    """Operations end; what comes back is what was committed."""
    payload = max(steelyard.store.glob("cold/groups/*/*/1/p/*"), key=lambda path: path.stat().st_size)
    payload.chmod(0o644)
    whole = payload.read_bytes()
    payload.write_bytes(b"x" + whole[1:])
    (ref,) = [ref for ref in two if steelyard.run("verify", ref).code == 5]
    payload.write_bytes(whole)
    steelyard("repair", ref, "--no-wait")
    marker = payload.parent.parent / "committed"
    marker.unlink()
    steelyard("lease", "acquire", ref, "--holder", "h", "--allow-degraded")
    assert marker.exists()
    steelyard("repair", ref)
    lose_catalog(steelyard.store)
    assert steelyard.json("recover")["recovered"] == two
    row = steelyard.json("inspect", ref)["revision"]
    assert row["availability"] == "READY" and row["operation"] == "NONE"
    assert steelyard("verify", ref).last == "ok"


def test_a_read_error_is_no_answer(steelyard, two, checkpoint, tmp_path):
    """What cannot be read now is not taken for absent: an identity would be used again."""
    steelyard("delete", "one", "--yes")
    lose_catalog(steelyard.store)
    expected = steelyard.json("recover", "--dry-run")
    for point, number in harness.passes_to_try(harness.trace(steelyard, tmp_path, "recover", "--dry-run")):
        result = steelyard.run("--json", "recover", "--dry-run", env={"STEELYARD_FAULT": f"EIO@{point}#{number}"})
        if result.code == 0:
            assert result.json() == expected, f"{point}#{number}"
        else:
            harness.assert_typed(result)


def test_an_unfinished_import_is_named_and_can_be_repeated(steelyard, two, checkpoint):
    steelyard("import", checkpoint, "three", code=-signal.SIGKILL, env={"STEELYARD_FAULT": "kill@import.after_flush"})
    lose_catalog(steelyard.store)
    document = steelyard.json("recover")
    assert document["recovered"] == two
    assert "did not end" in document["skipped"][0]["reason"]
    assert steelyard("import", checkpoint, "three").last == "three@main#1"
    assert steelyard("verify", "three").last == "ok"


def test_attempts_far_above_the_catalog_are_passed_over_at_once(steelyard, checkpoint):
    steelyard("import", checkpoint, "one", code=-signal.SIGKILL, env={"STEELYARD_FAULT": "kill@import.after_flush"})
    lose_catalog(steelyard.store)
    (attempt,) = steelyard.store.glob("cold/groups/*/*/1")
    attempt.rename(attempt.with_name("150"))
    steelyard("recover")
    before = steelyard.json("import", checkpoint, "other")["revision"]
    assert before["import_attempt"] == 1
    revision = steelyard.json("import", checkpoint, "one")["revision"]
    assert revision["import_attempt"] == 151
    assert revision["metadata_generation"] == before["metadata_generation"] + 1, "one more append, however many there are"
    assert steelyard("verify", "one").last == "ok"


def test_a_group_that_is_being_deleted_stays_used(steelyard, two, checkpoint):
    group = [path for path in steelyard.store.glob("cold/groups/*/*") if path.is_dir()]
    one = steelyard.json("inspect", "one")["revision"]["payload_group_id"].removeprefix("weight:")
    next(path for path in group if path.name == one).joinpath("deleting").touch()
    lose_catalog(steelyard.store)
    document = steelyard.json("recover")
    assert document["recovered"] == ["two@main#1"]
    assert "one@main#1 is being deleted" in document["skipped"][0]["reason"]
    assert "compacted" in steelyard.error("inspect", "one#1", code=3)["message"]
    assert steelyard("import", checkpoint, "one").last == "one@main#2"


def test_the_marker_of_a_removal_that_it_recorded_goes_in_time(steelyard, two, checkpoint):
    """The recovered catalog has a watermark and no record of it."""
    steelyard("delete", "one", "--yes")
    lose_catalog(steelyard.store)
    steelyard("recover")
    now = ("gc", "--yes", "--gc-grace", "0s")
    steelyard(*now)
    left = list(steelyard.store.glob("cold/groups/*/*/deleting"))
    assert len(left) == 1, "one copy of the catalog knows it"
    checks = steelyard.json("doctor")["checks"]
    assert [check for check in checks if check["state"] != "ok" and "group" in check["found"]] == [], checks
    (told,) = [check for check in checks if left[0].parent.name in check["found"]]
    assert told["state"] == "ok" and "second copy" in told["found"]
    steelyard("lease", "acquire", "two", "--holder", "h")
    steelyard(*now)
    assert not left[0].exists(), "the next gc made the second copy"
    assert steelyard("import", checkpoint, "one").last == "one@main#2"


def test_killed_anywhere_it_goes_on(steelyard, two):
    points = ["recover.before_restore", "recover.after_restore", "recover.move_aside", "recover.move_aside#2",
              "recover.publish", "recover.after_publish"]  # fmt: skip
    for point in points:
        fault = {"STEELYARD_FAULT": f"kill@{point}"}
        steelyard("recover", "--force", "--yes", code=-signal.SIGKILL, env=fault)
        result = steelyard.run("recover")
        assert result.code in (0, 4), (point, result.explain())
        assert refs(steelyard) == two, point
    assert steelyard("verify", "one").last == "ok"


@pytest.mark.parametrize("moved", [1, 2])
def test_a_catalog_that_was_half_moved_aside_is_moved_to_one_name(steelyard, two, tmp_path, moved):
    """Killed between its files: what is left belongs to what was moved, or the old catalog lacks its newest appends."""
    steelyard("lease", "acquire", "one", "--holder", "h", code=-signal.SIGKILL, env={"STEELYARD_FAULT": "kill@log.close"})
    assert (steelyard.store / "catalog.db-wal").stat().st_size > 0
    steelyard("recover", "--force", "--yes", code=-signal.SIGKILL, env={"STEELYARD_FAULT": f"kill@recover.move_aside#{moved + 1}"})
    assert not (steelyard.store / "catalog.db").exists() and (steelyard.store / "catalog.db-wal").exists() == (moved == 1)
    # Whoever looks is told what to do, and makes no new catalog beside the old WAL.
    assert "recover" in str(steelyard.error("list", code=(5, 10))["hint"])
    steelyard("recover")
    assert refs(steelyard) == two
    (aside,) = steelyard.store.glob("catalog.*.aside")
    old = steelyard.at(tmp_path / "old")
    old.store.mkdir()
    (old.store / "cold").symlink_to(steelyard.store / "cold")
    for suffix in ("", "-wal", "-shm"):
        shutil.copy(f"{aside}{suffix}", old.store / f"catalog.db{suffix}")
    assert [lease["holder"] for lease in old.json("lease", "list")["leases"]] == ["h"]


def test_a_wal_alone_is_no_catalog(steelyard, two):
    """It is moved out of the new one's way, and nobody is told that a catalog lies there."""
    steelyard("lease", "acquire", "one", "--holder", "h", code=-signal.SIGKILL, env={"STEELYARD_FAULT": "kill@log.close"})
    wal = (steelyard.store / "catalog.db-wal").read_bytes()
    (steelyard.store / "catalog.db").unlink()
    document = steelyard.json("recover")
    assert document["moved_to"] is None and document["recovered"] == two
    (moved,) = steelyard.store.glob("catalog.*.aside-wal")
    assert moved.read_bytes() == wal and not list(steelyard.store.glob("catalog.*.aside"))


def test_a_full_disk_keeps_the_old_catalog(steelyard, two):
    for point in ("log.create.begin", "recover.move_aside"):
        result = steelyard.run("recover", "--force", "--yes", env={"STEELYARD_FAULT": f"ENOSPC@{point}"})
        assert result.code in (0, 8), result.explain()
        assert refs(steelyard) == two


def test_nothing_to_recover_from(steelyard, tmp_path):
    error = steelyard.error("recover", code=3)
    assert "no cold tier" in error["message"] and "--cold-path" in error["hint"]
    assert not steelyard.store.exists()


def test_a_store_whose_folder_is_lost(steelyard, checkpoint, tmp_path):
    """The cold tier lies on a volume of its own; the host that had the catalog is gone."""
    cold = {"STEELYARD_COLD_PATH": str(tmp_path / "volume")}
    ref = steelyard("import", checkpoint, "one", env=cold).last
    shutil.rmtree(steelyard.store)
    assert steelyard.json("recover", env=cold)["recovered"] == [ref]
    assert steelyard("verify", ref, env=cold).last == "ok"


def test_a_catalog_in_use_is_left_alone(steelyard, two, checkpoint):
    holder = steelyard.start("import", checkpoint, "three", env={"STEELYARD_FAULT": "stop@import.after_flush"})
    try:
        wait_until(lambda: Path(f"/proc/{holder.pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "T")
        error = steelyard.error("recover", "--force", "--yes", code=6)
        assert str(holder.pid) in error["message"]
    finally:
        holder.kill()
        holder.communicate()
    assert steelyard("recover", "--force", "--yes").last == "2 revisions recovered"


def test_nobody_begins_while_it_works(steelyard, two, checkpoint):
    """What began and ended while the tier was read went into the catalog that was then moved aside."""
    recovery = steelyard.start("recover", "--force", "--yes", env={"STEELYARD_FAULT": "stop@recover.before_restore"})
    try:
        wait_until(lambda: Path(f"/proc/{recovery.pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "T")
        for words in (("import", checkpoint, "three"), ("delete", two[0], "--yes"), ("list",)):
            assert "recover" in steelyard.error(*words, code=6)["message"]
    finally:
        recovery.send_signal(signal.SIGCONT)
        recovery.communicate()
    assert recovery.returncode == 0 and refs(steelyard) == two


def test_no_write_permission(steelyard, two, tmp_path, unprivileged):
    lose_catalog(steelyard.store)
    let_others_in(tmp_path)
    with nobody_writes(steelyard.store):
        assert steelyard.json("recover", "--dry-run", **unprivileged)["recovered"] == two
        steelyard("recover", code=9, **unprivileged)
    assert steelyard("recover").last == "2 revisions recovered"
