"""doctor: what is wrong with a store, and what to do."""

from __future__ import annotations

import json
import os
import shutil
import signal

import pytest

from crash import harness
from lib.checkpoints import make_checkpoint
from lib.damage import flip, large, objects_of
from lib.permissions import let_others_in, nobody_writes


@pytest.fixture
def source(tmp_path):
    return harness.small_checkpoint(tmp_path / "source")


def checks(document, name: str) -> list[dict]:
    return [check for check in document["checks"] if check["name"] == name]


def states(document) -> set[str]:
    return {check["state"] for check in document["checks"]}


def test_a_healthy_store(steelyard, checkpoint):
    steelyard("import", checkpoint, "one")
    document = steelyard.json("doctor")
    assert document["ok"] is True and "problem" not in states(document)
    for name in ("machine", "memory", "store", "catalog", "objects", "catalog copies", "free space", "trial"):
        assert len(checks(document, name)) == 1, name
    assert "1 revision" in checks(document, "catalog")[0]["found"]
    assert steelyard("doctor").last == "ok"
    assert steelyard("-q", "doctor").lines == ["ok"]
    # What was tried is gone.
    assert sorted(path.name for path in (steelyard.store / "cold").iterdir()) == ["content", "groups", "store.json"]


def test_an_absent_store(steelyard):
    result = steelyard("doctor", code=3)
    assert "there is no store" in result.stdout and "machine" in result.stdout


def test_damage_is_a_problem(steelyard, checkpoint):
    steelyard("import", checkpoint, "one")
    payload = sorted(steelyard.store.glob("cold/groups/*/*/1/p/*"))[0]
    payload.chmod(0o644)
    payload.write_bytes(b"x" + payload.read_bytes()[1:])
    steelyard("verify", "one", code=5)
    result = steelyard("--json", "doctor", code=5)
    document = json.loads(result.stdout)
    (problem,) = [check for check in document["checks"] if check["state"] == "problem"]
    assert problem["name"] == "revisions" and "one@main#1" in problem["found"] and "verify" in problem["next_step"]
    assert document["ok"] is False and result.error()["code"] == "CORRUPT"


def test_an_unfinished_import_is_a_warning(steelyard, checkpoint):
    """Its process is provably gone, whatever time its token has left."""
    steelyard("import", checkpoint, "one", code=-signal.SIGKILL, env={"STEELYARD_FAULT": "kill@import.after_flush"})
    (warning,) = checks(steelyard.json("doctor"), "revisions")
    assert warning["state"] == "warning" and warning["found"] == "IMPORTING without a live writer: one@main#1"
    assert "abort" in warning["next_step"]


def test_an_import_under_way_is_none(steelyard, checkpoint):
    writer = harness.stop_at(steelyard, "import.after_flush", 1, "import", checkpoint, "one")
    assert checks(steelyard.json("doctor"), "revisions") == []
    writer.send_signal(signal.SIGCONT)
    assert harness.finish(writer)[0] == 0


def test_an_import_begun_meanwhile_is_no_stray_group(steelyard, checkpoint, tmp_path):
    steelyard("import", checkpoint, "one")
    points = [point for point in harness.trace(steelyard, tmp_path, "doctor") if point.startswith("tier.list")]
    for number in range(1, len(points) + 1):
        doctor = harness.stop_at(steelyard, "tier.list", number, "doctor")
        steelyard("import", checkpoint, f"m{number}")
        doctor.send_signal(signal.SIGCONT)
        code, document, _ = harness.finish(doctor)
        assert code == 0 and checks(document, "cold tier") == [] and checks(document, "revisions") == [], (number, document)


