#!/usr/bin/env python3
"""Measures contracts, planner and executor against a peer and against the machine's own limits, and writes the table of
docs/performance.md.

    bench/reshard.py [--only ROW ...] [--rounds 5] [--peer-rounds 3] [--peer-full] [--no-peer] [--no-write]

The peer is the package mooncake-transfer-engine-non-cuda in an environment of its own (build/peer). Product and peer have a process
each and take turns on the same shapes; figures are medians. The peer's two slowest plans grow with the square of the model: they are
measured at 4, 8 and 16 layers, and at 94 with --peer-full, once.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import figures
import layouts
from measure import Limit, Row, Series
from timed_process import Process

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
PEER = "mooncake-transfer-engine-non-cuda==0.3.13.post1"
MIB, GIB = 1 << 20, 1 << 30
THREADS = 2


def environment() -> dict[str, str]:
    """Ours without what slows numpy or the peer down behind their backs."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("OPENBLAS_", "OMP_"))}


def peer_python() -> Path | None:
    folder = ROOT / "build" / "peer"
    python = folder / "bin" / "python"
    done = folder / PEER
    if not done.exists():
        made = subprocess.run([sys.executable, "-m", "venv", folder], check=False).returncode == 0
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", PEER]
        if not made or subprocess.run(pip, check=False, stderr=subprocess.DEVNULL).returncode != 0:
            return None
        done.touch()
    return python


def shown(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds >= 10 else f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1000:.3g} ms"


