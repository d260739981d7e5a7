#!/usr/bin/env python3
"""Measures the figures of docs/performance.md against peers on this machine, and writes them there.

    bench/run.py [--only ROW ...] [--rounds 5] [--work DIR] [--keep] [--no-write]

Each row takes its product and peer runs interleaved, in the same minutes on the same filesystem, and compares medians. A ratio whose
series spread by more than 10 % (the middle half, as a share of the median) is printed and not judged. The numbers are kept in
bench/figures.json; a run of some rows replaces those rows only.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import figures
import lifecycle
import make_checkpoint
from measure import MIB, Limit, Row, Series, Step, cgroup, disk_bytes, drop_caches, forget, interleave, peak_in_cgroup, peak_rss, ratio, remove, run, warm

ROOT = Path(__file__).resolve().parent.parent
BINARY = Path(os.environ.get("STEELYARD_BIN", ROOT / "build" / "bin" / "steelyard")).resolve()
CORES = len(os.sched_getaffinity(0))
BUDGET = 256 * MIB


class Bench:
    def __init__(self, work: Path, rounds: int):
        self.work = work
        self.rounds = rounds
        self.binary = BINARY
        self.store = work / "store"
        self.cold = drop_caches()

    # --- what the rows share ---------------------------------------------------------------------------------------

    def environment(self, store: Path | None = None) -> dict[str, str]:
        env = {name: value for name, value in os.environ.items() if not name.startswith("STEELYARD_")}
        return {**env, "STEELYARD_STORE": str(store or self.store), "HOME": str(self.work), "STEELYARD_COLD_RESERVE_FREE": "0"}

    def steelyard(self, *args, store: Path | None = None) -> dict:
        return json.loads(run([BINARY, "--json", *args], env=self.environment(store)))

    def checkpoint(self, name: str, **shape) -> Path:
        folder, complete = self.work / name, self.work / f"{name}.complete"
        if not complete.exists():
            remove(folder)
            make_checkpoint.make(folder, **shape)
            complete.touch()
        return folder

    def forget_checkpoint(self, name: str) -> None:
        (self.work / f"{name}.complete").unlink(missing_ok=True)
        remove(self.work / name)

    def source(self) -> Path:
        """2 GiB in 4 shards."""
        return self.checkpoint("source")

    def fresh(self, *paths: Path) -> None:
        for path in paths or (self.store,):
            remove(path)
        os.sync()

    # --- peers -----------------------------------------------------------------------------------------------------

    def hash_all(self, source: Path) -> None:
        files = sorted(str(path) for path in source.rglob("*") if path.is_file())
        subprocess.run(["xargs", "-0", "-n", "1", "-P", str(CORES), "openssl", "dgst", "-sha256"], input="\0".join(files).encode(), check=True, stdout=subprocess.DEVNULL)

    def write_direct(self, source: Path, count: int | None = None) -> None:
        out = self.work / "dd"
        out.mkdir(exist_ok=True)
        for path in sorted(source.glob("*.safetensors")):
            options = [f"count={count}", "iflag=count_bytes"] if count is not None else []
            run(["dd", f"if={path}", f"of={out / path.name}", "bs=16M", "oflag=direct", "conv=fsync", "status=none", *options])
            if count is not None:
                return

    def write_while_reading(self, source: Path) -> None:
        """The disk's limit for writing the bytes and reading as many back: both at once."""
        with ThreadPoolExecutor(2) as pool:
            for done in [pool.submit(self.write_direct, source), pool.submit(self.read_direct, source)]:
                done.result()

    def read_direct(self, source: Path) -> None:
        for path in sorted(source.glob("*.safetensors")):
            run(["dd", f"if={path}", "of=/dev/null", "bs=16M", "iflag=direct", "status=none"])

    def copy(self, source: Path, checksum: bool) -> None:
        target = self.work / "copy"
        run(["cp", "-r", source, target])
        run(["sync", "-f", target])
        if checksum:
            run(["sh", "-c", f"find '{target}' -type f -exec sha256sum {{}} +"])

    # --- rows ------------------------------------------------------------------------------------------------------

    def row_import(self) -> Row:
        source = self.source()
        warm(source)
        series = interleave(
            {
                "import": Step(lambda: self.steelyard("import", source, "model"), self.fresh),
                "checked": Step(lambda: self.steelyard("import", source, "model", "--verify-after-write"), self.fresh),
                "hash": Step(lambda: self.hash_all(source), os.sync),
                "write": Step(lambda: self.write_direct(source), lambda: self.fresh(self.work / "dd")),
                "both": Step(lambda: self.write_while_reading(source), lambda: self.fresh(self.work / "dd")),
                "copy": Step(lambda: self.copy(source, True), lambda: self.fresh(self.work / "copy")),
            },
            self.rounds,
        )
        floor = max(series["hash"].median, series["write"].median)
        self.fresh(self.work / "dd", self.work / "copy")
        return Row(
            "import", "import of 2 GiB, 4 shards, durable", seconds(series, "import", "checked"),
            seconds(series, "hash", "write", "both", "copy"),
            "source in the page cache",
            [
                ratio("x max(T_hash, T_write)", series, "import", floor, 1.15, ["hash", "write"]),
                ratio("x (cp, sync, sha256sum)", series, "import", series["copy"].median, 0.6, ["copy"]),
                ratio("x max, --verify-after-write", series, "checked", floor, 1.5, ["hash", "write"]),
                ratio("x (write and read at once), --verify-after-write", series, "checked", series["both"].median, 1.15, ["both"]),
            ],
        )  # fmt: skip

    def row_again(self) -> Row:
        source = self.source()
        warm(source)
        self.fresh()
        self.steelyard("import", source, "model")
        written: list[int] = []

        def again() -> None:
            written.append(self.steelyard("import", source, f"again-{len(written)}")["stats"]["written_bytes"])

        series = interleave({"import": Step(again, os.sync), "hash": Step(lambda: self.hash_all(source), os.sync)}, self.rounds)
        return Row(
            "again", "the same content as another revision", f"{seconds(series, 'import')}; {max(written)} bytes written",
            seconds(series, "hash"), "source in the page cache",
            [Limit("payload bytes written", max(written), 0), ratio("x T_hash", series, "import", series["hash"].median, 1.15, ["hash"])],
        )  # fmt: skip

    def row_next_step(self) -> Row:
        source = self.source()
        changed = (9, 41)
        step_source = self.checkpoint("step", change=changed)
        warm(source, step_source)
        stats: list[dict] = []

        def base() -> None:
            self.fresh()
            self.steelyard("import", source, "model@step-1")
            os.sync()

        def step() -> None:
            stats.append(self.steelyard("import", step_source, "model@step-2")["stats"])

        changed_bytes = len(changed) * make_checkpoint.MATRIX_BYTES
        series = interleave(
            {
                "import": Step(step, base),
                "hash": Step(lambda: self.hash_all(step_source), os.sync),
                "write": Step(lambda: self.write_direct(step_source, changed_bytes), lambda: self.fresh(self.work / "dd")),
            },
            self.rounds,
        )
        # An object is written whole when one byte of it changed: count the 64 MiB objects that the two matrices touch.
        objects = 0
        for number in changed:
            per_shard = make_checkpoint.MATRIX_BYTES + make_checkpoint.SIDE * 2
            begin = (number % 16) * per_shard
            end = begin + make_checkpoint.MATRIX_BYTES
            objects += (end - 1) // (64 * MIB) - begin // (64 * MIB) + 1
        written = max(one["written_bytes"] for one in stats)
        self.forget_checkpoint("step")
        floor = max(series["hash"].median, series["write"].median)
        return Row(
            "next_step", "a next step with 2 of 64 matrices changed", f"{seconds(series, 'import')}; {written / MIB:.0f} MiB written",
            seconds(series, "hash", "write"), "source in the page cache",
            [
                Limit("x the changed objects", written / (objects * 64 * MIB), 1.1),
                ratio("x max(T_hash, T_write of what changed)", series, "import", floor, 1.2, ["hash", "write"]),
            ],
        )  # fmt: skip

    def row_verify(self) -> Row:
        source = self.source()
        self.fresh()
        self.steelyard("import", source, "model")
        series = interleave(
            {
                "verify": Step(lambda: self.steelyard("verify", "model"), lambda: forget(self.store)),
                "hash": Step(lambda: self.hash_all(source), lambda: warm(source)),
                "read": Step(lambda: self.read_direct(source), lambda: forget(source)),
            },
            self.rounds,
        )
        floor = max(series["hash"].median, series["read"].median)
        return Row(
            "verify", "verify of 2 GiB", seconds(series, "verify"), seconds(series, "hash", "read"), f"store cold ({self.cold})",
            [ratio("x max(T_hash, T_read)", series, "verify", floor, 1.1, ["hash", "read"])],
        )  # fmt: skip

    def row_materialize(self) -> Row:
        source = self.source()
        self.fresh()
        self.steelyard("import", source, "model")
        out = self.work / "copy"

        def cold(folder: Path):
            def prepare() -> None:
                self.fresh(out)
                forget(folder)

            return prepare

        series = interleave(
            {
                "materialize": Step(lambda: self.steelyard("materialize", "model", out), cold(self.store)),
                "copy": Step(lambda: self.copy(source, False), cold(source)),
            },
            self.rounds,
        )
        self.fresh(out)
        return Row(
            "materialize", "materialise 2 GiB, durable and checksummed", seconds(series, "materialize"), seconds(series, "copy"),
            f"both sources cold ({self.cold})", [ratio("x (cp -r, sync -f)", series, "materialize", series["copy"].median, 1.1, ["copy"])],
        )  # fmt: skip

    def row_memory(self) -> Row:
        """One shard of 3 GiB; once with the machine's memory, once in a cgroup of 512 MiB."""
        source = self.checkpoint("large", shards=1, mib_per_shard=3072, seed=7)
        out, env = self.work / "copy", self.environment()
        commands = {
            "import": [BINARY, "import", source, "large"],
            "verify": [BINARY, "verify", "large"],
            "materialize": [BINARY, "materialize", "large", out],
        }
        self.fresh()
        self.fresh(out)
        limits, shown = [], []
        for name, command in commands.items():
            peak = peak_rss(command, env)
            shown.append(f"{name} {peak / MIB:.0f}")
            limits.append(Limit(f"{name}: VmHWM / (budget + 128 MiB)", peak / (BUDGET + 128 * MIB), 1.0))
        self.fresh()
        self.fresh(out)
        limit = 512 * MIB
        inner = min(BUDGET, (limit - 96 * MIB) // 2)
        state = "VmHWM without a limit; peak of a cgroup of 512 MiB"
        for name, command in commands.items():
            forget(source, self.store)
            with cgroup(limit) as group:
                if group is None:
                    state = "VmHWM without a limit; no cgroup could be made here"
                    break
                peak = peak_in_cgroup(group, command, env)
            shown.append(f"{name} in the cgroup {peak / MIB:.0f}")
            limits.append(Limit(f"{name}: cgroup peak / (budget + 128 MiB)", peak / (inner + 128 * MIB), 1.0))
        self.fresh(out)
        self.forget_checkpoint("large")
        return Row("memory", "peak memory in MiB, one shard of 3 GiB", ", ".join(shown), f"budget {BUDGET // MIB}, in the cgroup {inner // MIB}", state, limits)

    def row_million(self) -> Row:
        source = self.work / "million"
        remove(source)
        make_checkpoint.make_many_tensors(source, 1_000_000)
        command = [BINARY, "import", source, "million", "--header-limit", "200MB"]
        series, peaks = Series(), []
        for _ in range(self.rounds):
            self.fresh()
            begin = time.perf_counter()
            peaks.append(peak_rss(command, self.environment()))
            series.values.append(time.perf_counter() - begin)
        remove(source)
        return Row(
            "million", "import of a million tensors in one header", f"{series.median:.2f} s, {max(peaks) / MIB:.0f} MiB", "",
            "source in the page cache",
            [Limit("seconds", series.median, 8.0, noise=series.noise), Limit("GiB", max(peaks) / (1 << 30), 1.5)],
        )  # fmt: skip

    def many_revisions(self, count: int) -> Path:
        """A store of tiny revisions, made on tmpfs because ten thousand durable imports take long."""
        store = Path("/dev/shm" if os.access("/dev/shm", os.W_OK) else self.work) / f"steelyard-bench-{os.getpid()}"
        source = self.work / "tiny"
        source.mkdir(exist_ok=True)
        (source / "model.safetensors").write_bytes((2).to_bytes(8, "little") + b"{}")
        names = "\n".join(f"model-{number:05d}" for number in range(count))
        subprocess.run(
            ["xargs", "-n", "1", "-P", str(CORES), str(BINARY), "-q", "import", str(source)],
            input=names, text=True, check=True, env=self.environment(store), stdout=subprocess.DEVNULL,
        )  # fmt: skip
        return store

    def row_list(self) -> Row:
        store = self.many_revisions(10_000)
        env = self.environment(store)
        try:
            listed = Step(lambda: run([BINARY, "list", "--limit", "1000"], env=env))
            one = Step(lambda: run([BINARY, "inspect", "model-05000"], env=env))
            series = interleave({"list": listed, "inspect": one, "true": Step(lambda: run(["/bin/true"]))}, max(self.rounds, 21))
        finally:
            remove(store)
        shown = ", ".join(f"{name} {series[name].median * 1000:.1f} ms" for name in ("list", "inspect"))
        return Row(
            "list", "list of 1,000 and inspect of one among 10,000 revisions", shown, f"/bin/true {series['true'].median * 1000:.1f} ms",
            "whole process; store on tmpfs",
            [
                Limit("list, ms", series["list"].median * 1000, 60, noise=series["list"].noise),
                Limit("inspect, ms", series["inspect"].median * 1000, 30, noise=series["inspect"].noise),
            ],
        )  # fmt: skip

    def bench_program(self, name: str, *arguments: str) -> str:
        """Builds and runs a benchmark program in a fresh folder."""
        run(["ninja", "-C", ROOT / "build", name])
        folder = self.work / name
        remove(folder)
        folder.mkdir()
        out = run([ROOT / "build" / "bin" / name, folder, *arguments])
        remove(folder)
        return out

    def row_commits(self) -> Row:
        """Begin and Commit are an append each; the peer writes the same bytes in bare transactions."""
        pairs, bare, ratios = Series(), Series(), Series()
        pattern = r"pairs: (\d+)/s, bare SQLite: (\d+)/s of \d+ bytes, ratio ([\d.]+)"
        for _ in range(self.rounds):
            found = re.search(pattern, self.bench_program("catalog_bench", "imports"))
            for series, number in zip((pairs, bare, ratios), found.groups(), strict=True):
                series.values.append(float(number))
        return Row(
            "commits", "Begin and Commit pairs a second, one writer", f"{pairs.median:.0f}", f"bare SQLite transactions {bare.median:.0f}",
            "WAL, synchronous=FULL",
            [Limit("x bare transactions", ratios.median, 0.35, at_least=True, noise=ratios.noise)],
        )  # fmt: skip

    def row_fairness(self) -> Row:
        rates, shares = Series(), Series()
        for _ in range(self.rounds):
            found = re.search(r"16 processes: (\d+) writes/s, slowest / mean ([\d.]+)", self.bench_program("oplog_bench", "16"))
            rates.values.append(int(found.group(1)))
            shares.values.append(float(found.group(2)))
        return Row(
            "fairness", "16 writing processes", f"{rates.median:.0f} writes/s together", "", "WAL, synchronous=FULL",
            [Limit("slowest / mean", shares.median, 0.5, at_least=True, noise=shares.noise)],
        )  # fmt: skip

    def row_delete(self) -> Row:
        source = self.source()
        out = self.work / "copy"

        def stored() -> None:
            self.fresh()
            self.steelyard("import", source, "model")
            os.sync()

        def shared() -> None:
            stored()
            self.steelyard("import", source, "again")
            os.sync()

        def copied() -> None:
            self.fresh(out)
            self.copy(source, False)

        series = interleave(
            {
                "delete": Step(lambda: self.steelyard("delete", "model", "--yes"), stored),
                "shared": Step(lambda: self.steelyard("delete", "again", "--yes"), shared),
                "rm": Step(lambda: run(["rm", "-r", out]), copied),
            },
            self.rounds,
        )
        self.fresh()
        return Row(
            "delete", "delete of a revision of 2 GiB, and of one that shares everything",
            f"{series['delete'].median * 1000:.0f} ms, sharing {series['shared'].median * 1000:.0f} ms", f"rm -r {series['rm'].median * 1000:.0f} ms", "just written; gc frees the content",
            [
                ratio("x rm -r", series, "delete", series["rm"].median, 2.0, ["rm"]),
                Limit("ms, sharing", series["shared"].median * 1000, 100, noise=series["shared"].noise, far=True),
            ],
        )  # fmt: skip

    def row_gc(self) -> Row:
        store = self.many_revisions(1_000)
        env = self.environment(store)
        try:
            series = interleave({"gc": Step(lambda: run([BINARY, "gc", "--yes"], env=env))}, self.rounds)
            peak = peak_rss([BINARY, "gc", "--yes"], env)
        finally:
            remove(store)
        return Row(
            "gc", "gc over 1,000 revisions, nothing to free", f"{series['gc'].median * 1000:.0f} ms, {peak / MIB:.0f} MiB", "", "whole process; store on tmpfs",
            [Limit("s", series["gc"].median, 1.0, noise=series["gc"].noise, far=True), Limit("VmHWM, MiB", peak / MIB, 64)],
        )  # fmt: skip

    def row_recover(self) -> Row:
        store = self.many_revisions(1_000)
        env = self.environment(store)
        try:
            series = interleave({"recover": Step(lambda: run([BINARY, "recover", "--force", "--yes"], env=env))}, self.rounds)
        finally:
            remove(store)
        return Row(
            "recover", "recover of 1,000 revisions", f"{series['recover'].median:.2f} s", "", "whole process; store on tmpfs",
            [Limit("s", series["recover"].median, 5.0, noise=series["recover"].noise, far=True)],
        )  # fmt: skip

    def row_repair(self) -> Row:
        """One bit of one object turned over; `verify` finds it, `repair` takes the block from the source."""
        source = self.source()
        self.fresh()
        self.steelyard("import", source, "model")
        damaged = sorted(path for path in (self.store / "cold" / "groups").rglob("p/*") if path.stat().st_size == 64 * MIB)[3]
        env, read, written, times = self.environment(), [], [], Series()
        for number in range(self.rounds):
            damaged.chmod(0o644)
            with open(damaged, "r+b") as file:
                file.seek(7 * MIB + number)
                byte = file.read(1)
                file.seek(-1, os.SEEK_CUR)
                file.write(bytes([byte[0] ^ 1]))
            damaged.chmod(0o444)
            run([BINARY, "verify", "model"], env=env, wanted=5)
            forget(self.store, source)
            begin = time.perf_counter()
            some_read, some_written = disk_bytes([BINARY, "repair", "model", "--source", source], env=env)
            times.values.append(time.perf_counter() - begin)
            read.append(some_read)
            written.append(some_written)
        self.fresh()
        return Row(
            "repair", "repair of one object with one damaged block, of 2 GiB",
            f"{times.median:.2f} s; {max(read) / MIB:.0f} MiB read, {max(written) / MIB:.0f} MiB written", "the object 64 MiB", f"store and source cold ({self.cold})",
            [Limit("read, x the object", max(read) / (64 * MIB), 3.0), Limit("written, x the object", max(written) / (64 * MIB), 3.0)],
        )  # fmt: skip

    def reads(self, revisions: int) -> list[re.Match]:
        """Rounds of reads_bench over one store."""
        run(["ninja", "-C", ROOT / "build", "reads_bench"])
        program, folder = ROOT / "build" / "bin" / "reads_bench", self.work / "reads"
        found = []
        pattern = r"get of one: (\d+)/s.*\npage of 1000: ([\d.]+) ms\nall pages: ([\d.]+) s\npeak of readers: (\d+) MiB\na snapshot: ([\d.]+) s, peak (\d+) MiB"
        for _ in range(self.rounds):
            remove(folder)
            folder.mkdir()
            run([program, "make", folder, str(revisions)])
            found.append(re.search(pattern, run([program, folder, str(revisions)])))
        remove(folder)
        return found

    def row_reads(self) -> Row:
        found = self.reads(10_000)
        gets, pages = Series([float(one.group(1)) for one in found]), Series([float(one.group(2)) for one in found])
        return Row(
            "reads", "get of one revision and a list page of 1,000, in process, among 10,000", f"{gets.median:.0f} gets/s, page {pages.median:.2f} ms", "",
            "one thread; each looks first whether another process has written",
            [Limit("gets/s", gets.median, 200_000, at_least=True, noise=gets.noise), Limit("ms, page", pages.median, 3.0, noise=pages.noise)],
        )  # fmt: skip

    def row_many(self) -> Row:
        found = self.reads(100_000)
        pages, everything, saved = (Series([float(one.group(group)) for one in found]) for group in (2, 3, 5))
        peaks = [max(int(one.group(group)) for one in found) for group in (4, 6)]
        return Row(
            "many", "100,000 revisions: a list page of 1,000, all pages, a snapshot",
            f"{pages.median:.2f} ms, {everything.median:.2f} s, {saved.median:.2f} s; {peaks[0]} MiB to read, {peaks[1]} MiB for the snapshot", "", "in process",
            [Limit("MiB, readers", peaks[0], 64), Limit("MiB, snapshot", peaks[1], 384)],
        )  # fmt: skip

    def row_snapshot(self) -> Row:
        run(["ninja", "-C", ROOT / "build", "metadata_bench"])
        program = ROOT / "build" / "bin" / "metadata_bench"
        load = float(re.search(r"load-state: ([\d.]+)", run([program, "100000", "load-state"])).group(1))
        replay = float(re.search(r"replay: ([\d.]+)", run([program, "250000", "replay"])).group(1))
        return Row(
            "snapshot", "load of a snapshot of 100,000 revisions; replay of 1,000,000 entries", f"{load:.2f} us a revision; {replay:.2f} s", "",
            "in process, the best of five",
            [Limit("us a revision", load, 2.5), Limit("s, replay", replay, 8.0)],
        )  # fmt: skip


def seconds(series: dict[str, Series], *names: str) -> str:
    words = {"hash": "T_hash", "write": "T_write", "read": "T_read", "checked": "with --verify-after-write", "copy": "cp", "both": "T_write and T_read at once"}
    return ", ".join(f"{words.get(name, name)} {series[name].median:.2f} s" for name in names)


ROWS = {
    name: getattr(Bench, f"row_{name}")
    for name in (
        "import", "again", "next_step", "verify", "materialize", "memory", "million", "list", "commits", "fairness",
        "delete", "gc", "recover", "repair", "reads", "many", "snapshot",
    )
} | lifecycle.ROWS  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", choices=list(ROWS), default=list(ROWS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "bench")
    parser.add_argument("--keep", action="store_true", help="leave the checkpoints for the next run")
    parser.add_argument("--no-write", action="store_true", help="leave docs/performance.md and bench/figures.json alone")
    args = parser.parse_args()
    if not BINARY.exists():
        raise SystemExit(f"{BINARY} is not there: run `make build`")
    args.work.mkdir(parents=True, exist_ok=True)
    bench, rows = Bench(args.work.resolve(), args.rounds), []
    try:
        for name in args.only:
            row = ROWS[name](bench)
            rows.append(row)
            figures.show(row)
            if not args.no_write:
                figures.write([row], args.rounds, list(ROWS))
    finally:
        if not args.keep:
            remove(bench.work)
    return 0


if __name__ == "__main__":
    sys.exit(main())
