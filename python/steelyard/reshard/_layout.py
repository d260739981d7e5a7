"""Helpers for the authors of adapters: which boxes a rank holds, said in the words of frameworks. Pure functions."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Union

from steelyard import _ext
from steelyard.model_weight import ContractError, TensorDescriptor


class Box(NamedTuple):
    """A box of a tensor, as PlacementFragment wants it: global_offset and local_shape."""

    offset: tuple[int, ...]
    shape: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Replicate:
    """Every rank along this mesh dimension holds the same."""


@dataclasses.dataclass(frozen=True)
class Shard:
    """Dimension `dim` is cut into as many pieces as the mesh dimension is long. A negative one counts from the back."""

    dim: int


@dataclasses.dataclass(frozen=True)
class StridedShard:
    """`dim` is cut as if a later mesh dimension had cut it into `split_factor` pieces first (FSDP over tensor parallelism)."""

    dim: int
    split_factor: int


MeshPlacement = Union[Replicate, Shard, StridedShard]


def _boxes(rows: Iterable[Any]) -> tuple[Box, ...]:
    return tuple(Box(*row) for row in rows)


def boxes_from_mesh(
    global_shape: Sequence[int],
    mesh_shape: Sequence[int],
    placements: Sequence[MeshPlacement],
    coordinate: Sequence[int],
) -> tuple[Box, ...]:
    """The boxes that the rank at `coordinate` of a device mesh holds, in row-major order: none when it holds nothing, more than one
    only after StridedShard. Uneven splits are those of torch.chunk.
    """
    rows = []
    for index, placement in enumerate(placements):
        if isinstance(placement, Replicate):
            rows.append((0, 0, 1))
        elif isinstance(placement, Shard):
            rows.append((1, placement.dim, 1))
        elif isinstance(placement, StridedShard):
            rows.append((2, placement.dim, placement.split_factor))
        else:
            raise ContractError(f"placements[{index}]: placements must contain Replicate, Shard or StridedShard")
    return _boxes(_ext.boxes_from_mesh(global_shape, mesh_shape, rows, coordinate))


def boxes_from_flat_range(global_shape: Sequence[int], start: int, stop: int) -> tuple[Box, ...]:
    """The elements [start, stop) of the flattened tensor (FSDP flat parameters) as the fewest boxes."""
    return _boxes(_ext.boxes_from_flat_range(global_shape, start, stop))


def split_sizes(extent: int, parts: int, *, align: int = 1) -> tuple[int, ...]:
    """Sizes of the pieces of `extent`, as torch.chunk makes them, filled up with zeros; all but the last a multiple of `align`."""
    return _ext.split_sizes(extent, parts, align)


class ViewPiece(NamedTuple):
    """A box of the fused tensor, and where it lies in the view."""

    offset: tuple[int, ...]
    shape: tuple[int, ...]
    view_offset: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class TensorView:
    """A tensor that lies inside of another one. `axes` has the base's dimension for each of the view's."""

    tensor_id: str
    base_tensor_id: str
    global_shape: tuple[int, ...]
    axes: tuple[int, ...]
    pieces: tuple[ViewPiece, ...]
    layout_fingerprint: str = ""


@dataclasses.dataclass(frozen=True)
class FusedPart:
    """One part of a fused tensor: `extent` rows of the fused dimension. With `drop_dim` the view has no such dimension (one expert of
    a stack, extent 1).
    """

    tensor_id: str
    extent: int = 1
    drop_dim: bool = False


def fused_views(
    descriptor: Union[TensorDescriptor, TensorView],
    parts: Union[Mapping[str, int], Sequence[Union[FusedPart, tuple[str, int]]]],
    *,
    dim: int = 0,
    groups: int = 1,
) -> tuple[TensorView, ...]:
    """The parts of a tensor that was fused along `dim` (query, key and value; gate and up; stacked experts), in their order there.

    With `groups` above 1 the order repeats so many times and extents are those of one group (grouped-query heads). The parts of a
    view are views of its base: gate and up of one expert of a stack.
    """
    if isinstance(descriptor, TensorView):
        base: tuple[Any, ...] = tuple(getattr(descriptor, field.name) for field in dataclasses.fields(descriptor))
    elif isinstance(descriptor, TensorDescriptor):
        base = (descriptor.tensor_id, descriptor.global_shape)
    else:
        raise ContractError("descriptor: descriptor must be a TensorDescriptor or a TensorView")
    items = parts.items() if isinstance(parts, Mapping) else parts
    rows = [
        (part.tensor_id, part.extent, part.drop_dim) if isinstance(part, FusedPart) else (part[0], part[1], False)
        for part in items
    ]
    views = _ext.fused_views(base, rows, dim, groups)
    return tuple(
        TensorView(name, base, shape, axes, tuple(ViewPiece(*piece) for piece in pieces), layout)
        for name, base, shape, axes, pieces, layout in views
    )
