"""A process that measures when it is told to, so that product and peer take turns although each has an interpreter of its own.

The child calls `serve` with its steps; the parent sends one JSON line per step, [name, arguments], and reads one line back: what the
step returned, with the seconds that it says it took.
"""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


def timed(action: Callable[[], Any]) -> tuple[float, Any]:
    gc.collect()
    begin = time.perf_counter()
    value = action()
    return time.perf_counter() - begin, value


def resident(field: str = "VmRSS") -> int:
    """Bytes of this process in memory; VmHWM: the most there ever were."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise SystemExit(f"/proc/self/status has no {field}")


def serve(steps: dict[str, Callable[..., dict]]) -> None:
    """Answers until the parent closes its end. Anything that a library prints goes to stderr."""
    answers, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin:
        name, arguments = json.loads(line)
        print(json.dumps(steps[name](**arguments)), file=answers, flush=True)


class Process:
    """The parent's end."""

    def __init__(self, python: Path, script: Path, environment: dict[str, str]) -> None:
        self.name = script.name
        self.child = subprocess.Popen([python, script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)

    def __call__(self, step: str, /, **arguments: Any) -> dict[str, Any]:
        assert self.child.stdin and self.child.stdout
        self.child.stdin.write(json.dumps([step, arguments]) + "\n")
        self.child.stdin.flush()
        line = self.child.stdout.readline()
        if not line:
            raise SystemExit(f"{self.name} {step}: ended with exit {self.child.wait()}")
        return json.loads(line)

    def close(self) -> None:
        assert self.child.stdin
        self.child.stdin.close()
        self.child.wait()
