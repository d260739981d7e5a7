"""The plan: two layouts compared once, and every copy between them, as regions."""

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Union, cast, overload

import numpy as np

from steelyard import _ext
from steelyard.model_weight import (
    ContractError,
    ParallelRank,
    PlacementManifest,
    RuntimeBindingManifest,
)
from steelyard.reshard._given import items_of, row_of
from steelyard.reshard._layout import TensorView, view_row

_Array = np.ndarray[Any, np.dtype[Any]]
_SIDES = ("source", "target")
_PAIR = "(weight_id, scale_id, block_shape)"
# In the format of a buffer, which says what its items are.
_FIELD_NAME = re.compile(":[^:]*:")


@dataclasses.dataclass(frozen=True)
class PlanOptions:
    """What may be said about a plan.

    `choice` between equal sources: "balance" (bytes per source rank as even as regions allow) or "first" (smallest rank, then id).
    `locality` maps (side, rank) to (worker_id, endpoint), side being "source" or "target": the same worker is preferred, then the
    same endpoint. `co_plan` names block-quantised pairs: (weight_id, scale_id, block_shape). `stored_layout` is what the fingerprint
    `row-major` of a stored tensor counts as.
    """

    choice: str = "balance"
    locality: Mapping[tuple[str, ParallelRank], tuple[str, str]] = dataclasses.field(default_factory=dict)
    co_plan: Sequence[tuple[str, str, Sequence[int]]] = ()
    stored_layout: str | None = None
    source_views: Sequence[TensorView] = ()
    target_views: Sequence[TensorView] = ()
    max_regions: int = 1 << 25
    max_segments: int = 1 << 40

    def _plain(self) -> dict[str, Any]:
        if self.choice not in ("balance", "first"):
            raise ContractError(f"choice: choice must be 'balance' or 'first', found {self.choice!r}")
        if not isinstance(self.locality, Mapping):
            raise ContractError("locality: locality must map (side, rank) to (worker_id, endpoint)")
        locality = []
        for key, place in self.locality.items():
            side, rank = row_of(key, "locality", "a key (side, rank)", 2)
            worker_id, endpoint = row_of(place, "locality", "a value (worker_id, endpoint)", 2)
            if side not in _SIDES:
                raise ContractError(f"locality: side must be 'source' or 'target', found {side!r}")
            locality.append((side == "target", rank, worker_id, endpoint))
        pairs = items_of(self.co_plan, "co_plan", _PAIR)
        return {
            "first": self.choice == "first",
            "locality": locality,
            "co_plan": [row_of(pair, f"co_plan[{row}]", _PAIR, 3) for row, pair in enumerate(pairs)],
            "stored_layout": self.stored_layout,
            "source_views": _views(self.source_views, "source_views"),
            "target_views": _views(self.target_views, "target_views"),
            "max_regions": self.max_regions,
            "max_segments": self.max_segments,
        }


def _views(given: Sequence[TensorView], name: str) -> list[tuple[Any, ...]]:
    views = items_of(given, name, "TensorView")
    for view in views:
        if not isinstance(view, TensorView):
            raise ContractError(f"{name}: {name} must contain TensorView")
    return [view_row(view, f"{name}[{row}]") for row, view in enumerate(views)]


class StoredManifest:
    """The manifest of a stored revision, as a source of plans."""

    _core: _ext.Stored

    def __init__(self) -> None:
        raise ContractError("StoredManifest: it is read with StoredManifest.from_json")

    @classmethod
    def from_json(cls, text: str | bytes) -> "StoredManifest":
        """Reads and checks the stored document."""
        made = cls.__new__(cls)
        made._core = _ext.Stored.from_json(text)
        return made

    @property
    def tensor_count(self) -> int:
        """Number of tensors."""
        return self._core.tensor_count


@dataclasses.dataclass(frozen=True)
class Region:
    """A box of one tensor that goes from one fragment to another: `inner_bytes` bytes, repeated `loop_counts[i]` times in loop i,
    outermost first, each with a byte stride on both sides. Bases count from the first byte of the fragment.
    """

    tensor_id: str
    source_fragment: str
    target_fragment: str
    offset: tuple[int, ...]
    shape: tuple[int, ...]
    source_base: int
    target_base: int
    inner_bytes: int
    loop_counts: tuple[int, ...]
    source_strides: tuple[int, ...]
    target_strides: tuple[int, ...]

    @property
    def segments(self) -> int:
        """Number of contiguous runs."""
        return int(np.prod(self.loop_counts, dtype=object)) if self.loop_counts else 1

    @property
    def bytes(self) -> int:
        """Bytes that the region moves."""
        return self.segments * self.inner_bytes


