"""Disks that are full, stores that may not be written, sources and objects that change under the reader."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import stat
import subprocess
import tempfile
from pathlib import Path

import pytest

from crash import harness
from lib.checkpoints import tree_digests
from lib.runner import Steelyard, binary

MIB = 1024 * 1024


@pytest.fixture(params=["tmpfs", "ext4"])
def small_disk(request, tmp_path):
    """A filesystem of its own; returns a function (bytes) -> folder."""
    mounted: list[Path] = []

    def make(size: int) -> Path:
        folder = tmp_path / f"disk-{len(mounted)}"
        folder.mkdir()
        if request.param == "tmpfs":
            refused = harness.mount("-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder)
        else:
            image = tmp_path / f"image-{len(mounted)}"
            with open(image, "wb") as out:
                out.truncate(size)
            subprocess.run(["mkfs.ext4", "-q", "-m", "0", "-O", "^has_journal", image], check=True)
            refused = harness.mount("-o", "loop", image, folder)
        if refused:
            pytest.skip(refused)
        mounted.append(folder)
        (folder / "filler").touch()
        return folder

    yield make
    for folder in mounted:
        subprocess.run(["umount", "-l", folder], check=False)


def fill(folder: Path, leave: int) -> Path:
    """Fills a filesystem but for `leave` bytes; the file `filler` is there already."""
    path = folder / "filler"
    free = os.statvfs(folder).f_bavail * os.statvfs(folder).f_frsize
    remaining = max(0, free - leave)
    try:
        with open(path, "r+b", buffering=0) as out:
            while remaining > 0:
                remaining -= out.write(b"\xaa" * min(remaining, MIB))
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
    return path


def test_a_disk_that_is_too_small_is_refused_at_once(steelyard, source, small_disk):
    """The room is checked first: the error says how much is wanted, and no payload was written."""
    disk = small_disk(32 * MIB)
    filler = fill(disk, leave=2 * MIB)
    runner = steelyard.at(disk / "store")
    error = runner.error(*harness.import_args(source), code=8)
    assert error["code"] == "NO_SPACE" and any(unit in error["message"] for unit in ("MiB", "MB", "bytes")), error
    harness.assert_nothing_half_visible(runner)
    filler.unlink()
    harness.import_until_done(runner, source)
    assert runner.json("verify", harness.REF)["ok"]


def test_a_disk_that_fills_while_importing(steelyard, source, small_disk, tmp_path):
    """Filled at the first, a middle and the last write of an object; afterwards the store can be read and used."""
    points = harness.trace(steelyard, tmp_path, *harness.import_args(source))
    count = points.count("import.after_object_put")
    assert count > 4
    for number in (1, count // 2, count - 2):
        disk = small_disk(48 * MIB)
        runner = steelyard.at(disk / "store")
        other = harness.small_checkpoint(tmp_path / f"other-{number}", seed=("other", number), mib_per_shard=1)
        runner(*harness.import_args(other, "there@before"))
        process = harness.stop_at(runner, "import.after_object_put", number, *harness.import_args(source))
        filler = fill(disk, leave=0)
        process.send_signal(signal.SIGCONT)
        code, _, error = harness.finish(process)
        if code != 0:  # the last objects may have been written already
            assert code == 8, error
            assert error["code"] == "NO_SPACE"
            assert [one["resource_id"] for one in harness.revisions(runner)] == ["there"]
            assert runner.json("verify", "there@before")["ok"], "a full store can still be read"
            filler.unlink()
            harness.import_until_done(runner, source)
        else:
            assert number != 1, "nothing was left to write after the first object"
            filler.unlink()
        harness.assert_whole(runner, source, tmp_path)


@pytest.fixture
def shared(tmp_path_factory):
    """A folder and a copy of the program that every user of the machine may reach."""
    folder = Path(tempfile.mkdtemp(prefix="steelyard-test-"))
    folder.chmod(0o755)
    shutil.copy2(binary(), folder / "steelyard")
    yield folder
    subprocess.run(["chmod", "-R", "u+w", folder], check=False)
    shutil.rmtree(folder)


@pytest.fixture
def reader(shared, source, monkeypatch):
    """A store without write permission anywhere, and a runner whose user cannot get round that."""
    monkeypatch.setenv("STEELYARD_BIN", str(shared / "steelyard"))
    owner = Steelyard(shared / "store", shared / "home")
    owner(*harness.import_args(source))
    subprocess.run(["chmod", "-R", "a-w,a+rX", shared / "store"], check=True)
    (shared / "home").chmod(0o777)
    (shared / "out").mkdir()
    (shared / "out").chmod(0o777)
    user = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}
    return owner, user


def read_everything(runner: Steelyard, source: Path, out: Path, **user) -> None:
    assert [one["ref"] for one in runner.json("list", **user)["revisions"]] == [f"{harness.REF}#1"]
    inspected = runner.json("inspect", harness.REF, **user)
    assert inspected["read_only"] is True and inspected["revision"]["availability"] == "READY"
    assert runner.json("verify", harness.REF, **user)["ok"]
    runner("materialize", harness.REF, out, **user)
    assert tree_digests(out) == tree_digests(source)
    assert runner("cat", harness.REF, "config.json", **user).stdout_bytes == (source / "config.json").read_bytes()


def test_a_store_that_may_only_be_read(reader, source, shared):
    owner, user = reader
    before = {path: path.stat().st_mtime_ns for path in (shared / "store").rglob("*")}
    read_everything(owner, source, shared / "out" / "copy", **user)
    error = owner.error(*harness.import_args(harness.small_checkpoint(shared / "new", seed=9), "new"), code=9, **user)
    assert error["code"] == "UNAUTHORIZED"
    assert {path: path.stat().st_mtime_ns for path in (shared / "store").rglob("*")} == before


def test_a_store_on_a_read_only_mount(steelyard, source, tmp_path):
    steelyard(*harness.import_args(source))
    mounted = tmp_path / "mounted"
    mounted.mkdir()
    refused = harness.mount("--bind", steelyard.store, mounted)
    if refused:
        pytest.skip(refused)
    try:
        refused = harness.mount("-o", "remount,bind,ro", mounted)
        if refused:
            pytest.skip(refused)
        runner = steelyard.at(mounted)
        read_everything(runner, source, tmp_path / "copy")
        assert runner.error(*harness.import_args(source, "new"), code=(9, 10))["code"] in ("UNAUTHORIZED", "UNAVAILABLE")
    finally:
        subprocess.run(["umount", "-l", mounted], check=False)


@pytest.mark.parametrize("change", ["truncated", "grown", "rewritten"])
def test_a_source_that_changes_while_it_is_read(steelyard, tmp_path, change):
    source = harness.small_checkpoint(tmp_path / "source", mib_per_shard=8)
    shard = source / "model-00002-of-00002.safetensors"
    process = harness.stop_at(steelyard, "import.after_object_put", 1, *harness.import_args(source), "--io-memory", "16MiB")
    size = shard.stat().st_size
    if change == "truncated":
        os.truncate(shard, size // 2)
    elif change == "grown":
        with open(shard, "ab") as out:
            out.write(b"more")
    else:
        with open(shard, "r+b") as out:
            out.seek(size - 5)
            out.write(b"other")
    process.send_signal(signal.SIGCONT)
    code, _, error = harness.finish(process)
    assert code == 5 and error["code"] == "CORRUPT", error
    assert shard.name in error["message"], error
    harness.assert_nothing_half_visible(steelyard)


def payload_files(store: Path) -> list[Path]:
    return sorted(harness.groups_folder(store).glob("*/*/*/p/*"))


@pytest.mark.parametrize("verb", ["materialize", "verify", "cat"])
def test_an_object_that_is_cut_under_the_reader(steelyard, tmp_path, verb):
    """An error with the object's key, never a SIGBUS."""
    source = harness.small_checkpoint(tmp_path / "source", mib_per_shard=8)
    steelyard(*harness.import_args(source))
    for path in payload_files(steelyard.store)[4:]:
        path.chmod(stat.S_IRUSR | stat.S_IWUSR)
        os.truncate(path, path.stat().st_size // 2)
    args = {
        "materialize": ("materialize", harness.REF, tmp_path / "out"),
        "verify": ("verify", harness.REF),
        "cat": ("cat", harness.REF, "model-00002-of-00002.safetensors"),
    }[verb]
    result = steelyard.run("--json", *args)
    assert result.code == 5, result.explain()
    if verb == "verify":
        report = result.json()
        assert not report["ok"] and any(one["object"] and one["kind"] in ("object_size", "object_checksum") for one in report["problems"])
        assert harness.revisions(steelyard)[0]["availability"] == "DEGRADED"
    else:
        assert "/payload/" in result.error()["message"], result.error()
    assert not (tmp_path / "out").exists()


def test_a_flipped_byte_is_found_and_named(steelyard, source, tmp_path):
    steelyard(*harness.import_args(source))
    victim = payload_files(steelyard.store)[-1]
    victim.chmod(0o600)
    data = bytearray(victim.read_bytes())
    data[len(data) // 2] ^= 0x10
    victim.write_bytes(data)
    report = steelyard.json("verify", harness.REF, code=5)
    kinds = {one["kind"] for one in report["problems"]}
    assert not report["ok"] and "object_checksum" in kinds, report
    problem = next(one for one in report["problems"] if one["kind"] == "object_checksum")
    assert problem["object"].endswith(victim.name) and problem["offset"] is not None and problem["expected"] != problem["actual"]
    assert harness.revisions(steelyard)[0]["availability"] == "DEGRADED"
    assert steelyard.error("materialize", harness.REF, tmp_path / "out", code=11)["code"] == "NOT_READY"
    assert not (tmp_path / "out").exists()
    result = steelyard("--json", "materialize", harness.REF, tmp_path / "out", "--allow-degraded", code=5)
    assert result.error()["code"] == "CORRUPT"
    missing = [one["file"] for one in result.json()["missing"]]
    assert missing == [problem["file"]] and missing[0] in result.error()["message"]
    whole = tree_digests(source)
    assert tree_digests(tmp_path / "out") == {path: digest for path, digest in whole.items() if path not in missing}
    assert result.json()["files"] == len(whole) - 1


def test_nothing_is_asked_of_a_network(steelyard, source, tmp_path):
    """Every local verb works in a network namespace that has no interface."""
    probe = subprocess.run(["unshare", "--net", "true"], capture_output=True, text=True)
    if probe.returncode != 0:
        pytest.skip(f"unshare --net: {probe.stderr.strip()}")
    alone = ("unshare", "--net")
    steelyard(*harness.import_args(source), wrapper=alone)
    for verb in (["list"], ["inspect", harness.REF], ["verify", harness.REF], ["materialize", harness.REF, tmp_path / "out"], ["cat", harness.REF, "config.json"]):
        steelyard(*verb, wrapper=alone)
    assert tree_digests(tmp_path / "out") == tree_digests(source)


def test_a_revision_can_be_deleted_where_nothing_else_can_go(steelyard, source, small_disk, tmp_path):
    """Somebody else filled the disk to its last byte, and nothing waits for gc."""
    disk = small_disk(64 * MIB)
    runner = steelyard.at(disk / "store")
    runner(*harness.import_args(source))
    runner("gc", "--yes", "--gc-grace", "0s")
    fill(disk, 0)
    assert runner("gc", "--yes", "--gc-grace", "0s").code == 0
    fill(disk, 0)
    runner("delete", harness.REF, "--yes")
    assert runner.json("list")["revisions"] == []
    assert runner.json("gc", "--yes", "--gc-grace", "0s")["bytes"] > MIB
