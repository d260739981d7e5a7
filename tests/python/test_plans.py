"""Plans from Python: executed and compared element by element, in bulk, again and again with other addresses, and refused."""

from __future__ import annotations

import dataclasses
import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import steelyard.model_weight as W
import steelyard.reshard as R


def tensor(shape, name="w", **changes) -> W.TensorDescriptor:
    described = W.TensorDescriptor(name, shape, "float32", 4, None, "f", shard_dims=range(len(shape)))
    return dataclasses.replace(described, **changes) if changes else described


def sharded(shape, mesh, placements, name="w", revision="r", prefix="", **changes) -> W.PlacementManifest:
    """A tensor over a mesh whose dimensions are (dp, tp, pp)."""
    fragments = []
    for at in np.ndindex(*mesh):
        for number, box in enumerate(R.boxes_from_mesh(shape, mesh, placements, at)):
            rank = W.ParallelRank(*at)
            fragments.append(
                W.PlacementFragment(f"{prefix}{at}.{number}", name, box.offset, box.shape, math.prod(box.shape) * 4, rank)
            )
    return W.PlacementManifest("m", revision, [tensor(shape, name, **changes)], fragments)


def content(shape) -> np.ndarray:
    return np.arange(math.prod(shape), dtype=np.float32).reshape(shape)


def cut(whole: np.ndarray, fragment: W.PlacementFragment) -> np.ndarray:
    box = tuple(slice(begin, begin + size) for begin, size in zip(fragment.global_offset, fragment.local_shape))
    return np.ascontiguousarray(whole[box])


def filled(manifest, whole):
    return {fragment.fragment_id: cut(whole, fragment) for fragment in manifest.fragments}


def empty(manifest):
    return {fragment.fragment_id: np.full(fragment.local_shape, -1, np.float32) for fragment in manifest.fragments}


def bound(manifest, memory, instance, generation=3) -> W.RuntimeBindingManifest:
    fragments = [
        W.RuntimeBindingFragment(name, name, array.ctypes.data, array.nbytes, "w", "e", "cpu", owner=array) for name, array in memory.items()
    ]
    return W.RuntimeBindingManifest(
        manifest.model_id, manifest.revision, manifest.placement_id, manifest.digest, instance, generation, "lease", fragments
    )


SOURCE = sharded((8, 6), (2, 4), [R.Replicate(), R.Shard(0)], prefix="s")
TARGET = sharded((8, 6), (1, 3), [R.Replicate(), R.Shard(1)], prefix="t")
PLAN = R.plan_transfer(SOURCE, TARGET)


@st.composite
def cases(draw):
    shape = tuple(draw(st.lists(st.integers(1, 6), min_size=1, max_size=3)))

    def side(prefix):
        mesh = tuple(draw(st.lists(st.integers(1, 3), min_size=1, max_size=2)))
        cuts = [draw(st.sampled_from([R.Replicate(), *(R.Shard(dim) for dim in range(len(shape)))])) for _ in mesh]
        return sharded(shape, mesh, cuts, prefix=prefix)

    return shape, side("s"), side("t"), draw(st.sampled_from(["balance", "first"]))


@settings(max_examples=150, deadline=None)
@given(cases(), st.randoms())
def test_planned_and_executed_every_element_arrives(case, random):
    shape, source, target, choice = case
    plan = R.plan_transfer(source, target, options={"choice": choice})
    memory = empty(target)
    report = R.execute(plan, filled(source, content(shape)), memory, threads=2, verify=True)
    wanted = filled(target, content(shape))
    assert all(np.array_equal(memory[name], wanted[name]) for name in wanted)
    assert report.bytes == plan.bytes == sum(fragment.nbytes for fragment in target.fragments)
    assert report.verified_fragments == len(wanted)
    assert sum(region.bytes for region in plan.regions) == plan.bytes

    # The same whatever the order of the input, and the same in parts.
    fragments = list(source.fragments)
    random.shuffle(fragments)
    again = R.plan_transfer(W.PlacementManifest("m", "r", source.tensors, fragments), target, options={"choice": choice})
    assert again.key == plan.key and list(again.regions) == list(plan.regions)
    parts = [region for f in target.fragments for region in R.iter_target(source, target, f.fragment_id, options={"choice": choice})]
    assert parts == list(plan.regions)


def test_regions_and_segments_say_the_same():
    segments = PLAN.segments()
    assert len(segments) == PLAN.segment_count and int(segments.nbytes.sum()) == PLAN.bytes
    runs = []
    for number, region in enumerate(PLAN.regions):
        for turn in np.ndindex(*region.loop_counts):
            source = region.source_base + sum(i * stride for i, stride in zip(turn, region.source_strides))
            target = region.target_base + sum(i * stride for i, stride in zip(turn, region.target_strides))
            runs.append((number, source, target, region.inner_bytes))
    columns = (segments.region, segments.source_offset, segments.target_offset, segments.nbytes)
    assert list(zip(*(column.tolist() for column in columns))) == runs
    again = PLAN.segments(threads=3)
    assert all(np.array_equal(getattr(again, field.name), getattr(segments, field.name)) for field in dataclasses.fields(segments))
    half = PLAN.segments(2, 4)
    assert set(half.region.tolist()) == {2, 3}
    with pytest.raises(IndexError):
        PLAN.segments(0, PLAN.region_count + 1)


