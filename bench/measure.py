"""Measuring: interleaved rounds, medians, cache states, memory of a command, and what a row's verdict is."""

from __future__ import annotations

import os
import resource
import shutil
import statistics
import subprocess
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable, Iterator

NOISE_MAX = 0.10
MIB = 1 << 20


@dataclass
class Series:
    """Seconds (or another number) of each round."""

    values: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def noise(self) -> float:
        """The middle half's spread, as a share of the median."""
        if len(self.values) < 4 or self.median == 0:
            return 0.0
        low, _, high = statistics.quantiles(self.values, n=4, method="inclusive")
        return (high - low) / self.median


@dataclass
class Step:
    """Something to time. `prepare` is not timed."""

    run: Callable[[], object]
    prepare: Callable[[], object] = lambda: None


def interleave(steps: dict[str, Step], rounds: int) -> dict[str, Series]:
    """Runs every step once per round, in an order that rotates, so that drift of the machine meets all alike."""
    series = {name: Series() for name in steps}
    names = list(steps)
    for number in range(rounds):
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            steps[name].prepare()
            begin = time.perf_counter()
            steps[name].run()
            series[name].values.append(time.perf_counter() - begin)
    return series


def drop_caches() -> str:
    """Empties the page cache, and says how a reader of the table should call the state."""
    os.sync()
    if os.geteuid() == 0:
        try:
            Path("/proc/sys/vm/drop_caches").write_text("3\n")
            return "caches dropped"
        except OSError:
            pass
    return "posix_fadvise"


def forget(*folders: Path) -> None:
    """Makes the files below the folders cold: all caches where we may, else each file's own pages."""
    if drop_caches() == "caches dropped":
        return
    for folder in folders:
        for path in folder.rglob("*"):
            if path.is_file():
                with open(path, "rb") as file:
                    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def warm(*folders: Path) -> None:
    """Reads every file, so that the page cache holds it."""
    for folder in folders:
        for path in folder.rglob("*"):
            if path.is_file():
                with open(path, "rb", buffering=0) as file:
                    while file.read(1 << 24):
                        pass


def remove(path: Path) -> None:
    if path.is_dir():
        subprocess.run(["chmod", "-R", "u+w", path], check=True)
        shutil.rmtree(path)
    elif path.exists():
        path.unlink()


def run(command: list, env: dict[str, str] | None = None, wanted: int = 0) -> str:
    """Runs a command to its end and returns its stdout; anything but the wanted exit code ends the benchmark."""
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, env=env, stdin=subprocess.DEVNULL)
    if done.returncode != wanted:
        raise SystemExit(f"{' '.join(map(str, command))}: exit {done.returncode}\n{done.stderr[-2000:]}")
    return done.stdout


def usage(command: list, env: dict[str, str] | None = None) -> resource.struct_rusage:
    """What a command used, as its parent learns it."""
    return usages([command], env)[0]


def usages(commands: list[list], env: dict[str, str] | None = None) -> list[resource.struct_rusage]:
    """The same of commands that run at once, each with what it starts and waits for."""
    quiet = [(os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0)]
    pids = [os.posix_spawn(str(command[0]), [str(part) for part in command], env or dict(os.environ), file_actions=quiet) for command in commands]
    found = []
    for pid, command in zip(pids, commands, strict=True):
        _, status, used = os.wait4(pid, 0)
        if os.waitstatus_to_exitcode(status) != 0:
            raise SystemExit(f"{' '.join(map(str, command))}: exit {os.waitstatus_to_exitcode(status)}")
        found.append(used)
    return found


def peak_rss(command: list, env: dict[str, str] | None = None) -> int:
    """VmHWM of a command, in bytes."""
    return usage(command, env).ru_maxrss * 1024


def cpu_seconds(command: list, env: dict[str, str] | None = None) -> float:
    """CPU time of a command, its own and the kernel's for it."""
    used = usage(command, env)
    return used.ru_utime + used.ru_stime


def disk_bytes(*commands: list, env: dict[str, str]) -> tuple[int, int]:
    """What commands that run at once read from and wrote to disks, in bytes; what the page cache gives is not counted."""
    found = usages(list(commands), env)
    return sum(used.ru_inblock for used in found) * 512, sum(used.ru_oublock for used in found) * 512


class Cgroup:
    """A memory cgroup of version 1 or 2 with a limit; `enter` is for preexec_fn."""

    def __init__(self, limit: int):
        self.v2 = Path("/sys/fs/cgroup/cgroup.controllers").exists()
        base = Path("/sys/fs/cgroup") if self.v2 else Path("/sys/fs/cgroup/memory")
        self.path = base / f"steelyard-bench-{os.getpid()}"
        self.path.mkdir()
        try:
            (self.path / ("memory.max" if self.v2 else "memory.limit_in_bytes")).write_text(str(limit))
        except OSError:
            self.close()
            raise

    def enter(self) -> None:
        (self.path / "cgroup.procs").write_text(str(os.getpid()))

    def peak(self) -> int:
        return int((self.path / ("memory.peak" if self.v2 else "memory.max_usage_in_bytes")).read_text())

    def close(self) -> None:
        end = time.monotonic() + 5
        while True:
            try:
                self.path.rmdir()
                return
            except OSError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.05)


@contextmanager
def cgroup(limit: int) -> Iterator[Cgroup | None]:
    """A cgroup, or None where we may not make one."""
    try:
        group = Cgroup(limit)
    except OSError:
        yield None
        return
    try:
        yield group
    finally:
        group.close()


def peak_in_cgroup(group: Cgroup, command: list, env: dict[str, str]) -> int:
    done = subprocess.run(
        [str(part) for part in command], env=env, preexec_fn=group.enter, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, command))} in a cgroup: exit {done.returncode}\n{done.stderr[-2000:]}")
    return group.peak()


@dataclass
class Limit:
    """One thing that a row must reach: `value` <= `most` (or >= with `at_least`)."""

    label: str
    value: float
    most: float
    at_least: bool = False
    noise: float = 0.0
    #: Judged in spite of noise where the limit is further away than twice the noise.
    far: bool = False

    @property
    def verdict(self) -> str:
        share = self.value / self.most if self.at_least else self.most / self.value if self.value else 2.0
        near = 1 / (1 + 2 * self.noise) < share < 1 + 2 * self.noise
        if self.noise > NOISE_MAX and (near or not self.far):
            return f"not judged, noise {self.noise:.0%}"
        reached = self.value >= self.most if self.at_least else self.value <= self.most
        return "reached" if reached else "missed"


@dataclass
class Row:
    """A row of the table of docs/performance.md."""

    name: str
    what: str
    measured: str
    peers: str
    state: str
    limits: list[Limit]


def ratio(label: str, series: dict[str, Series], name: str, against: float, most: float, noisy: list[str]) -> Limit:
    """A limit on how long `name` takes against a number of seconds; noise is the largest of the series that count."""
    noise = max(series[one].noise for one in [name, *noisy])
    return Limit(label, series[name].median / against, most, noise=noise)

