"""A process that was stopped inside its write: whoever only reads goes on, and says what that means."""

from __future__ import annotations

import signal

import pytest

from crash import harness
from lib.checkpoints import flip_bit, tree_digests


@pytest.fixture(params=["log.turn", "log.prepared"])
def stopped(request, steelyard, source):
    """A published revision, and a process that stands still with the turn, or in the middle of its transaction."""
    steelyard(*harness.import_args(source))
    process = harness.stop_at(steelyard, request.param, 1, "lease", "acquire", harness.REF, "--holder", "h")
    process.holds_database = request.param == "log.prepared"
    yield process
    process.kill()
    process.communicate()


def assert_said_so(result, process) -> None:
    """One warning that names who is in the way and what it means; none where the turn alone was held."""
    warnings = [line for line in result.stderr.splitlines() if line.startswith("warning: ")]
    assert len(warnings) == (1 if process.holds_database else 0), result.explain()
    for line in warnings:
        assert "without a lease" in line and f"pid {process.pid}" in line and "delete" in line, line


def test_what_is_there_can_be_read(steelyard, source, tmp_path, stopped):
    assert [one["ref"] for one in harness.revisions(steelyard)] == [f"{harness.REF}#1"]
    assert steelyard("inspect", harness.REF).stderr == ""
    verified = steelyard("verify", harness.REF)
    assert verified.last == "ok"
    assert_said_so(verified, stopped)
    assert_said_so(steelyard("materialize", harness.REF, tmp_path / "out"), stopped)
    assert tree_digests(tmp_path / "out") == tree_digests(source)
    shown = steelyard("cat", harness.REF, "config.json")
    assert shown.stdout_bytes == (source / "config.json").read_bytes()
    assert_said_so(shown, stopped)
    stopped.send_signal(signal.SIGCONT)
    assert harness.finish(stopped)[0] == 0


def test_a_reader_whose_writer_stops_meanwhile_ends_well(steelyard, source, tmp_path):
    """It cannot give its lease back; that ends by itself."""
    steelyard(*harness.import_args(source))
    reader = harness.stop_at(steelyard, "tier.read", 1, "materialize", harness.REF, tmp_path / "out")
    writer = harness.stop_at(steelyard, "log.prepared", 1, "lease", "acquire", harness.REF, "--holder", "h")
    try:
        reader.send_signal(signal.SIGCONT)
        assert harness.finish(reader)[0] == 0
        assert tree_digests(tmp_path / "out") == tree_digests(source)
    finally:
        for process in (reader, writer):
            process.kill()


@pytest.mark.slow
def test_damage_that_cannot_be_recorded_is_named(steelyard, source):
    steelyard(*harness.import_args(source))
    payload = next(harness.groups_folder(steelyard.store).glob("*/*/*/p/00000001"))
    flip_bit(payload)
    writer = harness.stop_at(steelyard, "log.prepared", 1, "lease", "acquire", harness.REF, "--holder", "h")
    try:
        result = steelyard("verify", harness.REF, code=5)
        assert "object_checksum" in result.stdout
        assert "could not be recorded" in result.stderr and f"pid {writer.pid}" in result.stderr, result.explain()
    finally:
        writer.kill()
        writer.communicate()
    assert harness.revisions(steelyard)[0]["availability"] == "READY"
    steelyard("verify", harness.REF, code=5)
    assert steelyard.json("inspect", harness.REF)["revision"]["availability"] == "DEGRADED"


@pytest.mark.slow
def test_a_lease_of_its_own_is_still_refused(steelyard, source):
    """Who asks for a lease wants one: BUSY, naming who is in the way."""
    steelyard(*harness.import_args(source))
    writer = harness.stop_at(steelyard, "log.prepared", 1, "lease", "acquire", harness.REF, "--holder", "h")
    try:
        error = steelyard.error("lease", "acquire", harness.REF, "--holder", "other", code=6)
        assert str(writer.pid) in error["message"] and "kill -CONT" in error["hint"], error
    finally:
        writer.kill()
        writer.communicate()
