"""doctor: what is wrong with a store, and what to do."""

from __future__ import annotations

import json
import os
import shutil
import signal

import pytest

from lib.checkpoints import make_checkpoint
from lib.permissions import let_others_in, nobody_writes


def checks(document, name: str) -> list[dict]:
    return [check for check in document["checks"] if check["name"] == name]


def states(document) -> set[str]:
    return {check["state"] for check in document["checks"]}


def test_a_healthy_store(steelyard, checkpoint):
    steelyard("import", checkpoint, "one")
    document = steelyard.json("doctor")
    assert document["ok"] is True and "problem" not in states(document)
    for name in ("machine", "memory", "store", "catalog", "catalog copies", "free space", "trial"):
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
    steelyard("import", checkpoint, "one", code=-signal.SIGKILL, env={"STEELYARD_FAULT": "kill@import.after_flush"})
    (warning,) = checks(steelyard.json("doctor", env={"STEELYARD_IMPORT_WRITER_TTL": "2s"}), "revisions") or [None]
    assert warning is None or "IMPORTING" in warning["found"]


def test_groups_that_nobody_knows(steelyard, checkpoint, tmp_path):
    steelyard("import", checkpoint, "one")
    group = next(path for path in steelyard.store.glob("cold/groups/*/*"))
    stray = steelyard.store / "cold" / "groups" / "00" / ("00" * 32)
    shutil.copytree(group / "1", stray / "1")
    (warning,) = checks(steelyard.json("doctor"), "cold tier")
    assert warning["state"] == "warning" and stray.name in warning["found"] and "gc" in warning["next_step"]


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
