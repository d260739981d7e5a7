"""Killing, stopping and failing the real program, and looking at what is left.

The fault points that a command passes are found by tracing it, so a new point in the code is covered without being listed here.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections import Counter
from pathlib import Path

from lib.checkpoints import make_checkpoint, tree_digests

# What a failing system call may end as (the exit codes of docs/cli.md); 1, an internal error, is never one of them.
TYPED_EXITS = {2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13}
EXIT_OF_CODE = {
    "INTERNAL": 1, "INVALID_ARGUMENT": 2, "NOT_FOUND": 3, "CONFLICT": 4, "CORRUPT": 5, "BUSY": 6, "STALE_GENERATION": 7,
    "GENERATION_EXHAUSTED": 7, "NO_SPACE": 8, "UNAUTHORIZED": 9, "UNAVAILABLE": 10, "DURABILITY_FAILED": 10,
    "UNKNOWN_OUTCOME": 10, "NOT_READY": 11, "LEASE_EXPIRED": 12, "POLICY_UNSATISFIABLE": 13,
}  # fmt: skip
REF = "crash/model@main"
IMPORT_OPTIONS = ("--chunk-size", "1MiB", "--jobs", "2")


def small_checkpoint(folder: Path, seed: object = 0, mib_per_shard: int = 2) -> Path:
    """Two shards of several 1 MiB objects each, a nested component, an empty file."""
    return make_checkpoint(folder, shards=2, tensors_per_shard=mib_per_shard * 2, shape=(512, 513), seed=seed, nested=True)


def import_args(source: Path, ref: str = REF) -> tuple:
    return ("import", source, ref, *IMPORT_OPTIONS)


def trace(steelyard, folder: Path, *args) -> list[str]:
    """The fault points that a successful command passes, in order."""
    path = folder / "trace"
    steelyard(*args, env={"STEELYARD_FAULT": "trace@any", "STEELYARD_FAULT_TRACE": str(path)})
    points = path.read_text().split()
    path.unlink()
    return points


def passes_to_try(points: list[str]) -> list[tuple[str, int]]:
    """For each point its first, a middle and its last pass."""
    tries = []
    for name, count in Counter(points).items():
        tries += [(name, number) for number in sorted({1, (count + 1) // 2, count})]
    return tries


def revisions(steelyard, *options) -> list[dict]:
    return steelyard.json("list", *options)["revisions"]


def assert_nothing_half_visible(steelyard) -> None:
    """No revision is listed as there; at most an IMPORTING one stands among all."""
    if not steelyard.store.exists():
        return
    assert revisions(steelyard) == []
    assert [one["availability"] for one in revisions(steelyard, "--all")] in ([], ["IMPORTING"])


def groups_folder(store: Path) -> Path:
    found = [path for path in store.rglob("groups") if path.is_dir()]
    assert len(found) == 1, f"{len(found)} folders `groups` in {store}"
    return found[0]


def assert_no_strays(store: Path, payload_objects: int | None = None, cleaned_up: bool = True) -> None:
    """Each group has one committed attempt and nothing else; each content entry belongs to an object.

    `cleaned_up` False: a process may have been killed after its commit, before it removed older attempts and temporary files.
    """
    groups = groups_folder(store)
    objects: set[int] = set()
    count = 0
    for group in groups.glob("*/*"):
        attempts = sorted(group.iterdir(), key=lambda path: int(path.name))
        assert len(attempts) == 1 or not cleaned_up, f"{group}: {attempts}"
        attempt = attempts[-1]
        names = {path.name for path in attempt.iterdir() if not path.name.startswith("index-")}
        assert names - {"tmp"} == {"manifest", "committed", "p"}, f"{attempt}: {sorted(names)}"
        assert not cleaned_up or not (attempt / "tmp").exists() or not list((attempt / "tmp").iterdir()), f"temporary files in {attempt}"
        for path in (attempt / "p").iterdir():
            assert re.fullmatch(r"\d{8}", path.name), path
            objects.add(path.stat().st_ino)
            count += 1
    if payload_objects is not None:
        assert count == payload_objects
    for path in (groups.parent / "content").rglob("*"):
        if path.is_file():
            assert path.stat().st_ino in objects, f"{path} belongs to no object"


def import_until_done(steelyard, source: Path, ref: str = REF) -> dict:
    """The same import again succeeds at once, and what it made is whole.

    At once: without `--wait` it would be BUSY behind a writer that counts as alive, and whoever waits for a lock says so.
    """
    result = steelyard("--json", *import_args(source, ref))
    assert "waiting for" not in result.stderr, result.explain()
    done = result.json()
    stats = done["stats"]
    assert stats["written_bytes"] + stats["reused_bytes"] == stats["logical_bytes"]
    return done


def assert_whole(steelyard, source: Path, scratch: Path, ref: str = REF) -> None:
    """verify says ok, and the files come back byte for byte."""
    report = steelyard.json("verify", ref)
    assert report["ok"] and report["problems"] == [], report
    target = scratch / f"out-{time.monotonic_ns()}"
    steelyard("materialize", ref, target)
    assert tree_digests(target) == tree_digests(source)


def assert_typed(result) -> dict:
    """A failure says what it is: one of the exit codes, and the same in its error document."""
    assert result.code in TYPED_EXITS, result.explain()
    error = result.error()
    assert EXIT_OF_CODE[error["code"]] == result.code, result.explain()
    assert len(error["message"]) > 10, result.explain()
    return error


def wait_until(condition, what: str, deadline_s: float = 120.0) -> None:
    end = time.monotonic() + deadline_s
    while not condition():
        assert time.monotonic() < end, f"not within {deadline_s} s: {what}"
        time.sleep(0.005)


def is_stopped(process: subprocess.Popen) -> bool:
    if process.poll() is not None:
        return False
    return Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()[0] in "Tt"


def stop_at(steelyard, point: str, number: int, *args, **env) -> subprocess.Popen:
    """Starts a command and returns when it has stopped itself at the point."""
    process = steelyard.start("--json", *args, env={"STEELYARD_FAULT": f"stop@{point}#{number}", **env})
    wait_until(lambda: is_stopped(process) or process.poll() is not None, f"stop at {point}#{number}")
    assert process.poll() is None, f"ended before {point}#{number}: {process.communicate()}"
    return process


def finish(process: subprocess.Popen, timeout: float = 300):
    """Waits for a process; returns (code, parsed stdout or None, error or None)."""
    out, err = process.communicate(timeout=timeout)
    document = json.loads(out) if out.strip() else None
    error = None
    if process.returncode != 0 and err.strip():
        error = json.loads(err.decode().splitlines()[-1])["error"]
    return process.returncode, document, error


def mount(*args) -> str | None:
    """None when mounted, else why not."""
    if os.geteuid() != 0:
        return "mounting needs root"
    done = subprocess.run(["mount", *map(str, args)], capture_output=True, text=True)
    return None if done.returncode == 0 else f"mount {' '.join(map(str, args))}: {done.stderr.strip()}"
