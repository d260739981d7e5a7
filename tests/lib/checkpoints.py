"""Checkpoints for tests, made of nothing but the standard library.

A tensor is `Tensor(dtype, shape, data)`; `tensor("F32", [2, 3], seed=1)` fills one with reproducible bytes. Everything
that writes returns the path it wrote, and everything that is random takes a seed.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import random
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Iterable, Mapping, Sequence

# Bits per element of every dtype of the current safetensors format.
DTYPE_BITS = {
    "BOOL": 8, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8,
    "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8, "I16": 16, "U16": 16, "F16": 16, "BF16": 16, "I32": 32, "U32": 32, "F32": 32,
    "C64": 64, "F64": 64, "I64": 64, "U64": 64,
}  # fmt: skip


@dataclass(frozen=True)
class Tensor:
    dtype: str
    shape: tuple[int, ...]
    data: bytes


def seeded_bytes(count: int, seed: object = 0) -> bytes:
    """`count` reproducible bytes."""
    return random.Random(repr(seed)).randbytes(count)


def tensor(dtype: str, shape: Sequence[int], seed: object = 0) -> Tensor:
    """A tensor of a known dtype filled with reproducible bytes."""
    bits = math.prod(shape) * DTYPE_BITS[dtype]
    if bits % 8:
        raise ValueError(f"{dtype} {list(shape)} is not a whole number of bytes")
    return Tensor(dtype, tuple(shape), seeded_bytes(bits // 8, seed))


def safetensors_bytes(
    tensors: Mapping[str, Tensor],
    *,
    metadata: Mapping[str, str] | None = None,
    align: int = 8,
    header: str | bytes | None = None,
    header_bytes: int | None = None,
) -> bytes:
    """A whole safetensors file.

    `metadata` None leaves `__metadata__` out. `header` replaces the JSON by the caller's own text, for attacks;
    `header_bytes` pads it with spaces to exactly that size.
    """
    entries: dict[str, object] = {}
    if metadata is not None:
        entries["__metadata__"] = dict(metadata)
    offset, blobs = 0, []
    for name, one in tensors.items():
        entries[name] = {
            "dtype": one.dtype,
            "shape": list(one.shape),
            "data_offsets": [offset, offset + len(one.data)],
        }
        offset += len(one.data)
        blobs.append(one.data)
    if header is None:
        text = json.dumps(entries, separators=(",", ":"), ensure_ascii=False).encode()
        text += b" " * (-len(text) % align)
    else:
        text = header.encode() if isinstance(header, str) else header
    if header_bytes is not None:
        if len(text) > header_bytes:
            raise ValueError(f"the header has {len(text)} bytes, more than {header_bytes}")
        text = text.ljust(header_bytes)
    return struct.pack("<Q", len(text)) + text + b"".join(blobs)


def flip_bit(path: Path, at: int = 0) -> None:
    """Damages a file, also one without write bits: the lowest bit of one byte is another."""
    path.chmod(0o644)
    with open(path, "r+b") as file:
        file.seek(at)
        byte = file.read(1)
        file.seek(at)
        file.write(bytes([byte[0] ^ 1]))


def write_file(path: Path | str, data: bytes | str) -> Path:
    """Writes a file and its parent folders."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def write_safetensors(path: Path | str, tensors: Mapping[str, Tensor], **options) -> Path:
    """Writes one safetensors file; `options` as for safetensors_bytes."""
    return write_file(path, safetensors_bytes(tensors, **options))


def shard_name(index: int, count: int, stem: str = "model") -> str:
    """`model-00001-of-00002.safetensors` for index 0 of 2; `model.safetensors` for 0 of 1."""
    return f"{stem}.safetensors" if count == 1 else f"{stem}-{index + 1:05d}-of-{count:05d}.safetensors"


def write_index(path: Path | str, weight_map: Mapping[str, str], total_size: int = 0) -> Path:
    return write_file(path, json.dumps({"metadata": {"total_size": total_size}, "weight_map": dict(weight_map)}, indent=1))


