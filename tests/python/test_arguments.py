"""What is handed over in the wrong form is refused by name, with a ContractError, and nothing is copied."""

from __future__ import annotations

import numpy as np
import pytest

from steelyard import reshard as R
from steelyard.model_weight import ContractError, ParallelRank, PlacementFragment, PlacementManifest, TensorDescriptor

RANK = ParallelRank()
VIEW = R.TensorView("a", "w", (8, 4), (0, 1), ())


def placement(prefix: str, dim: int) -> PlacementManifest:
    fragments = []
    for rank in range(2):
        (box,) = R.boxes_from_mesh((8, 4), (2,), [R.Shard(dim)], (rank,))
        fragments.append(PlacementFragment(f"{prefix}{rank}", "w", *box, 32, ParallelRank(tp=rank)))
    return PlacementManifest("m", "r", [TensorDescriptor("w", (8, 4), "bf16", 2, dim, "f")], fragments)


SOURCE, TARGET = placement("s", 0), placement("d", 1)
PLAN = R.plan_transfer(SOURCE, TARGET)


@pytest.mark.parametrize(
    "options, words",
    [
        ({"choice": 1}, "choice must be 'balance' or 'first'"),
        ({"locality": [1]}, "locality must map"),
        ({"locality": {("source",): ("w", "e")}}, r"locality: wanted a key \(side, rank\)"),
        ({"locality": {5: ("w", "e")}}, r"locality: wanted a key \(side, rank\)"),
        ({"locality": {("source", RANK): 5}}, r"locality: wanted a value \(worker_id, endpoint\)"),
        ({"locality": {("source", RANK): ("a", "b", "c")}}, r"locality: wanted a value"),
        ({"locality": {("from", RANK): ("w", "e")}}, "side must be 'source' or 'target'"),
        ({"locality": {("source", 1): ("w", "e")}}, "rank must be a ParallelRank"),
        ({"locality": {("source", RANK): (1, "e")}}, "worker_id must be a non-empty string"),
        ({"co_plan": None}, "co_plan must be a sequence"),
        ({"co_plan": [1]}, r"co_plan\[0\]: wanted \(weight_id, scale_id, block_shape\)"),
        ({"co_plan": [("w", "w")]}, r"co_plan\[0\]: wanted"),
        ({"co_plan": [("w", "w", 5)]}, "block_shape must contain integers"),
        ({"source_views": 5}, "source_views must be a sequence"),
        ({"target_views": [5]}, "target_views must contain TensorView"),
        ({"source_views": [R.TensorView("a", "w", 5, (0,), ())]}, "global_shape must contain integers"),
        ({"source_views": [R.TensorView("a", "w", (8,), (0,), 5)]}, r"source_views\[0\].pieces must be a sequence"),
        ({"source_views": [R.TensorView("a", "w", (8,), (0,), (5,))]}, r"source_views\[0\].pieces\[0\]: wanted"),
        ({"source_views": [VIEW]}, "they do not fill the view exactly"),
        ({"max_regions": -1}, "max_regions must be at least 0"),
        ({"max_segments": "x"}, "max_segments must be an integer"),
        ({"stored_layout": 3}, "stored_layout must be a non-empty string"),
        ({"colour": 1}, "colour"),
        ([1], "options must be a PlanOptions or a mapping"),
    ],
)
def test_options(options, words):
    with pytest.raises(ContractError, match=words):
        R.plan_transfer(SOURCE, TARGET, options=options)


def memory(**changes):
    given = {"s0": b"\1" * 32, "s1": b"\2" * 32, "d0": bytearray(32), "d1": bytearray(32), **changes}
    return [{name: block for name, block in given.items() if name[0] == side} for side in "sd"], given


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"s0": "text"}, r"source_memory\['s0'\]: wanted a contiguous array or buffer"),
        ({"s0": 5}, r"source_memory\['s0'\]: wanted"),
        ({"s0": np.zeros((8, 8), np.uint8)[:, :4]}, "memory must be contiguous"),
        ({"s0": np.array([None] * 4)}, r"source_memory\['s0'\]: memory must not hold Python objects"),
        ({"d0": b"\0" * 32}, r"target_memory\['d0'\]: memory must be writable"),
        ({"d0": bytearray(31)}, "its memory has 31 bytes, the plan needs 32"),
        ({"s9": bytearray(32)}, "unknown source fragment 's9'"),
    ],
)
def test_memory(changes, words):
    (source, target), given = memory(**changes)
    with pytest.raises(ContractError, match=words):
        R.execute(PLAN, source, target)
    assert not any(given["d1"])