class Bench:
    def __init__(self, ours: Process, peer: Process | None, rounds: int, peer_rounds: int, peer_full: bool):
        self.ours = ours
        self.peer = peer
        self.rounds = rounds
        self.peer_rounds = min(peer_rounds, rounds) if peer else 0
        self.peer_full = peer_full

    # --- what rows share -----------------------------------------------------------------------------------------------------------

    def rounds_of(self, ours: Callable[[], dict], peer: Callable[[], dict] | None = None, keys: tuple[str, ...] = ("seconds",)):
        """Turns of both; what was found by key, and each one's last answer."""
        mine = {key: Series() for key in keys}
        theirs: dict[str, Series] = {}
        last: list[dict] = [{}, {}]
        for turn in range(self.rounds):
            last[0] = ours()
            for key in keys:
                mine[key].values.append(last[0][key])
            if peer and turn < self.peer_rounds:
                last[1] = peer()
                for key, value in last[1].items():
                    if isinstance(value, float):
                        theirs.setdefault(key, Series()).values.append(value)
        return mine, theirs, last

    def build(self, name: str, prefix: str, kind: str, peer: bool = True, **arguments) -> None:
        self.ours("build", name=name, prefix=prefix, kind=kind, arguments=arguments)
        if peer and self.peer:
            self.peer("build", name=name, prefix=prefix, kind=kind, arguments=arguments)

    def forget(self) -> None:
        self.ours("forget")
        if self.peer:
            self.peer("forget")

    def peer_plan(self) -> dict:
        assert self.peer
        return self.peer("plan", source="source", target="target")

    def said(self, series: Series | None) -> str:
        return f"peer {shown(series.median)}{', once' if len(series.values) == 1 else ''}" if series else "no peer"

    def one_plan(self, keep: str | None = None) -> Callable[[], dict]:
        return lambda: self.ours("plan", source="source", target="target", keep=keep)

    # --- rows ----------------------------------------------------------------------------------------------------------------------

    def row_contracts(self) -> list[Row]:
        """One run gives two rows."""
        keys = ("columns", "objects", "dump", "load")
        peer = (lambda: self.peer("contracts", layers=layouts.LAYERS)) if self.peer else None
        mine, theirs, (ours, _) = self.rounds_of(lambda: self.ours("contracts", layers=layouts.LAYERS), peer, keys)
        with tempfile.TemporaryDirectory() as folder:
            path = str(Path(folder) / "placement.json")
            self.ours("write_json", path=path, layers=layouts.LAYERS)
            peak = self.ours("isolated", step="load_peak", path=path)["peak"]
        return [
            Row(
                "contracts", f"build, validate, identify and digest {ours['fragments']:,} fragments",
                f"from columns {shown(mine['columns'].median)}, from objects that are made meanwhile {shown(mine['objects'].median)}",
                self.said(theirs.get("build")), "94 layers x 128 experts, TP8, EP8, DP2",
                [self.at_most("s, from columns", mine["columns"], 0.4), self.at_most("s, from objects", mine["objects"], 2.0)],
            ),
            Row(
                "json", f"JSON of them, {ours['json_bytes'] / MIB:.1f} MiB",
                f"dump {shown(mine['dump'].median)}, load and validate {shown(mine['load'].median)}; peak {peak / MIB:.0f} MiB over the interpreter, the text included",
                f"peer dump {shown(theirs['dump'].median)}, load {shown(theirs['load'].median)}" if theirs else "no peer", "the same",
                [self.at_most("s, dump", mine["dump"], 0.15), self.at_most("s, load", mine["load"], 0.4), Limit("MiB", peak / MIB, 200)],
            ),
        ]  # fmt: skip

    def at_most(self, label: str, series: Series, most: float) -> Limit:
        return Limit(label, series.median, most, noise=series.noise, far=True)

    def row_plan_dense(self) -> Row:
        self.build("source", "src", "dense", tp=8)
        self.build("target", "dst", "dense", tp=4)
        mine, theirs, (ours, _) = self.rounds_of(self.one_plan(), self.peer_plan if self.peer else None)
        self.forget()
        return Row(
            "plan_dense", "plan dense TP8 to TP4, 94 layers", f"{shown(mine['seconds'].median)}, {ours['regions']:,} regions",
            self.said(theirs.get("seconds")), f"{ours['segments']:,} segments", [self.at_most("s", mine["seconds"], 0.02)],
        )  # fmt: skip

    def slow_plan(self, name: str, what: str, most: float, source: dict, target: dict) -> Row:
        """Against a peer whose cost grows with the square: it is shown growing."""
        grown = []
        for layers in (4, 8, 16, *((layouts.LAYERS,) if self.peer_full else ())) if self.peer else ():
            self.peer("build", name="source", prefix="src", kind=source["kind"], arguments={**source["arguments"], "layers": layers})
            self.peer("build", name="target", prefix="dst", kind=target["kind"], arguments={**target["arguments"], "layers": layers})
            grown.append(f"{shown(self.peer_plan()['seconds'])} at {layers}")
        self.forget()
        self.build("source", "src", source["kind"], peer=False, **source["arguments"])
        self.build("target", "dst", target["kind"], peer=False, **target["arguments"])
        mine, _, (ours, _) = self.rounds_of(self.one_plan())
        self.forget()
        return Row(
            name, what, f"{shown(mine['seconds'].median)}, {ours['regions']:,} regions",
            f"peer, once each: {', '.join(grown)} layers" if grown else "no peer", f"{ours['segments']:,} segments",
            [self.at_most("s", mine["seconds"], most)],
        )  # fmt: skip

    def row_plan_experts(self) -> Row:
        sides = [{"kind": "experts", "arguments": {"ep": ep}} for ep in (8, 16)]
        return self.slow_plan("plan_experts", "plan EP8 to EP16, separate experts, 94 layers", 0.25, *sides)

    def row_plan_fsdp(self) -> Row:
        source, target = {"kind": "dense", "arguments": {"tp": 32, "rows_only": True}}, {"kind": "dense", "arguments": {"tp": 8}}
        return self.slow_plan("plan_fsdp", "plan FSDP (32 ranks, dimension 0) to TP8, 94 layers", 0.3, source, target)

    def row_segments(self) -> Row:
        self.build("source", "src", "dense", tp=8)
        self.build("target", "dst", "dense", tp=4)
        self.one_plan("plan")()
        peer = None
        if self.peer:
            self.peer("plan", source="source", target="target", keep="plan")
            peer = lambda: self.peer("segments", plan="plan")  # noqa: E731
        single = Series()

        def both() -> dict:
            single.values.append(self.ours("segments", plan="plan", threads=1)["seconds"])
            return self.ours("segments", plan="plan", threads=THREADS)

        mine, theirs, (ours, _) = self.rounds_of(both, peer)
        self.forget()
        return Row(
            "segments", f"all {ours['segments']:,} segments of dense TP8 to TP4 as numpy arrays",
            f"{shown(mine['seconds'].median)} with {THREADS} threads, {shown(single.median)} with one", self.said(theirs.get("seconds")),
            "four fresh arrays, 28 bytes a segment", [self.at_most(f"s, {THREADS} threads", mine["seconds"], 0.1)],
        )  # fmt: skip

    def row_rebind(self) -> Row:
        self.build("source", "src", "dense", peer=False, tp=32, rows_only=True)
        self.build("target", "dst", "dense", peer=False, tp=8)
        self.one_plan("plan")()
        mine, _, (ours, _) = self.rounds_of(lambda: self.ours("rebind", plan="plan", times=21))
        self.forget()
        per = Series([value * 1000 * 100_000 / ours["regions"] for value in mine["seconds"].values])
        return Row(
            "rebind", "rebind a plan to ready bindings", f"{mine['seconds'].median * 1000:.3f} ms, {ours['regions']:,} regions", "peer: not possible",
            "digests of the placements are there", [self.at_most("ms per 100,000 regions", per, 1.0)],
        )  # fmt: skip

    def row_balance(self) -> Row:
        self.build("source", "src", "replicas", dp=8)
        self.build("target", "dst", "replicas", tp=8)
        ours = self.one_plan()()
        theirs = self.peer_plan()["read"] if self.peer else []
        self.forget()
        read = ours["read"]
        whole = f"{len([one for one in theirs if one])} of 8 read, {max(theirs) / sum(theirs):.0%} from one" if theirs else ""
        return Row(
            "balance", "8 equal replicas feeding 8 targets", f"{min(read) / GIB:.3f} to {max(read) / GIB:.3f} GiB from each",
            f"peer: {whole}" if theirs else "no peer", "64 tensors of 32 MiB",
            [Limit("regions between the most and the least read", (max(read) - min(read)) / ours["largest"], 1)],
        )  # fmt: skip

    def row_execute(self) -> Row:
        """Column splits with runs of 1 KiB to 16 KiB, and a row split; each 2 GiB."""
        words, limits, peers = [], [], []
        for columns, dim in ((4096, 1), (8192, 1), (65536, 1), (4096, 0)):
            made = self.ours("copies", name="copies", layers=32, columns=columns, dim=dim)
            series = {name: Series() for name in ("execute", "memcpy", "numpy_loop", "run_loop")}
            for turn in range(self.rounds):
                for name in ("execute", "memcpy") if turn % 2 else ("memcpy", "execute"):
                    series[name].values.append(self.ours(name, name="copies", threads=THREADS)["seconds"])
                series["numpy_loop"].values.append(self.ours("numpy_loop", name="copies")["seconds"])
            runs = self.ours("run_loop", name="copies", regions=8)
            self.forget()
            label = "rows" if dim == 0 else f"runs of {made['inner_bytes'] // 1024} KiB"
            rate = {name: made["bytes"] / one.median / 1e9 for name, one in series.items() if one.values}
            words.append(f"{label} {rate['execute']:.1f} GB/s")
            peers.append(f"{label} memcpy {rate['memcpy']:.1f}, numpy {rate['numpy_loop']:.1f}, numpy run by run {runs['bytes'] / runs['seconds'] / 1e9:.1f} GB/s")
            for peer, most in (("memcpy", 0.85), ("numpy_loop", 5)):
                # Round by round: the machine's memory is not equally fast all the time.
                ratios = Series([theirs / mine for theirs, mine in zip(series[peer].values, series["execute"].values)])
                name = peer.removesuffix("_loop")
                limits.append(Limit(f"{label}, x {name}", ratios.median, most, at_least=True, noise=ratios.noise, far=True))
        return Row(
            "execute", f"execute TP8 to TP4, 2 GiB in host memory, {THREADS} threads", "; ".join(words), "; ".join(peers),
            f"memory aligned to pages; memcpy: one large one per thread, {THREADS} threads; numpy: a slice assignment per region",
            limits,
        )  # fmt: skip

    def row_growth(self) -> Row:
        sizes = (47, 94, 188, 376)
        found: dict[str, list[Series]] = {}
        for layers in sizes:
            answers = [self.ours("growth", layers=layers) for _ in range(self.rounds)]
            for key in answers[0]:
                found.setdefault(key, []).append(Series([one[key] for one in answers]))
        words, limits = [], []
        for key, series in found.items():
            words.append(f"{key} {', '.join(shown(one.median) for one in series)}")
            steps = [after.median / before.median for before, after in zip(series, series[1:])]
            limits.append(Limit(f"x per doubling, {key}", max(steps), 2.3, noise=max(one.noise for one in series), far=True))
        return Row("growth", "cost against size: 47, 94, 188, 376 layers", "; ".join(words), "peer: grows with the square (above)", "FSDP32 to TP8", limits)

    def row_million(self) -> Row:
        found = self.ours("isolated", step="million", count=1_000_000)
        return Row(
            "million_fragments", "a manifest of a million fragments",
            f"from columns {shown(found['build'])}, JSON of {found['json_bytes'] / MIB:.0f} MiB loaded {shown(found['load'])}, planned to itself {shown(found['plan'])}; "
            f"peak of the process {found['built'] / MIB:.0f} MiB built, {found['peak'] / MIB:.0f} MiB with JSON and plan",
            "", "columns and interpreter included; once", [Limit("GiB", found["peak"] / GIB, 1.5)],
        )  # fmt: skip


