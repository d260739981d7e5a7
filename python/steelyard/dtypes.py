"""How dtypes are spelt. Checkpoints, trainers and inference frameworks write one type in different ways: `BF16`, `bf16`, `bfloat16`,
`torch.bfloat16`. The table is public; a spelling outside of it is equal to itself only.
"""

from typing import Any

import numpy as np

from steelyard import _ext

__all__ = ["SPELLINGS", "bits", "canonical", "itemsize", "numpy_dtype", "same"]

_ROWS = _ext.dtype_spellings()

SPELLINGS: dict[str, str] = {spelling: name for spelling, name, _ in _ROWS}
"""Every known spelling, and the type's own name, as safetensors writes it."""

_BITS = {name: bits for _, name, bits in _ROWS}

# What numpy has itself, and what ml_dtypes adds. The sub-byte types lie packed in checkpoints, and there is no array of them.
_NUMPY = {
    "BOOL": "bool",
    "U8": "uint8",
    "I8": "int8",
    "U16": "uint16",
    "I16": "int16",
    "F16": "float16",
    "U32": "uint32",
    "I32": "int32",
    "F32": "float32",
    "U64": "uint64",
    "I64": "int64",
    "F64": "float64",
    "C64": "complex64",
}
_ML_DTYPES = {
    "BF16": "bfloat16",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
    "F8_E8M0": "float8_e8m0fnu",
    "F8_E4M3FNUZ": "float8_e4m3fnuz",
    "F8_E5M2FNUZ": "float8_e5m2fnuz",
}


def canonical(spelling: str) -> str:
    """The type's own name: `BF16` for `torch.bfloat16`. ValueError for a spelling outside of the table."""
    try:
        return SPELLINGS[spelling]
    except (KeyError, TypeError):
        raise ValueError(f"dtype {spelling!r} is not in the table of spellings") from None


def same(a: str, b: str) -> bool:
    """Both are one spelling, or spellings of one type."""
    return a == b or (a in SPELLINGS and SPELLINGS.get(a) == SPELLINGS.get(b))


def bits(spelling: str) -> int:
    """Bits of one element."""
    return _BITS[canonical(spelling)]


def itemsize(spelling: str) -> int:
    """Bytes of one element. ValueError for a type whose elements are no whole bytes."""
    size = bits(spelling)
    if size % 8:
        raise ValueError(f"dtype {spelling!r} has {size} bits an element, which is not a whole number of bytes")
    return size // 8


def numpy_dtype(spelling: str) -> "np.dtype[Any]":
    """The numpy dtype of a spelling; the types that numpy does not have come from ml_dtypes."""
    name = canonical(spelling)
    if name in _NUMPY:
        return np.dtype(_NUMPY[name])
    if name not in _ML_DTYPES:
        raise ValueError(f"dtype {spelling!r} has no numpy array of its own: its elements are packed into bytes")
    try:
        import ml_dtypes
    except ImportError:
        raise ImportError(f"numpy has no {name}: install ml_dtypes (pip install 'steelyard[dtypes]')") from None
    try:
        found: np.dtype[Any] = np.dtype(getattr(ml_dtypes, _ML_DTYPES[name]))
    except AttributeError:
        raise ImportError(f"this version of ml_dtypes has no {_ML_DTYPES[name]}: install a newer one") from None
    return found
