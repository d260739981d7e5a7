"""What the process or the machine withholds: file sizes, /proc, every last byte of the disk."""

from __future__ import annotations

import os
import subprocess

import pytest

from crash import harness
from lib.checkpoints import flip_bit, tree_digests


@pytest.mark.parametrize("limit", [0, 40 * 1024, 100 * 1024, 500 * 1024])
def test_a_limit_on_file_sizes(steelyard, source, tmp_path, limit):
    """A write beyond it is an error with a message, not a silent death by SIGXFSZ."""
    wrapper = ("prlimit", f"--fsize={limit}")
    result = steelyard.run("--json", *harness.import_args(source), wrapper=wrapper)
    assert result.code == 8, result.explain()
    harness.assert_typed(result)
    harness.assert_nothing_half_visible(steelyard)
    harness.import_until_done(steelyard, source)
    result = steelyard.run("--json", "materialize", harness.REF, tmp_path / "out", wrapper=wrapper)
    assert result.code in (0, 8), result.explain()
    assert (result.code == 0) == (tmp_path / "out").exists()
    harness.assert_whole(steelyard, source, tmp_path)


def test_without_proc(steelyard, source, tmp_path):
    """The boot id is in /proc: without it nothing can be leased or imported, but everything can be read."""
    if os.geteuid() != 0:
        pytest.skip("mounting needs root")
    wrapper = ("unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /proc && exec "$0" "$@"')
    error = steelyard.error(*harness.import_args(source), code=10, wrapper=wrapper)
    assert "/proc" in error["message"] and not steelyard.store.exists()
    steelyard(*harness.import_args(source))
    assert [one["ref"] for one in steelyard.json("list", wrapper=wrapper)["revisions"]] == [f"{harness.REF}#1"]
    assert steelyard.json("verify", harness.REF, wrapper=wrapper)["ok"]
    steelyard("materialize", harness.REF, tmp_path / "out", wrapper=wrapper)
    assert tree_digests(tmp_path / "out") == tree_digests(source)
    assert "/proc" in steelyard.error("lease", "acquire", harness.REF, "--holder", "h", code=10, wrapper=wrapper)["message"]


@pytest.fixture
def full_store(steelyard, source, tmp_path):
    """A store on a filesystem without a free byte."""
    disk = tmp_path / "disk"
    disk.mkdir()
    refused = harness.mount("-t", "tmpfs", "-o", "size=24m", "tmpfs", disk)
    if refused:
        pytest.skip(refused)
    runner = steelyard.at(disk / "store")
    runner(*harness.import_args(source))
    with open(disk / "filler", "wb", buffering=0) as out:
        try:
            while out.write(b"\xaa" * 4096) > 0:
                pass
        except OSError:
            pass
    yield runner
    subprocess.run(["umount", "-l", disk], check=False)


def test_a_full_disk_can_be_read(full_store, source, tmp_path):
    """No lease can be recorded; what is published is served all the same, with a warning."""
    assert len(harness.revisions(full_store)) == 1
    assert full_store.json("verify", harness.REF)["ok"]
    result = full_store("materialize", harness.REF, tmp_path / "out")
    assert tree_digests(tmp_path / "out") == tree_digests(source)
    assert "warning: " in result.stderr and "lease" in result.stderr
    assert full_store("cat", harness.REF, "config.json").stdout_bytes == (source / "config.json").read_bytes()
    error = full_store.error("lease", "acquire", harness.REF, "--holder", "h", code=8)
    assert error["code"] == "NO_SPACE"


def test_damage_on_a_full_disk_is_named(full_store):
    payload = next(harness.groups_folder(full_store.store).glob("*/*/*/p/00000001"))
    flip_bit(payload)
    report = full_store.json("verify", harness.REF, code=5)
    assert not report["ok"] and report["problems"][0]["kind"] == "object_checksum"


def test_a_full_disk_without_the_shared_memory_file(full_store):
    """SQLite makes catalog.db-shm anew and cannot: that is a lack of space, and says so."""
    (full_store.store / "catalog.db-shm").unlink()
    (full_store.store.parent / "filler").open("ab").close()
    with open(full_store.store.parent / "filler2", "wb", buffering=0) as out:
        try:
            while out.write(b"\xaa" * 4096) > 0:
                pass
        except OSError:
            pass
    result = full_store.run("--json", "list")
    assert result.code in (0, 8), result.explain()
