"""The product's steps, in an interpreter of their own. Started by reshard.py."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from math import prod

import layouts
import numpy as np
from timed_process import resident, serve, timed

import steelyard.model_weight as W
import steelyard.reshard as R

KEPT: dict[str, object] = {}
LIBC = ctypes.CDLL(None)


def name_of(prefix: str, tensor: layouts.Tensor, fragment: layouts.Fragment) -> str:
    return f"{prefix}:{tensor.name}:{'.'.join(map(str, fragment.rank))}"


def objects(prefix: str, layout: layouts.Layout) -> tuple[list[W.TensorDescriptor], list[W.PlacementFragment]]:
    ranks = {rank: W.ParallelRank(dp=rank[0], tp=rank[1], ep=rank[2]) for rank in layout.ranks}
    tensors, fragments = [], []
    for tensor in layout.tensors:
        tensors.append(W.TensorDescriptor(tensor.name, tensor.shape, "bfloat16", layouts.ITEMSIZE, tensor.dim, "bench", layer_id=tensor.layer))
        for one in tensor.fragments:
            nbytes = prod(one.shape) * layouts.ITEMSIZE
            fragments.append(W.PlacementFragment(name_of(prefix, tensor, one), tensor.name, one.offset, one.shape, nbytes, ranks[one.rank]))
    return tensors, fragments


def as_columns(prefix: str, layout: layouts.Layout) -> tuple[dict, dict]:
    """What an exporter that thinks in columns has at hand: lists of names, arrays of numbers."""
    rows = [(number, tensor, one) for number, tensor in enumerate(layout.tensors) for one in tensor.fragments]

    def boxes(values) -> W.ListColumn:
        values = list(values)
        return W.ListColumn(np.array([n for one in values for n in one]), np.cumsum([len(one) for one in values]))

    def numbers(values) -> np.ndarray:
        return np.array([-1 if value is None else value for value in values])

    tensors = {
        "tensor_id": [tensor.name for tensor in layout.tensors],
        "global_shape": boxes(tensor.shape for tensor in layout.tensors),
        "dtype": "bfloat16",
        "itemsize": layouts.ITEMSIZE,
        "partition_dim": numbers(tensor.dim for tensor in layout.tensors),
        "layout_fingerprint": "bench",
        "layer_id": numbers(tensor.layer for tensor in layout.tensors),
    }
    fragments = {
        "placement_fragment_id": [name_of(prefix, tensor, one) for _, tensor, one in rows],
        "tensor": np.array([number for number, _, _ in rows]),
        "global_offset": boxes(one.offset for _, _, one in rows),
        "local_shape": boxes(one.shape for _, _, one in rows),
        "nbytes": np.array([prod(one.shape) * layouts.ITEMSIZE for _, _, one in rows]),
        "rank": np.array([(one.rank[0], one.rank[1], 0, one.rank[2]) for _, _, one in rows]),
    }
    return tensors, fragments


def from_columns(tensors: dict, fragments: dict) -> W.PlacementManifest:
    return W.PlacementManifest.from_columns("bench-model", "rev-1", tensors=tensors, fragments=fragments)


def identified(placement: W.PlacementManifest) -> W.PlacementManifest:
    assert placement.placement_id and placement.digest
    return placement


def contracts(layers: int) -> dict:
    """From columns and from objects, with identity and digest; then JSON both ways. The columns and the layout are there before."""
    layout = layouts.experts(layers, 8, dp=2)
    given = as_columns("src", layout)
    by_columns, placement = timed(lambda: identified(from_columns(*given)))
    by_objects, same = timed(lambda: identified(W.PlacementManifest("bench-model", "rev-1", *objects("src", layout))))
    assert same == placement
    del same
    dumped, text = timed(placement.to_json)
    loaded, back = timed(lambda: W.PlacementManifest.from_json(text))
    assert back.placement_id == placement.placement_id
    return {
        "columns": by_columns, "objects": by_objects, "dump": dumped, "load": loaded,
        "fragments": layout.fragment_count, "json_bytes": len(text),
    }  # fmt: skip


def build(name: str, prefix: str, kind: str, arguments: dict) -> dict:
    KEPT[name] = identified(from_columns(*as_columns(prefix, layouts.BUILDERS[kind](**arguments))))
    return {}


def growth(layers: int) -> dict:
    """The same steps at any size. Each begins with an empty heap: only small sizes would find their pages there already."""

    def cold(action: Callable[[], object]) -> tuple[float, object]:
        LIBC.malloc_trim(0)
        return timed(action)

    sides = [as_columns("src", layouts.dense(layers, 32, rows_only=True)), as_columns("dst", layouts.dense(layers, 8))]
    built, source = cold(lambda: identified(from_columns(*sides[0])))
    target = identified(from_columns(*sides[1]))
    text = source.to_json()
    loaded, _ = cold(lambda: W.PlacementManifest.from_json(text))
    planned, _ = cold(lambda: R.plan_transfer(source, target))
    return {"build": built, "load": loaded, "plan": planned}


def plan(source: str, target: str, keep: str | None = None) -> dict:
    """On manifests that were just loaded: a manifest keeps its layout's digest once it has been asked for."""
    sides = [W.PlacementManifest.from_json(KEPT[name].to_json()) for name in (source, target)]
    seconds, result = timed(lambda: R.plan_transfer(*sides))
    if keep:
        KEPT[keep] = result
    read = list(result.explain().source_ranks.values())
    largest = int(result.columns()["inner_bytes"].max())
    return {"seconds": seconds, "regions": result.region_count, "segments": result.segment_count, "read": read, "largest": largest}


