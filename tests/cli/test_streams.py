"""Stdout and stderr: closed pipes, terminals, progress, warnings."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import signal
import struct
import subprocess
import termios
from collections import defaultdict

import pytest

from lib.checkpoints import make_checkpoint, safetensors_bytes, Tensor, write_file
from lib.runner import binary


@pytest.fixture
def source(tmp_path):
    return make_checkpoint(tmp_path / "source", shards=2, tensors_per_shard=4, shape=(1024, 1024))


def test_a_pipe_that_nobody_reads(steelyard, source):
    steelyard("import", source, "demo")
    for words in (["list"], ["--help"], ["cat", "demo", "model-00001-of-00002.safetensors"]):
        read_end, write_end = os.pipe()
        os.close(read_end)
        result = steelyard.run(*words, stdout=write_end)
        os.close(write_end)
        assert result.code == -signal.SIGPIPE and result.stderr == "", result.explain()


def test_a_pipe_that_nobody_reads_leaves_no_lease(steelyard, source):
    steelyard("import", source, "demo")
    read_end, write_end = os.pipe()
    os.close(read_end)
    result = steelyard.run("cat", "demo", "model-00001-of-00002.safetensors", stdout=write_end)
    os.close(write_end)
    assert result.code == -signal.SIGPIPE
    assert steelyard("lease", "list").last == "no live leases"


def test_a_closed_stdout(steelyard):
    done = subprocess.run(["bash", "-c", '"$0" --help >&-; echo $?', str(binary())], capture_output=True, text=True, env=steelyard.environment())
    assert done.stdout.strip() == str(128 + signal.SIGPIPE) and done.stderr == ""


def test_a_closed_stderr_does_not_hurt(steelyard, source):
    """No file of the store gets the number of stderr."""
    done = subprocess.run(
        ["bash", "-c", '"$0" import "$1" demo 2>&- <&-', str(binary()), str(source)], capture_output=True, text=True, env=steelyard.environment()
    )
    assert done.returncode == 0 and done.stdout.splitlines()[-1] == "demo@main#1"
    assert steelyard("verify", "demo").last == "ok"
    read_end, write_end = os.pipe()
    os.close(read_end)
    assert steelyard.run("import", source, "other", "--progress", "json", stderr=write_end).code == 0
    os.close(write_end)


def events_of(text: str) -> list[dict]:
    events = [json.loads(line) for line in text.splitlines()]
    assert all(one["event"] == "progress" for one in events)
    return events


@pytest.mark.parametrize("verb, phase", [("import", "import"), ("verify", "verify"), ("materialize", "materialize")])
def test_json_progress(steelyard, source, tmp_path, verb, phase):
    words = ["import", source, "demo"]
    if verb != "import":
        steelyard(*words)
        words = [verb, "demo"] + ([tmp_path / "out"] if verb == "materialize" else [])
    result = steelyard(*words, "--progress", "json", "--chunk-size", "1MiB")
    phases = defaultdict(list)
    for one in events_of(result.stderr):
        assert list(one) == ["event", "phase", "ref", "bytes_done", "bytes_total", "files_done", "files_total"]
        phases[one["phase"]].append(one)
    assert phase in phases and set(phases) <= {"scan", "import", "verify", "materialize"}
    for events in phases.values():
        for key in ("bytes_total", "files_total"):
            assert len({one[key] for one in events}) == 1, "totals never change"
        for key in ("bytes_done", "files_done"):
            done = [one[key] for one in events]
            assert done == sorted(done), "done never goes back"
        assert events[-1]["bytes_done"] == events[-1]["bytes_total"], "the last one says 100 %"
        assert events[-1]["files_done"] == events[-1]["files_total"]
    assert phases[phase][-1]["bytes_total"] > 0


def test_plain_and_none_have_no_carriage_returns(steelyard, source):
    for style in ("plain", "none", "auto"):
        result = steelyard("import", source, f"demo-{style}", "--progress", style)
        assert "\r" not in result.stderr and "\x1b" not in result.stderr


def test_a_warning_is_one_line(steelyard, tmp_path):
    source = make_checkpoint(tmp_path / "odd", shards=1)
    write_file(source / "model.safetensors", safetensors_bytes({"x": Tensor("F8_XYZ", (4,), b"1234")}))
    result = steelyard("import", source, "plain")
    (line,) = result.said.splitlines()
    assert line.startswith("warning: ") and "F8_XYZ" in line
    assert steelyard("import", source, "error", "--log-level", "error").said == ""
    result = steelyard("import", source, "json", "--progress", "json")
    warnings = [json.loads(line) for line in result.stderr.splitlines() if "warning" in line]
    assert [list(one) for one in warnings] == [["event", "message"]] and "F8_XYZ" in warnings[0]["message"]


def on_terminal(steelyard, *words, columns: int, env: dict[str, str] | None = None) -> tuple[int, str]:
    """Runs with stdout and stderr on a terminal of that width."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    process = steelyard.start(*words, stdout=slave, stderr=slave, env={"TERM": "xterm", **(env or {})})
    os.close(slave)
    text = b""
    while True:
        try:
            piece = os.read(master, 65536)
        except OSError:
            break
        if not piece:
            break
        text += piece
    os.close(master)
    return process.wait(timeout=60), text.decode()


def test_a_terminal_has_a_bar_that_goes_away_and_tables_that_fit(steelyard, source):
    code, text = on_terminal(steelyard, "import", source, "a-name-that-is-much-longer-than-the-terminal-is-wide", columns=60)
    assert code == 0 and "\r[" in text and "import: " in text
    assert text.rstrip().splitlines()[-1] == "a-name-that-is-much-longer-than-the-terminal-is-wide@main#1"
    assert "\x1b[K" in text
    # What one pastes back is never cut; the lines of the others fit.
    steelyard("import", source, "short")
    code, text = on_terminal(steelyard, "list", "short", columns=60, env={"NO_COLOR": "1"})
    assert code == 0 and "\x1b" not in text and "…" in text
    assert all(len(line) <= 60 for line in text.splitlines())
    assert "a-name-that-is-much-longer-than-the-terminal-is-wide@main#1" in on_terminal(steelyard, "list", columns=60)[1]
    for columns in (200, 0):  # 0: a terminal that does not know how wide it is
        _, text = on_terminal(steelyard, "list", columns=columns, env={"NO_COLOR": "1"})
        assert "a-name-that-is-much-longer-than-the-terminal-is-wide@main#1" in text and "…" not in text
    _, text = on_terminal(steelyard, "nonsense", columns=60)
    assert "\x1b[1;31merror:" in text
    for env in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        _, text = on_terminal(steelyard, "nonsense", columns=60, env=env)
        assert "\x1b" not in text


def test_no_network(steelyard, source, tmp_path):
    """Every verb works in an empty network namespace."""
    unshare = ["unshare", "-rn"]
    if subprocess.run([*unshare, "true"], capture_output=True).returncode != 0:
        pytest.skip("network namespaces cannot be made here")
    steelyard("import", source, "demo", wrapper=unshare)
    for words in (["list"], ["inspect", "demo"], ["verify", "demo"], ["materialize", "demo", tmp_path / "o"], ["cat", "demo", "config.json"], ["config", "show"]):
        steelyard(*words, wrapper=unshare)
