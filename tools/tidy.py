#!/usr/bin/env python3
"""The lint: rules that a compiler does not check. Exits 1 and names file, line and rule for each violation.

    tools/tidy.py [--only CHECK ...] [--root DIR] [--notes]

The rooms and their one-way order are read from the table in docs/architecture.md; there is no second list.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

FILE_LINES_MAX = 800
FILE_LINES_NOTE = 500

# Families of headers that cost seconds of compile time each time they are included.
HEAVY = ("spdlog/", "grpc", "absl/", "sqlite3.h", "simdjson", "nlohmann/", "google/protobuf/")
HEAVY_SUFFIX = (".pb.h",)
# Those of which one .cc per room is enough.
HEAVY_ONCE = ("spdlog/", "grpc", "absl/")

# What only src/base may use: everything else goes through Runtime, so that it can run in simulation.
RUNTIME_ONLY = (
    (r"\bstd::(jthread|thread|async)\b", "Runtime::spawn"),
    (r"\bstd::this_thread\b", "Runtime::sleep_ms"),
    (r"\b(sleep_for|sleep_until|usleep|nanosleep)\b|(?<![\w.>])sleep\s*\(", "Runtime::sleep_ms"),
    (r"\bstd::chrono::\w*_clock\b|\b\w+_clock::now\b", "Runtime::mono_ms, mono_ns or wall_ms"),
    (r"\b(clock_gettime|gettimeofday)\b|(?<![\w.>])time\s*\(\s*(nullptr|NULL|0|&)", "Runtime::mono_ms or wall_ms"),
    (r"\bstd::random_device\b|\bstd::mt19937(_64)?\b|(?<![\w.>])s?rand\s*\(|\bgetrandom\b|\bgetentropy\b", "Runtime::fill_random"),
    (r"\bstd::condition_variable\b", "Runtime::make_event"),
)
# A test may start threads and measure, but may not wait for time to pass.
TEST_FORBIDDEN = (
    (r"\b(sleep_for|sleep_until|usleep|nanosleep)\b|(?<![\w.>])sleep\s*\(", "a condition with a deadline"),
    (r"\bstd::random_device\b|(?<![\w.>])s?rand\s*\(", "a seeded generator"),
)

# Written in pieces so that this file does not find itself.
MARKS = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|X" + r"XX)\b|\b[Hh]a" + r"ck\b|\bHA" + r"CK\b")
MACHINE = re.compile(r"(?<![\w.])/(wor" + r"k|roo" + r"t)/|\bpypi\." + r"org|files\.python" + r"hosted|deb\.deb" + r"ian|index-u" + r"rl|registry\.np" + r"mjs")
POINT_NAME = re.compile(r"^[a-z0-9_]+(\.[a-z0-9_]+)+$")


@dataclass(frozen=True)
class Finding:
    path: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.text}"


class Tree:
    """The files of the repository: those git knows or would add. Without git, every file."""

    def __init__(self, root: Path):
        self.root = root
        try:
            out = subprocess.run(
                ["git", "-C", str(root), "ls-files", "-co", "--exclude-standard", "-z"], capture_output=True, check=True
            ).stdout
            names = [os.fsdecode(name) for name in out.split(b"\0") if name]
        except (OSError, subprocess.CalledProcessError):
            names = [str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()]
        self.files = sorted(name for name in set(names) if (root / name).is_file())
        self._text: dict[str, str] = {}

    def matching(self, *suffixes: str, under: str = "") -> list[str]:
        return [name for name in self.files if name.endswith(suffixes) and name.startswith(under)]

    def text(self, name: str) -> str:
        if name not in self._text:
            self._text[name] = (self.root / name).read_text(encoding="utf-8", errors="replace")
        return self._text[name]

    def lines(self, name: str):
        return enumerate(self.text(name).splitlines(), 1)

    def cpp(self, under: str = "") -> list[str]:
        return self.matching(".cc", ".h", under=under)


def is_test(name: str) -> bool:
    return name.endswith(("_test.cc", "_bench.cc", "_fuzz.cc")) or name.startswith("tests/")


def strip_cpp(text: str) -> str:
    """Comments and the contents of literals blanked, line numbers kept."""

    def blank(match: re.Match) -> str:
        found = match.group(0)
        if found.startswith(('"', "R")):
            return '""' + "\n" * found.count("\n")
        if found.startswith("'"):
            return "' '"
        return "\n" * found.count("\n")

    return re.sub(
        r'R"([^()\\ ]*)\([\s\S]*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<![0-9A-Za-z_])\'(?:\\.|[^\'\\\n])+\'|//[^\n]*|/\*[\s\S]*?\*/', blank, text
    )


def rooms_table(tree: Tree) -> dict[str, set[str]]:
    """Room to the rooms it may include, in order, from the table under `## Rooms`."""
    rooms: dict[str, set[str]] = {}
    for line in tree.text("docs/architecture.md").splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        match = re.fullmatch(r"`src/(\w+)`", cells[0]) if len(cells) == 3 else None
        if match:
            rooms[match.group(1)] = set(re.findall(r"`(\w+)`", cells[2]))
    return rooms


def check_rooms(tree: Tree) -> list[Finding]:
    """Includes go only to rooms that the table allows, and the table itself only to the rooms before."""
    found: list[Finding] = []
    rooms = rooms_table(tree)
    if not rooms:
        return [Finding("docs/architecture.md", 1, "rooms: the table of rooms is missing")]
    seen: set[str] = set()
    for room, allowed in rooms.items():
        for later in sorted(allowed - seen):
            found.append(Finding("docs/architecture.md", 1, f"rooms: {room} may include {later}, which is not before it"))
        seen.add(room)
    for name in tree.cpp(under="src/"):
        room = name.split("/")[1]
        if room not in rooms:
            found.append(Finding(name, 1, f"rooms: src/{room} is not in the table of docs/architecture.md"))
            continue
        for number, line in tree.lines(name):
            match = re.match(r'\s*#\s*include\s+"(?:src/)?(\w+)/', line)
            if match and match.group(1) in rooms and match.group(1) != room and match.group(1) not in rooms[room]:
                found.append(Finding(name, number, f"rooms: {room} may not include {match.group(1)}"))
            if re.match(r'\s*#\s*include\s+"\.\.?/', line):
                found.append(Finding(name, number, "rooms: include by the path from src/, not a relative one"))
    for name in tree.cpp(under="include/"):
        for number, line in tree.lines(name):
            if re.match(r'\s*#\s*include\s+"(?!steelyard/)', line):
                found.append(Finding(name, number, "rooms: a public header includes only <...> and \"steelyard/...\""))
    for room, allowed in rooms.items():
        name = f"src/{room}/CMakeLists.txt"
        if name in tree.files:
            match = re.search(r"sy_room\(\s*\w+([^)]*)\)", tree.text(name))
            deps = re.search(r"\bDEPS\b((?:\s+[a-z_]\w*)+)", match.group(1)) if match else None
            for dep in deps.group(1).split() if deps else []:
                if dep not in allowed:
                    found.append(Finding(name, 1, f"rooms: {room} is linked with {dep}, which the table does not allow"))
    return found


def check_heavy(tree: Tree) -> list[Finding]:
    """Heavy headers stand in .cc files only, and the heaviest in one .cc of their room."""
    found: list[Finding] = []
    users: dict[tuple[str, str], list[tuple[str, int]]] = {}
    for name in tree.cpp(under="src/") + tree.cpp(under="include/"):
        for number, line in tree.lines(name):
            match = re.match(r'\s*#\s*include\s+[<"]([^>"]+)[>"]', line)
            if not match:
                continue
            header = match.group(1)
            family = next((one for one in HEAVY if header.startswith(one)), None)
            if family is None and header.endswith(HEAVY_SUFFIX):
                family = ".pb.h"
            if family is None:
                continue
            if name.endswith(".h"):
                found.append(Finding(name, number, f"heavy: {header} in a header; include it in a .cc"))
            elif family in HEAVY_ONCE and not is_test(name):
                users.setdefault((name.split("/")[1], family), []).append((name, number))
    for (room, family), places in users.items():
        for name, number in places[1:]:
            found.append(Finding(name, number, f"heavy: {family} is already included by {places[0][0]}; one .cc of src/{room} is enough"))
    return found


def check_runtime(tree: Tree) -> list[Finding]:
    """Above src/base nothing asks the system for time, chance or threads."""
    found: list[Finding] = []
    for name in tree.cpp(under="src/"):
        if name.startswith("src/base/") and not name.endswith("_test.cc"):
            continue
        rules = TEST_FORBIDDEN if is_test(name) else RUNTIME_ONLY
        for number, line in enumerate(strip_cpp(tree.text(name)).splitlines(), 1):
            for pattern, instead in rules:
                match = re.search(pattern, line)
                if match:
                    found.append(Finding(name, number, f"runtime: {match.group(0).strip()} is not used here; use {instead}"))
    return found


def check_size(tree: Tree) -> list[Finding]:
    """A source file ends at 800 lines."""
    return [
        Finding(name, lines, f"size: {lines} lines, more than {FILE_LINES_MAX}; split it by responsibility")
        for name in tree.matching(".cc", ".h", ".py", ".c", ".cmake")
        if (lines := tree.text(name).count("\n")) > FILE_LINES_MAX
    ]


def size_notes(tree: Tree) -> list[Finding]:
    return [
        Finding(name, lines, f"note: {lines} lines, more than {FILE_LINES_NOTE}")
        for name in tree.matching(".cc", ".h", ".py", ".c", ".cmake")
        if FILE_LINES_NOTE < (lines := tree.text(name).count("\n")) <= FILE_LINES_MAX
    ]


def check_words(tree: Tree) -> list[Finding]:
    """No marks of unfinished work, no paths or hosts of one machine."""
    found: list[Finding] = []
    for name in tree.files:
        if b"\0" in (tree.root / name).read_bytes()[:4096] or name == "LICENSE":
            continue
        for number, line in tree.lines(name):
            match = MARKS.search(line)
            if match:
                found.append(Finding(name, number, f"words: {match.group(0)}: finish it, or write down the decision"))
            match = MACHINE.search(line)
            if match:
                found.append(Finding(name, number, f"words: {match.group(0)} belongs to one machine"))
    return found


def check_points(tree: Tree) -> list[Finding]:
    """Fault points: lower-case dotted names; an SY_POINT name stands in one file only."""
    found: list[Finding] = []
    where: dict[str, str] = {}
    for name in tree.cpp(under="src/"):
        if is_test(name) or name.startswith("src/base/"):
            continue
        text = tree.text(name)
        for match in re.finditer(r'(SY_POINT\s*\([^;]*?,|[.>]point\s*\()\s*"([^"]*)"', text):
            number, point = text.count("\n", 0, match.start()) + 1, match.group(2)
            if not POINT_NAME.match(point):
                found.append(Finding(name, number, f'points: "{point}" is not of the form area.what_happened'))
            if match.group(1).startswith("SY_POINT"):
                if where.setdefault(point, name) != name:
                    found.append(Finding(name, number, f'points: "{point}" stands in {where[point]} already'))
    return found


def check_headers(tree: Tree) -> list[Finding]:
    """Every header begins with a comment and #pragma once, and compiles alone.

    A header that some .cc includes first is compiled alone by the build already; only the others are compiled here.
    """
    found: list[Finding] = []
    first = (re.search(r'^\s*#\s*include\s+["<]([^">]+)', tree.text(name), re.M) for name in tree.cpp() if name.endswith(".cc"))
    proven = {match.group(1) for match in first if match}
    headers = tree.matching(".h", under="src/") + tree.matching(".h", under="include/")
    for name in headers:
        if "#pragma once" not in tree.text(name):
            found.append(Finding(name, 1, "headers: #pragma once is missing"))
        if not tree.text(name).startswith("//"):
            found.append(Finding(name, 1, "headers: the first line says what the header is"))

    def compile_one(name: str) -> Finding | None:
        with tempfile.TemporaryDirectory() as scratch:
            source = Path(scratch) / "alone.cc"
            source.write_text(f'#include "{(tree.root / name).resolve()}"\n')
            command = [os.environ.get("CXX", "g++"), "-std=c++20", "-fsyntax-only", "-w"]
            command += [f"-I{tree.root / folder}" for folder in ("src", "include", "build/gen")]
            done = subprocess.run([*command, str(source)], capture_output=True, text=True)
        if done.returncode == 0:
            return None
        first = next((line for line in done.stderr.splitlines() if "error" in line), done.stderr[:200])
        return Finding(name, 1, f"headers: does not compile alone: {first}")

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        alone = [name for name in headers if name.split("/", 1)[1] not in proven]
        found += [one for one in pool.map(compile_one, alone) if one]
    return found


def check_format(tree: Tree) -> list[Finding]:
    """clang-format has nothing to change."""
    found: list[Finding] = []
    names = tree.cpp()
    for begin in range(0, len(names), 50):
        batch = [str(tree.root / name) for name in names[begin : begin + 50]]
        done = subprocess.run(["clang-format", "--dry-run", *batch], capture_output=True, text=True, cwd=tree.root)
        seen = set()
        for match in re.finditer(r"^(.*?):(\d+):\d+: warning: code should be clang-formatted", done.stderr, re.M):
            if match.group(1) not in seen:
                seen.add(match.group(1))
                path = os.path.relpath(match.group(1), tree.root)
                found.append(Finding(path, int(match.group(2)), "format: run `make format`"))
        if done.returncode != 0 and not seen:
            found.append(Finding(batch[0], 1, f"format: clang-format failed: {done.stderr[:300]}"))
    return found


def check_links(tree: Tree) -> list[Finding]:
    """Relative links in Markdown lead to files and headings that exist, and every page of docs/ is linked from another."""
    found: list[Finding] = []
    linked: set[str] = set()

    def anchors(name: str) -> set[str]:
        heads = re.findall(r"^#+\s+(.*)$", re.sub(r"```[\s\S]*?```", "", tree.text(name)), re.M)
        return {re.sub(r"[^\w\- ]", "", head.lower().replace("`", "")).strip().replace(" ", "-") for head in heads}

    for name in tree.matching(".md"):
        text = re.sub(r"```[\s\S]*?```", lambda m: "\n" * m.group(0).count("\n"), tree.text(name))
        for match in re.finditer(r"\]\(([^)\s]+)\)", text):
            target, number = match.group(1), text.count("\n", 0, match.start()) + 1
            if re.match(r"[a-z]+:", target):
                continue
            path, _, anchor = target.partition("#")
            goal = os.path.normpath(os.path.join(os.path.dirname(name), path)) if path else name
            if goal != name:
                linked.add(goal)
            if not (tree.root / goal).exists():
                found.append(Finding(name, number, f"links: {target} does not exist"))
            elif anchor and goal.endswith(".md") and anchor not in anchors(goal):
                found.append(Finding(name, number, f"links: {target} names a heading that is not there"))
    for name in tree.matching(".md", under="docs/"):
        if name not in linked:
            found.append(Finding(name, 1, "links: no other page leads here"))
    return found


CHECKS = {
    "rooms": check_rooms,
    "heavy": check_heavy,
    "runtime": check_runtime,
    "size": check_size,
    "words": check_words,
    "points": check_points,
    "links": check_links,
    "format": check_format,
    "headers": check_headers,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", choices=sorted(CHECKS))
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    parser.add_argument("--notes", action="store_true", help="also print files that grow long")
    args = parser.parse_args()
    tree = Tree(args.root)
    found = [finding for name in args.only or CHECKS for finding in CHECKS[name](tree)]
    if args.notes:
        for note in size_notes(tree):
            print(note)
    for finding in found:
        print(finding)
    print(f"tidy: {len(tree.files)} files, {len(found)} finding{'' if len(found) == 1 else 's'}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
