"""None where a value is wanted, numbers beyond every bound, and a system without threads: refused or done, never a crash."""

from __future__ import annotations

import contextlib
import ctypes

import numpy as np
import pytest

from steelyard import reshard as R
from steelyard.model_weight import (
    ContractError,
    ParallelRank,
    PlacementFragment,
    PlacementManifest,
    RuntimeBindingManifest,
    RuntimeManifest,
    TensorDescriptor,
    validate_binding_fence,
)

TENSOR = TensorDescriptor("w", (2048, 2048), "f32", 4, 0, "f")


def placement(prefix: str, dim: int) -> PlacementManifest:
    tensor = TensorDescriptor("w", (2048, 2048), "f32", 4, dim, "f")
    fragments = []
    for rank in range(2):
        (box,) = R.boxes_from_mesh(tensor.global_shape, (2,), [R.Shard(dim)], (rank,))
        fragments.append(PlacementFragment(f"{prefix}{rank}", "w", *box, 2048 * 1024 * 4, ParallelRank(tp=rank)))
    return PlacementManifest("m", "r", [tensor], fragments)


SOURCE, TARGET = placement("s", 0), placement("d", 1)
PLAN = R.plan_transfer(SOURCE, TARGET)
BINDING = RuntimeBindingManifest("m", "r", SOURCE.placement_id, SOURCE.digest, "i", 1, "lease", [])
NO_TENSORS = {
    "tensor_id": [], "global_shape": [], "dtype": "u8", "itemsize": 1, "partition_dim": -1, "layout_fingerprint": "f",
}  # fmt: skip
NO_FRAGMENTS = {"placement_fragment_id": [], "tensor": [], "global_offset": [], "local_shape": [], "nbytes": []}


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: PlacementManifest(None, "r", [], []), "model_id must be a non-empty string"),
        (lambda: PlacementManifest("m", None, [], []), "revision must be a non-empty string"),
        (lambda: PlacementManifest("m", "r", None, []), "tensors must be a sequence"),
        (lambda: PlacementManifest("m", "r", [], None), "fragments must be a sequence"),
        (lambda: PlacementManifest.from_json(None), "text must be a non-empty string"),
        (lambda: PlacementManifest.from_runtime_inventory(None), "missing required field: model_id"),
        (lambda: PlacementManifest.from_columns(None, "r", NO_TENSORS, NO_FRAGMENTS), "model_id must be a non-empty"),
        (lambda: RuntimeManifest(None, "r", "i", [], []), "model_id must be a non-empty string"),
        (lambda: RuntimeManifest("m", "r", "i", None, []), "tensors must be a sequence"),
        (lambda: RuntimeManifest.from_inventory(None), "missing required field: model_id"),
        (lambda: RuntimeBindingManifest("m", "r", "p", None, "i", 1, "l", []), "placement_digest must be a non-empty"),
        (lambda: RuntimeBindingManifest("m", "r", "p", "0" * 64, "i", None, "l", []), "generation must be an integer"),
        (lambda: RuntimeBindingManifest("m", "r", "p", "0" * 64, "i", 1, "l", None), "fragments must be a sequence"),
        (lambda: RuntimeBindingManifest.from_inventory(None), "missing required field: model_id"),
        (lambda: validate_binding_fence(BINDING, lease_id=None, generation=1), "lease_id must be a non-empty string"),
        (lambda: validate_binding_fence(BINDING, lease_id="lease", generation=None), "generation must be an integer"),
        (lambda: R.boxes_from_mesh(None, (2,), [R.Replicate()], (0,)), "global_shape must contain integers"),
        (lambda: R.boxes_from_mesh((4,), (2,), [R.Replicate()], None), "coordinate must contain integers"),
        (lambda: R.boxes_from_flat_range((4,), None, 1), "start must be an integer"),
        (lambda: R.StoredManifest.from_json(None), "text must be a non-empty string"),
        (lambda: R.StoredManifest(), "it is read with StoredManifest.from_json"),
        (lambda: list(R.iter_target(SOURCE, TARGET, None)), "target must be a ParallelRank"),
        (lambda: PLAN.render(None), "tensor_id must be a non-empty string"),
        (lambda: PLAN.explain(full_pull_segments=None), "full_pull_segments must be an integer"),
        (lambda: PLAN.segments(None), "start must be an integer"),
        (lambda: PLAN.segments(-1), "start must be at least 0"),
        (lambda: PLAN.segments(0, 1.5), "stop must be an integer"),
        (lambda: PLAN.segments(threads=None), "threads must be an integer"),
        (lambda: R.execute(PLAN, {}, {}, threads=None), "threads must be an integer"),
        (lambda: R.split_sizes(None, 1), "extent must be an integer"),
        (lambda: R.split_sizes(4, None), "parts must be an integer"),
        (lambda: R.fused_views(TENSOR, {"q": 2048}, dim=None), "dim must be an integer"),
        (lambda: R.fused_views(TENSOR, {"q": 2048}, groups=None), "groups must be an integer"),
    ],
)
def test_none_is_no_value(call, words):
    with pytest.raises(ContractError, match=words):
        call()


def test_a_buffer_of_objects_is_no_memory():
    pointers = np.full(2048 * 1024, None)
    records = np.zeros(2048 * 1024, [("a", "O")])
    for memory in (pointers, memoryview(pointers), memoryview(records)):
        with pytest.raises(ContractError, match=r"target_memory\['d0'\]: memory must not hold Python objects"):
            R.execute(PLAN, {}, {"d0": memory})


def test_groups_beyond_count_are_refused():
    long = TensorDescriptor("w", (2**40,), "u8", 1, 0, "f")
    with pytest.raises(ContractError, match=r"groups: found 549755813888, at most \d+ are supported"):
        R.fused_views(long, {"gate": 1, "up": 1}, groups=2**39)


def test_fragment_takes_the_numbers_that_fragments_takes():
    assert SOURCE.fragment(-1) == SOURCE.fragments[-1]
    for row in (2, -3, 2**70):
        with pytest.raises(IndexError, match="there are 2 fragments"):
            SOURCE.fragment(row)


@contextlib.contextmanager
def no_threads():
    """No thread can be started: the stack of each would be larger than the address space."""
    pthread = ctypes.CDLL(None)
    before, huge = ctypes.create_string_buffer(256), ctypes.create_string_buffer(256)
    assert pthread.pthread_getattr_default_np(before) == 0
    pthread.pthread_attr_init(huge)
    assert pthread.pthread_attr_setstacksize(huge, ctypes.c_size_t(1 << 47)) == 0
    assert pthread.pthread_setattr_default_np(huge) == 0
    try:
        yield
    finally:
        pthread.pthread_setattr_default_np(before)


def test_without_threads_the_caller_copies_alone():
    source = {f"s{rank}": np.random.rand(1024, 2048).astype(np.float32) for rank in range(2)}
    target = {f"d{rank}": np.zeros((2048, 1024), np.float32) for rank in range(2)}
    with no_threads():
        R.execute(PLAN, source, target, threads=8)
        segments = PLAN.segments(threads=8)
    whole = np.concatenate([source["s0"], source["s1"]])
    assert (target["d0"] == whole[:, :1024]).all() and (target["d1"] == whole[:, 1024:]).all()
    assert len(segments) == PLAN.segment_count
