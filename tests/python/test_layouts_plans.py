"""Weights go from one framework's layout to another's, and arrive as that framework would have cut them itself: torch meshes, fused
query-key-value, stacked experts, flat shards, random boxes with replicas, a stored checkpoint. Every element is compared.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import steelyard.model_weight as W
import steelyard.reshard as R
from lib.checkpoints import Tensor, safetensors_bytes

torch = pytest.importorskip("torch")

FLOAT = np.float32


class Side:
    """A placement that grows together with the memory of its fragments."""

    def __init__(self, prefix: str):
        self.prefix = prefix
        self.tensors: dict[str, W.TensorDescriptor] = {}
        self.fragments: list[W.PlacementFragment] = []
        self.memory: dict[str, np.ndarray] = {}

    def tensor(self, name: str, shape) -> W.TensorDescriptor:
        described = W.TensorDescriptor(name, shape, "float32", 4, None, "row-major", shard_dims=range(len(shape)))
        return self.tensors.setdefault(name, described)

    def add(self, name: str, box, memory: np.ndarray, rank: W.ParallelRank) -> None:
        """`memory` is contiguous and holds the box, in the source; what is to be there, in the target."""
        fragment_id = f"{self.prefix}{len(self.fragments)}"
        assert memory.flags.c_contiguous and memory.size == math.prod(box[1])
        self.fragments.append(W.PlacementFragment(fragment_id, name, *box, memory.nbytes, rank))
        self.memory[fragment_id] = memory

    def add_rows(self, name: str, local: np.ndarray, boxes, rank: W.ParallelRank) -> None:
        """A rank's local tensor that is boxes of rows one after the other."""
        at = 0
        for box in boxes:
            self.add(name, box, local[at : at + box[1][0]], rank)
            at += box[1][0]
        assert at == len(local)

    def placement(self) -> W.PlacementManifest:
        return W.PlacementManifest("m", "r", list(self.tensors.values()), self.fragments)


def move(source: Side, target: Side, **options) -> R.TransferPlan:
    """Plans and executes from one to the other; every target must then hold what it was made with."""
    plan = R.plan_transfer(source.placement(), target.placement(), options=options)
    arrived = {name: np.full_like(memory, -1) for name, memory in target.memory.items()}
    R.execute(plan, source.memory, arrived, threads=2, verify=True)
    for name, wanted in target.memory.items():
        assert np.array_equal(arrived[name], wanted), name
    return plan


def content(shape, first: int = 0) -> np.ndarray:
    return (np.arange(math.prod(shape)) + first).astype(FLOAT).reshape(shape)


def cut(whole: np.ndarray, box) -> np.ndarray:
    return np.ascontiguousarray(whole[tuple(slice(begin, begin + size) for begin, size in zip(*box))])


def boxes_of(shape, dim=None, parts=1, index=0):
    return R.boxes_from_mesh(shape, (parts,), [R.Replicate() if dim is None else R.Shard(dim)], (index,))


# --- torch meshes --------------------------------------------------------------------------------------------------------------------


def torch_local(whole: np.ndarray, mesh, mix, coordinate) -> np.ndarray:
    from torch.distributed.tensor.placement_types import Shard, _StridedShard

    local = torch.from_numpy(whole)
    for placement, size, at in zip(mix, mesh, coordinate):
        if isinstance(placement, R.Shard):
            local = Shard(placement.dim)._select_split_tensor(local, size, at, with_padding=False)
        elif isinstance(placement, R.StridedShard):
            strided = _StridedShard(placement.dim, split_factor=placement.split_factor)
            local = strided._select_split_tensor(local, size, at, with_padding=False)
    return np.ascontiguousarray(local.numpy())


@st.composite
def meshes(draw, shape):
    mesh = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=3)))
    # Strided shards of rows: their boxes lie one after the other in the local tensor.
    kinds = [R.Replicate(), *map(R.Shard, range(len(shape))), R.StridedShard(0, 2), R.StridedShard(0, 3)]
    return mesh, [draw(st.sampled_from(kinds)) for _ in mesh]


