"""repair is killed at every fault point: every name has its old bytes or whole ones, and the same command ends what was begun."""

from __future__ import annotations

import re
import signal
import tempfile
from functools import cache
from pathlib import Path

import pytest

from crash import harness
from lib.runner import Steelyard, binary

MIB = 1024 * 1024


def damage(steelyard) -> None:
    """The first full object of each of two revisions that share it, and another that is gone."""
    groups = harness.groups_folder(steelyard.store)
    paths = sorted(path for path in groups.glob("*/*/*/p/*") if path.stat().st_size == MIB)
    first = paths[0]
    first.chmod(0o644)
    with first.open("r+b") as file:
        file.seek(77)
        byte = file.read(1)
        file.seek(77)
        file.write(bytes([byte[0] ^ 1]))
    next(path for path in paths if path.parent == first.parent and path.stat().st_ino != first.stat().st_ino).unlink()


def make_damaged(steelyard, source) -> str:
    """The ref of the revision that lacks the object which is gone."""
    for ref in ("a", "b"):
        steelyard(*harness.import_args(source, ref))
    damage(steelyard)
    reports = [steelyard.json("verify", ref, code=5) for ref in ("a", "b")]
    lacking = [report["ref"] for report in reports if any(problem["kind"] == "missing_object" for problem in report["problems"])]
    assert len(lacking) == 1
    return lacking[0]


@pytest.fixture
def damaged(steelyard, source) -> str:
    return make_damaged(steelyard, source)


@cache
def traced() -> tuple[str, ...]:
    if not binary().exists():
        return ()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        steelyard = Steelyard(folder / "store", folder / "home")
        source = harness.small_checkpoint(folder / "checkpoint")
        return tuple(harness.trace(steelyard, folder, "repair", make_damaged(steelyard, source), "--source", source))


def pytest_generate_tests(metafunc):
    if "repair_pass" in metafunc.fixturenames:
        tries = harness.passes_to_try(list(traced())) or [("none", 1)]
        metafunc.parametrize("repair_pass", tries, ids=[f"{name}#{number}" for name, number in tries])
    if "repair_io_point" in metafunc.fixturenames:
        names = [name for name in dict.fromkeys(traced()) if re.search(r"^(?!repair\.)(?!.*\.(after|before)_)", name)]
        metafunc.parametrize("repair_io_point", names or ["none"])


def test_a_repair_passes_points():
    assert {"repair.after_start", "repair.before_replace", "repair.after_object", "repair.after_end", "tier.replace"} <= set(traced())


def assert_all_ready(steelyard, source, tmp_path) -> None:
    for ref in ("a", "b"):
        revision = steelyard.json("inspect", ref)["revision"]
        assert (revision["availability"], revision["operation"]) == ("READY", "NONE"), revision
        harness.assert_whole(steelyard, source, tmp_path, ref)
    harness.assert_no_strays(steelyard.store, cleaned_up=False)


def test_killed_at_a_point(steelyard, source, tmp_path, damaged, repair_pass):
    point, number = repair_pass
    killed = steelyard.run("repair", damaged, "--source", source, env={"STEELYARD_FAULT": f"kill@{point}#{number}"})
    assert killed.code in (-signal.SIGKILL, 0), killed.explain()
    for ref in ("a", "b"):
        report = steelyard.run("--json", "verify", ref).json()
        assert all(problem["kind"] in ("missing_object", "object_checksum") for problem in report["problems"]), report
    steelyard("repair", damaged, "--source", source)
    assert_all_ready(steelyard, source, tmp_path)


def test_a_failing_call(steelyard, source, tmp_path, damaged, repair_io_point):
    """Typed, and the same command succeeds afterwards."""
    failed = steelyard.run("--json", "repair", damaged, "--source", source, env={"STEELYARD_FAULT": f"EIO@{repair_io_point}"})
    if failed.code != 0:
        harness.assert_typed(failed)
    steelyard("repair", damaged, "--source", source)
    for ref in ("a", "b"):
        steelyard("verify", ref)
    assert_all_ready(steelyard, source, tmp_path)