class Regions(Sequence[Region]):
    """The regions of a plan; each is made when it is asked for."""

    def __init__(self, core: _ext.Plan) -> None:
        self._core = core

    def __len__(self) -> int:
        return self._core.region_count

    @overload
    def __getitem__(self, index: int) -> Region: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Region, ...]: ...
    def __getitem__(self, index: int | slice) -> Region | tuple[Region, ...]:
        if isinstance(index, slice):
            return tuple(self[i] for i in range(*index.indices(len(self))))
        size = len(self)
        if not -size <= index < size:
            raise IndexError("region index out of range")
        return Region(*self._core.region(index % size))


@dataclasses.dataclass(frozen=True)
class Segments:
    """Runs of bytes as numpy arrays: the region each is of, the offsets in both fragments, the length."""

    region: _Array
    source_offset: _Array
    target_offset: _Array
    nbytes: _Array

    def __len__(self) -> int:
        return len(self.region)


@dataclasses.dataclass(frozen=True)
class RegionClass:
    """Regions of one length of run and one number of runs, and the advised way: direct, gather or full pull."""

    way: str
    inner_bytes: int
    segments_each: int
    regions: int
    bytes: int
    extra_bytes: int
    tensor_id: str


@dataclasses.dataclass(frozen=True)
class PlanExplanation:
    """What a plan costs. `str()` of it is text for people."""

    bytes: int
    regions: int
    segments: int
    source_ranks: dict[ParallelRank, int]
    target_ranks: dict[ParallelRank, int]
    largest_strided: Region | None
    classes: tuple[RegionClass, ...]
    text: str = dataclasses.field(repr=False)

    def __str__(self) -> str:
        return self.text


@dataclasses.dataclass(frozen=True)
class ExecuteReport:
    """What execute did, or what a dry run found there is to do."""

    bytes: int
    regions: int
    segments: int
    source_fragments: int
    target_fragments: int
    verified_fragments: int


Source = Union[PlacementManifest, StoredManifest]
Options = Union[PlanOptions, Mapping[str, Any], None]
Target = Union[str, ParallelRank]


class TransferPlanner:
    """Two layouts that agree, ready to be planned as a whole or in parts."""

    def __init__(self, source: Source, target: PlacementManifest, *, options: Options = None) -> None:
        if not isinstance(source, (PlacementManifest, StoredManifest)):
            raise ContractError("source: source must be a PlacementManifest or a StoredManifest")
        if not isinstance(target, PlacementManifest):
            raise ContractError("target: target must be a PlacementManifest")
        if isinstance(options, Mapping):
            try:
                options = PlanOptions(**options)
            except TypeError as error:
                raise ContractError(f"options: {str(error).split('() ', 1)[-1]}") from None
        if options is not None and not isinstance(options, PlanOptions):
            raise ContractError("options: options must be a PlanOptions or a mapping")
        self._arguments = (source, target, options or PlanOptions())
        self._core = _ext.Planner.make(source._core, target._core, self._arguments[2]._plain())

    @property
    def key(self) -> str:
        """The key that the plan will have."""
        return self._core.key

    def plan(self) -> "TransferPlan":
        """All regions."""
        return TransferPlan(self)

    def iter_target(self, target: Target) -> Iterator[Region]:
        """The regions of one target fragment (its id) or of one rank; the rest of the plan is not built."""
        for row in self._core.part(target):
            yield Region(*row)


def _remake(source: Source, target: PlacementManifest, options: PlanOptions) -> "TransferPlan":
    return plan_transfer(source, target, options=options)