def test_columns_are_views_that_outlive_the_plan():
    columns = R.plan_transfer(SOURCE, TARGET).columns()
    ids = PLAN.source_fragment_ids
    assert [ids[i] for i in columns["source_fragment"]] == [region.source_fragment for region in PLAN.regions]
    assert not columns["inner_bytes"].flags.writeable
    assert columns["inner_bytes"].tolist() == [region.inner_bytes for region in PLAN.regions]


def test_regions_are_a_sequence():
    regions = PLAN.regions
    assert regions[-1] == regions[len(regions) - 1] and regions[1:3] == (regions[1], regions[2])
    with pytest.raises(IndexError):
        regions[len(regions)]
    rank = W.ParallelRank(tp=1)
    assert list(PLAN.iter_target(rank)) == list(R.iter_target(SOURCE, TARGET, rank)) != []
    for ask in (PLAN.iter_target, lambda name: R.iter_target(SOURCE, TARGET, name)):
        with pytest.raises(W.ContractError, match="unknown target fragment"):
            list(ask("nobody"))


def test_replicas_share_the_work():
    source = sharded((8, 8), (8,), [R.Replicate()], prefix="s")
    target = sharded((8, 8), (8,), [R.Replicate()], prefix="t")
    assert len(set(R.plan_transfer(source, target).explain().source_ranks.values())) == 1
    first = R.plan_transfer(source, target, options=R.PlanOptions(choice="first"))
    assert {rank: count for rank, count in first.explain().source_ranks.items() if count} == {W.ParallelRank(): 8 * 256}
    where = {("source", W.ParallelRank(dp=5)): ("w5", "e"), ("target", W.ParallelRank(dp=0)): ("w5", "e")}
    near = R.plan_transfer(source, target, options={"locality": where})
    assert {region.source_fragment for region in near.iter_target(W.ParallelRank())} == {"s(5,).0"}
    assert near.key != R.plan_transfer(source, target).key


def test_explanation_and_picture():
    found = PLAN.explain()
    assert (found.bytes, found.regions, found.segments) == (PLAN.bytes, PLAN.region_count, PLAN.segment_count)
    assert sum(found.source_ranks.values()) == sum(found.target_ranks.values()) == PLAN.bytes
    assert sum(one.bytes for one in found.classes) == PLAN.bytes and str(found) == found.text
    assert {one.way for one in PLAN.explain(full_pull_segments=1).classes} != {one.way for one in found.classes}
    assert PLAN.render("w").startswith("<svg") and PLAN.render("w") == PLAN.render("w")
    with pytest.raises(W.ContractError):
        PLAN.render("nothing")


def test_a_plan_is_used_for_every_step():
    whole = content((8, 6))
    for step in range(2, 4):
        name = f"r{step}"
        source, target = (dataclasses.replace(one, revision=name, placement_id=None) for one in (SOURCE, TARGET))
        given_, taken = filled(source, whole * step), empty(target)
        ready = PLAN.rebind(bound(source, given_, "i"), bound(target, taken, "j"), source=source, target=target)
        assert ready.execute(dry_run=True).bytes == PLAN.bytes and (taken["t(0, 0).0"] == -1).all()
        ready.execute(threads=2, verify=True, source_fence=("lease", 3), target_fence=("lease", 3))
        assert all(np.array_equal(taken[key], value) for key, value in filled(target, whole * step).items())


def test_a_lost_fence_refuses_before_a_byte_moves():
    taken = empty(TARGET)
    ready = PLAN.rebind(bound(SOURCE, filled(SOURCE, content((8, 6))), "i"), bound(TARGET, taken, "j"))
    for fences in ({"source_fence": ("lease", 4)}, {"target_fence": ("other", 3)}):
        with pytest.raises(W.ContractError, match="fence"):
            ready.execute(**fences)
    assert all((array == -1).all() for array in taken.values())


def test_a_fused_tensor_is_planned_against_its_parts():
    whole = content((12, 4))
    source = sharded((12, 4), (2,), [R.Shard(0)], name="qkv", prefix="s")
    parts = {"q": (0, 8), "k": (8, 10), "v": (10, 12)}
    fragments = [W.PlacementFragment(n, n, (0, 0), (b - a, 4), (b - a) * 16, W.ParallelRank()) for n, (a, b) in parts.items()]
    tensors = [tensor((b - a, 4), n) for n, (a, b) in parts.items()]
    target = W.PlacementManifest("m", "r", tensors, fragments)
    views = R.fused_views(source.tensors[0], {name: b - a for name, (a, b) in parts.items()})
    memory = empty(target)
    R.execute(R.plan_transfer(source, target, options={"source_views": views}), filled(source, whole), memory, verify=True)
    assert all(np.array_equal(memory[name], whole[a:b]) for name, (a, b) in parts.items())


