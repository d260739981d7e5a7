"""Processes that were stopped in the middle, and wake when the others are long done. Nothing that they still do does harm."""

from __future__ import annotations

import signal

import pytest

from crash import checker, harness
from lib.checkpoints import flip_bit, tree_digests
from lib.waiting import wait_until

SHORT = {"STEELYARD_IMPORT_WRITER_TTL": "2s", "STEELYARD_LEASE_TTL": "1s"}
NOW = ("gc", "--yes", "--gc-grace", "0s")


@pytest.fixture
def runner(steelyard):
    return steelyard.at(steelyard.store, **SHORT)


def wake(process):
    process.send_signal(signal.SIGCONT)
    return harness.finish(process)


def first_object(steelyard):
    return min(path for path in harness.groups_folder(steelyard.store).glob("*/*/*/p/*") if path.stat().st_size == 1 << 20)


@pytest.mark.parametrize("point", ["gc.after_groups", "tier.remove", "gc.after_content"])
def test_a_gc(runner, source, tmp_path, point):
    """What it would free is wanted again meanwhile: by an import of the same content, and of the same name."""
    runner(*harness.import_args(source, "m"))
    runner(*harness.import_args(source, "half"), code=-signal.SIGKILL, env={"STEELYARD_FAULT": "kill@import.after_flush"})
    runner(*harness.import_args(source, "half"))
    runner("delete", "m", "--yes")
    runner("delete", "half", "--yes")
    stopped = harness.stop_at(runner, point, 1, *NOW)
    try:
        runner(*harness.import_args(source, "m"))
        runner(*harness.import_args(source, "other"))
        code, _, error = wake(stopped)
        assert code == 0, error
    finally:
        stopped.kill()
    for ref in ("m", "other"):
        harness.assert_whole(runner, source, tmp_path, ref)
    checker.assert_back_to_nothing(runner)


@pytest.mark.parametrize("point", ["repair.after_start", "repair.before_replace", "tier.after_replacement_content", "tier.after_replace_link"])
def test_a_repair_whose_place_was_taken(runner, source, tmp_path, point):
    """Stopped past its time to live, another repairs: the late one says that it lost, or that all is whole, and so it is."""
    runner(*harness.import_args(source, "m"))
    flip_bit(first_object(runner))
    runner("verify", "m", code=5)
    stopped = harness.stop_at(runner, point, 1, "repair", "m", "--source", source)
    try:
        wait_until(lambda: runner.run("repair", "m", "--source", source).code == 0, every_s=0.3)
        before = harness.revisions(runner)
        code, _, error = wake(stopped)
        assert code in (0, 4, 7), error
    finally:
        stopped.kill()
    assert harness.revisions(runner) == before and before[0]["availability"] == "READY"
    harness.assert_whole(runner, source, tmp_path, "m")
    harness.assert_no_strays(runner.store)
    checker.assert_back_to_nothing(runner)


@pytest.mark.parametrize("point", ["repair.before_replace", "tier.after_replacement_write", "tier.after_replacement_content", "tier.after_replace_link"])
@pytest.mark.parametrize("forgotten", [False, True], ids=["deleted", "and collected"])
def test_a_repair_whose_revision_is_deleted(runner, source, tmp_path, point, forgotten):
    """It may put an object back where nobody looks; a gc takes it away, also when the group was gone already."""
    for ref in ("m", "twin"):
        runner(*harness.import_args(source, ref))
    flip_bit(first_object(runner))
    for ref in ("m", "twin"):
        runner("verify", ref, code=5)
    stopped = harness.stop_at(runner, point, 1, "repair", "m", "--source", source)
    try:
        for ref in ("m", "twin"):
            runner("delete", ref, "--yes")
        if forgotten:
            runner(*NOW)
        code, _, error = wake(stopped)
        assert code in (3, 4, 7, 10, 11), error
    finally:
        stopped.kill()
    assert harness.revisions(runner) == []
    checker.assert_back_to_nothing(runner)


