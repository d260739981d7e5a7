"""From one layout of weights to another: helpers for adapters, and the plan of copies. docs/resharding.md is the guide."""

from steelyard.reshard._layout import (
    Box,
    FusedPart,
    MeshPlacement,
    Replicate,
    Shard,
    StridedShard,
    TensorView,
    ViewPiece,
    boxes_from_flat_range,
    boxes_from_mesh,
    fused_views,
    split_sizes,
)

__all__ = [
    "Box",
    "FusedPart",
    "MeshPlacement",
    "Replicate",
    "Shard",
    "StridedShard",
    "TensorView",
    "ViewPiece",
    "boxes_from_flat_range",
    "boxes_from_mesh",
    "fused_views",
    "split_sizes",
]
