"""Plain Python structures as arguments: looked at before they are taken apart, so that a wrong one is refused by name."""

from collections.abc import Sequence
from typing import Any

from steelyard.model_weight import ContractError


def items_of(value: Any, name: str, words: str) -> tuple[Any, ...]:
    """The items of a sequence that is no text."""
    if isinstance(value, (str, bytes, bytearray)) or not isinstance(value, Sequence):
        raise ContractError(f"{name}: {name} must be a sequence of {words}")
    return tuple(value)


def row_of(value: Any, path: str, words: str, width: int) -> tuple[Any, ...]:
    """A sequence of so many items."""
    if isinstance(value, (str, bytes, bytearray)) or not isinstance(value, Sequence) or len(value) != width:
        raise ContractError(f"{path}: wanted {words}, found {value!r}"[:200])
    return tuple(value)