class TransferPlan:
    """Every copy that brings the weights of one layout into another; immutable. Equal keys, equal regions."""

    def __init__(self, planner: TransferPlanner) -> None:
        self._planner = planner
        self._core = planner._core.plan()

    def __reduce__(self) -> tuple[Any, ...]:
        return _remake, self._planner._arguments

    def __eq__(self, other: object) -> bool:
        return self.key == other.key if isinstance(other, TransferPlan) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        return (
            f"<TransferPlan of {self.bytes} bytes in {self.region_count} regions and {self.segment_count} segments, "
            f"key {self.key[:12]}>"
        )

    @property
    def source(self) -> Source:
        """What is read."""
        return self._planner._arguments[0]

    @property
    def target(self) -> PlacementManifest:
        """What is written."""
        return self._planner._arguments[1]

    @property
    def options(self) -> PlanOptions:
        """As given."""
        return self._planner._arguments[2]

    @property
    def key(self) -> str:
        """64 hex digits over both layout digests and the options."""
        return self._core.key

    @property
    def bytes(self) -> int:
        """Bytes to copy."""
        return self._core.bytes

    @property
    def region_count(self) -> int:
        """Number of regions."""
        return self._core.region_count

    @property
    def segment_count(self) -> int:
        """Number of contiguous runs in all regions."""
        return self._core.segment_count

    @property
    def regions(self) -> Regions:
        """Sorted by (target fragment, target offset, source fragment, source offset)."""
        return Regions(self._core)

    @property
    def tensor_ids(self) -> tuple[str, ...]:
        """By the numbers that columns() uses."""
        return self._core.tensor_ids

    @property
    def source_fragment_ids(self) -> tuple[str, ...]:
        """By the numbers that columns() uses."""
        return self._core.fragment_ids(False)

    @property
    def target_fragment_ids(self) -> tuple[str, ...]:
        """By the numbers that columns() uses."""
        return self._core.fragment_ids(True)

    def columns(self) -> dict[str, _Array]:
        """The regions as read-only numpy arrays without a copy. Boxes and loops of region i end at box_ends[i] and loop_ends[i]."""
        return self._core.columns()

    def segments(self, start: int = 0, stop: int | None = None, *, threads: int = 1) -> Segments:
        """The single runs of bytes of the regions [start, stop), in bulk, written by `threads` threads with the GIL released."""
        return Segments(*self._core.segments(start, self.region_count if stop is None else stop, threads))

    def iter_target(self, target: Target) -> Iterator[Region]:
        """The regions of one target fragment (its id) or of one rank."""
        if isinstance(target, str):
            row = cast(Any, self.target)._core.find(target)
            if row is None:
                raise ContractError(f"target: unknown target fragment {target!r}")
            rows = [int(row)]
        elif isinstance(target, ParallelRank):
            fragments = self.target.fragments
            rows = [row for row, fragment in enumerate(fragments) if fragment.rank == target]
            if not rows:
                raise ContractError(f"target: the target has no fragment of {target}")
        else:
            raise ContractError("target: target must be a fragment id or a ParallelRank")
        for row in rows:
            first, last = self._core.regions_of(row)
            for region in range(first, last):
                yield Region(*self._core.region(region))

    def explain(self, *, full_pull_segments: int = _ext.full_pull_segments) -> PlanExplanation:
        """What the plan costs: per rank, per class of regions, with the advised way for each class."""
        found = self._core.explain(full_pull_segments)
        strided = found["largest_strided"]
        found["largest_strided"] = None if strided is None else self.regions[strided]
        found["classes"] = tuple(RegionClass(*row) for row in found["classes"])
        return PlanExplanation(**found)

    def render(self, tensor_id: str) -> str:
        """An SVG of a tensor: the source's boxes, the target's boxes, the target's regions in the colours of their source ranks."""
        return self._core.render(tensor_id)

    def rebind(
        self,
        source_binding: RuntimeBindingManifest | None,
        target_binding: RuntimeBindingManifest,
        *,
        source: PlacementManifest | None = None,
        target: PlacementManifest | None = None,
    ) -> "BoundPlan":
        """The plan with the addresses of one step; nothing is planned. A binding of another revision comes with its placement, which
        must have the plan's layout_digest. The source binding is None exactly when the source is stored.
        """
        for name, value, wanted in (
            ("source_binding", source_binding, RuntimeBindingManifest),
            ("target_binding", target_binding, RuntimeBindingManifest),
            ("source", source, PlacementManifest),
            ("target", target, PlacementManifest),
        ):
            if not (isinstance(value, wanted) or (value is None and name != "target_binding")):
                raise ContractError(f"{name}: {name} must be a {wanted.__name__}")
        core = self._core.rebind(
            None if source_binding is None else source_binding._core,
            target_binding._core,
            None if source is None else source._core,
            None if target is None else target._core,
        )
        return BoundPlan(self, core)


Fence = tuple[str, int]


