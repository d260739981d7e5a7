"""The folders in which doctor and bench try a filesystem: whose process lives is left alone, with locks that work or without."""

from __future__ import annotations

import os
import signal

import pytest

from crash import harness


@pytest.fixture(params=["locks", "no locks"])
def runner(request, steelyard, source):
    """A store where locks work, and one where they do nothing, as on some shared filesystems."""
    env = {"LD_PRELOAD": str(request.getfixturevalue("noflock"))} if request.param == "no locks" else {}
    runner = steelyard.at(steelyard.store, **env)
    runner(*harness.import_args(source))
    return runner


def test_two_at_once(runner):
    first = harness.stop_at(runner, "tier.after_link", 1, "doctor")
    try:
        runner("doctor")
        assert len(list(runner.store.glob("**/doctor-*"))) == 1, "the one that stands still keeps its own"
        first.send_signal(signal.SIGCONT)
        code, _, error = harness.finish(first)
        assert code == 0, error
    finally:
        first.kill()
    assert not list(runner.store.glob("**/doctor-*"))


def test_what_a_killed_one_left_goes(runner):
    runner("doctor", code=-signal.SIGKILL, env={"STEELYARD_FAULT": "kill@tier.after_link"})
    (left,) = runner.store.glob("**/doctor-*")
    os.utime(left, (0, 0))
    runner("doctor")
    assert not list(runner.store.glob("**/doctor-*"))
