"""Memory follows the budget and not the model; room is checked first; no write that went wrong passes for one that did not."""

from __future__ import annotations

import mmap
import os
import signal
import subprocess
import sys

import pytest

from cases import support
from cases.support import MIB
from crash import harness
from lib.checkpoints import make_checkpoint, tree_digests, write_file


@pytest.fixture
def source(tmp_path):
    return harness.small_checkpoint(tmp_path / "source")


def overwrite(path, offset: int, data: bytes) -> None:
    """Past the page cache: its pages would be in the way of the direct writes of a process at work on the file."""
    begin, page = offset // mmap.PAGESIZE * mmap.PAGESIZE, mmap.mmap(-1, mmap.PAGESIZE)
    fd = os.open(path, os.O_RDWR | os.O_DIRECT)
    try:
        assert os.preadv(fd, [page], begin) == mmap.PAGESIZE
        page[offset - begin : offset - begin + len(data)] = data
        assert os.pwritev(fd, [page], begin) == mmap.PAGESIZE
    finally:
        os.close(fd)


def used_bytes(folder) -> int:
    found = os.statvfs(folder)
    return (found.f_blocks - found.f_bfree) * found.f_frsize


# --- memory ---


@pytest.mark.slow
@pytest.mark.parametrize("limit_mib", [256, 128])
def test_a_small_container(steelyard, tmp_path, limit_mib):
    """Page cache of mapped shards brought the OOM killer; agents needed as much memory as the model has bytes.

    The cache of what is read counts too: the group does not fill up with it.
    """
    model_mib = 1024 if limit_mib == 256 else 384
    budget = max((limit_mib - 96) // 2, 16)
    source = support.large_checkpoint(tmp_path / "source", model_mib)
    support.forget(source)
    with support.memory_group(limit_mib * MIB) as group:
        if isinstance(group, str):
            pytest.skip(group)
        steelyard("import", source, "model", wrapper=group.wrapper)
        steelyard("verify", "model", wrapper=group.wrapper)
        steelyard("materialize", "model", tmp_path / "out", wrapper=group.wrapper)
        with open(os.devnull, "wb") as nowhere:
            steelyard("cat", "model", "part-1.safetensors", wrapper=group.wrapper, stdout=nowhere)
        assert group.kills() == 0 and 0 < group.peak() <= min(limit_mib, budget + 128) * MIB
    same = subprocess.run(["cmp", tmp_path / "out" / "part-1.safetensors", source / "part-1.safetensors"])
    assert same.returncode == 0


def test_the_process_itself_stays_small(steelyard, tmp_path):
    """The largest resident size, whatever the page cache holds."""
    source = support.large_checkpoint(tmp_path / "source", 384, shards=1)
    for words in (["import", source, "model"], ["verify", "model"], ["materialize", "model", tmp_path / "out"]):
        run = steelyard("--io-memory", "32MiB", *words, wrapper=[sys.executable, "-c", support.LARGEST])
        code, kibibytes = map(int, run.stdout.split())
        assert code == 0
        assert kibibytes * 1024 <= (32 + 128) * MIB, (words[0], kibibytes)


# --- room ---


@pytest.mark.parametrize("kind", ["tmpfs", "ext4"])
def test_a_disk_with_room_for_one_copy(steelyard, tmp_path, kind):
    """Packing needed the model twice. One and a fifth of it is enough here, and both ways again on no more than the copy."""
    source = support.large_checkpoint(tmp_path / "source", 60)
    size = sum(path.stat().st_size for path in source.iterdir())
    with support.mounted(tmp_path / "disk", size * 6 // 5, kind) as refused:
        if refused:
            pytest.skip(refused)
        runner = steelyard.at(tmp_path / "disk" / "store")
        runner("import", source, "model")
        assert runner.json("verify", "model")["ok"]
        # What is there already costs nothing, also where nothing more would fit.
        assert runner.json("import", source, "again")["stats"]["written_bytes"] == 0
        before = used_bytes(tmp_path / "disk")
        other = support.large_checkpoint(tmp_path / "other", 60, shards=1)
        error = runner.error("import", other, "other", code=8)
        assert error["code"] == "NO_SPACE" and "are missing" in error["message"] and "iB" in error["message"], error
        error = runner.error("materialize", "model", tmp_path / "disk" / "out", code=8)
        assert error["code"] == "NO_SPACE" and "iB" in error["message"], error
        assert not (tmp_path / "disk" / "out").exists()
        assert used_bytes(tmp_path / "disk") - before < MIB, "nothing was written before the room was known"
        assert [one["resource_id"] for one in runner.json("list")["revisions"]] == ["model", "again"]
        assert runner.json("verify", "model")["ok"] and runner.json("verify", "again")["ok"], "a full store can be read"
        runner("materialize", "model", tmp_path / "out")
        assert tree_digests(tmp_path / "out") == tree_digests(source)


def test_a_reserve_is_kept_by_default(steelyard, tmp_path):
    """Without a quota the disk filled up until nothing worked. By default half of a small disk is left alone."""
    with support.mounted(tmp_path / "disk", 64 * MIB, "tmpfs") as refused:
        if refused:
            pytest.skip(refused)
        runner = steelyard.at(tmp_path / "disk" / "store", STEELYARD_COLD_RESERVE_FREE="")
        runner("import", support.large_checkpoint(tmp_path / "small", 8), "small")
        error = runner.error("import", support.large_checkpoint(tmp_path / "large", 40), "large", code=8)
        assert error["code"] == "NO_SPACE" and "reserve" in error["message"] + error["hint"]
        assert runner.json("verify", "small")["ok"]
        runner("import", tmp_path / "large", "large", "--cold-reserve-free", "0")


def test_a_filesystem_without_direct_io(steelyard, tmp_path):
    """Reading with O_DIRECT failed on tmpfs, and with sizes that are no multiple of a sector. One line at level info, no more."""
    source = make_checkpoint(tmp_path / "source", shards=2, tensors_per_shard=1, shape=(1024, 1031))
    write_file(source / "odd.txt", b"x" * 513)
    with support.mounted(tmp_path / "disk", 64 * MIB, "tmpfs") as refused:
        if refused:
            pytest.skip(refused)
        runner = steelyard.at(tmp_path / "disk" / "store")
        writes, reads = "EINVAL@tier.direct", "EINVAL@tier.open_read#1"
        for fault, *words in ([writes, "import", source, "model"], [reads, "verify", "model"], [reads, "materialize", "model", tmp_path / "out"]):
            lines = runner("--log-level", "info", *words, env={"STEELYARD_FAULT": fault}).said.splitlines()
            assert len([line for line in lines if "direct" in line]) == 1, lines
            assert all(line.startswith("info: ") for line in lines), lines
        assert tree_digests(tmp_path / "out") == tree_digests(source)
        assert runner("import", source, "quiet").said == ""


# --- writes that go wrong ---


@pytest.mark.parametrize("fault", ["EIO@tier.zero_write", "EIO@tier.write", "ENOSPC@tier.write", "EIO@tier.sync", "EIO@tier.close", "EIO@tier.flush", "EIO@tier.zero_write#3", "EIO@tier.sync#1", "EIO@tier.flush#1"])
def test_a_failed_write_is_no_success(steelyard, source, tmp_path, fault):
    """An empty file was saved without a word, and loading failed weeks later."""
    passed = steelyard.at(tmp_path / "traced")
    points = harness.trace(passed, tmp_path, *harness.import_args(source))
    if fault.split("@")[1].split("#")[0] not in points:
        pytest.skip("an import does not pass this point here")
    error = steelyard.error(*harness.import_args(source), code=(8, 10), env={"STEELYARD_FAULT": fault})
    assert error["code"] in ("UNAVAILABLE", "DURABILITY_FAILED", "NO_SPACE"), error
    harness.assert_nothing_half_visible(steelyard)
    harness.import_until_done(steelyard, source)
    harness.assert_whole(steelyard, source, tmp_path)
    harness.assert_no_strays(steelyard.store)


def test_short_writes_are_continued(steelyard, source, tmp_path):
    steelyard(*harness.import_args(source), env={"STEELYARD_FAULT": "EIO@tier.short_write"})
    harness.assert_whole(steelyard, source, tmp_path)


def test_reading_back_finds_what_the_disk_changed(steelyard, source, tmp_path):
    """A disk that stores other bytes than it was given: only reading them again shows it, and `--verify-after-write` does."""

    def import_with_a_bad_disk(ref: str, *words) -> subprocess.Popen:
        process = harness.stop_at(steelyard, "tier.after_write", 3, *harness.import_args(source, ref), *words)
        written = [path for path in steelyard.store.rglob("*") if path.is_file() and path.stat().st_size >= MIB and "catalog.db" not in path.name]
        assert written
        for path in written:
            path.chmod(0o600)
            overwrite(path, MIB // 3, b"\0other bytes\0")
        process.send_signal(signal.SIGCONT)
        return process

    code, _, error = harness.finish(import_with_a_bad_disk("model", "--verify-after-write"))
    assert code == 5 and error["code"] == "CORRUPT", error
    assert harness.revisions(steelyard) == []