def meshed(prefix: str, whole: np.ndarray, layout) -> Side:
    side, (mesh, mix) = Side(prefix), layout
    side.tensor("w", whole.shape)
    for coordinate in np.ndindex(*mesh):
        boxes = R.boxes_from_mesh(whole.shape, mesh, mix, coordinate)
        if boxes:
            side.add_rows("w", torch_local(whole, mesh, mix, coordinate), boxes, W.ParallelRank(*coordinate))
    return side


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_from_any_torch_mesh_to_any_other(data):
    shape = tuple(data.draw(st.lists(st.integers(1, 7), min_size=1, max_size=4), "shape"))
    sides = [meshed(prefix, content(shape), data.draw(meshes(shape), prefix)) for prefix in ("s", "t")]
    move(*sides, choice=data.draw(st.sampled_from(["balance", "first"])))


# --- random boxes with replicas ------------------------------------------------------------------------------------------------------


def guillotine(draw, box, depth):
    """The box in pieces: cut again and again, anywhere."""
    dims = [dim for dim, size in enumerate(box[1]) if size > 1]
    if depth == 0 or not dims or draw(st.integers(0, 3)) == 0:
        return [box]
    dim = draw(st.sampled_from(dims))
    at = draw(st.integers(1, box[1][dim] - 1))
    (offset, size), parts = box, []
    for begin, length in ((0, at), (at, size[dim] - at)):
        part = tuple(o + begin if d == dim else o for d, o in enumerate(offset)), tuple(length if d == dim else n for d, n in enumerate(size))
        parts += guillotine(draw, part, depth - 1)
    return parts


def scattered(draw, prefix: str, wholes: dict[str, np.ndarray], replicas: int) -> Side:
    """Each replica is cut in its own way and lies over ranks of its own. The target's pieces may have gaps: it takes what it wants."""
    side = Side(prefix)
    for name, whole in wholes.items():
        side.tensor(name, whole.shape)
        for replica in range(replicas):
            for box in guillotine(draw, ((0,) * whole.ndim, whole.shape), 4):
                if prefix == "t" and draw(st.integers(0, 4)) == 0:
                    continue
                side.add(name, box, cut(whole, box), W.ParallelRank(dp=replica, tp=draw(st.integers(0, 2))))
    return side


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_random_boxes_with_replicas_on_both_sides(data):
    shapes = data.draw(st.lists(st.lists(st.integers(1, 6), min_size=1, max_size=4).map(tuple), min_size=1, max_size=3), "shapes")
    wholes = {f"w{number}": content(shape, 10_000 * number) for number, shape in enumerate(shapes)}
    source = scattered(data.draw, "s", wholes, data.draw(st.integers(1, 3), "source replicas"))
    target = scattered(data.draw, "t", wholes, data.draw(st.integers(1, 3), "target replicas"))
    move(source, target, choice=data.draw(st.sampled_from(["balance", "first"])))


# --- query, key and value ------------------------------------------------------------------------------------------------------------

HEADS, KV_HEADS, HEAD, HIDDEN = 8, 4, 3, 5
QKV = {"q": content((HEADS * HEAD, HIDDEN)), "k": content((KV_HEADS * HEAD, HIDDEN), 1000), "v": content((KV_HEADS * HEAD, HIDDEN), 2000)}


def qkv_apart(prefix: str, ranks: int) -> Side:
    """Three tensors, as flat parameters cut them: element ranges, whatever the rows."""
    side = Side(prefix)
    for name, whole in QKV.items():
        side.tensor(name, whole.shape)
        for rank, piece in enumerate(np.array_split(np.arange(whole.size), ranks)):
            for box in R.boxes_from_flat_range(whole.shape, int(piece[0]), int(piece[-1]) + 1):
                side.add(name, box, cut(whole, box), W.ParallelRank(dp=rank))
    return side