def test_more_segments_than_memory_counts():
    rows = 2**62 - 1
    described = TensorDescriptor("w", (rows, 2), "u8", 1, 1, "f")
    whole = PlacementManifest("m", "r", [described], [PlacementFragment("s", "w", (0, 0), (rows, 2), 2 * rows, RANK)])
    columns = [PlacementFragment(f"d{at}", "w", (0, at), (rows, 1), rows, ParallelRank(tp=at)) for at in range(2)]
    options = {"max_segments": 2**64 - 1}
    plan = R.plan_transfer(whole, PlacementManifest("m", "r", [described], columns), options=options)
    assert plan.segment_count == 2 * rows
    with pytest.raises(MemoryError):
        plan.segments()


@pytest.mark.parametrize("threads, words", [(0, "at least 1"), (1.5, "must be an integer"), (True, "must be an integer")])
def test_threads(threads, words):
    (source, target), _ = memory()
    with pytest.raises(ContractError, match=f"threads {words}|threads must be {words}"):
        R.execute(PLAN, source, target, threads=threads)


def test_a_fence_is_one_of_a_binding():
    (source, target), given = memory()
    with pytest.raises(ContractError, match="a fence is one of a binding"):
        R.execute(PLAN, source, target, target_fence=("lease", 1))
    assert not any(given["d0"])


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: list(PLAN.iter_target("nope")), "unknown target fragment 'nope'"),
        (lambda: list(PLAN.iter_target(5)), "must be a fragment id or a ParallelRank"),
        (lambda: list(PLAN.iter_target(ParallelRank(tp=9))), "the target has no fragment of ParallelRank"),
        (lambda: list(R.iter_target(SOURCE, TARGET, ParallelRank(tp=9))), "the target has no fragment of rank"),
        (lambda: PLAN.render("v"), 'no tensor "v"'),
        (lambda: PLAN.explain(full_pull_segments=-1), "full_pull_segments must be at least 0"),
        (lambda: PLAN.rebind(None, None), "target_binding must be a RuntimeBindingManifest"),
        (lambda: R.plan_transfer(5, TARGET), "source must be a PlacementManifest"),
        (lambda: R.plan_transfer(SOURCE, 5), "target must be a PlacementManifest"),
        (lambda: R.execute(5, {}, {}), "plan must be a TransferPlan"),
        (lambda: R.boxes_from_mesh((4,), (2,), 5, (0,)), "placements must be a sequence"),
        (lambda: R.boxes_from_mesh((4,), (2,), [5], (0,)), "placements must contain"),
        (lambda: R.boxes_from_mesh((4,), (2,), [R.Shard("x")], (0,)), "dim must be an integer"),
        (lambda: R.boxes_from_mesh((4,), (True,), [R.Replicate()], (0,)), "mesh_shape must contain integers"),
        (lambda: R.boxes_from_flat_range((4,), 0, 5), r"stop: the range \[0, 5\)"),
        (lambda: R.boxes_from_flat_range((2**62, 4), 0, 5), "global_shape: "),
        (lambda: R.split_sizes(2**63, 1), "must fit in 63 bits"),
        (lambda: R.fused_views(5, {}), "descriptor must be a TensorDescriptor or a TensorView"),
        (lambda: R.fused_views(SOURCE.tensors[0], 5), "parts must be a sequence"),
        (lambda: R.fused_views(SOURCE.tensors[0], [5]), r"parts\[0\]: wanted FusedPart or"),
        (lambda: R.fused_views(SOURCE.tensors[0], {"q": 4, "k": 3}), "do not fill the fused dimension of 8"),
        (lambda: TensorDescriptor("w", (-(2**70), 4), "bf16", 2, 0, "f"), "global_shape must be at least 1"),
        (lambda: TensorDescriptor("w", (8, 4), "bf16", -(2**70), 0, "f"), "itemsize must be at least 1"),
        (lambda: TensorDescriptor("w", (8, 4), "bf16", 2, -(2**70), "f"), "partition_dim is out of range"),
    ],
)
def test_calls(call, words):
    with pytest.raises(ContractError, match=words):
        call()
