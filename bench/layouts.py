"""The models that the planner's rows are measured on: 94 layers, hidden 4096, 128 experts of three matrices, bf16. The same shapes go
to the product and to its peer; nothing here knows either.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

HIDDEN, INTER, QUERY_ROWS, KEY_ROWS, VOCABULARY = 4096, 1536, 8192, 512, 151936
EXPERTS, LAYERS, ITEMSIZE = 128, 94, 2


class Fragment(NamedTuple):
    """One box; `rank` is (dp, tp, ep)."""

    offset: tuple[int, ...]
    shape: tuple[int, ...]
    rank: tuple[int, int, int]


class Tensor(NamedTuple):
    """`dim` is the dimension that is cut, or None. `owned` is a tensor that one rank has whole (an expert)."""

    name: str
    shape: tuple[int, ...]
    dim: int | None
    layer: int | None
    owned: bool
    fragments: list[Fragment]


class Layout(NamedTuple):
    """A model over `dp` x `tp` x `ep` ranks."""

    dp: int
    tp: int
    ep: int
    ranks: list[tuple[int, int, int]]
    tensors: list[Tensor]

    @property
    def fragment_count(self) -> int:
        return sum(len(tensor.fragments) for tensor in self.tensors)


def parameters(layers: int, mlp: bool) -> Iterator[tuple[str, tuple[int, ...], int | None, int | None]]:
    yield "model.embed_tokens.weight", (VOCABULARY, HIDDEN), 0, None
    yield "lm_head.weight", (VOCABULARY, HIDDEN), 0, None
    yield "model.norm.weight", (HIDDEN,), None, None
    for layer in range(layers):
        name = f"model.layers.{layer}."
        yield name + "self_attn.q_proj.weight", (QUERY_ROWS, HIDDEN), 0, layer
        yield name + "self_attn.k_proj.weight", (KEY_ROWS, HIDDEN), 0, layer
        yield name + "self_attn.v_proj.weight", (KEY_ROWS, HIDDEN), 0, layer
        yield name + "self_attn.o_proj.weight", (HIDDEN, QUERY_ROWS), 1, layer
        yield name + "input_layernorm.weight", (HIDDEN,), None, layer
        yield name + "post_attention_layernorm.weight", (HIDDEN,), None, layer
        if mlp:
            yield name + "mlp.gate_proj.weight", (INTER * 8, HIDDEN), 0, layer
            yield name + "mlp.up_proj.weight", (INTER * 8, HIDDEN), 0, layer
            yield name + "mlp.down_proj.weight", (HIDDEN, INTER * 8), 1, layer
        else:
            yield name + "mlp.gate.weight", (EXPERTS, HIDDEN), None, layer


def box(shape: tuple[int, ...], dim: int | None, index: int, count: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    offset, local = [0] * len(shape), list(shape)
    if dim is not None:
        offset[dim] = shape[dim] * index // count
        local[dim] = shape[dim] * (index + 1) // count - offset[dim]
    return tuple(offset), tuple(local)


def dense(layers: int = LAYERS, tp: int = 8, rows_only: bool = False) -> Layout:
    """Tensor parallelism as such models have it; with `rows_only` every parameter is cut along dimension 0 (FSDP)."""
    ranks = [(0, rank, 0) for rank in range(tp)]
    tensors = []
    for name, shape, cut, layer in parameters(layers, True):
        dim = 0 if rows_only else cut
        tensors.append(Tensor(name, shape, dim, layer, False, [Fragment(*box(shape, dim, rank[1], tp), rank) for rank in ranks]))
    return Layout(1, tp, 1, ranks, tensors)


def experts(layers: int = LAYERS, ep: int = 8, dp: int = 1) -> Layout:
    """Every expert's matrices are tensors of their own, owned by one rank of `ep`; attention is cut over the same ranks."""
    ranks = [(replica, rank, rank) for replica in range(dp) for rank in range(ep)]
    tensors = []
    for name, shape, dim, layer in parameters(layers, False):
        tensors.append(Tensor(name, shape, dim, layer, False, [Fragment(*box(shape, dim, rank[1], ep), rank) for rank in ranks]))
    for layer in range(layers):
        for expert in range(EXPERTS):
            owner = expert // (EXPERTS // ep)
            for part, shape in (("gate_proj", (INTER, HIDDEN)), ("up_proj", (INTER, HIDDEN)), ("down_proj", (HIDDEN, INTER))):
                name = f"model.layers.{layer}.mlp.experts.{expert}.{part}.weight"
                owned = [Fragment((0,) * 2, shape, (replica, owner, owner)) for replica in range(dp)]
                tensors.append(Tensor(name, shape, None, layer, True, owned))
    return Layout(dp, ep, ep, ranks, tensors)


def replicas(dp: int = 1, tp: int = 1, tensors: int = 64) -> Layout:
    """Ranks that all have the same whole tensors."""
    ranks = [(replica, rank, 0) for replica in range(dp) for rank in range(tp)]
    shape = (HIDDEN, HIDDEN)
    whole = [Fragment((0, 0), shape, rank) for rank in ranks]
    return Layout(dp, tp, 1, ranks, [Tensor(f"layers.{number}.weight", shape, None, number, False, whole) for number in range(tensors)])


def split(layers: int, tp: int, columns: int, dim: int) -> Layout:
    """`layers` matrices of 64 MiB with rows of `columns` elements, cut along `dim`: what the executor copies."""
    shape = ((64 << 20) // (columns * ITEMSIZE), columns)
    ranks = [(0, rank, 0) for rank in range(tp)]
    return Layout(1, tp, 1, ranks, [
        Tensor(f"layers.{layer}.weight", shape, dim, layer, False, [Fragment(*box(shape, dim, rank[1], tp), rank) for rank in ranks])
        for layer in range(layers)
    ])  # fmt: skip


BUILDERS = {"dense": dense, "experts": experts, "replicas": replicas, "split": split}
