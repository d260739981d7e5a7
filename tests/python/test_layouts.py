"""The layout helpers against torch's own layouts: DTensor's placements, FSDP's shards, flat parameters.

torch is a dependency of these tests alone. The process group is torch's fake one: every rank is played in turn by this process, and
its local tensor is the one that torch makes.
"""

from __future__ import annotations

import contextlib
import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import steelyard.reshard as R

torch = pytest.importorskip("torch")
import torch.distributed as dist  # noqa: E402
from torch.distributed.device_mesh import init_device_mesh  # noqa: E402
from torch.distributed.tensor import Replicate, Shard, distribute_tensor  # noqa: E402
from torch.distributed.tensor._utils import _compute_local_shape_and_global_offset, compute_local_shape_and_global_offset  # noqa: E402
from torch.distributed.tensor.placement_types import _StridedShard  # noqa: E402
from torch.testing._internal.distributed.fake_pg import FakeStore  # noqa: E402


@contextlib.contextmanager
def rank_of_mesh(mesh_shape, coordinate, names=None):
    """The device mesh as the rank at `coordinate` sees it."""
    rank = int(np.ravel_multi_index(coordinate, mesh_shape))
    dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=math.prod(mesh_shape))
    try:
        yield init_device_mesh("cpu", mesh_shape, mesh_dim_names=names)
    finally:
        dist.destroy_process_group()


def torchs(placement):
    if isinstance(placement, R.Replicate):
        return Replicate()
    if isinstance(placement, R.Shard):
        return Shard(placement.dim)
    return _StridedShard(placement.dim, split_factor=placement.split_factor)


def content(shape) -> np.ndarray:
    return np.arange(math.prod(shape), dtype=np.int64).reshape(shape)


def put_together(whole: np.ndarray, boxes) -> np.ndarray:
    """The local tensor that the boxes are: along each dimension their rows, ascending. Every combination is there exactly once."""
    if not boxes:
        return whole.reshape(-1)[:0]
    rows, count = [], 1
    for dim in range(whole.ndim):
        pieces = sorted({(box.offset[dim], box.shape[dim]) for box in boxes})
        rows.append(np.concatenate([np.arange(begin, begin + size) for begin, size in pieces]))
        count *= len(pieces)
    assert len(set(boxes)) == len(boxes) == count
    assert sum(math.prod(box.shape) for box in boxes) == math.prod(map(len, rows))
    assert [box.offset for box in boxes] == sorted(box.offset for box in boxes)
    return whole[np.ix_(*rows)]


def assert_same(local: torch.Tensor, whole: np.ndarray, boxes, words) -> None:
    mine = put_together(whole, boxes)
    theirs = local.numpy()
    if theirs.size == 0:
        assert boxes == (), words
    else:
        assert mine.shape == theirs.shape and np.array_equal(mine, theirs), words


MIXES = [
    ((4,), [(7,), (3,), (8, 3), (2, 9), (3, 1, 6)]),
    ((5,), [(11, 4)]),
    ((2, 3), [(7,), (5, 8), (4, 3, 7)]),
    ((3, 2), [(7, 3), (2, 2, 5)]),
    ((2, 2, 2), [(9,), (7, 5), (3, 5, 6)]),
    ((2, 1, 3), [(13,), (5, 7)]),
]


@pytest.mark.parametrize("mesh_shape, shapes", MIXES, ids=[str(mesh) for mesh, _ in MIXES])
def test_every_mix_is_what_distribute_tensor_makes(mesh_shape, shapes):
    """Every mix of Shard, Replicate and strided shards, over even and uneven sizes, for every rank of the mesh."""
    compared = 0
    for coordinate in np.ndindex(*mesh_shape):
        with rank_of_mesh(mesh_shape, coordinate) as mesh:
            for shape in shapes:
                whole = content(shape)
                kinds = [R.Replicate(), *(R.Shard(dim) for dim in range(len(shape))), R.StridedShard(0, 2), R.StridedShard(len(shape) - 1, 3)]
                for mix in itertools.product(kinds, repeat=len(mesh_shape)):
                    local = distribute_tensor(torch.from_numpy(whole), mesh, [torchs(one) for one in mix], src_data_rank=None).to_local()
                    boxes = R.boxes_from_mesh(shape, mesh_shape, mix, coordinate)
                    assert_same(local, whole, boxes, (shape, mix, coordinate))
                    size, offset = compute_local_shape_and_global_offset(shape, mesh, [torchs(one) for one in mix])
                    assert math.prod(size) == sum(math.prod(box.shape) for box in boxes)
                    assert not boxes or boxes[0].offset == tuple(offset), (shape, mix, coordinate)
                    compared += 1
    assert compared >= 4 * len(shapes)


