"""repair and operation: what is damaged comes back from the store itself or from a source folder, under every name."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

import pytest

from crash import harness
from lib.checkpoints import flip_bit, make_checkpoint, tree_digests
from lib.damage import flip, large, objects_of, state
from lib.runner import Steelyard, binary

MIB = 1024 * 1024


@pytest.fixture
def source(tmp_path) -> Path:
    return harness.small_checkpoint(tmp_path / "source")


@pytest.fixture
def model(steelyard, source) -> str:
    return steelyard(*harness.import_args(source, "m")).last


def tier_calls(steelyard, folder: Path, *args) -> int:
    return sum(point in ("tier.list", "tier.stat") for point in harness.trace(steelyard, folder, *args))


def test_from_a_source_folder(steelyard, source, model, tmp_path):
    objects = large(objects_of(steelyard, model))
    flip(objects[0])
    objects[1].unlink()
    objects[2].chmod(0o644)
    os.truncate(objects[2], 1000)
    steelyard("verify", model, code=5)
    assert state(steelyard, model) == ("DEGRADED", "NONE")

    error = steelyard.error("repair", model, code=5)
    assert error["code"] == "CORRUPT" and "--source" in error["hint"]
    for path in (objects[0], objects[2]):
        assert f"payload/{path.name}" in error["message"]
    assert objects[1].exists(), "the index still had its bytes"
    assert state(steelyard, model) == ("DEGRADED", "NONE")

    document = steelyard.json("repair", model, "--source", source)
    assert document["revision"]["availability"] == "READY" and document["revision"]["residency"] == "COLD"
    operation = document["operation"]
    assert (operation["kind"], operation["state"]) == ("REPAIRING", "DONE")
    assert operation["processed_members"] == operation["total_members"] >= 2
    assert operation["processed_bytes"] == operation["total_bytes"] >= 2 * MIB
    harness.assert_whole(steelyard, source, tmp_path, model)
    harness.assert_no_strays(steelyard.store)
    shown = steelyard.json("operation", "show", operation["operation_id"])
    assert shown["operation"] == operation and shown["revision"]["ref"] == model


def test_a_source_under_other_names(steelyard, source, model, tmp_path):
    flip(large(objects_of(steelyard, model))[0])
    steelyard("verify", model, code=5)
    renamed = tmp_path / "renamed"
    renamed.mkdir()
    for number, path in enumerate(sorted(source.rglob("*.safetensors"))):
        shutil.copy(path, renamed / f"{number}.blob")
    steelyard("repair", model, "--source", renamed)
    assert steelyard("verify", model).last == "ok"


def test_a_source_with_other_bytes_is_of_no_use(steelyard, source, model, tmp_path):
    other = harness.small_checkpoint(tmp_path / "other", seed="other")
    flip(large(objects_of(steelyard, model))[0])
    steelyard("verify", model, code=5)
    assert "does not hold" in steelyard.error("repair", model, "--source", other, code=5)["hint"]
    assert steelyard.error("repair", model, "--source", tmp_path / "none", code=3)["code"] == "NOT_FOUND"


def test_every_revision_that_shares_the_bytes(steelyard, source, tmp_path):
    refs = [steelyard(*harness.import_args(source, ref)).last for ref in ("a", "b", "c")]
    objects = [large(objects_of(steelyard, ref))[0] for ref in refs]
    assert len({path.stat().st_ino for path in objects}) == 1
    flip(objects[0])
    for ref in refs[:2]:
        steelyard("verify", ref, code=5)
    steelyard("repair", refs[0], "--source", source)
    assert len({path.stat().st_ino for path in objects}) == 1, "they still share"
    for ref in refs:
        assert state(steelyard, ref) == ("READY", "NONE"), ref
        assert steelyard("verify", ref).last == "ok"
    assert steelyard.json("import", source, "d", "--chunk-size", "1MiB")["stats"]["written_bytes"] == 0


def test_from_a_whole_copy_in_the_store(steelyard, source, tmp_path):
    a = steelyard(*harness.import_args(source, "a")).last
    path = large(objects_of(steelyard, a))[0]
    flip(path)
    steelyard("verify", a, code=5)
    b = steelyard(*harness.import_args(source, "b")).last
    twin = large(objects_of(steelyard, b))[0]
    assert twin.stat().st_ino != path.stat().st_ino
    steelyard("verify", a, code=5)
    steelyard("repair", a)
    assert twin.stat().st_ino == path.stat().st_ino, "linked, not written"
    assert steelyard("verify", a).last == "ok"


def test_blocks_from_several_places(steelyard, tmp_path):
    """Two objects of two blocks share one block each with the damaged one; its own good block is kept."""
    blocks = [os.urandom(MIB) for _ in range(5)]
    for name, numbers in (("a", (0, 1, 2, 3)), ("b", (0, 4, 2, 4))):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "w.bin").write_bytes(b"".join(blocks[number] for number in numbers))
    a = steelyard("import", tmp_path / "a", "--chunk-size", "4MiB").last
    steelyard("import", tmp_path / "b", "--chunk-size", "4MiB")
    (path,) = objects_of(steelyard, a)
    flip(path, 5)
    flip(path, 2 * MIB + 5)
    steelyard("verify", a, code=5)
    steelyard("repair", a)
    assert path.read_bytes() == (tmp_path / "a" / "w.bin").read_bytes()
    flip(path, MIB + 5)
    error = steelyard.error("cat", a, "w.bin", code=5)
    assert "repair" in error["hint"]
    assert f"1 block from byte {MIB}" in steelyard.error("repair", a, code=5)["message"]


def test_reads_record_damage(steelyard, source, model, tmp_path):
    path = large(objects_of(steelyard, model))[-1]
    flip(path)
    out = tmp_path / "out"
    steelyard("materialize", model, out, code=5)
    assert not out.exists() and state(steelyard, model) == ("DEGRADED", "NONE")
    steelyard("repair", model, "--source", source)
    flip(path)
    files = [name for name in tree_digests(source) if name.endswith(".safetensors")]
    codes = {steelyard.run("cat", model, name, stdout=-3).code for name in files}
    assert codes <= {0, 5, 11} and 5 in codes
    assert state(steelyard, model) == ("DEGRADED", "NONE")
    steelyard("repair", model, "--source", source)
    manifest = path.parent.parent / "manifest"
    manifest.chmod(0o644)
    whole = manifest.read_bytes()
    manifest.write_bytes(whole[:-10])
    steelyard("cat", model, files[0], code=5)
    assert state(steelyard, model) == ("DEGRADED", "NONE")
    assert "manifest" in steelyard.error("repair", model, "--source", source, code=5)["message"]
    manifest.write_bytes(whole)
    assert steelyard.json("repair", model)["operation"] is None
    assert state(steelyard, model) == ("READY", "NONE")


def test_nothing_to_repair(steelyard, model):
    before = steelyard.json("inspect", model)["revision"]
    document = steelyard.json("repair", model)
    assert document["operation"] is None and document["revision"] == before
    assert steelyard("-q", "repair", model).lines == [model]
    steelyard.error("repair", "none", code=3)
    steelyard.error("repair", f"{model[:-1]}9", code=3)


def test_no_wait_show_and_cancel(steelyard, source, model):
    flip(large(objects_of(steelyard, model))[0])
    steelyard("verify", model, code=5)
    assert "--source" in steelyard.error("repair", model, "--no-wait", "--source", source, code=2)["message"]
    document = steelyard.json("repair", model, "--no-wait")
    operation = document["operation"]
    assert operation["state"] == "RUNNING" and operation["processed_members"] == 0
    assert document["revision"]["operation"] == "REPAIRING"
    assert document["revision"]["operation_id"] == operation["operation_id"]
    assert "none" in steelyard("operation", "show", operation["operation_id"]).last
    assert steelyard.json("operation", "show", operation["operation_id"])["runner"] is None
    (row,) = [line for line in steelyard("list").lines if line.startswith(model)]
    assert "REPAIRING 0 %" in row
    assert steelyard.json("inspect", model)["operation"]["operation_id"] == operation["operation_id"]
    assert steelyard.json("repair", model, "--no-wait")["operation"]["operation_id"] == operation["operation_id"]

    cancelled = steelyard.json("operation", "cancel", operation["operation_id"])
    assert cancelled["operation"]["state"] == "CANCELLED" and cancelled["revision"]["operation"] == "NONE"
    assert steelyard.json("operation", "cancel", operation["operation_id"]) == cancelled
    assert steelyard("-q", "operation", "show", operation["operation_id"]).lines == [operation["operation_id"]]

    again = steelyard.json("repair", model, "--no-wait")["operation"]
    done = steelyard.json("repair", model, "--source", source)["operation"]
    assert done["operation_id"] == again["operation_id"] and done["state"] == "DONE"
    assert state(steelyard, model) == ("READY", "NONE")
    assert steelyard.error("operation", "show", "0" * 32, code=3)["code"] == "NOT_FOUND"
    assert steelyard.error("operation", "cancel", "x", code=2)["code"] == "INVALID_ARGUMENT"


def test_expect_generation(steelyard, source, model):
    flip(large(objects_of(steelyard, model))[0])
    steelyard("verify", model, code=5)
    current = steelyard.json("inspect", model)["revision"]["metadata_generation"]
    error = steelyard.error("repair", model, "--source", source, "--expect-generation", current - 1, code=7)
    assert error["code"] == "STALE_GENERATION" and str(current) in error["message"]
    for wrong in ("0", "x", "01", ""):
        steelyard.error("repair", model, "--expect-generation", wrong, code=2)
    steelyard("repair", model, "--source", source, "--expect-generation", current)


def test_one_repairs_at_a_time(steelyard, source, model):
    flip(large(objects_of(steelyard, model))[0])
    steelyard("verify", model, code=5)
    first = harness.stop_at(steelyard, "repair.before_replace", 1, "repair", model, "--source", source)
    error = steelyard.error("repair", model, "--source", source, code=6)
    assert error["code"] == "BUSY" and str(first.pid) in error["message"]
    # Cancelled meanwhile: it says so, and what it wrote is right all the same.
    operation = steelyard.json("inspect", model)["operation"]
    steelyard("operation", "cancel", operation["operation_id"])
    first.send_signal(signal.SIGCONT)
    code, _, error = harness.finish(first)
    assert code == 4 and "cancelled" in error["message"], error
    assert steelyard("verify", model).last == "ok"
    assert state(steelyard, model) == ("READY", "NONE")


def test_a_runner_that_is_gone_is_taken_over(steelyard, source, model, tmp_path):
    flip(large(objects_of(steelyard, model))[0])
    steelyard("verify", model, code=5)
    killed = steelyard.run("repair", model, "--source", source, env={"STEELYARD_FAULT": "kill@repair.before_replace"})
    assert killed.code == -signal.SIGKILL
    operation = steelyard.json("inspect", model)["operation"]
    assert operation["state"] == "RUNNING"
    shown = steelyard("operation", "show", operation["operation_id"]).stdout
    assert f"is gone; `steelyard repair {model} --source {source}` goes on with it" in shown and "(pid " in shown
    assert "is gone" in steelyard("inspect", model).stdout
    runner = steelyard.json("operation", "show", operation["operation_id"])["runner"]
    assert runner["gone"] is True and "(pid " in runner["holder"]
    done = steelyard.json("repair", model, "--source", source)["operation"]
    assert (done["operation_id"], done["state"]) == (operation["operation_id"], "DONE")
    harness.assert_whole(steelyard, source, tmp_path, model)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
def test_interrupted(steelyard, source, model, number):
    flip(large(objects_of(steelyard, model))[0])
    steelyard("verify", model, code=5)
    process = harness.stop_at(steelyard, "repair.after_start", 1, "repair", model, "--source", source)
    process.send_signal(number)
    process.send_signal(signal.SIGCONT)
    code, document, _ = harness.finish(process)
    assert code == 128 + number and document is None
    assert state(steelyard, model) == ("DEGRADED", "REPAIRING")
    assert steelyard.json("repair", model, "--source", source)["operation"]["state"] == "DONE"


def test_a_full_disk_leaves_it_to_be_continued(steelyard, source, model):
    flip(large(objects_of(steelyard, model))[0])
    steelyard("verify", model, code=5)
    full = steelyard.run("--json", "repair", model, "--source", source, env={"STEELYARD_FAULT": "ENOSPC@tier.write"})
    assert full.code == 8 and "repair" in full.error()["hint"], full.explain()
    operation = steelyard.json("inspect", model)["operation"]
    assert operation["state"] == "RUNNING"
    assert steelyard.json("repair", model, "--source", source)["operation"]["operation_id"] == operation["operation_id"]
    assert state(steelyard, model) == ("READY", "NONE")
    harness.assert_no_strays(steelyard.store)


def test_a_reader_keeps_its_old_bytes(steelyard, source, model):
    """A lease does not keep a repair waiting."""
    flip(large(objects_of(steelyard, model))[0])
    steelyard("verify", model, code=5)
    steelyard("lease", "acquire", model, "--holder", "h", "--allow-degraded")
    steelyard("repair", model, "--source", source)
    assert state(steelyard, model) == ("READY", "NONE")


def test_progress(steelyard, source, model):
    flip(large(objects_of(steelyard, model))[0])
    steelyard("verify", model, code=5)
    result = steelyard("--progress", "json", "repair", model, "--source", source)
    events = [json.loads(line) for line in result.stderr.splitlines()]
    assert {event["phase"] for event in events} == {"repair"}
    assert events[-1]["bytes_done"] == events[-1]["bytes_total"] == MIB


def test_a_user_who_may_only_read(steelyard, source, unprivileged):
    """Damage is told and not recorded; repair says that it may not write."""
    with tempfile.TemporaryDirectory(prefix="steelyard-test-") as folder:
        os.chmod(folder, 0o755)
        runner = Steelyard(Path(folder) / "store", Path(folder) / "home")
        model = runner(*harness.import_args(source, "m")).last
        if subprocess.run([str(binary()), "--version"], capture_output=True, **unprivileged).returncode != 0:
            pytest.skip("another user cannot run the program where it lies")
        flip(large(objects_of(runner, model))[0])
        everything = [runner.store, *runner.store.rglob("*")]
        if not unprivileged:
            for path in everything:
                path.chmod(path.stat().st_mode & ~0o222)
        runner("verify", model, code=5, **unprivileged)
        runner("cat", model, "config.json", **unprivileged)
        assert runner.error("repair", model, code=9, **unprivileged)["code"] == "UNAUTHORIZED"
        for path in everything:
            path.chmod(path.stat().st_mode | 0o200)
        assert state(runner, model) == ("READY", "NONE")


def test_readers_and_repairs_at_once(steelyard, source, model, tmp_path):
    """Whoever reads gets right bytes or an error; in the end everything is whole, and READY."""
    shared = steelyard(*harness.import_args(source, "twin")).last
    objects = large(objects_of(steelyard, model))
    for path in objects[:3]:
        flip(path)
    steelyard("verify", model, code=5)
    running = [steelyard.start("repair", ref, "--source", source) for ref in (model, shared, model, shared)]
    running += [steelyard.start("verify", ref) for ref in (model, shared)]
    running += [steelyard.start("materialize", ref, tmp_path / f"out-{ref}", "--allow-degraded") for ref in (model, shared)]
    for process in running:
        _, err = process.communicate(timeout=300)
        assert process.returncode in (0, 4, 5, 6, 7), err.decode()
    for ref in (model, shared):
        steelyard("verify", ref)
        assert state(steelyard, ref) == ("READY", "NONE")
        harness.assert_whole(steelyard, source, tmp_path, ref)


def test_bytes_that_nobody_shares_are_not_looked_for_elsewhere(steelyard, source, model, tmp_path):
    """What a repair costs does not grow with the store."""

    def repair() -> int:
        victim = large(objects_of(steelyard, model))[0]
        flip_bit(victim, 5)
        steelyard("verify", model, code=5)
        calls = tier_calls(steelyard, tmp_path, "repair", model, "--source", source)
        assert steelyard("verify", model).last == "ok"
        return calls

    before = repair()
    for number in range(3):
        steelyard("import", make_checkpoint(tmp_path / f"other-{number}", shards=1, seed=number), f"other-{number}")
    assert repair() == before


def test_a_read_records_all_that_it_met_at_once(steelyard, model, tmp_path):
    for path in large(objects_of(steelyard, model))[:3]:
        flip_bit(path, 5)
    before = steelyard.json("inspect", model)["revision"]["metadata_generation"]
    steelyard("materialize", model, tmp_path / "out", code=5)
    row = steelyard.json("inspect", model)["revision"]
    assert row["availability"] == "DEGRADED" and row["metadata_generation"] == before + 1
