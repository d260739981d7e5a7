"""The rows of the contracts: frozen dataclasses that are checked where they are made.

Annotations here are real objects, not strings, since the classes are shown as those of `steelyard.model_weight`.
"""

import dataclasses
import re
from collections.abc import Sequence
from typing import Any, TypeVar

from steelyard import _ext

_T = TypeVar("_T", bound=type)

_PATH = re.compile(r"[A-Za-z_]\w*(?:\[\d+\])*(?:\.[A-Za-z_]\w*(?:\[\d+\])*)*(?=: )")


def public(cls: _T) -> _T:
    """The class is found, pickled and shown under the public module."""
    cls.__module__ = "steelyard.model_weight"
    return cls


@public
class ContractError(ValueError):
    """What was given breaks a contract. The message begins with the path of the field."""

    @property
    def path(self) -> str:
        """Where the offending value stands, `fragments[17].local_shape[1]`; empty where it is no single field."""
        found = _PATH.match(str(self))
        return found.group(0) if found else ""


class _Checked:
    """Pickles go through the constructor, so they are checked again; copies of an immutable value are the value."""

    def __reduce__(self) -> tuple[Any, ...]:
        kept = (field for field in dataclasses.fields(self) if field.name != "owner")  # type: ignore[arg-type]
        return _remake, (type(self), {field.name: getattr(self, field.name) for field in kept})

    def __copy__(self: "_Checked") -> "_Checked":
        return self

    def __deepcopy__(self: "_Checked", memo: dict[int, Any]) -> "_Checked":
        return self


def _remake(cls: type, fields: dict[str, Any]) -> Any:
    return cls(**fields)


@public
@dataclasses.dataclass(frozen=True)
class ParallelRank(_Checked):
    """Where a process stands in data, tensor, pipeline and expert parallelism."""

    dp: int = 0
    tp: int = 0
    pp: int = 0
    ep: int = 0

    def __post_init__(self) -> None:
        _ext.normalise_rank(self.__dict__)


@public
@dataclasses.dataclass(frozen=True)
class TensorDescriptor(_Checked):
    """What a tensor is, whoever holds it. `dtype` and `layout_fingerprint` are opaque: they are compared, not read."""

    tensor_id: str
    global_shape: Sequence[int]
    dtype: str
    itemsize: int
    partition_dim: int | None
    layout_fingerprint: str
    layer_id: int | None = None
    expert_id: int | None = None
    shard_dims: Sequence[int] | None = None

    def __post_init__(self) -> None:
        _ext.normalise_tensor(self.__dict__)

    @property
    def effective_shard_dims(self) -> tuple[int, ...]:
        """The dimensions in which the tensor may be cut: shard_dims, else partition_dim alone, else none."""
        if self.shard_dims is not None:
            return tuple(self.shard_dims)
        return () if self.partition_dim is None else (self.partition_dim,)


@public
@dataclasses.dataclass(frozen=True)
class PlacementFragment(_Checked):
    """A box of a tensor that a rank holds, wherever it lies."""

    placement_fragment_id: str
    tensor_id: str
    global_offset: Sequence[int]
    local_shape: Sequence[int]
    nbytes: int
    rank: ParallelRank
    aliases: Sequence[str] = ()

    def __post_init__(self) -> None:
        _ext.normalise_placement_fragment(self.__dict__)

    @property
    def fragment_id(self) -> str:
        """placement_fragment_id."""
        return self.placement_fragment_id


@public
@dataclasses.dataclass(frozen=True)
class RuntimeFragment(_Checked):
    """A box of a tensor in the memory of a running process. `address` is that of its first byte."""

    fragment_id: str
    tensor_id: str
    global_offset: Sequence[int]
    local_shape: Sequence[int]
    address: int
    nbytes: int
    worker_id: str
    endpoint: str
    device: str
    rank: ParallelRank
    lease_generation: int
    owner: Any = dataclasses.field(default=None, repr=False, compare=False)
    aliases: Sequence[str] = ()
    placement_fragment_id: str | None = None

    def __post_init__(self) -> None:
        _ext.normalise_runtime_fragment(self.__dict__)


@public
@dataclasses.dataclass(frozen=True)
class RuntimeBindingFragment(_Checked):
    """Where a fragment of a placement lies."""

    placement_fragment_id: str
    fragment_id: str
    address: int
    nbytes: int
    worker_id: str
    endpoint: str
    device: str
    owner: Any = dataclasses.field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        _ext.normalise_binding_fragment(self.__dict__)
