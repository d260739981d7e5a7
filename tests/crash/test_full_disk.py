"""Every verb on a filesystem without a free byte: done, or NO_SPACE; nothing is lost, and room can be made again."""

from __future__ import annotations

import errno
import itertools
import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from cases import support
from crash import harness
from lib.checkpoints import flip_bit

MIB = 1024 * 1024
NOW = ("gc", "--yes", "--gc-grace", "0s")


def fill(disk: Path) -> None:
    """Takes every byte, block by block, and every inode's worth of them."""
    with open(disk / "filler", "ab", buffering=0) as out:
        for size in (MIB, 4096, 1):
            try:
                while out.write(b"\xaa" * size) > 0:
                    pass
            except OSError as error:
                assert error.errno == errno.ENOSPC


@pytest.fixture(params=["tmpfs", "ext4"])
def full(request, steelyard, source, tmp_path):
    """A store with two revisions that share a damaged object, a third one, an import and a delete that were killed."""
    with support.mounted(tmp_path / "disk", 48 * MIB, request.param) as refused:
        if refused:
            pytest.skip(refused)
        runner = steelyard.at(tmp_path / "disk" / "store")
        other = harness.small_checkpoint(tmp_path / "other", seed="other")
        for ref in ("m", "twin"):
            runner(*harness.import_args(source, ref))
        runner(*harness.import_args(other, "other"))
        flip_bit(min(path for path in harness.groups_folder(runner.store).glob("*/*/*/p/*") if path.stat().st_size == MIB and path.stat().st_nlink == 3))
        runner("verify", "m", code=5)
        third = harness.small_checkpoint(tmp_path / "third", seed="third")
        runner(*harness.import_args(third, "going"))
        runner("delete", "going", "--yes", code=-signal.SIGKILL, env={"STEELYARD_FAULT": "kill@delete.after_marker"})
        runner(*harness.import_args(third, "half"), code=-signal.SIGKILL, env={"STEELYARD_FAULT": "kill@import.after_flush"})
        lease = runner("-q", "lease", "acquire", "other", "--holder", "h", "--ttl", "1h").last
        yield runner, tmp_path / "disk", lease


def verbs(source: Path, folder: Path, lease: str) -> list[tuple]:
    return [
        harness.import_args(folder / "third", "half"),
        harness.import_args(source, "again"),
        harness.import_args(folder / "fourth", "new"),
        ("list", "--all"),
        ("inspect", "other"),
        ("verify", "other"),
        ("materialize", "other", folder / "disk" / "out"),
        ("cat", "other", "config.json"),
        ("repair", "m", "--source", source),
        ("lease", "acquire", "other", "--holder", "h"),
        ("lease", "renew", lease, "--ttl", "2h"),
        ("lease", "list"),
        ("reconcile",),
        ("usage",),
        ("doctor",),
        ("recover", "--force", "--yes"),
        ("abort", "half", "--yes"),
        ("delete", "twin", "--yes"),
        NOW,
    ]


def test_every_verb(full, source, tmp_path):
    runner, disk, lease = full
    harness.small_checkpoint(tmp_path / "fourth", seed="fourth")
    before = {one["ref"] for one in harness.revisions(runner)}
    for words in verbs(source, tmp_path, lease):
        fill(disk)
        run = runner.run("--json", *words)
        # reconcile and doctor say of each thing what is wrong with it, and end with what that is.
        exits = {"reconcile": (0, 8, 10), "doctor": (0, 8, 10, 5)}.get(words[0], (0, 8))
        if words[0] in ("list", "inspect", "verify", "cat", "usage", "gc"):
            exits = (0,)  # they need no room
        assert run.code in exits, run.explain()
        if run.code == 8:
            harness.assert_typed(run)
        assert not (disk / "out").exists() or run.code == 0, "no half folder"
        listed = {one["ref"] for one in harness.revisions(runner)}
        assert before - {"twin@main#1"} <= listed, run.explain()
        assert runner.json("verify", "other")["ok"], run.explain()
        shutil.rmtree(disk / "out", ignore_errors=True)