def segments(plan: str, threads: int) -> dict:
    """All runs as arrays, read once: what a transport that posts them does first."""
    seconds, found = timed(lambda: KEPT[plan].segments(threads=threads))
    assert int(found.nbytes.sum()) == KEPT[plan].bytes
    return {"seconds": seconds, "segments": len(found)}


def binding(placement: W.PlacementManifest, instance: str) -> W.RuntimeBindingManifest:
    fragments = placement.fragments
    nbytes = np.array([one.nbytes for one in fragments], np.uint64)
    address = np.uint64(4096) + np.concatenate([[np.uint64(0)], np.cumsum(nbytes)[:-1]]).astype(np.uint64)
    names = [one.fragment_id for one in fragments]
    return W.RuntimeBindingManifest.from_columns(
        placement.model_id, placement.revision, placement.placement_id, placement.digest, instance, 1, "lease",
        fragments={
            "placement_fragment_id": names, "fragment_id": names, "address": address, "nbytes": nbytes,
            "worker_id": "w", "endpoint": "e", "device": "cpu",
        },
    )  # fmt: skip


def rebind(plan: str, times: int) -> dict:
    kept = KEPT[plan]
    source, target = binding(kept.source, "trainer"), binding(kept.target, "server")
    taken = sorted(timed(lambda: kept.rebind(source, target))[0] for _ in range(times))
    return {"seconds": taken[times // 2], "regions": kept.region_count}


# --- copies in host memory ---------------------------------------------------------------------------------------------------------


def arena(nbytes: int) -> np.ndarray:
    """Aligned to a page, as the allocators of frameworks do at least to a cache line, and touched."""
    memory = np.empty(nbytes + 4096, np.uint8)
    memory[::4096] = 1
    begin = -memory.ctypes.data % 4096
    return memory[begin : begin + nbytes]


def copies(name: str, layers: int, columns: int, dim: int) -> dict:
    """Two arenas of one size, with the fragments of each side one after the other."""
    sides = []
    for prefix, tp in (("src", 8), ("dst", 4)):
        placement = from_columns(*as_columns(prefix, layouts.split(layers, tp, columns, dim)))
        total = sum(one.nbytes for one in placement.fragments)
        whole, memory, at = arena(total), {}, 0
        for one in placement.fragments:
            memory[one.fragment_id] = whole[at : at + one.nbytes]
            at += one.nbytes
        sides.append((placement, whole, memory))
    made = R.plan_transfer(sides[0][0], sides[1][0])
    random = np.random.default_rng(1)
    sides[0][1].view(np.uint64)[:] = random.integers(0, 2**63, sides[0][1].nbytes // 8, np.uint64)
    R.execute(made, sides[0][2], sides[1][2], threads=2, verify=True)
    KEPT[name] = (made, sides)
    return {"bytes": made.bytes, "inner_bytes": made.regions[0].inner_bytes, "regions": made.region_count}


def execute(name: str, threads: int) -> dict:
    made, (source, target) = KEPT[name]
    return {"seconds": timed(lambda: R.execute(made, source[2], target[2], threads=threads))[0]}


def memcpy(name: str, threads: int) -> dict:
    """One large memcpy per thread, of the same bytes between the same arenas."""
    _, (source, target) = KEPT[name]
    share = source[1].nbytes // threads

    def part(number: int) -> None:
        ctypes.memmove(target[1].ctypes.data + number * share, source[1].ctypes.data + number * share, share)

    def all_parts() -> None:
        others = [threading.Thread(target=part, args=(number,)) for number in range(1, threads)]
        for one in others:
            one.start()
        part(0)
        for one in others:
            one.join()

    return {"seconds": timed(all_parts)[0]}


def numpy_loop(name: str) -> dict:
    """What people write without a planner's executor: a slice assignment for each region."""
    made, (source, target) = KEPT[name]
    ends = {one.fragment_id: one for side in (source, target) for one in side[0].fragments}
    arrays = {key: memory.view(np.uint16).reshape(ends[key].local_shape) for side in (source, target) for key, memory in side[2].items()}

    def box(region: R.Region, fragment: str) -> np.ndarray:
        start = (begin - base for begin, base in zip(region.offset, ends[fragment].global_offset))
        return arrays[fragment][tuple(slice(begin, begin + size) for begin, size in zip(start, region.shape))]

    pairs = [(box(region, region.target_fragment), box(region, region.source_fragment)) for region in made.regions]

    def loop() -> None:
        for to, origin in pairs:
            to[...] = origin

    return {"seconds": timed(loop)[0]}


def run_loop(name: str, regions: int) -> dict:
    """The same with one numpy copy for each run of bytes, over the first regions."""
    made, (source, target) = KEPT[name]
    found = made.segments(0, regions)
    fragments = made.columns()
    ids = made.source_fragment_ids, made.target_fragment_ids
    sides = [[side[2][key] for key in names] for side, names in zip((source, target), ids)]
    rows = list(zip(*(column.tolist() for column in (found.region, found.source_offset, found.target_offset, found.nbytes))))
    origin_of, target_of = fragments["source_fragment"].tolist(), fragments["target_fragment"].tolist()

    def loop() -> None:
        for region, begin, to, size in rows:
            sides[1][target_of[region]][to : to + size] = sides[0][origin_of[region]][begin : begin + size]

    return {"seconds": timed(loop)[0], "bytes": int(found.nbytes.sum())}


# --- memory ------------------------------------------------------------------------------------------------------------------------


def isolated(step: str, **arguments: object) -> dict:
    """A step in a process of its own, for its peak of memory."""
    code = f"import reshard_ours as ours, json; print(json.dumps(ours.{step}(**{arguments!r})))"
    here = os.path.dirname(os.path.abspath(__file__))
    done = subprocess.run([sys.executable, "-c", code], cwd=here, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout)


def write_json(path: str, layers: int) -> dict:
    with open(path, "w", encoding="utf-8") as out:
        out.write(from_columns(*as_columns("src", layouts.experts(layers, 8, dp=2))).to_json())
    return {}


def load_peak(path: str) -> dict:
    """The most memory over that of the interpreter with the package imported; the text counts."""
    before = resident()
    with open(path, encoding="utf-8") as file:
        placement = W.PlacementManifest.from_json(file.read())
    return {"peak": resident("VmHWM") - before, "fragments": placement.fragment_count}


def million(count: int) -> dict:
    """A manifest of `count` fragments: from columns, identified, to JSON, back, planned against itself."""
    tensors, per = count // 8, 8
    rows = np.arange(tensors * per)
    tensor = rows // per
    offsets = np.zeros((len(rows), 2), np.int64)
    offsets[:, 0] = rows % per * 16
    ranks = np.zeros((len(rows), 4), np.int64)
    ranks[:, 1] = rows % per
    begin = resident()
    seconds, placement = timed(
        lambda: identified(
            W.PlacementManifest.from_columns(
                "bench-model", "rev-1",
                tensors={
                    "tensor_id": [f"model.layers.{n // 512}.experts.{n % 512}.weight" for n in range(tensors)],
                    "global_shape": np.tile([16 * per, 64], (tensors, 1)), "dtype": "bfloat16", "itemsize": 2, "partition_dim": 0,
                    "layout_fingerprint": "bench",
                },
                fragments={
                    "placement_fragment_id": [f"model.layers.{n // 4096}.experts.{n // 8 % 512}.weight/tp{n % 8}" for n in range(len(rows))],
                    "tensor": tensor, "global_offset": offsets, "local_shape": np.tile([16, 64], (len(rows), 1)), "nbytes": 2048, "rank": ranks,
                },
            )
        )
    )  # fmt: skip
    built = resident("VmHWM")
    text = placement.to_json()
    del placement
    loaded, back = timed(lambda: W.PlacementManifest.from_json(text))
    json_bytes = len(text)
    del text
    planned, made = timed(lambda: R.plan_transfer(back, back))
    assert made.region_count == len(rows)
    return {
        "build": seconds, "load": loaded, "plan": planned, "begin": begin, "built": built, "peak": resident("VmHWM"),
        "json_bytes": json_bytes, "fragments": len(rows),
    }  # fmt: skip


def forget() -> dict:
    KEPT.clear()
    return {}


if __name__ == "__main__":
    serve({step.__name__: step for step in (
        contracts, build, plan, segments, rebind, copies, execute, memcpy, numpy_loop, run_loop, growth, isolated, write_json, forget
    )})  # fmt: skip