STEPS = ["contracts", "plan_dense", "plan_experts", "plan_fsdp", "segments", "rebind", "balance", "execute", "growth", "million"]
ORDER = ["contracts", "json", "plan_dense", "plan_experts", "plan_fsdp", "segments", "rebind", "balance", "execute", "growth", "million_fragments"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", choices=STEPS, default=STEPS)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--peer-rounds", type=int, default=3, help="the peer takes part in so many of the rounds")
    parser.add_argument("--peer-full", action="store_true", help="let the peer plan EP and FSDP at 94 layers too, once: some ten minutes")
    parser.add_argument("--no-peer", action="store_true")
    parser.add_argument("--no-write", action="store_true", help="leave docs/performance.md and bench/figures.json alone")
    args = parser.parse_args()
    python = None if args.no_peer else peer_python()
    if python is None and not args.no_peer:
        print(f"{PEER} could not be installed: the rows have no peer", file=sys.stderr)
    ours = Process(Path(sys.executable), HERE / "reshard_ours.py", environment())
    peer = Process(python, HERE / "reshard_peer.py", environment()) if python else None
    bench = Bench(ours, peer, args.rounds, args.peer_rounds, args.peer_full)
    try:
        for name in args.only:
            made = getattr(bench, f"row_{name}")()
            rows = made if isinstance(made, list) else [made]
            for row in rows:
                figures.show(row)
            if not args.no_write:
                figures.write(rows, args.rounds, ORDER, part="reshard", state="state")
    finally:
        ours.close()
        if peer:
            peer.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
