#!/usr/bin/env python3
"""Writes a sharded safetensors checkpoint that looks like a decoder: 32 MiB bf16 matrices, each with a small norm.

    bench/make_checkpoint.py DIR [--shards 4] [--mib-per-shard 512] [--seed 0] [--change N ...]

The bytes are random and depend only on the seed and the matrix's number. `--change` gives those matrices other bytes and leaves
every other byte as it was: the next step of a training run. `--tensors N` writes one file with N one-byte tensors instead.
"""

from __future__ import annotations

import argparse
import json
import struct
from pathlib import Path

import numpy as np

SIDE = 4096
MATRIX_BYTES = SIDE * SIDE * 2


def random_bytes(seed: int, count: int) -> bytes:
    return np.random.Generator(np.random.SFC64(seed)).bytes(count)


def write_shard(path: Path, tensors: list[tuple[str, list[int], int]]) -> dict[str, int]:
    """Writes (name, shape, seed) as one file, a tensor at a time; returns the bytes of each."""
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    sizes, offset = {}, 0
    for name, shape, _ in tensors:
        sizes[name] = int(np.prod(shape)) * 2
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [offset, offset + sizes[name]]}
        offset += sizes[name]
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        for name, _, seed in tensors:
            out.write(random_bytes(seed, sizes[name]))
    return sizes


def make(folder: Path, shards: int = 4, mib_per_shard: int = 512, seed: int = 0, change: tuple[int, ...] = ()) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    weight_map, total, number = {}, 0, 0
    for shard in range(shards):
        name = f"model-{shard + 1:05d}-of-{shards:05d}.safetensors"
        tensors = []
        for _ in range(max(1, mib_per_shard * 2**20 // MATRIX_BYTES)):
            layer, base = f"model.layers.{number}", 2 * (seed * 100_000 + number)
            step = 1_000_000_007 if number in change else 0
            tensors.append((f"{layer}.mlp.up_proj.weight", [SIDE, SIDE], base + step))
            tensors.append((f"{layer}.input_layernorm.weight", [SIDE], base + 1))
            number += 1
        sizes = write_shard(folder / name, tensors)
        weight_map |= dict.fromkeys(sizes, name)
        total += sum(sizes.values())
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    (folder / "config.json").write_text(json.dumps({"model_type": "synthetic", "architectures": ["Synthetic"]}))


def make_many_tensors(folder: Path, tensors: int) -> None:
    """One file with that many one-byte tensors: nearly all of it is header."""
    folder.mkdir(parents=True, exist_ok=True)
    parts = [f'"layers.{i}.experts.{i % 128}.w":{{"dtype":"U8","shape":[1],"data_offsets":[{i},{i + 1}]}}' for i in range(tensors)]
    text = ("{" + ",".join(parts) + "}").encode()
    text += b" " * (-len(text) % 8)
    with open(folder / "model.safetensors", "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text + random_bytes(1, tensors))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dir", type=Path)
    parser.add_argument("--shards", type=int, default=4)
    parser.add_argument("--mib-per-shard", type=int, default=512)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--change", type=int, nargs="*", default=[])
    parser.add_argument("--tensors", type=int)
    args = parser.parse_args()
    if args.tensors:
        make_many_tensors(args.dir, args.tensors)
    else:
        make(args.dir, args.shards, args.mib_per_shard, args.seed, tuple(args.change))


if __name__ == "__main__":
    main()
