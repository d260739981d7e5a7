"""Runs the real binary with a store, a home and an environment of its own."""

from __future__ import annotations

import atexit
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent

# Against hanging only: no test is about how long a command takes, and the machine may be busy with others.
DEFAULT_TIMEOUT_S = 300
PROGRESS_LINE = re.compile(r"(scan|import|verify|materialize): \d+ %")


def binary() -> Path:
    """The program under test."""
    return Path(os.environ.get("STEELYARD_BIN", ROOT / "build" / "bin" / "steelyard")).resolve()


@dataclass
class Run:
    """What a finished command said. `code` is negative for a signal, as in subprocess."""

    args: list[str]
    code: int
    stdout_bytes: bytes
    stderr: str

    @property
    def stdout(self) -> str:
        return self.stdout_bytes.decode("utf-8", "surrogateescape")

    @property
    def lines(self) -> list[str]:
        return self.stdout.splitlines()

    @property
    def last(self) -> str:
        """The last line of stdout: the ref of an import, the path of a materialise."""
        return self.lines[-1] if self.lines else ""

    @property
    def said(self) -> str:
        """stderr without the progress lines, which come where the machine is so busy that a short work takes seconds."""
        return "".join(line for line in self.stderr.splitlines(keepends=True) if not PROGRESS_LINE.match(line))

    def json(self):
        return json.loads(self.stdout)

    def error(self) -> dict:
        """`{"code", "message", "hint"}` from the last line of stderr."""
        return json.loads(self.stderr.splitlines()[-1])["error"]

    def explain(self) -> str:
        return f"$ {' '.join(self.args)}\nexit {self.code}\n--- stdout\n{self.stdout[-4000:]}\n--- stderr\n{self.stderr[-4000:]}"


@cache
def hot_folder() -> str | None:
    """Where the memory tiers of this run's stores lie, so that nothing of theirs stays: None where memory cannot be used."""
    if not os.access("/dev/shm", os.W_OK):
        return None
    folder = tempfile.mkdtemp(prefix="steelyard-test-", dir="/dev/shm")
    os.chmod(folder, 0o1777)  # as /dev/shm itself: some tests run as another user
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


class Steelyard:
    """Runs the binary with one store and an environment of its own."""

    def __init__(self, store: Path, home: Path, env: dict[str, str] | None = None):
        self.store = Path(store)
        self.home = Path(home)
        self.home.mkdir(parents=True, exist_ok=True)
        self.extra_env = dict(env or {})

    def environment(self, **more: str) -> dict[str, str]:
        env = {
            "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
            "HOME": str(self.home),
            "TMPDIR": os.environ.get("TMPDIR", "/tmp"),
            "LC_ALL": "C.UTF-8",
            "TZ": "UTC",
            "STEELYARD_STORE": str(self.store),
            # The reserve is a share of the machine's disk; a test's store is small and must not depend on it.
            "STEELYARD_COLD_RESERVE_FREE": "0",
        }
        if hot := hot_folder():
            env["STEELYARD_HOT_PATH"] = hot
        for name in ("ASAN_OPTIONS", "TSAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS"):
            if name in os.environ:
                env[name] = os.environ[name]
        env.update(self.extra_env)
        env.update(more)
        return env

    def at(self, store: Path, **env: str) -> "Steelyard":
        """The same runner on another store."""
        return Steelyard(store, self.home, {**self.extra_env, **env})

    def start(self, *args, env: dict[str, str] | None = None, wrapper=(), **popen) -> subprocess.Popen:
        """Starts the binary; the caller waits for it."""
        command = [*map(str, wrapper), str(binary()), *map(str, args)]
        popen.setdefault("stdin", subprocess.DEVNULL)
        popen.setdefault("stdout", subprocess.PIPE)
        popen.setdefault("stderr", subprocess.PIPE)
        return subprocess.Popen(command, env=self.environment(**(env or {})), **popen)

    def run(self, *args, env=None, wrapper=(), input: bytes | None = None, timeout: float = DEFAULT_TIMEOUT_S, **popen) -> Run:
        """Runs the binary and returns what it did, whatever the exit code."""
        if input is not None:
            popen["stdin"] = subprocess.PIPE
        process = self.start(*args, env=env, wrapper=wrapper, **popen)
        try:
            out, err = process.communicate(input=input, timeout=timeout)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            out, err = process.communicate()
            pytest.fail(f"no end after {timeout} s: {' '.join(map(str, args))}\n{(err or b'').decode(errors='replace')[-4000:]}")
        return Run(["steelyard", *map(str, args)], process.returncode, out or b"", (err or b"").decode("utf-8", "surrogateescape"))

    def __call__(self, *args, code: int | tuple[int, ...] = 0, **options) -> Run:
        """Runs the binary and fails the test when the exit code is another one."""
        result = self.run(*args, **options)
        wanted = code if isinstance(code, tuple) else (code,)
        assert result.code in wanted, f"wanted exit {code}\n{result.explain()}"
        return result

    def json(self, *args, code: int | tuple[int, ...] = 0, **options):
        """Runs with --json and returns the parsed document."""
        return self("--json", *args, code=code, **options).json()

    def error(self, *args, code: int | tuple[int, ...], **options) -> dict:
        """Runs with --json, wants that exit code, returns the error document."""
        result = self("--json", *args, code=code, **options)
        assert result.stdout == "", result.explain()
        return result.error()
