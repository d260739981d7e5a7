"""What `materialize --force` replaces, and what no flag makes it replace."""

from __future__ import annotations

import subprocess

import pytest

from crash import harness
from lib.checkpoints import tree_digests, write_file


@pytest.fixture
def filled(steelyard, checkpoint):
    steelyard("import", checkpoint, "demo")
    return steelyard


def refused(steelyard, target, why, **options):
    error = steelyard.error("materialize", "demo", target, "--force", code=2, **options)
    assert error["code"] == "INVALID_ARGUMENT" and why in error["message"], error
    assert "not exist" in error["hint"] or "outside" in error["hint"], error


def test_folders_that_a_slip_names(filled, tmp_path):
    mine = write_file(filled.home / "projects" / "thesis.tex", "mine")
    here = mine.parent
    refused(filled, filled.home, "your home folder")
    refused(filled, "/usr", "a folder of the system")
    refused(filled, ".", "the current folder", cwd=here)
    refused(filled, here, "the current folder", cwd=here)
    refused(filled, "..", "your home folder", cwd=here)
    (tmp_path / "link").symlink_to(filled.home)
    refused(filled, tmp_path / "link", "your home folder")
    refused(filled, "/", "the store")
    assert mine.read_text() == "mine"


def test_what_else_is_mounted_in_a_folder(filled, tmp_path):
    inner = tmp_path / "out" / "volume"
    inner.mkdir(parents=True)
    if reason := harness.mount("-t", "tmpfs", "-o", "size=1m", "tmpfs", inner):
        pytest.skip(reason)
    try:
        mine = write_file(inner / "thesis.tex", "mine")
        refused(filled, tmp_path / "out", str(inner))
        assert mine.read_text() == "mine"
    finally:
        subprocess.run(["umount", "-l", inner], check=False)


def test_a_folder_that_is_not_empty_says_what_is_in_it(filled, tmp_path, checkpoint):
    write_file(tmp_path / "out" / "thesis.tex", "mine")
    error = filled.error("materialize", "demo", tmp_path / "out", code=4)
    assert "thesis.tex" in error["message"] and "--force" in error["hint"]
    filled("materialize", "demo", tmp_path / "out", "--force")
    assert tree_digests(tmp_path / "out") == tree_digests(checkpoint)


def test_the_current_folder_is_filled(filled, tmp_path, checkpoint):
    """Whoever stands in it sees the files: it is not exchanged for another folder of that name."""
    here = tmp_path / "here"
    here.mkdir()
    before = here.stat().st_ino
    result = filled("materialize", "demo", ".", cwd=here)
    assert result.last == str(here) and "the current folder" in result.stderr
    assert here.stat().st_ino == before and tree_digests(here) == tree_digests(checkpoint)


def test_dot_dot_behind_a_link(filled, tmp_path, checkpoint):
    (tmp_path / "far" / "inside").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "far" / "inside")
    assert filled("materialize", "demo", f"{tmp_path}/link/../out").last == str(tmp_path / "far" / "out")
    assert tree_digests(tmp_path / "far" / "out") == tree_digests(checkpoint)
    assert not (tmp_path / "out").exists()


def test_a_filesystem_that_cannot_exchange_folders(filled, tmp_path, checkpoint):
    for faults, said in (("EINVAL@materialize.exchange#1", "two steps"), ("EXDEV@materialize.exchange#1,EXDEV@materialize.set_aside#1", "one by one")):
        write_file(tmp_path / "out" / "thesis.tex", "mine")
        result = filled("materialize", "demo", tmp_path / "out", "--force", env={"STEELYARD_FAULT": faults})
        assert said in result.stderr and result.stderr.startswith("warning: "), result.explain()
        assert tree_digests(tmp_path / "out") == tree_digests(checkpoint)
        assert {path.name for path in tmp_path.iterdir()} == {"out", "store", "home", "checkpoint"}


def test_a_kill_between_the_two_renames(filled, tmp_path, checkpoint):
    write_file(tmp_path / "out" / "thesis.tex", "mine")
    faults = "EINVAL@materialize.exchange#1,kill@materialize.between_renames"
    filled.run("materialize", "demo", tmp_path / "out", "--force", env={"STEELYARD_FAULT": faults})
    (aside,) = tmp_path.glob("out.replaced-*")
    assert (aside / "thesis.tex").read_text() == "mine" and not (tmp_path / "out").exists()
    filled("materialize", "demo", tmp_path / "out", "--force")
    assert tree_digests(tmp_path / "out") == tree_digests(checkpoint)
    assert (aside / "thesis.tex").read_text() == "mine" and not list(tmp_path.glob(".steelyard-*"))


def test_what_was_replaced_and_cannot_be_removed(filled, tmp_path, checkpoint):
    write_file(tmp_path / "out" / "thesis.tex", "mine")
    result = filled("materialize", "demo", tmp_path / "out", "--force", env={"STEELYARD_FAULT": "EACCES@materialize.remove#1"})
    (left,) = tmp_path.glob(".steelyard-*")
    assert f"warning: what stood at {tmp_path}/out before could not be removed and is left at {left}" in result.stderr
    assert tree_digests(tmp_path / "out") == tree_digests(checkpoint)
