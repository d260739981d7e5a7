"""The peer's steps, in an interpreter of its own: mooncake.reshard.weight through its public API. Started by reshard.py."""

from __future__ import annotations

from math import prod

import layouts
import mooncake.reshard.weight as W
from timed_process import serve, timed

KEPT: dict[str, object] = {}


def objects(prefix: str, layout: layouts.Layout):
    ranks = {rank: W.ParallelRank(dp=rank[0], tp=rank[1], ep=rank[2]) for rank in layout.ranks}
    topology = W.ParallelTopology(
        tp_size=layout.tp, pp_size=1, ep_size=layout.ep, dp_size=layout.dp,
        participants=tuple(W.TopologyParticipant(f"{prefix}-{number:04d}", ranks[rank]) for number, rank in enumerate(layout.ranks)),
    )  # fmt: skip
    many = {"tp": layout.tp > 1, "ep": layout.ep > 1, "dp": layout.dp > 1}
    tensors, fragments = [], []
    for tensor in layout.tensors:
        axes = []
        for kind in (kind for kind, present in many.items() if present):
            if tensor.owned and kind in ("tp", "ep"):
                axes.append(W.OwnershipAxis(kind=kind))
            elif kind == "tp" and tensor.dim is not None:
                axes.append(W.SplitAxis(kind=kind, dim=tensor.dim))
            elif kind != "ep":
                axes.append(W.ReplicatedAxis(kind=kind))
        tensors.append(
            W.TensorDescriptor(
                tensor_id=tensor.name, global_shape=tensor.shape, dtype="bfloat16", itemsize=layouts.ITEMSIZE,
                shard_dims=() if tensor.dim is None else (tensor.dim,), layout_fingerprint="bench", parallel_axes=tuple(axes), layer_id=tensor.layer,
            )
        )  # fmt: skip
        for fragment in tensor.fragments:
            fragments.append(
                W.PlacementFragment(
                    tensor_id=tensor.name, global_offset=fragment.offset, local_shape=fragment.shape,
                    nbytes=prod(fragment.shape) * layouts.ITEMSIZE, rank=ranks[fragment.rank],
                )
            )  # fmt: skip
    return topology, tensors, fragments


def manifest(prefix: str, topology, tensors, fragments):
    return W.WeightPlacementManifest.from_fragments(
        resource_id="bench-model", revision="rev-1", weight_generation=1, placement_set_id=prefix, topology=topology,
        tensors=tuple(tensors), fragments=tuple(fragments),
    )  # fmt: skip


def contracts(layers: int) -> dict:
    """Objects, manifest, identity, digest; then JSON both ways."""
    layout = layouts.experts(layers, 8, dp=2)
    made, given = timed(lambda: objects("src", layout))
    built, placement = timed(lambda: manifest("src", *given))
    digested, _ = timed(lambda: placement.digest)
    dumped, text = timed(lambda: W.weight_placement_to_json(placement))
    loaded, back = timed(lambda: W.weight_placement_from_json(text))
    assert back.placement_id == placement.placement_id
    return {"build": made + built + digested, "dump": dumped, "load": loaded, "fragments": layout.fragment_count, "json_bytes": len(text)}


def build(name: str, prefix: str, kind: str, arguments: dict) -> dict:
    KEPT[name] = manifest(prefix, *objects(prefix, layouts.BUILDERS[kind](**arguments)))
    return {}


def plan(source: str, target: str, keep: str | None = None) -> dict:
    seconds, result = timed(lambda: W.plan_placement_transfer(KEPT[source], KEPT[target]))
    if keep:
        KEPT[keep] = result
    read: dict[str, int] = {}
    for operation in result.operations:
        rank = str(operation.source.rank)
        read[rank] = read.get(rank, 0) + operation.total_bytes
    return {"seconds": seconds, "regions": len(result.operations), "read": list(read.values())}


def segments(plan: str) -> dict:
    def walk() -> int:
        count = 0
        for operation in KEPT[plan].operations:
            for _ in operation.iter_segments(max_segments=1 << 30):
                count += 1
        return count

    seconds, count = timed(walk)
    return {"seconds": seconds, "segments": count}


def forget() -> dict:
    KEPT.clear()
    return {}


if __name__ == "__main__":
    serve({"contracts": contracts, "build": build, "plan": plan, "segments": segments, "forget": forget})
