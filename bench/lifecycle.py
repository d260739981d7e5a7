"""Rows about what moves between memory and the cold tier, about leases, reconciliation and the simulation."""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from measure import MIB, Limit, Row, Series, Step, cpu_seconds, disk_bytes, forget, interleave, peak_rss, ratio, remove, run

if TYPE_CHECKING:
    from run import Bench

ROOT = Path(__file__).resolve().parent.parent
WRITE_BYTES = 4 * MIB


@contextmanager
def on_tmpfs() -> Iterator[Path]:
    """A folder on a tmpfs."""
    folder = Path(tempfile.mkdtemp(prefix="steelyard-bench-", dir="/dev/shm"))
    try:
        yield folder
    finally:
        remove(folder)


def fill(folder: Path, sizes: list[int]) -> None:
    """What memory costs whoever fills it: files that are allocated and written, once."""
    data = memoryview(bytes(WRITE_BYTES))
    for number, size in enumerate(sizes):
        fd = os.open(folder / f"fill-{number}", os.O_CREAT | os.O_RDWR)
        os.posix_fallocate(fd, 0, size)
        for at in range(0, size, WRITE_BYTES):
            os.pwrite(fd, data[: min(WRITE_BYTES, size - at)], at)
        os.close(fd)


def unfill(folder: Path) -> None:
    for path in folder.glob("fill-*"):
        path.unlink()


def shards(source: Path) -> list[Path]:
    return sorted(source.glob("*.safetensors"))


class Moves:
    """A revision of 2 GiB, brought into the memory below `hot` and evicted again."""

    def __init__(self, bench: Bench, hot: Path):
        self.bench, self.hot, self.source = bench, hot, bench.source()
        self.env = {**bench.environment(), "STEELYARD_HOT_PATH": str(hot)}
        bench.fresh()
        self.steelyard("import", self.source, "model")
        self.bytes = sum(path.stat().st_size for path in self.source.rglob("*") if path.is_file())

    def steelyard(self, *arguments) -> dict:
        return json.loads(run([self.bench.binary, "--json", *arguments], env=self.env))

    def cold(self) -> None:
        self.steelyard("evict", "model")
        os.sync()
        forget(self.bench.store, self.source)

    def hot_again(self) -> None:
        self.steelyard("rehydrate", "model")
        os.sync()
        forget(self.bench.store, self.source)

    def read_by(self, verb: str) -> int:
        return disk_bytes([self.bench.binary, "-q", verb, "model"], env=self.env)[0]


def rehydrate(bench: Bench) -> Row:
    with on_tmpfs() as hot:
        moves, read = Moves(bench, hot), []
        sizes = [path.stat().st_size for path in shards(moves.source)]
        series = interleave(
            {
                "rehydrate": Step(lambda: read.append(moves.read_by("rehydrate")), moves.cold),
                "read": Step(lambda: bench.read_direct(moves.source), lambda: forget(moves.source)),
                "fill": Step(lambda: fill(hot, sizes), lambda: unfill(hot)),
            },
            bench.rounds,
        )
        unfill(hot)
        moves.cold()
    bench.fresh()
    floor = max(series["read"].median, series["fill"].median)
    return Row(
        "rehydrate", "rehydrate 2 GiB, every block checked", f"{series['rehydrate'].median:.2f} s",
        f"T_read {series['read'].median:.2f} s, fallocate and fill {series['fill'].median:.2f} s", f"cold ({bench.cold})",
        [
            ratio("x max(T_read, fill)", series, "rehydrate", floor, 1.15, ["read", "fill"]),
            Limit("read, x the model", max(read) / moves.bytes, 1.02),
        ],
    )  # fmt: skip


def xxh3_rate() -> float:
    """Bytes a second of XXH3-64 on one core."""
    found = run([ROOT / "build" / "bin" / "hash_bench", "--benchmark_filter=^xxh3_warm", "--benchmark_min_time=0.1", "--benchmark_format=json"])
    return json.loads(found)["benchmarks"][0]["GB/s"] * 1e9


def evict(bench: Bench) -> Row:
    run(["ninja", "-C", ROOT / "build", "hash_bench"])
    with on_tmpfs() as hot:
        moves, read, hashed = Moves(bench, hot), [], Series()
        series = interleave(
            {
                "evict": Step(lambda: read.append(moves.read_by("evict")), moves.hot_again),
                "read": Step(lambda: bench.read_direct(moves.source), lambda: forget(moves.source)),
                "hash": Step(lambda: hashed.values.append(moves.bytes / xxh3_rate())),
            },
            bench.rounds,
        )
    bench.fresh()
    floor = max(series["read"].median, hashed.median)
    return Row(
        "evict", "evict 2 GiB, read back first", f"{series['evict'].median:.2f} s",
        f"T_read {series['read'].median:.2f} s, XXH3-64 of the blocks {hashed.median:.2f} s", f"cold ({bench.cold})",
        [
            ratio("x max(T_read, T_hash of blocks)", series, "evict", floor, 1.1, ["read"]),
            Limit("read, x the model", max(read) / moves.bytes, 1.02),
        ],
    )  # fmt: skip