def make_checkpoint(
    folder: Path | str,
    *,
    shards: int = 2,
    tensors_per_shard: int = 3,
    shape: Sequence[int] = (16, 32),
    dtype: str = "BF16",
    seed: object = 0,
    nested: bool = False,
    index: bool = True,
    index_name: str = "model.safetensors.index.json",
    metadata: Mapping[str, str] | None = {"format": "pt"},
    change: Iterable[int] = (),
) -> Path:
    """A sharded checkpoint as model hubs hold them: shards, index, config, tokenizer.

    `change` gives the tensors of those numbers other bytes and leaves every other byte alone: the next step of a training
    run. `nested` adds a component in a folder of its own (`1_Dense/model.safetensors`) and an empty file.
    """
    folder = Path(folder)
    changed, weight_map, total, number = set(change), {}, 0, 0
    for shard in range(shards):
        name, tensors = shard_name(shard, shards), {}
        for _ in range(tensors_per_shard):
            key = f"model.layers.{number}.mlp.up_proj.weight"
            tensors[key] = tensor(dtype, shape, (seed, number, number in changed))
            weight_map[key] = name
            total += len(tensors[key].data)
            number += 1
        write_safetensors(folder / name, tensors, metadata=metadata)
    if index and shards > 1:
        write_index(folder / index_name, weight_map, total)
    write_file(folder / "config.json", json.dumps({"model_type": "synthetic", "architectures": ["Synthetic"]}))
    write_file(folder / "tokenizer.json", json.dumps({"version": "1.0", "seed": repr(seed)}))
    if nested:
        write_safetensors(folder / "1_Dense" / "model.safetensors", {"linear.weight": tensor("F32", [8, 8], (seed, "dense"))})
        write_file(folder / "1_Dense" / "config.json", "{}")
        write_file(folder / "empty.txt", b"")
    return folder


def lfs_pointer(content_bytes: int, seed: object = 0) -> bytes:
    """The text that git-lfs leaves where a file was not fetched."""
    digest = hashlib.sha256(repr(seed).encode()).hexdigest()
    return f"version https://git-lfs.github.com/spec/v1\noid sha256:{digest}\nsize {content_bytes}\n".encode()


def make_hub_cache(
    root: Path | str, source: Path | str, *, repo: str = "org/name", commit: str | None = None, refs: Sequence[str] = ("main",)
) -> Path:
    """Lays a checkpoint folder out as a hub cache: blobs, and a snapshot of relative links to them.

    Returns `ROOT/models--ORG--NAME/snapshots/COMMIT`.
    """
    source = Path(source)
    base = Path(root) / ("models--" + repo.replace("/", "--"))
    commit = commit or hashlib.sha1(repo.encode()).hexdigest()
    snapshot = base / "snapshots" / commit
    for path in sorted(source.rglob("*")):
        if path.is_dir():
            continue
        relative, data = path.relative_to(source), path.read_bytes()
        blob = write_file(base / "blobs" / hashlib.sha256(data).hexdigest(), data)
        link = snapshot / relative
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(os.path.relpath(blob, link.parent))
    for ref in refs:
        write_file(base / "refs" / ref, commit)
    return snapshot


def tree_digests(folder: Path | str) -> dict[str, str]:
    """Relative path to SHA-256 of every file below a folder, links followed."""
    folder = Path(folder)
    found = {}
    for base, _, names in os.walk(folder, followlinks=True):
        for name in names:
            path = Path(base) / name
            found[path.relative_to(folder).as_posix()] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def tree_bytes(folder: Path | str) -> int:
    """Bytes of all files below a folder, each inode once."""
    seen, total = set(), 0
    for base, _, names in os.walk(folder):
        for name in names:
            info = os.lstat(os.path.join(base, name))
            if (info.st_dev, info.st_ino) not in seen:
                seen.add((info.st_dev, info.st_ino))
                total += info.st_size
    return total
