"""The contracts between frameworks and the store: how weights are laid out over ranks, and where they lie in memory.

docs/python.md is the guide. Everything here is an immutable value; whatever breaks a contract is a ContractError, which is a ValueError.
"""

from typing import Any

from steelyard import _ext
from steelyard.model_weight._columns import (
    BindingColumns,
    FragmentColumns,
    ListColumn,
    RuntimeColumns,
    TensorColumns,
    TextColumn,
)
from steelyard.model_weight._manifests import PlacementManifest, RuntimeBindingManifest, RuntimeManifest
from steelyard.model_weight._types import (
    ContractError,
    ParallelRank,
    PlacementFragment,
    RuntimeBindingFragment,
    RuntimeFragment,
    TensorDescriptor,
)

__all__ = [
    "BindingColumns",
    "ContractError",
    "FragmentColumns",
    "ListColumn",
    "ParallelRank",
    "PlacementFragment",
    "PlacementManifest",
    "RuntimeBindingFragment",
    "RuntimeBindingManifest",
    "RuntimeColumns",
    "RuntimeFragment",
    "RuntimeManifest",
    "TensorColumns",
    "TensorDescriptor",
    "TextColumn",
    "bind_runtime_manifest",
    "placement_manifest_from_runtime_manifest",
    "runtime_binding_from_runtime_manifest",
    "validate_binding_fence",
]


def _core(value: Any, wanted: type, name: str) -> Any:
    if not isinstance(value, wanted):
        raise ContractError(f"{name}: {name} must be a {wanted.__name__}")
    return value._core  # type: ignore[attr-defined]


def placement_manifest_from_runtime_manifest(
    manifest: RuntimeManifest, *, placement_id: str | None = None
) -> PlacementManifest:
    """The layout of a runtime manifest, without its addresses. A fragment without an id of its own gets a derived one."""
    return PlacementManifest._of(_ext.placement_of(_core(manifest, RuntimeManifest, "manifest"), placement_id))


def runtime_binding_from_runtime_manifest(
    manifest: RuntimeManifest, *, placement_id: str | None = None
) -> RuntimeBindingManifest:
    """The addresses of a runtime manifest, as a binding of its placement. The manifest needs a lease and a generation."""
    return RuntimeBindingManifest._of(_ext.binding_of(_core(manifest, RuntimeManifest, "manifest"), placement_id))


def bind_runtime_manifest(placement: PlacementManifest, binding: RuntimeBindingManifest) -> RuntimeManifest:
    """The placement with the addresses of a binding, in the placement's order, fully checked."""
    core = _ext.bind(
        _core(placement, PlacementManifest, "placement"), _core(binding, RuntimeBindingManifest, "binding")
    )
    return RuntimeManifest._of(core)


def validate_binding_fence(binding: RuntimeBindingManifest, *, lease_id: str, generation: int) -> None:
    """For the moment before memory is touched: refuses unless the binding is of this lease and this generation."""
    _ext.check_fence(_core(binding, RuntimeBindingManifest, "binding"), lease_id, generation)