@st.composite
def layouts(draw):
    shape = tuple(draw(st.lists(st.integers(1, 40), min_size=1, max_size=4)))
    mesh = tuple(draw(st.lists(st.integers(1, 6), min_size=1, max_size=4)))
    dims = st.integers(0, len(shape) - 1)
    kinds = st.one_of(st.just(R.Replicate()), st.builds(R.Shard, dims), st.builds(R.StridedShard, dims, st.integers(1, 7)))
    mix = tuple(draw(kinds) for _ in mesh)
    return shape, mesh, mix, tuple(draw(st.integers(0, size - 1)) for size in mesh)


@settings(max_examples=400, deadline=None)
@given(layouts())
def test_any_layout_is_what_torchs_placements_make(case):
    shape, mesh, mix, coordinate = case
    boxes = R.boxes_from_mesh(shape, mesh, mix, coordinate)
    local = torch.from_numpy(content(shape))
    for placement, size, at in zip(map(torchs, mix), mesh, coordinate):
        if not isinstance(placement, Replicate):
            local = placement._select_split_tensor(local, size, at, with_padding=False)
    assert_same(local, content(shape), boxes, case)
    size, offset = _compute_local_shape_and_global_offset(shape, mesh, list(coordinate), [torchs(one) for one in mix])
    assert tuple(size) == tuple(local.shape)
    assert not boxes or tuple(offset) == boxes[0].offset


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 5000), st.integers(1, 64))
def test_split_sizes_are_those_of_torch_chunk(extent, parts):
    sizes = [len(piece) for piece in torch.arange(extent).chunk(parts)]
    assert list(R.split_sizes(extent, parts)) == sizes + [0] * (parts - len(sizes))


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 3000), st.integers(1, 32), st.integers(1, 70))
def test_aligned_split_sizes_add_up(extent, parts, align):
    sizes = R.split_sizes(extent, parts, align=align)
    assert len(sizes) == parts and sum(sizes) == extent
    filled = [size for size in sizes if size]
    assert all(size == filled[0] and size % align == 0 for size in filled[:-1])
    assert all(size == 0 for size in sizes[len(filled) :])


# --- fully_shard over tensor parallelism ---------------------------------------------------------------------------------------------


def fully_sharded(rows: int, dp: int, tp: int, coordinate):
    """What `fully_shard` leaves of a weight that tensor parallelism has cut along dimension 0, and how torch calls it."""
    from torch.distributed.fsdp import fully_shard

    with rank_of_mesh((dp, tp), coordinate, ("dp", "tp")) as mesh:
        module = torch.nn.Linear(3, rows, bias=False)
        whole = torch.from_numpy(content((rows, 3)).astype(np.float32))
        module.weight = torch.nn.Parameter(distribute_tensor(whole, mesh["tp"], [Shard(0)], src_data_rank=None))
        fully_shard(module, mesh=mesh["dp"])
        return module.weight.placements, module.weight.to_local().detach()


