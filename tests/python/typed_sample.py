"""How a typed program uses the facade; checked by mypy in test_typing.py, run by nobody."""

from steelyard import dtypes
from steelyard.model_weight import ParallelRank, PlacementFragment, PlacementManifest, TensorDescriptor
from steelyard.reshard import PlanOptions, Region, Shard, boxes_from_mesh, plan_transfer


def placement(tp: int) -> PlacementManifest:
    tensor = TensorDescriptor("w", (8, 4), "bf16", dtypes.itemsize("bf16"), 0, "row-major")
    fragments: list[PlacementFragment] = []
    for rank in range(tp):
        for box in boxes_from_mesh(tensor.global_shape, (tp,), [Shard(0)], (rank,)):
            nbytes = box.shape[0] * box.shape[1] * tensor.itemsize
            fragments.append(PlacementFragment(f"w.{rank}", "w", box.offset, box.shape, nbytes, ParallelRank(tp=rank)))
    return PlacementManifest("model", "step-1", [tensor], fragments)


def regions() -> list[Region]:
    plan = plan_transfer(placement(2), placement(4), options=PlanOptions(choice="first"))
    first: Region = plan.regions[0]
    size: int = first.bytes + plan.bytes
    return [first] if size else list(plan.regions)
