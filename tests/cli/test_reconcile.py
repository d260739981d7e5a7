"""reconcile: what it goes on with, what it leaves to others, and how it says what it could not do."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from crash import harness
from lib.damage import flip, large, objects_of, state


@pytest.fixture
def source(tmp_path) -> Path:
    return harness.small_checkpoint(tmp_path / "a source")


@pytest.fixture
def model(steelyard, source) -> str:
    return steelyard(*harness.import_args(source, "m")).last


def interrupted_repair(steelyard, source, model, *options) -> str:
    """A repair that was killed; the operation's id."""
    flip(large(objects_of(steelyard, model))[0])
    steelyard("verify", model, code=5)
    killed = steelyard.run("repair", model, *options, env={"STEELYARD_FAULT": "kill@repair.after_start"})
    assert killed.code == -signal.SIGKILL
    return steelyard.json("inspect", model)["operation"]["operation_id"]


def test_a_repair_that_had_a_source_waits_for_it(steelyard, source, model):
    operation = interrupted_repair(steelyard, source, model, "--source", source)
    command = f"steelyard repair {model} --source '{source}'"
    shown = steelyard("operation", "show", operation).stdout
    assert str(source) in shown

    document = steelyard.json("reconcile")
    (waiting,) = document["waiting"]
    assert document["failed"] == [] and waiting["ref"] == model and waiting["code"] == "CORRUPT"
    assert command in waiting["hint"], waiting
    human = steelyard("reconcile").lines
    assert any(line.startswith(f"waiting: {model}: ") and command in line for line in human), human
    assert state(steelyard, model) == ("DEGRADED", "REPAIRING")
    assert command in steelyard("operation", "show", operation).last
    doctor = steelyard.run("doctor")
    assert f"`{command}` goes on with it" in doctor.stdout, doctor.explain()

    # Nor does the same command without it end it; it names the whole command.
    error = steelyard.error("repair", model, code=5)
    assert command in error["hint"] and operation in error["hint"]
    done = steelyard.json("repair", model, "--source", source)["operation"]
    assert (done["operation_id"], done["state"]) == (operation, "DONE")
    assert steelyard.json("reconcile")["waiting"] == []


def test_a_source_that_only_a_later_run_had(steelyard, source, model):
    operation = interrupted_repair(steelyard, source, model)
    killed = steelyard.run("repair", model, "--source", source, env={"STEELYARD_FAULT": "kill@repair.after_start"})
    assert killed.code == -signal.SIGKILL
    steelyard("reconcile")
    assert steelyard.json("operation", "show", operation)["operation"]["state"] == "RUNNING"


def test_what_the_store_has_itself_needs_no_source(steelyard, source, model):
    """Killed when all was whole again: a reconcile ends it well."""
    flip(large(objects_of(steelyard, model))[0])
    steelyard("verify", model, code=5)
    steelyard.run("repair", model, "--source", source, env={"STEELYARD_FAULT": "kill@repair.after_findings"})
    assert "is done" in steelyard("reconcile").lines[0]
    assert state(steelyard, model) == ("READY", "NONE")


def test_an_interrupted_repair_names_its_source(steelyard, source, model):
    flip(large(objects_of(steelyard, model))[0])
    steelyard("verify", model, code=5)
    process = harness.stop_at(steelyard, "repair.after_start", 1, "repair", model, "--source", source)
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGCONT)
    _, _, error = harness.finish(process)
    assert f"steelyard repair {model} --source '{source}'" in error["hint"]


def test_a_failure_keeps_its_code_and_each_is_told(steelyard, source):
    models = [steelyard(*harness.import_args(source, ref)).last for ref in ("m", "n")]
    flip(large(objects_of(steelyard, models[0]))[0])
    for model in models:
        steelyard("verify", model, code=5)
        steelyard("repair", model, "--no-wait")
    result = steelyard("--json", "reconcile", code=5)
    document, error = json.loads(result.stdout), result.error()
    assert [(one["ref"], one["code"]) for one in document["failed"]] == [(model, "CORRUPT") for model in models]
    assert all("--source" in one["hint"] for one in document["failed"])
    assert error["code"] == "CORRUPT" and models[0] in error["message"] and "--source" in error["hint"]
    for model in models:
        steelyard("repair", model, "--no-wait")
    lines = steelyard("reconcile", code=5).lines
    for model in models:
        assert any(line.startswith(f"failed: {model}: ") and "--source" in line for line in lines), lines


def test_each_revision_has_its_phases_to_itself(steelyard, tmp_path):
    """Done never goes back within a phase."""
    source = harness.small_checkpoint(tmp_path / "large", mib_per_shard=35)
    models = [steelyard(*harness.import_args(source, ref)).last for ref in ("m", "n")]
    for model in models:
        for path in objects_of(steelyard, model)[:66]:
            path.unlink()
        steelyard("verify", model, code=5)
    result = steelyard("--progress", "json", "reconcile")
    events = [json.loads(line) for line in result.stderr.splitlines() if line.startswith("{")]
    assert {(event["phase"], event["ref"]) for event in events} == {("verify", model) for model in models}
    for model in models:
        done = [event["bytes_done"] for event in events if event["ref"] == model]
        assert done == sorted(done)


def test_what_shares_damaged_bytes_learns_of_it(steelyard, source, model):
    """Damage that is found through one revision is damage of every one that shares the object, whatever their order."""
    before = steelyard(*harness.import_args(source, "a")).last
    after = steelyard(*harness.import_args(source, "z")).last
    flip(large(objects_of(steelyard, model))[1])
    steelyard("verify", model, code=5)
    assert state(steelyard, before)[0] == state(steelyard, after)[0] == "READY"
    changes = {line["ref"]: line["what"] for line in steelyard.json("reconcile")["changes"]}
    assert set(changes) == {before, after} and all("1 missing or damaged object" in what for what in changes.values())
    assert state(steelyard, before)[0] == state(steelyard, after)[0] == "DEGRADED"
    steelyard("repair", model, "--source", source)
    assert {one["availability"] for one in harness.revisions(steelyard)} == {"READY"}