@pytest.mark.parametrize("rows, dp, tp", [(8, 2, 2), (24, 3, 4), (7, 2, 2), (7, 3, 2), (10, 2, 4), (5, 4, 2), (9, 4, 2)])
def test_fully_shard_over_tensor_parallelism(rows, dp, tp):
    """The memory that fully_shard leaves is what cutting by tp, then by dp gives, whatever the size. torch names it by a strided
    shard; the two are the same where the cuts are even.
    """
    whole = content((rows, 3)).astype(np.float32)
    for coordinate in np.ndindex(dp, tp):
        named, local = fully_sharded(rows, dp, tp, coordinate)
        assert named == (_StridedShard(0, split_factor=tp), Shard(0))
        as_made = R.boxes_from_mesh((rows, 3), (tp, dp), [R.Shard(0), R.Shard(0)], coordinate[::-1])
        assert_same(local, whole, as_made, coordinate)
        if rows % (dp * tp) == 0:
            assert R.boxes_from_mesh((rows, 3), (dp, tp), [R.StridedShard(0, tp), R.Shard(0)], coordinate) == as_made


def test_the_name_of_an_uneven_shard_is_not_its_memory():
    """What docs/resharding.md says of fully_shard: 7 rows over dp 3 and tp 2."""
    named = [R.StridedShard(0, 2), R.Shard(0)]
    assert_same(fully_sharded(7, 3, 2, (2, 1))[1], content((7, 3)).astype(np.float32), (R.Box((6, 0), (1, 3)),), "memory")
    assert R.boxes_from_mesh((7, 3), (3, 2), named, (2, 0)) == (((6, 0), (1, 3)),)
    assert R.boxes_from_mesh((7, 3), (3, 2), named, (2, 1)) == ()


# --- flat parameters -----------------------------------------------------------------------------------------------------------------


class Flat(torch.nn.Module):
    def __init__(self):
        super().__init__()
        for number, shape in enumerate([(5, 7), (11,), (3, 4, 5), (1, 13)]):
            values = torch.arange(math.prod(shape), dtype=torch.float32).reshape(shape) + 1000 * number
            self.register_parameter(f"p{number}", torch.nn.Parameter(values))


@pytest.mark.parametrize("ranks", [2, 3, 7])
def test_ranges_of_a_flat_parameter(ranks):
    """A rank's part of each parameter of a flat one, as FullyShardedDataParallel says it, is its boxes one after the other."""
    from torch.distributed.fsdp import FullyShardedDataParallel

    parts: dict[str, list] = {}
    for rank in range(ranks):
        with rank_of_mesh((ranks,), (rank,)):
            module = FullyShardedDataParallel(Flat(), device_id=torch.device("cpu"), use_orig_params=True)
            flat = module._flat_param
            for name, shape, info in zip(flat._fqns, flat._shapes, flat._shard_param_infos):
                if not info.in_shard:
                    continue
                local = flat.detach()[info.offset_in_shard : info.offset_in_shard + info.numel_in_shard].numpy()
                boxes = R.boxes_from_flat_range(tuple(shape), info.intra_param_start_idx, info.intra_param_end_idx + 1)
                assert len(boxes) <= 2 * len(shape) - 1
                whole = dict(Flat().named_parameters())[name].detach().numpy()
                assert np.array_equal(np.concatenate([cut(whole, box).reshape(-1) for box in boxes]), local)
                parts.setdefault(name, []).extend(boxes)
    assert {name: sum(math.prod(box.shape) for box in boxes) for name, boxes in parts.items()} == {
        name: parameter.numel() for name, parameter in Flat().named_parameters()
    }


def cut(whole: np.ndarray, box) -> np.ndarray:
    return whole[tuple(slice(begin, begin + size) for begin, size in zip(box.offset, box.shape))]


@settings(max_examples=300, deadline=None)
@given(st.lists(st.integers(1, 6), min_size=1, max_size=4).map(tuple), st.data())
def test_any_flat_range_is_its_boxes(shape, data):
    count = math.prod(shape)
    start = data.draw(st.integers(0, count))
    stop = data.draw(st.integers(start, count))
    boxes = R.boxes_from_flat_range(shape, start, stop)
    pieces = [cut(content(shape), box).reshape(-1) for box in boxes]
    assert np.array_equal(np.concatenate([np.empty(0, np.int64), *pieces]), np.arange(start, stop))
    assert len(boxes) <= 2 * len(shape) - 1
