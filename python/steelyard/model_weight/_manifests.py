"""Manifests: frozen dataclasses to whoever looks at them, columns inside.

`tensors` and `fragments` are tuples that are made when they are first asked for; whatever works on whole manifests (digests, JSON,
binding, planning) never makes them. `fragment(row)` makes one.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, cast

from steelyard import _ext
from steelyard.model_weight._columns import BindingColumns, FragmentColumns, RuntimeColumns, TensorColumns, prepared
from steelyard.model_weight._types import (
    PlacementFragment,
    RuntimeBindingFragment,
    RuntimeFragment,
    TensorDescriptor,
    public,
)

_M = TypeVar("_M", bound="_Manifest")

# A repr shows every row up to this many, and their number beyond.
_ROWS_SHOWN = 64


class _Manifest:
    """What the three manifests have in common. `_core` holds the columns; the other fields are read from it."""

    # Not annotated: annotations are the fields and nothing else.
    _core = cast(Any, None)
    # Fields that are tuples of objects, made on demand.
    _lazy = cast("tuple[str, ...]", ())

    @classmethod
    def _of(cls: type[_M], core: Any) -> _M:
        made = cls.__new__(cls)
        made._keep(core)
        return made

    def _keep(self, core: Any) -> None:
        object.__setattr__(self, "_core", core)
        for field in dataclasses.fields(self):  # type: ignore[arg-type]
            if field.name not in self._lazy:
                object.__setattr__(self, field.name, getattr(core, field.name))

    def __getattr__(self, name: str) -> Any:
        # Called only for what is not there (yet).
        if name in type(self)._lazy:
            made = getattr(object.__getattribute__(self, "_core"), name)()
            object.__setattr__(self, name, made)
            return made
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __eq__(self, other: object) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return self is other or bool(self._core.equals(other._core))

    def __repr__(self) -> str:
        shown = []
        for field in dataclasses.fields(self):  # type: ignore[arg-type]
            count = getattr(self._core, f"{field.name[:-1]}_count") if field.name in self._lazy else 0
            value = f"<{count} {field.name}>" if count > _ROWS_SHOWN else repr(getattr(self, field.name))
            shown.append(f"{field.name}={value}")
        return f"{type(self).__qualname__}({', '.join(shown)})"

    def __copy__(self: _M) -> _M:
        return self

    def __deepcopy__(self: _M, memo: dict[int, Any]) -> _M:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return _remake, (type(self), _fields_of(self))

    @property
    def fragment_count(self) -> int:
        """Number of fragments; makes no object."""
        return int(self._core.fragment_count)

    def _fragment(self, row: int) -> Any:
        """fragments[row], and what that would raise."""
        size = self.fragment_count
        if not -size <= row < size:
            raise IndexError(f"fragment {row!r} is out of range: there are {size} fragments")
        return self._core.fragment(row % size)


def _fields_of(manifest: Any) -> dict[str, Any]:
    return {field.name: getattr(manifest, field.name) for field in dataclasses.fields(manifest)}


def _remake(cls: type, fields: dict[str, Any]) -> Any:
    return cls(**fields)


@public
@dataclasses.dataclass(frozen=True, init=False, eq=False, repr=False)
class PlacementManifest(_Manifest):
    """Which rank holds which box of which tensor. Canonical: tensors sorted by tensor_id, fragments by id."""

    model_id: str
    revision: str
    tensors: Sequence[TensorDescriptor]
    fragments: Sequence[PlacementFragment]
    placement_id: str | None = None

    _lazy = ("tensors", "fragments")
    # vars() looks here: the fields, as in any dataclass, and not what the manifest is made of.
    __dict__ = property(_fields_of)

    def __init__(
        self,
        model_id: str,
        revision: str,
        tensors: Sequence[TensorDescriptor],
        fragments: Sequence[PlacementFragment],
        placement_id: str | None = None,
    ) -> None:
        self._keep(_ext.Placement.make(model_id, revision, tensors, fragments, placement_id))

    def __hash__(self) -> int:
        return hash(self.digest)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).from_json, (self.to_json(),)

    @property
    def digest(self) -> str:
        """SHA-256 of the document that to_json writes, but for its schema_version; 64 hex digits."""
        return str(self._core.digest)

    @property
    def layout_digest(self) -> str:
        """SHA-256 of everything but the revision and what is derived from it: equal for revisions of one layout."""
        return str(self._core.layout_digest)

    def fragment(self, row: int) -> PlacementFragment:
        """fragments[row], without making the others."""
        return cast(PlacementFragment, self._fragment(row))

    def to_json(self) -> str:
        """The canonical JSON."""
        return str(self._core.to_json())

    @classmethod
    def from_json(cls, text: str | bytes) -> "PlacementManifest":
        """Reads and checks what to_json writes, in any spelling that is valid JSON."""
        return cls._of(_ext.Placement.from_json(text))

    @classmethod
    def from_runtime_inventory(cls, inventory: Any) -> "PlacementManifest":
        """From an adapter's inventory: mappings or objects with attributes. Addresses in it are not looked at."""
        return cls._of(_ext.placement_from_inventory(inventory))

    @classmethod
    def from_columns(
        cls,
        model_id: str,
        revision: str,
        tensors: TensorColumns | Mapping[str, Any],
        fragments: FragmentColumns | Mapping[str, Any],
        placement_id: str | None = None,
    ) -> "PlacementManifest":
        """The same from whole columns: no Python object for each row."""
        made = _ext.placement_from_columns(
            model_id,
            revision,
            prepared(tensors, TensorColumns, "tensors"),
            prepared(fragments, FragmentColumns, "fragments"),
            placement_id,
        )
        return cls._of(made)