def test_lost_objects_are_a_problem(steelyard, source):
    """Nobody has read them since they went; a listing is enough to see it."""
    for ref in ("one", "two"):
        steelyard(*harness.import_args(source, ref))
    gone, cut = large(objects_of(steelyard, "one@main#1"))[:2]
    gone.unlink()
    cut.chmod(0o644)
    os.truncate(cut, 10)
    result = steelyard("--json", "doctor", code=5)
    (problem,) = checks(json.loads(result.stdout), "objects")
    assert problem["state"] == "problem" and "one@main#1 (2 of " in problem["found"]
    assert f"payload/{gone.name}" in problem["found"] or f"payload/{cut.name}" in problem["found"]
    assert "two@main#1 (1 of " in problem["found"], "it shares the bytes of the one that was cut"
    assert "reconcile" in problem["next_step"] and "steelyard repair one@main#1" in problem["next_step"]
    # Once it is recorded it is told as DEGRADED, and not twice.
    steelyard("reconcile")
    document = json.loads(steelyard("--json", "doctor", code=5).stdout)
    assert checks(document, "objects")[0]["state"] == "ok"
    assert "DEGRADED: one@main#1, two@main#1" in checks(document, "revisions")[0]["found"]
    steelyard("repair", "one", "--source", source)
    steelyard("repair", "two", "--source", source)
    assert steelyard.json("doctor")["ok"] is True


def test_a_lost_group_and_its_manifest(steelyard, checkpoint):
    steelyard("import", checkpoint, "one")
    shutil.rmtree(steelyard.store / "cold" / "groups")
    document = json.loads(steelyard("--json", "doctor", code=5).stdout)
    (problem,) = checks(document, "objects")
    assert "one@main#1 (its manifest" in problem["found"] and problem["state"] == "problem"


def test_a_repair_that_nobody_runs(steelyard, source):
    steelyard(*harness.import_args(source, "one"))
    flip(large(objects_of(steelyard, "one@main#1"))[0])
    steelyard("verify", "one", code=5)
    steelyard("repair", "one", "--no-wait")
    document = json.loads(steelyard("--json", "doctor", code=5).stdout)
    (warning,) = [check for check in checks(document, "revisions") if check["state"] == "warning"]
    assert "REPAIRING" in warning["found"] and "steelyard repair one@main#1" in warning["next_step"]


def test_a_delete_that_waits_for_a_lease(steelyard, checkpoint):
    steelyard("import", checkpoint, "one")
    steelyard("lease", "acquire", "one", "--holder", "server")
    steelyard("delete", "one", "--yes", "--wait", "0s", code=6)
    (warning,) = checks(steelyard.json("doctor"), "revisions")
    assert "still leased: one@main#1" in warning["found"] and "lease list" in warning["next_step"]


def test_groups_that_nobody_knows(steelyard, checkpoint, tmp_path):
    steelyard("import", checkpoint, "one")
    group = next(path for path in steelyard.store.glob("cold/groups/*/*"))
    stray = steelyard.store / "cold" / "groups" / "00" / ("00" * 32)
    shutil.copytree(group / "1", stray / "1")
    (warning,) = checks(steelyard.json("doctor"), "cold tier")
    assert warning["state"] == "warning" and stray.name in warning["found"] and "gc" in warning["next_step"]


def test_a_published_group_that_no_record_names(steelyard, checkpoint):
    """gc keeps it, so that is not the next step."""
    steelyard("import", checkpoint, "one")
    group = next(path for path in steelyard.store.glob("cold/groups/*/*"))
    other = steelyard.at(steelyard.store.parent / "other")
    other("import", checkpoint, "two")
    theirs = next(path for path in other.store.glob("cold/groups/*/*"))
    shutil.copytree(theirs, group.parent.parent / theirs.name[:2] / theirs.name)
    (warning,) = checks(steelyard.json("doctor"), "cold tier")
    assert warning["state"] == "warning" and theirs.name in warning["found"] and "recover" in warning["next_step"]
    steelyard("gc", "--yes", "--gc-grace", "0s")
    assert checks(steelyard.json("doctor"), "cold tier") == [warning]


