#!/usr/bin/env python3
"""What `make test` runs, from build to the closing line `N passed, M failed`.

Every stage runs even when an earlier one failed, so that one run shows everything. N and M count ctest's and pytest's tests; a stage
that fails without naming a test counts as one failure. Skips are listed with their reasons.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "build" / "results"
JOBS = str(os.cpu_count() or 2)


@dataclass
class Totals:
    passed: int = 0
    failed: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    cases: int = 0


def run(title: str, command: list[str], **env: str) -> tuple[int, float]:
    print(f"\n== {title}", flush=True)
    begin = time.monotonic()
    code = subprocess.call(command, cwd=ROOT, env={**os.environ, **env}, stdin=subprocess.DEVNULL)
    seconds = time.monotonic() - begin
    print(f"== {title}: {'ok' if code == 0 else f'failed ({code})'}, {seconds:.0f} s", flush=True)
    return code, seconds


def gtest_skips(output: str) -> list[str]:
    """Skipped cases in a gtest program's output, with the reasons it printed before them."""
    skips, reason, take = [], [], False
    for line in output.splitlines():
        match = re.match(r"\[  SKIPPED \] ([\w/.]+) \(", line)
        if match:
            skips.append(f"{match.group(1)}: {' '.join(reason) or 'no reason given'}")
            take = False
        elif re.search(r": Skipped$", line):
            reason, take = [], True
        elif take and line.strip():
            reason.append(line.strip())
    return skips


def collect_ctest(path: Path, totals: Totals) -> None:
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        name, output = case.get("name", "?"), case.findtext("system-out") or ""
        if case.get("status") in ("notrun", "disabled") or case.find("skipped") is not None:
            reason = case.find("skipped")
            totals.skipped.append(f"{name}: {reason.get('message') if reason is not None else 'not run'}")
        elif case.find("failure") is not None or case.get("status") == "fail":
            totals.failed.append(f"ctest {name}")
        else:
            totals.passed += 1
        totals.cases += sum(int(count) for count in re.findall(r"^\[  PASSED  \] (\d+) test", output, re.M))
        totals.skipped += gtest_skips(output)


def collect_pytest(path: Path, totals: Totals) -> None:
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        name = f"{case.get('classname', '')}::{case.get('name', '')}".replace(".", "/")
        skipped = case.find("skipped")
        if case.find("failure") is not None or case.find("error") is not None:
            totals.failed.append(f"pytest {name}")
        elif skipped is not None:
            totals.skipped.append(f"{name}: {skipped.get('message')}")
        else:
            totals.passed += 1
            totals.cases += 1


def tests(title: str, command: list[str], results: Path, collect, totals: Totals) -> None:
    results.unlink(missing_ok=True)
    before = len(totals.failed)
    code, _ = run(title, command)
    if results.exists():
        collect(results, totals)
    if (code != 0 or not results.exists()) and len(totals.failed) == before:
        totals.failed.append(f"{title} (exit {code})")


def main() -> int:
    RESULTS.mkdir(parents=True, exist_ok=True)
    totals = Totals()
    for title, target in (("build", "test-programs"), ("build the fuzz targets", "fuzz-programs")):
        if run(title, ["make", "--no-print-directory", target])[0] != 0:
            totals.failed.append(title)
    ctest = RESULTS / "ctest.xml"
    tests(
        "unit, conformance, scenario tests and simulation",
        ["ctest", "--test-dir", "build", "-j", JOBS, "--output-on-failure", "--no-tests=error", "--output-junit", str(ctest),
         "--test-output-size-passed", "4000000", "--test-output-size-failed", "4000000", "--timeout", "900"],
        ctest, collect_ctest, totals,
    )  # fmt: skip
    for title, *folders in (("lint", "tools"), ("command-line, crash and Python tests", "tests", "--ignore=tests/fuzz"), ("fuzzing", "tests/fuzz")):
        results = RESULTS / f"{title.split()[0].strip(',')}.xml"
        command = [sys.executable, "-m", "pytest", "-q", f"--junit-xml={results}", "--durations=5", *folders]
        tests(title, command, results, collect_pytest, totals)

    print(f"\n{totals.cases} cases in them")
    for reason in totals.skipped:
        print(f"skipped: {reason}")
    for name in totals.failed:
        print(f"FAILED: {name}")
    if totals.passed == 0:
        totals.failed.append("no test ran")
    print(f"{totals.passed} passed, {len(totals.failed)} failed")
    return 1 if totals.failed else 0


if __name__ == "__main__":
    sys.exit(main())
