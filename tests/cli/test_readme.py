"""The README tells the truth: every command of its tour is run, and what it prints is what the README shows.

Blocks marked `console` are run in order in one folder that looks like a fresh clone after `make quickstart`. Lines that begin with
`$ ` are commands; the lines below are their output. What differs from run to run (times, rates, random ids) is compared as such; a
line `...` stands for any number of lines.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from lib.runner import binary, hot_folder

ROOT = Path(__file__).resolve().parent.parent.parent
VOLATILE = [
    (r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?( ?UTC|Z)?", "<time>"),
    (r"\b\d+(\.\d+)? ([KMG]i?B)/s", "<rate>"),
    (r"\b(\d+h)?(\d+m)?\d+(\.\d+)? ?(ms|s)\b( left)?", "<duration>"),
    (r"\b[0-9a-f]{32}\b", "<id>"),
    (r"\s+", " "),
]


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.M | re.S)


def steps(text: str) -> list[tuple[str, list[str]]]:
    """(command, expected lines) of every console block, in order."""
    found: list[tuple[str, list[str]]] = []
    for block in blocks(text, "console"):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append((line[2:], []))
            elif found and found[-1][0].endswith("\\"):
                found[-1] = (found[-1][0][:-1] + line.strip(), [])
            else:
                found[-1][1].append(line)
    return found


def stable(line: str) -> str:
    for pattern, name in VOLATILE:
        line = re.sub(pattern, name, line)
    return line.strip()


def matches(wanted: list[str], found: list[str]) -> bool:
    """Lines are equal when their stable parts are; `...` stands for any number of lines."""
    if not wanted:
        return not found
    if wanted[0] == "...":
        return any(matches(wanted[1:], found[skip:]) for skip in range(len(found) + 1))
    return bool(found) and wanted[0] == found[0] and matches(wanted[1:], found[1:])


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """The parts of a built clone that the tour uses."""
    (tmp_path / "build" / "bin").mkdir(parents=True)
    (tmp_path / "build" / "bin" / "steelyard").symlink_to(binary())
    for name in ("bench", ".venv"):
        (tmp_path / name).symlink_to(ROOT / name)
    return tmp_path


def test_the_tour_is_true(clone):
    tour = steps((ROOT / "README.md").read_text())
    assert len(tour) >= 8, "the README has lost its tour"
    env = {"PATH": os.environ["PATH"], "HOME": str(clone / "home"), "LC_ALL": "C.UTF-8", "STEELYARD_COLD_RESERVE_FREE": "0", "STEELYARD_HOT_PATH": hot_folder() or "/dev/shm"}
    shell = subprocess.Popen(["bash"], cwd=clone, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    script = "".join(f"{command}\nprintf '\\n--- end %s\\n' $?\n" for command, _ in tour)
    out, _ = shell.communicate(script, timeout=300)
    parts = re.split(r"\n--- end (\d+)\n", out)
    assert len(parts) == 2 * len(tour) + 1, out[-3000:]
    for number, (command, expected) in enumerate(tour):
        printed = [stable(line) for line in parts[2 * number].splitlines()]
        wanted = [stable(line) for line in expected]
        while printed and printed[-1] == "":
            printed.pop()
        while wanted and wanted[-1] == "":
            wanted.pop()
        assert matches(wanted, printed), f"$ {command}\n--- README\n" + "\n".join(wanted) + "\n--- printed\n" + "\n".join(printed)


def test_the_two_commands_are_the_makefile_s():
    text = (ROOT / "README.md").read_text()
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))
    named = set(re.findall(r"\bmake ([a-z-]+)\b(?!\.)", "\n".join(blocks(text, "sh") + re.findall(r"`(make [^`]+)`", text))))
    assert {"quickstart", "test"} <= named and named <= targets, named - targets


def test_a_difference_would_be_found():
    assert matches(["a", "...", "c"], ["a", "b", "b", "c"]) and matches(["..."], [])
    assert not matches(["a", "...", "c"], ["a", "b"]) and not matches(["a"], ["a", "b"])
    assert stable("in 1.25 s at 310.1 MiB/s") == stable("in 0.9 s at 5 MiB/s")
    assert stable("2 objects") != stable("3 objects")