def test_a_materialize_whose_target_was_made_by_another(steelyard, source, tmp_path):
    runner = steelyard.at(steelyard.store, STEELYARD_LEASE_TTL="1h")
    runner(*harness.import_args(source, "m"))
    for point in ("materialize.staging_made", "tier.read", "materialize.before_publish"):
        target = tmp_path / point
        stopped = harness.stop_at(runner, point, 1, "materialize", "m", target)
        try:
            runner("materialize", "m", target)
            (target / "mine").write_text("added later")
            code, _, error = wake(stopped)
            assert code == 4, error
        finally:
            stopped.kill()
        assert (target / "mine").exists(), "what is there is not taken away"
        (target / "mine").unlink()
        assert tree_digests(target) == tree_digests(source)
        assert [path.name for path in tmp_path.iterdir() if point in path.name] == [point], "nothing is left beside it"


@pytest.mark.parametrize("collected", [False, True], ids=["deleted", "and collected"])
def test_a_reader_whose_lease_ended(runner, source, tmp_path, collected):
    """Its revision was deleted when its lease was over: it ends with an error, and never with half a folder."""
    runner(*harness.import_args(source, "m"))
    for verb in (["materialize", "m#1", tmp_path / "out"], ["verify", "m#1"], ["cat", "m#1", "model-00002-of-00002.safetensors"]):
        ref = runner("-q", *harness.import_args(source, "m")).last
        verb[1] = ref
        stopped = harness.stop_at(runner, "tier.read", 2, *verb)
        try:
            runner("delete", ref, "--yes", "--wait", "1h")
            if collected:
                runner(*NOW)
            stopped.send_signal(signal.SIGCONT)
            _, err = stopped.communicate(timeout=60)
            assert stopped.returncode in (0, 3, 5, 10, 11, 12), err
            assert stopped.returncode != 0 or verb[0] != "materialize" or tree_digests(tmp_path / "out") == tree_digests(source)
        finally:
            stopped.kill()
        assert not (tmp_path / "out").exists() or tree_digests(tmp_path / "out") == tree_digests(source)
        assert runner.json("inspect", ref)["revision"]["availability"] == "DELETED"


@pytest.mark.parametrize("point", ["delete.after_deleting", "tier.after_marker_write", "delete.after_marker", "tier.remove", "delete.after_objects"])
def test_a_delete_whose_group_is_gone(runner, source, tmp_path, point):
    """Another ended it, a gc forgot it, and the name lives again under its next generation."""
    for ref in ("m", "twin"):
        runner(*harness.import_args(source, ref))
    stopped = harness.stop_at(runner, point, 1, "delete", "m#1", "--yes")
    try:
        runner("delete", "m#1", "--yes")
        runner(*NOW)
        runner(*harness.import_args(source, "m"))
        code, _, error = wake(stopped)
        assert code == 0, error
    finally:
        stopped.kill()
    for ref in ("m", "twin"):
        harness.assert_whole(runner, source, tmp_path, ref)
    checker.assert_back_to_nothing(runner)


@pytest.mark.parametrize("point", ["log.snapshot.part", "log.snapshot.before_complete", "tier.after_marker_write", "log.trim"])
def test_a_snapshot(runner, source, tmp_path, point):
    """An older snapshot comes to its end after newer ones: it replaces none of them."""
    every = {"STEELYARD_LOG_SNAPSHOT_EVERY": "1"}
    runner(*harness.import_args(source, "m"))
    stopped = harness.stop_at(runner, point, 1, "lease", "acquire", "m", "--holder", "late", "--ttl", "1h", **every)
    try:
        runner(*harness.import_args(source, "later"), env=every)
        code, _, error = wake(stopped)
        assert code == 0, error
    finally:
        stopped.kill()
    assert runner.json("doctor")["ok"]
    runner("recover", "--force", "--yes")
    assert sorted(one["ref"] for one in harness.revisions(runner)) == ["later@main#1", "m@main#1"]
    checker.assert_back_to_nothing(runner, asides=1)