def test_pickles_plan_again():
    again = pickle.loads(pickle.dumps(PLAN))
    assert again == PLAN and hash(again) == hash(PLAN) and list(again.regions) == list(PLAN.regions)


def run(source=None, target=None, **options):
    memory = {**filled(SOURCE, content((8, 6))), **(source or {})}, {**empty(TARGET), **(target or {})}
    return R.execute(PLAN, *memory, **options)


REFUSALS = [
    (lambda: R.plan_transfer(TARGET, sharded((8, 5), (1,), [R.Replicate()])), "shape"),
    (lambda: R.plan_transfer(SOURCE, sharded((8, 6), (1,), [R.Replicate()], name="v")), "v"),
    (lambda: R.plan_transfer(SOURCE, sharded((8, 6), (1,), [R.Replicate()], dtype="int32")), "int32"),
    (lambda: R.plan_transfer(SOURCE, sharded((8, 6), (1,), [R.Replicate()], layout_fingerprint="g")), "layout"),
    (lambda: R.plan_transfer(SOURCE, sharded((8, 6), (1,), [R.Replicate()], revision="q")), "revision"),
    (lambda: R.plan_transfer(W.PlacementManifest("m", "r", SOURCE.tensors, SOURCE.fragments[:2]), TARGET), "w"),
    (lambda: R.plan_transfer(SOURCE, TARGET, options={"max_regions": 1}), "max_regions"),
    (lambda: R.plan_transfer(SOURCE, TARGET, options={"max_segments": 1}), "max_segments"),
    (lambda: R.plan_transfer(SOURCE, TARGET, options={"choice": "any"}), "choice must be"),
    (lambda: R.plan_transfer(SOURCE, TARGET, options={"speed": 1}), "speed"),
    (lambda: R.plan_transfer(SOURCE, TARGET, options=1), "options must be"),
    (lambda: R.plan_transfer(TARGET.to_json(), TARGET), "source must be"),
    (lambda: R.plan_transfer(SOURCE, SOURCE.to_json()), "target must be"),
    (lambda: R.StoredManifest.from_json("{}"), ""),
    (lambda: run(threads=0), "threads must be at least 1"),
    (lambda: PLAN.segments(threads=0), "threads must be at least 1"),
    (lambda: run(source={"nobody": np.zeros(1)}), "unknown source fragment"),
    (lambda: run(target={"t(0, 0).0": np.zeros((2, 8, 2), np.float32)[:, ::2]}), "contiguous"),
    (lambda: run(target={"t(0, 0).0": bytes(64)}), "writable"),
    (lambda: run(target={"t(0, 0).0": bytearray(63)}), "t(0, 0).0"),
    (lambda: R.execute(PLAN, {}, empty(TARGET)), "address"),
    (lambda: R.boxes_from_mesh((4,), (2,), [R.Shard(1)], (0,)), "placements[0]"),
    (lambda: R.boxes_from_mesh((4,), (2,), [0], (0,)), "placements must contain"),
    (lambda: R.boxes_from_mesh((4,), (2,), [R.Shard(0)], (2,)), "coordinate"),
    (lambda: R.boxes_from_flat_range((4,), 3, 2), "st"),
    (lambda: R.split_sizes(4, 0), "parts"),
    (lambda: R.fused_views(tensor((8, 4)), {"q": 7}), "8"),
]


@pytest.mark.parametrize("make, words", REFUSALS, ids=range(len(REFUSALS)))
def test_refusal(make, words):
    with pytest.raises(W.ContractError) as caught:
        make()
    assert words in str(caught.value)


def test_layout_helpers():
    assert R.split_sizes(10, 4) == (3, 3, 3, 1) and R.split_sizes(2, 4) == (1, 1, 0, 0) and R.split_sizes(10, 3, align=4) == (4, 4, 2)
    assert R.boxes_from_mesh((2,), (4,), [R.Shard(-1)], (3,)) == ()
    assert R.boxes_from_flat_range((3, 4), 2, 9) == (((0, 2), (1, 2)), ((1, 0), (1, 4)), ((2, 0), (1, 1)))
    two = R.boxes_from_mesh((8,), (2, 2), [R.StridedShard(0, 2), R.Shard(0)], (0, 1))
    assert sum(box.shape[0] for box in two) == 2
    experts = R.fused_views(tensor((2, 3, 4)), [R.FusedPart("e0", 1, True), R.FusedPart("e1", 1, True)])
    assert [view.global_shape for view in experts] == [(3, 4), (3, 4)]