def together(bench: Bench, processes: int = 8) -> Row:
    """Each process rehydrates the revision, whoever is first, and reads all its weights."""
    with on_tmpfs() as hot:
        moves, read = Moves(bench, hot), []
        cats = " && ".join(f"'{bench.binary}' -q cat model {path.name} >/dev/null" for path in shards(moves.source))
        command = ["/bin/sh", "-c", f"'{bench.binary}' -q rehydrate model && {cats}"]

        def all_at_once() -> None:
            read.append(disk_bytes(*[command] * processes, env=moves.env)[0])

        series = interleave({"together": Step(all_at_once, moves.cold)}, bench.rounds)
    bench.fresh()
    return Row(
        "together", f"{processes} processes rehydrate the same 2 GiB at once and read it all",
        f"{series['together'].median:.2f} s; {max(read) / MIB:.0f} MiB read from the disk by all", f"the model {moves.bytes / MIB:.0f} MiB",
        f"cold ({bench.cold})",
        [Limit("read, x the model", max(read) / moves.bytes, 1.02)],
    )  # fmt: skip


def leases(bench: Bench) -> Row:
    pairs, bare, ratios, rates, shares = Series(), Series(), Series(), Series(), Series()
    pattern = r"pairs: (\d+)/s, bare SQLite: (\d+)/s of \d+ bytes, ratio ([\d.]+).*\n16 processes: (\d+) pairs/s, slowest / mean ([\d.]+)"
    for _ in range(bench.rounds):
        found = re.search(pattern, bench.bench_program("catalog_bench", "leases"))
        for series, number in zip((pairs, bare, ratios, rates, shares), found.groups(), strict=True):
            series.values.append(float(number))
    return Row(
        "leases", "acquire and release pairs a second, one process and 16", f"{pairs.median:.0f}, {rates.median:.0f} by 16 together",
        f"bare SQLite transactions {bare.median:.0f}", "WAL, synchronous=FULL; durable",
        [
            Limit("x bare transactions", ratios.median, 0.35, at_least=True, noise=ratios.noise),
            Limit("slowest / mean of 16", shares.median, 0.5, at_least=True, noise=shares.noise),
        ],
    )  # fmt: skip


def reconcile(bench: Bench, revisions: int = 100_000) -> Row:
    """A pass of one process, while another one reads records."""
    run(["ninja", "-C", ROOT / "build", "store_bench"])
    program = ROOT / "build" / "bin" / "store_bench"
    passes, p99, longest, peaks = Series(), Series(), [], []
    with on_tmpfs() as folder:
        store = folder / "store"
        env = bench.environment(store)
        run([program, "make", store, str(revisions)])
        for _ in range(min(bench.rounds, 3)):
            reader = subprocess.Popen([program, "gets", store, str(revisions)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)
            try:
                begin = time.perf_counter()
                peaks.append(peak_rss([bench.binary, "-q", "reconcile"], env))
                passes.values.append(time.perf_counter() - begin)
            finally:
                said, _ = reader.communicate()
            found = re.search(r"p99 ([\d.]+) ms, longest ([\d.]+) ms", said)
            p99.values.append(float(found.group(1)))
            longest.append(float(found.group(2)))
    return Row(
        "reconcile", f"one reconciliation pass over {revisions:,} revisions, another process reading records",
        f"{passes.median:.1f} s, {max(peaks) / MIB:.0f} MiB; a get takes {p99.median:.3f} ms at p99, {max(longest):.1f} ms at most", "",
        "store on tmpfs; nothing to change",
        [Limit("ms, p99 of a get", p99.median, 5.0, noise=p99.noise, far=True)],
    )  # fmt: skip


def simulate(bench: Bench, histories: int = 100) -> Row:
    run(["ninja", "-C", ROOT / "build", "steelyard_simulate"])
    rates = Series()
    for _ in range(bench.rounds):
        rates.values.append(histories / cpu_seconds([ROOT / "build" / "bin" / "steelyard_sim", "--histories", str(histories)]))
    return Row(
        "simulate", f"simulated histories, the first {histories}", f"{rates.median:.1f} a second of one core", "", "by the CPU time of the process; one thread at a time", []
    )  # fmt: skip


ROWS: dict[str, Callable[[Bench], Row]] = {
    "rehydrate": rehydrate, "evict": evict, "together": together, "leases": leases, "reconcile": reconcile, "simulate": simulate,
}  # fmt: skip
