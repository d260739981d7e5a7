"""Ctrl-C and SIGTERM: nothing half visible, a line that says how to go on, and the second signal ends at once.

The program stops itself (SIGSTOP) at a fault point, so that the signal finds it in the middle of its work every time.
"""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from lib.checkpoints import make_checkpoint
from lib.waiting import wait_until

KINDS = [(signal.SIGINT, 130), (signal.SIGTERM, 143)]


def stopped(process) -> bool:
    assert process.poll() is None, process.communicate()[1].decode()
    stat = Path(f"/proc/{process.pid}/stat").read_text()
    return stat.rsplit(")", 1)[1].split()[0] == "T"


@pytest.fixture
def source(tmp_path):
    return make_checkpoint(tmp_path / "source", shards=2, tensors_per_shard=4, shape=(512, 512))


def start_and_stop(steelyard, point, *args):
    process = steelyard.start(*args, env={"STEELYARD_FAULT": f"stop@{point}"})
    wait_until(lambda: stopped(process))
    return process


@pytest.mark.parametrize("number, code", KINDS)
@pytest.mark.parametrize("json_mode", [False, True])
def test_an_interrupted_import(steelyard, source, number, code, json_mode):
    process = start_and_stop(steelyard, "import.after_begin", "import", source, "demo", *(["--json"] if json_mode else []))
    process.send_signal(number)
    process.send_signal(signal.SIGCONT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == code and out == b""
    if json_mode:
        error = json.loads(err.decode().splitlines()[-1])["error"]
        assert "interrupted" in error["message"] and "again" in error["hint"]
    else:
        assert "interrupted" in err.decode() and "again" in err.decode()
        assert err.decode().count("nothing was ") == 1 and "resumes demo@main#1" in err.decode()
    assert steelyard.json("list")["revisions"] == []
    (revision,) = steelyard.json("list", "--all")["revisions"]
    assert revision["availability"] == "IMPORTING" and revision["committed_seq"] is None
    assert steelyard.json("inspect", "demo#1")["manifest"] is None
    assert "IMPORTING" in steelyard.error("cat", "demo#1", "config.json", code=11)["message"]
    assert "IMPORTING" in steelyard.error("inspect", "demo", code=3)["message"]
    # The token was given back: the same command need not wait, and goes on under the same generation.
    assert steelyard("import", source, "demo").last == "demo@main#1"


@pytest.mark.parametrize("number, code", KINDS)
def test_the_second_signal_ends_at_once(steelyard, source, number, code):
    process = start_and_stop(steelyard, "import.after_begin", "import", source, "demo")
    # The first is delivered before the second is sent, since equal pending signals count once.
    process.send_signal(signal.SIGTERM if number == signal.SIGINT else signal.SIGINT)
    process.send_signal(number)
    process.send_signal(signal.SIGCONT)
    process.communicate(timeout=60)
    assert process.returncode in (130, 143)
    assert steelyard.json("list")["revisions"] == []
    assert code in (130, 143)


@pytest.mark.parametrize("number, code", KINDS)
def test_an_interrupted_materialise_leaves_nothing(steelyard, source, tmp_path, number, code):
    steelyard("import", source, "demo")
    target = tmp_path / "out"
    process = start_and_stop(steelyard, "tier.read", "materialize", "demo", target)
    process.send_signal(number)
    process.send_signal(signal.SIGCONT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == code, err
    assert not target.exists() and not [name for name in os.listdir(tmp_path) if name.startswith(".")]
    assert steelyard.json("lease", "list")["leases"] == []


def test_a_quick_verb_ends_by_the_first_signal(steelyard, source):
    steelyard("import", source, "demo")
    process = start_and_stop(steelyard, "log.turn", "lease", "acquire", "demo", "--holder", "h")
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGCONT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130 and b"interrupted" in err
    assert steelyard.json("lease", "list")["leases"] == []


def test_a_live_writer_is_busy_and_a_dead_one_is_not(steelyard, source):
    process = start_and_stop(steelyard, "import.after_begin", "import", source, "demo")
    error = steelyard.error("import", source, "demo", code=6)
    assert error["code"] == "BUSY" and f"pid {process.pid}" in error["message"] + error["hint"]
    assert error["hint"]
    process.kill()
    process.communicate()
    revision = steelyard.json("import", source, "demo")["revision"]
    assert (revision["ref"], revision["import_attempt"]) == ("demo@main#1", 2)


def test_waiting_for_a_writer(steelyard, source):
    process = start_and_stop(steelyard, "import.after_begin", "import", source, "demo")
    waiting = start_and_stop(steelyard, "import.waiting", "import", source, "demo", "--wait", "1m")
    process.send_signal(signal.SIGCONT)
    assert process.communicate(timeout=60)[0].decode().splitlines()[-1] == "demo@main#1"
    waiting.send_signal(signal.SIGCONT)
    out, err = waiting.communicate(timeout=60)
    assert waiting.returncode == 0, err
    assert out.decode().splitlines()[-1] == "demo@main#1" and b"already there" in out