def test_a_missing_marker_is_a_warning(steelyard, checkpoint):
    steelyard("import", checkpoint, "one")
    next(steelyard.store.glob("cold/groups/*/*/1/committed")).unlink()
    (warning,) = checks(steelyard.json("doctor"), "revisions")
    assert "one@main#1" in warning["found"] and "reconcile" in warning["next_step"]


def test_the_catalog_is_proved(steelyard, checkpoint):
    steelyard("import", checkpoint, "one")
    shutil.rmtree(steelyard.store / "cold" / "groups")
    for path in steelyard.store.glob("catalog.*"):
        path.unlink()
    os.makedirs(steelyard.store / "cold" / "groups" / "00")
    result = steelyard("doctor", code=10)
    assert "recover" in result.stdout


def test_without_hard_links_equal_objects_take_their_bytes_again(steelyard, tmp_path):
    source = make_checkpoint(tmp_path / "plain", shards=1)
    fault = {"STEELYARD_FAULT": "EPERM@tier.content_link"}
    steelyard("import", source, "one", env=fault)
    found = checks(steelyard.json("doctor", env=fault), "deduplication")
    assert len(found) == 2 and all(check["state"] == "warning" for check in found)


def test_conformance(steelyard, checkpoint):
    steelyard("import", checkpoint, "one")
    before = sorted(str(path) for path in steelyard.store.rglob("*"))
    document = steelyard.json("doctor", "--conformance")
    (summary,) = checks(document, "conformance")
    assert int(summary["found"].split()[0]) > 20 and document["ok"] is True
    assert sorted(str(path) for path in steelyard.store.rglob("*")) == before


def test_what_a_killed_doctor_left_goes(steelyard, checkpoint):
    steelyard("import", checkpoint, "one")
    steelyard("doctor", code=-signal.SIGKILL, env={"STEELYARD_FAULT": "kill@tier.after_link"})
    cold = steelyard.store / "cold"
    assert [path for path in cold.iterdir() if path.name.startswith("doctor-")]
    steelyard("doctor")
    assert not [path for path in cold.iterdir() if path.name.startswith("doctor-")]
    assert steelyard("verify", "one").last == "ok"


def test_read_only(steelyard, checkpoint, tmp_path, unprivileged):
    steelyard("import", checkpoint, "one")
    let_others_in(tmp_path)
    with nobody_writes(steelyard.store):
        document = steelyard.json("doctor", **unprivileged)
    assert document["ok"] is True
    if unprivileged:
        assert checks(document, "trial")[0]["state"] == "skipped"


@pytest.mark.parametrize("lost", ["lost", "garbage", "another"])
def test_adopt(steelyard, checkpoint, lost):
    steelyard("import", checkpoint, "one")
    path = steelyard.store / "cold" / "store.json"
    text = path.read_text()
    path.unlink()
    if lost == "garbage":
        path.write_text("{}")
    elif lost == "another":
        path.write_text(text.replace(text[-36:-4], "0123456789abcdef" * 2))
    assert steelyard.run("verify", "one").code in (5, 10)
    document = steelyard.json("doctor", "--adopt")
    assert document["adopted"] is True and path.read_text() == text
    assert steelyard("verify", "one").last == "ok"
    assert steelyard.json("doctor", "--adopt")["adopted"] is False


def test_a_tier_of_other_objects_is_not_adopted(steelyard, checkpoint, tmp_path):
    steelyard("import", checkpoint, "one")
    other = steelyard.at(tmp_path / "other")
    other("import", checkpoint, "two")
    cold = {"STEELYARD_COLD_PATH": str(tmp_path / "other" / "cold")}
    before = (tmp_path / "other" / "cold" / "store.json").read_text()
    error = steelyard.error("doctor", "--adopt", code=4, env=cold)
    assert "0 of the 1 published revision" in error["message"]
    assert (tmp_path / "other" / "cold" / "store.json").read_text() == before