def qkv_grouped(prefix: str, tp: int) -> tuple[Side, tuple[R.TensorView, ...]]:
    """One tensor with, for each key-value head, its query heads, its key and its value; tensor parallelism cuts it in equal rows."""
    q, k, v = (torch.from_numpy(one) for one in QKV.values())
    per_group = [q.view(KV_HEADS, -1, HIDDEN), k.view(KV_HEADS, HEAD, HIDDEN), v.view(KV_HEADS, HEAD, HIDDEN)]
    fused = torch.cat(per_group, dim=1).reshape(-1, HIDDEN)
    side = Side(prefix)
    described = side.tensor("linear_qkv", fused.shape)
    for rank, local in enumerate(fused.chunk(tp)):
        (box,) = boxes_of(fused.shape, 0, tp, rank)
        side.add("linear_qkv", box, local.contiguous().numpy(), W.ParallelRank(tp=rank))
    return side, R.fused_views(described, {"q": HEADS // KV_HEADS * HEAD, "k": HEAD, "v": HEAD}, groups=KV_HEADS)


def qkv_stacked(prefix: str, tp: int) -> tuple[Side, tuple[R.TensorView, ...]]:
    """One tensor of all queries, all keys, all values. A rank has its share of each, one after the other; key and value heads are
    repeated where there are more ranks than heads.
    """
    side = Side(prefix)
    rows = {name: len(whole) for name, whole in QKV.items()}
    described = side.tensor("qkv_proj", (sum(rows.values()), HIDDEN))
    for rank in range(tp):
        local, boxes, begin = [], [], 0
        for name, whole in QKV.items():
            parts = tp if name == "q" else min(tp, KV_HEADS)
            share = torch.from_numpy(whole).chunk(parts)[rank * parts // tp]
            ((offset, size),) = boxes_of(whole.shape, 0, parts, rank * parts // tp)
            boxes.append(((offset[0] + begin, 0), size))
            local.append(share)
            begin += len(whole)
        side.add_rows("qkv_proj", torch.cat(local).numpy(), boxes, W.ParallelRank(tp=rank))
    return side, R.fused_views(described, rows)


@pytest.mark.parametrize("source_tp, target_tp", [(1, 4), (4, 2), (2, 8)])
def test_grouped_query_heads_in_every_fusion(source_tp, target_tp):
    apart = qkv_apart("s", 3)
    grouped, grouped_views = qkv_grouped("g", source_tp)
    stacked, stacked_views = qkv_stacked("k", target_tp)
    move(apart, grouped, target_views=grouped_views)
    move(apart, stacked, target_views=stacked_views)
    move(grouped, stacked, source_views=grouped_views, target_views=stacked_views)
    move(stacked, grouped, source_views=stacked_views, target_views=grouped_views)
    move(stacked, qkv_apart("t", 5), source_views=stacked_views)


# --- experts -------------------------------------------------------------------------------------------------------------------------

EXPERTS, INTER = 4, 6
MATRICES = {
    f"experts.{expert}.{name}": content(shape, 1000 * (3 * expert + number))
    for expert in range(EXPERTS)
    for number, (name, shape) in enumerate((("gate", (INTER, HIDDEN)), ("up", (INTER, HIDDEN)), ("down", (HIDDEN, INTER))))
}


def separate_experts(prefix: str, ep: int) -> Side:
    """Each expert is three tensors that one rank owns."""
    side = Side(prefix)
    for number, (name, whole) in enumerate(MATRICES.items()):
        side.tensor(name, whole.shape)
        side.add(name, ((0, 0), whole.shape), whole, W.ParallelRank(ep=number // 3 * ep // EXPERTS))
    return side


def stacked_experts(prefix: str, ep: int, tp: int) -> tuple[Side, list[R.TensorView]]:
    """All experts in two tensors, gate over up in the first; ranks own experts, or cut every expert's inner dimension, or both."""
    side = Side(prefix)
    stack = {name: torch.stack([torch.from_numpy(MATRICES[f"experts.{e}.{name}"]) for e in range(EXPERTS)]) for name in ("gate", "up", "down")}
    w13 = side.tensor("w13", (EXPERTS, 2 * INTER, HIDDEN))
    w2 = side.tensor("w2", (EXPERTS, HIDDEN, INTER))
    for at in np.ndindex(ep, tp):
        rank = W.ParallelRank(ep=at[0], tp=at[1])
        own = {name: one.chunk(ep)[at[0]].chunk(tp, dim=2 if name == "down" else 1)[at[1]] for name, one in stack.items()}
        first = at[0] * (EXPERTS // ep)
        for begin, name in ((0, "gate"), (INTER, "up")):
            ((offset, size),) = boxes_of((INTER,), 0, tp, at[1])
            for e, one in enumerate(own[name]):  # gate and up alternate in memory from expert to expert
                side.add("w13", ((first + e, begin + offset[0], 0), (1, size[0], HIDDEN)), one.contiguous().numpy(), rank)
        (box,) = R.boxes_from_mesh(w2.global_shape, (ep, tp), [R.Shard(0), R.Shard(2)], at)
        side.add("w2", box, own["down"].contiguous().numpy(), rank)
    views = []
    for expert in R.fused_views(w13, [R.FusedPart(f"experts.{e}", 1, True) for e in range(EXPERTS)]):
        views += R.fused_views(expert, {f"{expert.tensor_id}.gate": INTER, f"{expert.tensor_id}.up": INTER})
    views += R.fused_views(w2, [R.FusedPart(f"experts.{e}.down", 1, True) for e in range(EXPERTS)])
    return side, views


@pytest.mark.parametrize("source_ep, target_ep, target_tp", [(1, 1, 1), (2, 4, 1), (4, 1, 2), (2, 2, 3)])
def test_experts_apart_and_stacked(source_ep, target_ep, target_tp):
    apart = separate_experts("s", source_ep)
    stacked, views = stacked_experts("t", target_ep, target_tp)
    move(apart, stacked, target_views=views)
    move(stacked, separate_experts("u", 4), source_views=views)
    other, other_views = stacked_experts("o", 2, 2)
    move(stacked, other, source_views=views, target_views=other_views)
    move(stacked, other)  # the same tensors on both sides need no views


# --- a stored source -----------------------------------------------------------------------------------------------------------------


@pytest.fixture
def store(steelyard, store_path, tmp_path):
    """Imports tensors and gives the manifest that is stored."""

    def make(tensors: dict[str, Tensor]) -> R.StoredManifest:
        folder = tmp_path / "model"
        folder.mkdir()
        (folder / "model.safetensors").write_bytes(safetensors_bytes(tensors))
        steelyard("import", folder, "demo")
        (document,) = (path for path in (store_path / "cold").rglob("manifest") if path.is_file())
        return R.StoredManifest.from_json(document.read_bytes())

    return make


def test_tensor_parallel_ranks_read_each_stored_byte_once(store):
    """Row and column splits over 8 ranks: together they read the model, not eight of it, and each an eighth."""
    per_layer = {"q": ((128, 64), 0), "o": ((64, 128), 1), "up": ((256, 64), 0), "down": ((64, 256), 1), "norm": ((64,), None)}
    model = {f"layers.{layer}.{name}": how for layer in range(3) for name, how in per_layer.items()}
    stored = store({name: Tensor("F32", shape, content(shape).tobytes()) for name, (shape, _) in model.items()})
    target = Side("t")
    for name, (shape, dim) in model.items():
        target.tensor(name, shape)
        for rank in range(8):
            for box in boxes_of(shape, dim, 8, rank):
                target.add(name, box, cut(content(shape), box), W.ParallelRank(tp=rank))
    plan = R.plan_transfer(stored, target.placement())
    model_bytes = sum(math.prod(shape) * 4 for shape, _ in model.values())
    assert plan.bytes <= 1.05 * model_bytes
    assert all(count <= 1.05 * model_bytes / 8 for count in plan.explain().target_ranks.values())
    segments, columns = plan.segments(), plan.columns()
    names = [plan.source_fragment_ids[number] for number in columns["source_fragment"].tolist()]
    times = {name: np.zeros(math.prod(shape) * 4, np.int64) for name, (shape, _) in model.items()}
    for region, begin, size in zip(segments.region.tolist(), segments.source_offset.tolist(), segments.nbytes.tolist()):
        times[names[region]][begin : begin + size] += 1
    for name, (_, dim) in model.items():
        assert (times[name] == (8 if dim is None else 1)).all(), name


def test_a_stored_checkpoint_is_planned_for_running_ranks(store):
    """The plan says where each rank's bytes lie in the stored tensors; read there, they are the rank's slices."""
    wholes = {"a": content((9, 6)), "b": content((4, 8), 500), "scale": np.asarray([7], FLOAT), "unused": content((3,))}
    stored = store({name: Tensor("F32", () if name == "scale" else one.shape, one.tobytes()) for name, one in wholes.items()})
    assert stored.tensor_count == 4

    target = Side("t")
    for rank in range(4):
        for name, dim in (("a", 0), ("b", 1), ("scale", None)):
            target.tensor(name, wholes[name].shape)
            for box in boxes_of(wholes[name].shape, dim, 4, rank):
                target.add(name, box, cut(wholes[name], box), W.ParallelRank(tp=rank))
    plan = R.plan_transfer(stored, target.placement())
    assert set(plan.source_fragment_ids) >= {"a", "b", "scale"}
    assert plan.bytes == sum(fragment.nbytes for fragment in target.fragments)

    arrived = {name: np.zeros(memory.nbytes, np.uint8) for name, memory in target.memory.items()}
    for region in plan.regions:
        read = wholes[region.source_fragment].reshape(-1).view(np.uint8)
        for turn in np.ndindex(*region.loop_counts):
            begin = region.source_base + int(np.dot(turn, region.source_strides)) if turn else region.source_base
            to = region.target_base + int(np.dot(turn, region.target_strides)) if turn else region.target_base
            arrived[region.target_fragment][to : to + region.inner_bytes] = read[begin : begin + region.inner_bytes]
    assert all(arrived[name].tobytes() == wanted.tobytes() for name, wanted in target.memory.items())

    # A rank reads its own share only, and memory cannot stand for the store.
    one = sum(region.bytes for region in R.iter_target(stored, target.placement(), W.ParallelRank(tp=1)))
    assert one == sum(fragment.nbytes for fragment in target.fragments if fragment.rank.tp == 1)
    with pytest.raises(W.ContractError, match="stored revision"):
        R.execute(plan, {}, arrived)

    # Spellings are compared by meaning, layouts by name.
    for spelling, ok in (("torch.float32", True), ("F32", True), ("bfloat16", False)):
        other = Side("t")
        other.tensors["b"] = W.TensorDescriptor("b", (4, 8), spelling, 4, None, "row-major")
        other.add("b", ((0, 0), (4, 8)), wholes["b"], W.ParallelRank())
        if ok:
            assert R.plan_transfer(stored, other.placement()).bytes == 128
        else:
            with pytest.raises(W.ContractError, match="dtype"):
                R.plan_transfer(stored, other.placement())
    tiled = Side("t")
    tiled.tensors["b"] = W.TensorDescriptor("b", (4, 8), "F32", 4, None, "tiled")
    tiled.add("b", ((0, 0), (4, 8)), wholes["b"], W.ParallelRank())
    with pytest.raises(W.ContractError, match="tiled"):
        R.plan_transfer(stored, tiled.placement())
    assert R.plan_transfer(stored, tiled.placement(), options={"stored_layout": "tiled"}).region_count == 1
