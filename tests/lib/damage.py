"""Damaging what a store holds, and what became of it."""

from __future__ import annotations

from pathlib import Path

from crash import harness
from lib.checkpoints import flip_bit

MIB = 1024 * 1024


def objects_of(steelyard, ref: str) -> list[Path]:
    """The payload files of a revision, by number."""
    digest = steelyard.json("inspect", ref)["revision"]["payload_group_id"].removeprefix("weight:")
    return sorted((harness.groups_folder(steelyard.store) / digest[:2] / digest).glob("*/p/*"))


def large(objects: list[Path]) -> list[Path]:
    found = [path for path in objects if path.stat().st_size == MIB]
    assert len(found) >= 3
    return found


def flip(path: Path, offset: int = 12345) -> None:
    flip_bit(path, offset)


def state(steelyard, ref: str) -> tuple[str, str]:
    revision = steelyard.json("inspect", ref)["revision"]
    return revision["availability"], revision["operation"]
