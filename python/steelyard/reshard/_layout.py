"""Helpers for the authors of adapters: which boxes a rank holds, said in the words of frameworks. Pure functions."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Union

from steelyard import _ext
from steelyard.model_weight import ContractError, TensorDescriptor
from steelyard.reshard._given import items_of, row_of


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


_PART = "FusedPart or (tensor_id, extent)"
_PIECE = "(offset, shape, view_offset)"

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
    for index, placement in enumerate(items_of(placements, "placements", "Replicate, Shard or StridedShard")):
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


def view_row(view: TensorView, path: str) -> tuple[Any, ...]:
    """The fields of a view, its pieces as plain triples."""
    pieces = items_of(view.pieces, f"{path}.pieces", _PIECE)
    return (
        view.tensor_id,
        view.base_tensor_id,
        view.global_shape,
        view.axes,
        tuple(row_of(piece, f"{path}.pieces[{row}]", _PIECE, 3) for row, piece in enumerate(pieces)),
        view.layout_fingerprint,
    )


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
        base = view_row(descriptor, "descriptor")
    elif isinstance(descriptor, TensorDescriptor):
        base = (descriptor.tensor_id, descriptor.global_shape)
    else:
        raise ContractError("descriptor: descriptor must be a TensorDescriptor or a TensorView")
    items = tuple(parts.items()) if isinstance(parts, Mapping) else items_of(parts, "parts", _PART)
    rows = [
        (part.tensor_id, part.extent, bool(part.drop_dim))
        if isinstance(part, FusedPart)
        else (*row_of(part, f"parts[{row}]", _PART, 2), False)
        for row, part in enumerate(items)
    ]
    views = _ext.fused_views(base, rows, dim, groups)
    return tuple(
        TensorView(name, base, shape, axes, tuple(ViewPiece(*piece) for piece in pieces), layout)
        for name, base, shape, axes, pieces, layout in views
    )