@public
@dataclasses.dataclass(frozen=True, init=False, eq=False, repr=False)
class RuntimeBindingManifest(_Manifest):
    """Where the fragments of a placement lie in one running instance, sorted by placement_fragment_id."""

    model_id: str
    revision: str
    placement_id: str
    placement_digest: str
    instance_id: str
    generation: int
    lease_id: str
    fragments: Sequence[RuntimeBindingFragment]

    _lazy = ("fragments",)
    __dict__ = property(_fields_of)

    def __init__(
        self,
        model_id: str,
        revision: str,
        placement_id: str,
        placement_digest: str,
        instance_id: str,
        generation: int,
        lease_id: str,
        fragments: Sequence[RuntimeBindingFragment],
    ) -> None:
        self._keep(
            _ext.Binding.make(
                model_id, revision, placement_id, placement_digest, instance_id, generation, lease_id, fragments
            )
        )

    def __hash__(self) -> int:
        return hash((self.placement_digest, self.instance_id, self.generation, self.lease_id, self.fragment_count))

    def fragment(self, row: int) -> RuntimeBindingFragment:
        """fragments[row], without making the others."""
        return cast(RuntimeBindingFragment, self._fragment(row))

    @classmethod
    def from_inventory(
        cls, inventory: Any, *, owner_resolver: Callable[[Any], Any] | None = None
    ) -> "RuntimeBindingManifest":
        """From an adapter's inventory: mappings or objects with attributes."""
        return cls._of(_ext.binding_from_inventory(inventory, owner_resolver))

    @classmethod
    def from_columns(
        cls,
        model_id: str,
        revision: str,
        placement_id: str,
        placement_digest: str,
        instance_id: str,
        generation: int,
        lease_id: str,
        fragments: BindingColumns | Mapping[str, Any],
    ) -> "RuntimeBindingManifest":
        """The same from whole columns: no Python object for each row."""
        made = _ext.binding_from_columns(
            model_id,
            revision,
            placement_id,
            placement_digest,
            instance_id,
            generation,
            lease_id,
            prepared(fragments, BindingColumns, "fragments"),
        )
        return cls._of(made)


@public
@dataclasses.dataclass(frozen=True, init=False, eq=False, repr=False)
class RuntimeManifest(_Manifest):
    """The weights in the memory of one running instance, in the order in which they were given."""

    model_id: str
    revision: str
    instance_id: str
    tensors: Sequence[TensorDescriptor]
    fragments: Sequence[RuntimeFragment]
    lease_id: str | None = None
    placement_id: str | None = None
    generation: int | None = None

    _lazy = ("tensors", "fragments")
    __dict__ = property(_fields_of)

    def __init__(
        self,
        model_id: str,
        revision: str,
        instance_id: str,
        tensors: Sequence[TensorDescriptor],
        fragments: Sequence[RuntimeFragment],
        lease_id: str | None = None,
        placement_id: str | None = None,
        generation: int | None = None,
    ) -> None:
        self._keep(
            _ext.Runtime.make(model_id, revision, instance_id, tensors, fragments, lease_id, placement_id, generation)
        )

    def __hash__(self) -> int:
        return hash((self.model_id, self.revision, self.instance_id, self.generation, self.fragment_count))

    def fragment(self, row: int) -> RuntimeFragment:
        """fragments[row], without making the others."""
        return cast(RuntimeFragment, self._fragment(row))

    @classmethod
    def from_inventory(cls, inventory: Any, *, owner_resolver: Callable[[Any], Any] | None = None) -> "RuntimeManifest":
        """From an adapter's inventory: mappings or objects with attributes."""
        return cls._of(_ext.runtime_from_inventory(inventory, owner_resolver))

    @classmethod
    def from_columns(
        cls,
        model_id: str,
        revision: str,
        instance_id: str,
        tensors: TensorColumns | Mapping[str, Any],
        fragments: RuntimeColumns | Mapping[str, Any],
        lease_id: str | None = None,
        placement_id: str | None = None,
        generation: int | None = None,
    ) -> "RuntimeManifest":
        """The same from whole columns: no Python object for each row."""
        made = _ext.runtime_from_columns(
            model_id,
            revision,
            instance_id,
            prepared(tensors, TensorColumns, "tensors"),
            prepared(fragments, RuntimeColumns, "fragments"),
            lease_id,
            placement_id,
            generation,
        )
        return cls._of(made)