class BoundPlan:
    """A plan with memory on both sides. It keeps the bindings, and with them the owners of the memory, alive."""

    def __init__(self, plan: TransferPlan, core: _ext.Bound) -> None:
        self.plan = plan
        self._core = core

    def execute(
        self,
        *,
        threads: int = 1,
        verify: bool = False,
        dry_run: bool = False,
        source_fence: Fence | None = None,
        target_fence: Fence | None = None,
    ) -> ExecuteReport:
        """Copies in host memory, with the GIL released. A fence is the (lease_id, generation) that a side must still have; another
        refuses before the first byte moves.
        """
        words = "(lease_id, generation)"
        source = None if source_fence is None else row_of(source_fence, "source_fence", words, 2)
        target = None if target_fence is None else row_of(target_fence, "target_fence", words, 2)
        return ExecuteReport(*self._core.execute(source, target, threads, bool(verify), bool(dry_run)))


Memory = Union[Mapping[str, Any], RuntimeBindingManifest]


def _places(memory: Mapping[str, Any], ids: Sequence[str], side: str, writable: bool) -> tuple[_Array, list[Any]]:
    """(address, nbytes) of each fragment, and what keeps them; (0, 0) for those that are not given."""
    places = np.zeros((len(ids), 2), np.uint64)
    kept: list[Any] = []
    known = set(ids)
    for fragment in memory:
        if fragment not in known:
            raise ContractError(f"{side}_memory: unknown {side} fragment {fragment!r}")
    for row, fragment in enumerate(ids):
        if fragment not in memory:
            continue
        given = memory[fragment]
        try:
            if isinstance(given, np.ndarray):
                array, objects = given, given.dtype.hasobject
            else:
                array, objects = np.frombuffer(given, np.uint8), "O" in _FIELD_NAME.sub("", memoryview(given).format)
        except (TypeError, ValueError, BufferError) as error:
            raise ContractError(f"{side}_memory[{fragment!r}]: wanted a contiguous array or buffer: {error}") from None
        if objects:
            raise ContractError(f"{side}_memory[{fragment!r}]: memory must not hold Python objects")
        if not array.flags.c_contiguous:
            raise ContractError(f"{side}_memory[{fragment!r}]: memory must be contiguous")
        if writable and not array.flags.writeable:
            raise ContractError(f"{side}_memory[{fragment!r}]: memory must be writable")
        kept.append(array)
        places[row] = (array.ctypes.data, array.nbytes)
    return places, kept


def execute(
    plan: TransferPlan,
    source_memory: Memory,
    target_memory: Memory,
    *,
    threads: int = 1,
    verify: bool = False,
    dry_run: bool = False,
    source_fence: Fence | None = None,
    target_fence: Fence | None = None,
) -> ExecuteReport:
    """Copies every region in host memory, with the GIL released.

    Memory is a mapping from fragment id to a contiguous array or buffer, or on both sides a binding with addresses in this process;
    a fence, (lease_id, generation), is what such a binding must still have.
    Everything is checked before the first byte moves. `verify` compares every target fragment with its elements in the naive order;
    a dry run only checks and counts.
    """
    if not isinstance(plan, TransferPlan):
        raise ContractError("plan: plan must be a TransferPlan")
    if isinstance(source_memory, RuntimeBindingManifest) and isinstance(target_memory, RuntimeBindingManifest):
        bound = plan.rebind(source_memory, target_memory)
        return bound.execute(
            threads=threads, verify=verify, dry_run=dry_run, source_fence=source_fence, target_fence=target_fence
        )
    if source_fence is not None or target_fence is not None:
        raise ContractError("a fence is one of a binding: give bindings on both sides, or no fence")
    for name, memory in (("source_memory", source_memory), ("target_memory", target_memory)):
        if not isinstance(memory, Mapping):
            raise ContractError(f"{name}: wanted a mapping from fragment id to memory, or a binding on both sides")
    source, source_kept = _places(cast(Any, source_memory), plan.source_fragment_ids, "source", False)
    target, target_kept = _places(cast(Any, target_memory), plan.target_fragment_ids, "target", True)
    report = ExecuteReport(*plan._core.execute(source, target, threads, bool(verify), bool(dry_run)))
    del source_kept, target_kept
    return report


def plan_transfer(source: Source, target: PlacementManifest, *, options: Options = None) -> TransferPlan:
    """Compares two layouts and plans every copy from the first to the second. `target` may be a whole layout or one rank's."""
    return TransferPlanner(source, target, options=options).plan()


def iter_target(
    source: Source, target: PlacementManifest, fragment_or_rank: Target, *, options: Options = None
) -> Iterator[Region]:
    """The regions of one target fragment or rank as the whole plan would have them; the rest is not built."""
    return TransferPlanner(source, target, options=options).iter_target(fragment_or_rank)
