"""Keeps what was measured, in bench/figures.json, and shows it as tables in docs/performance.md."""

from __future__ import annotations

import json
import os
import platform
import re
import time
from collections.abc import Sequence
from pathlib import Path

from measure import Row

ROOT = Path(__file__).resolve().parent.parent
FIGURES = ROOT / "bench" / "figures.json"
PAGE = ROOT / "docs" / "performance.md"


def machine() -> dict:
    model = re.search(r"model name\s*:\s*(.*)", Path("/proc/cpuinfo").read_text())
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cpu": model.group(1) if model else platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(memory / 2**30),
        "kernel": platform.release(),
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
    }


def as_json(row: Row, rounds: int) -> dict:
    limits = [
        {"label": one.label, "value": round(one.value, 4), "limit": one.most, "at_least": one.at_least, "noise": round(one.noise, 3), "verdict": one.verdict}
        for one in row.limits
    ]
    return {"name": row.name, "what": row.what, "measured": row.measured, "peers": row.peers, "state": row.state, "rounds": rounds, "limits": limits}


def show(row: Row) -> None:
    print(f"{row.what}: {row.measured} | {row.peers} | {row.state}", flush=True)
    for one in row.limits:
        print(f"    {one.label}: {one.value:.3g} (wanted {'>=' if one.at_least else '<='} {one.most:g}): {one.verdict}", flush=True)


def table(found: dict, order: Sequence[str], state: str) -> str:
    lines = [f"| what | measured | peers | {state} | ratio (wanted) | |", "|---|---|---|---|---|---|"]
    for name in order:
        row = found["rows"].get(name)
        if not row:
            continue
        reach = "<br>".join(f"{one['label']}: {one['value']:.3g} ({'>=' if one['at_least'] else '<='} {one['limit']:g})" for one in row["limits"])
        verdicts = "<br>".join(one["verdict"] for one in row["limits"])
        lines.append(f"| {row['what']} | {row['measured']} | {row['peers']} | {row['state']} | {reach} | {verdicts} |")
    facts = found["machine"]
    note = f"Measured on {facts['date']}: {facts['cpu']}, {facts['cores']} cores, {facts['memory_gib']} GiB, Linux {facts['kernel']}."
    return note + "\n\n" + "\n".join(lines)


def write(rows: list[Row], rounds: int, order: Sequence[str], *, part: str = "", state: str = "cache") -> None:
    """Replaces these rows, and the table that they are in. `part` names a table beside the store's own."""
    figures = json.loads(FIGURES.read_text()) if FIGURES.exists() else {}
    found = figures.setdefault(part, {}) if part else figures
    found["machine"] = machine()
    for row in rows:
        found.setdefault("rows", {})[row.name] = as_json(row, rounds)
    FIGURES.write_text(json.dumps(figures, indent=1) + "\n")
    page = PAGE.read_text()
    name = f"figures of {part}" if part else "figures"
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    head, tail = page[: page.index(begin) + len(begin)], page[page.index(end) :]
    PAGE.write_text(f"{head}\n{table(found, order, state)}\n{tail}")