def test_room_can_be_made(full, source, tmp_path):
    """gc needs no room; the ballast has enough for the removals, whose bytes gc frees; then everything goes on."""
    runner, disk, lease = full
    assert (runner.store / "catalog.ballast").exists()
    fill(disk)
    runner(*NOW)
    for words in (("reconcile",), ("abort", "half", "--yes"), ("delete", "twin", "--yes")):
        runner(*words)
    assert not (runner.store / "catalog.ballast").exists(), "it is what they took"
    assert runner.json(*NOW)["bytes"] > 4 * MIB
    for words in (("lease", "release", lease), ("delete", "other", "--yes"), NOW):
        runner(*words)
    runner("repair", "m", "--source", source)
    harness.assert_whole(runner, source, tmp_path, "m")
    runner("delete", "m", "--yes")
    runner(*NOW)
    assert [path.name for path in harness.groups_folder(runner.store).rglob("*") if path.is_file() and path.name != "deleting"] == []


@pytest.mark.parametrize("kind", ["tmpfs", "ext4"])
@pytest.mark.parametrize("words", [("delete", "m", "--yes"), ("abort", "half", "--yes"), ("reconcile",)])
def test_what_frees_room_spends_the_ballast(steelyard, source, tmp_path, kind, words):
    """The bytes lie on another disk, so nothing but the ballast makes room for the catalog."""
    with support.mounted(tmp_path / "disk", 32 * MIB, kind) as refused:
        if refused:
            pytest.skip(refused)
        runner = steelyard.at(tmp_path / "disk" / "store", STEELYARD_COLD_PATH=str(tmp_path / "cold"))
        ballast = runner.store / "catalog.ballast"
        filler = tmp_path / "disk" / "filler"
        runner(*harness.import_args(source, "m"))
        for ref in ("going", "stays"):
            runner(*harness.import_args(source, ref))
        runner("delete", "going", "--yes", code=-signal.SIGKILL, env={"STEELYARD_FAULT": "kill@delete.after_objects"})
        runner(*harness.import_args(source, "half"), code=-signal.SIGKILL, env={"STEELYARD_FAULT": "kill@import.after_flush"})
        runner("lease", "list")
        fill(tmp_path / "disk")
        kept = ballast.read_bytes()
        assert len(kept) == MIB
        # Without it: refused, and nothing else makes it.
        ballast.unlink()
        fill(tmp_path / "disk")
        assert runner.run(*words).code == 8
        assert not ballast.exists()
        # With it.
        filler.unlink()
        runner("reconcile", "stays")
        assert ballast.stat().st_size == MIB
        fill(tmp_path / "disk")
        runner(*words)
        assert not ballast.exists()
        gone = {"delete": "m", "abort": "half", "reconcile": "going"}[words[0]]
        assert f"{gone}@main#1" in {one["ref"] for one in harness.revisions(runner, "--state", "DELETED")}
        # A writing command makes it again, once there is room.
        runner("gc", "--yes")
        assert not ballast.exists()
        filler.unlink()
        runner("gc", "--yes")
        assert ballast.stat().st_size == MIB


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
@pytest.mark.parametrize("lost", [False, True])
def test_a_delete_needs_no_inode(steelyard, source, tmp_path, lost):
    disk = tmp_path / "inodes"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=60m,nr_inodes=400", "none", disk], capture_output=True).returncode != 0:
        pytest.skip("this machine does not let us mount")
    try:
        runner = steelyard.at(disk / "store")
        runner(*harness.import_args(source, "m"))
        runner(*harness.import_args(harness.small_checkpoint(tmp_path / "other", seed="other"), "other"))
        runner("lease", "acquire", "other", "--holder", "h", "--ttl", "1s", env={"STEELYARD_LOG_SNAPSHOT_EVERY": "1"})
        for number in itertools.count():
            try:
                (disk / f"filler{number}").touch()
            except OSError:
                break
        if lost:
            runner("delete", "m", "--yes", code=-signal.SIGKILL, env={"STEELYARD_FAULT": "kill@delete.after_marker"})
            for path in disk.glob("filler*"):
                path.unlink()
            for path in runner.store.glob("catalog.*"):
                path.unlink()
            document = runner.json("recover")
            assert document["recovered"] == ["other@main#1"]
            assert any("m@main#1 is being deleted" in skipped["reason"] for skipped in document["skipped"])
        else:
            runner("delete", "m", "--yes")
            assert [row["ref"] for row in runner.json("list")["revisions"]] == ["other@main#1"]
    finally:
        subprocess.run(["umount", "-l", disk], check=True)
