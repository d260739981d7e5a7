"""Columns for the bulk constructors: 10^5 fragments and more without a Python object for each.

A column is a numpy array or whatever numpy makes one of, or a single value that stands for every row. Texts may also be a list of
str, a `TextColumn`; lists of integers a two-dimensional array, a list of tuples, a `ListColumn`.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from steelyard import _ext
from steelyard.model_weight._types import ContractError, public

_Ints = np.ndarray[Any, np.dtype[Any]]


@public
@dataclasses.dataclass(frozen=True, eq=False)
class TextColumn:
    """Texts one after the other in one buffer: row i ends at ends[i]. With codes, row i is text number codes[i]."""

    text: Any
    ends: Any
    codes: Any = None


@public
@dataclasses.dataclass(frozen=True, eq=False)
class ListColumn:
    """Lists of integers one after the other: row i ends at ends[i] of values."""

    values: Any
    ends: Any


@public
@dataclasses.dataclass(frozen=True, eq=False)
class TensorColumns:
    """Descriptors. In `partition_dim`, `layer_id` and `expert_id` a row of -1 is None."""

    tensor_id: Any
    global_shape: Any
    dtype: Any
    itemsize: Any
    partition_dim: Any
    layout_fingerprint: Any
    layer_id: Any = None
    expert_id: Any = None
    shard_dims: Any = None


@public
@dataclasses.dataclass(frozen=True, eq=False)
class FragmentColumns:
    """Placed fragments. `tensor` is a row of the tensors' columns; `rank` has four numbers a row: dp, tp, pp, ep."""

    placement_fragment_id: Any
    tensor: Any
    global_offset: Any
    local_shape: Any
    nbytes: Any
    rank: Any = None
    aliases: Any = None


@public
@dataclasses.dataclass(frozen=True, eq=False)
class RuntimeColumns:
    """Fragments in memory. The last four columns are what an allocator says; they are checked where they are given."""

    fragment_id: Any
    tensor: Any
    global_offset: Any
    local_shape: Any
    address: Any
    nbytes: Any
    worker_id: Any
    endpoint: Any
    device: Any
    lease_generation: Any
    rank: Any = None
    aliases: Any = None
    placement_fragment_id: Any = None
    is_contiguous: Any = None
    stride: Any = None
    storage_offset: Any = None
    byte_offset: Any = None
    address_semantics: str | None = None


@public
@dataclasses.dataclass(frozen=True, eq=False)
class BindingColumns:
    """Where the fragments of a placement lie."""

    placement_fragment_id: Any
    fragment_id: Any
    address: Any
    nbytes: Any
    worker_id: Any
    endpoint: Any
    device: Any


def prepared(columns: Any, wanted: type, owner: str) -> dict[str, Any]:
    """The columns as contiguous arrays, by name. A mapping does as well as an instance of `wanted`."""
    if isinstance(columns, Mapping):
        known = {field.name for field in dataclasses.fields(wanted)}
        for name in columns:
            if name not in known:
                raise ContractError(f"{owner}.{name}: there is no such column; wanted {', '.join(sorted(known))}")
        try:
            columns = wanted(**columns)
        except TypeError as error:
            raise ContractError(f"{owner}: {str(error).split('() ', 1)[-1]}") from None
    if not isinstance(columns, wanted):
        raise ContractError(f"{owner}: {owner} must be {wanted.__name__} or a mapping of columns")
    given = {field.name: getattr(columns, field.name) for field in dataclasses.fields(wanted)}
    first = next(iter(given))
    key = _texts(given[first], f"{owner}.{first}", None)
    rows = len(key[2]) if key[2] is not None else len(key[1])
    out: dict[str, Any] = {first: key}
    for name, value in given.items():
        if name != first:
            out[name] = _PREPARE[name](value, f"{owner}.{name}", rows)
    return out


def _texts(value: Any, path: str, rows: int | None) -> tuple[Any, _Ints, _Ints | None]:
    if isinstance(value, TextColumn):
        codes = None if value.codes is None else _array(value.codes, path, np.uint32)
        return np.frombuffer(value.text, np.uint8), _array(value.ends, path, np.uint64), codes
    if isinstance(value, str) and rows is not None:
        text = _ext.join_texts([value], path)
        return np.frombuffer(text[0], np.uint8), np.frombuffer(text[1], np.uint64), np.zeros(rows, np.uint32)
    if isinstance(value, np.ndarray) and value.ndim == 1 and value.dtype.kind in "US":
        unit = np.uint32 if value.dtype.kind == "U" else np.uint8
        native = np.ascontiguousarray(value, value.dtype.newbyteorder("="))
        width = native.dtype.itemsize // np.dtype(unit).itemsize
        text = _ext.join_fixed_texts(native.view(unit).reshape(len(native), width))
    elif isinstance(value, np.ndarray) and value.ndim == 1 and value.dtype.kind == "O":
        text = _ext.join_texts(value.tolist(), path)
    else:
        text = _ext.join_texts(value, path)
    return np.frombuffer(text[0], np.uint8), np.frombuffer(text[1], np.uint64), None


def _optional_texts(value: Any, path: str, rows: int) -> Any:
    return None if value is None else _texts(value, path, rows)


def _array(value: Any, path: str, dtype: type) -> _Ints:
    """A contiguous one-dimensional array of an integer type, every value of which fits."""
    return _fitting(np.asarray(value), path, dtype, 1)


def _fitting(found: _Ints, path: str, dtype: type, dimensions: int) -> _Ints:
    name = path.rsplit(".", 1)[-1]
    if found.size == 0 and found.dtype.kind == "f":
        found = found.astype(dtype)
    if found.dtype.kind == "O" and all(isinstance(one, int) and not isinstance(one, bool) for one in found.flat):
        bits = 64 if np.dtype(dtype).kind == "u" else 63
        raise ContractError(f"{path}: {name} must fit in {'an unsigned 64-bit integer' if bits == 64 else '63 bits'}")
    if found.dtype.kind not in "iu":
        raise ContractError(f"{path}: {name} must contain integers, found an array of {found.dtype}")
    if found.ndim != dimensions:
        raise ContractError(f"{path}: {name} must have {dimensions} dimension{'s' * (dimensions > 1)}, found {found.ndim}")
    limits = np.iinfo(dtype)
    if found.size:
        low, high = int(found.min()), int(found.max())
        if low < limits.min:
            row = int(np.argmin(found.reshape(len(found), -1).min(axis=1)))
            minimum = 1 if name in ("nbytes", "address") else limits.min
            raise ContractError(f"{_row(path, row)}: {name} must be at least {minimum}, found {low}")
        if high > limits.max:
            row = int(np.argmax(found.reshape(len(found), -1).max(axis=1)))
            fit = "an unsigned 64-bit integer" if dtype is np.uint64 else f"{limits.bits - (limits.min < 0)} bits"
            raise ContractError(f"{_row(path, row)}: {name} must fit in {fit}, found {high}")
    return np.require(found, dtype, ("C", "ALIGNED"))


def _row(path: str, row: int) -> str:
    owner, _, name = path.rpartition(".")
    return f"{owner}[{row}].{name}"


def _numbers(dtype: type) -> Any:
    def prepare(value: Any, path: str, rows: int) -> _Ints:
        if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
            return np.full(rows, _array([value], path, dtype)[0], dtype)
        return _array(value, path, dtype)

    return prepare


def _optional_numbers(value: Any, path: str, rows: int) -> _Ints:
    return np.empty(0, np.int64) if value is None else _numbers(np.int64)(value, path, rows)


def _lists(value: Any, path: str, rows: int) -> tuple[_Ints, _Ints | None, int, int]:
    """values, ends, width, rows: ends, or a width that is every row's."""
    if isinstance(value, ListColumn):
        return _array(value.values, path, np.int64), _array(value.ends, path, np.uint64), 0, 0
    if isinstance(value, np.ndarray) and value.ndim == 2:
        values = _fitting(value, path, np.int64, 2)
        return values.reshape(-1), None, values.shape[1], values.shape[0]
    if isinstance(value, np.ndarray) and value.dtype.kind == "O":
        value = value.tolist()
    joined = _ext.join_lists(value, path)
    return np.frombuffer(joined[0], np.int64), np.frombuffer(joined[1], np.uint64), 0, 0


def _optional_lists(value: Any, path: str, rows: int) -> Any:
    return None if value is None else _lists(value, path, rows)


def _ranks(value: Any, path: str, rows: int) -> _Ints:
    if value is None:
        return np.empty(0, np.int64)
    found = np.asarray(value)
    if found.ndim == 2 and found.shape[1] != 4:
        raise ContractError(f"{path}: rank must have four numbers a row: dp, tp, pp, ep; found {found.shape[1]}")
    return _fitting(found, path, np.int64, 2).reshape(-1)


def _aliases(value: Any, path: str, rows: int) -> Any:
    """Texts of all rows and where each row's end; None where no row has any."""
    if value is None:
        return None
    if not isinstance(value, Sequence) or isinstance(value, (str, bytes, bytearray)):
        raise ContractError(f"{path}: aliases must be a sequence of sequences of non-empty strings")
    if len(value) != rows:
        raise ContractError(f"{path}: column has {len(value)} rows, wanted {rows}")
    for row, aliases in enumerate(value):
        if not isinstance(aliases, Sequence) or isinstance(aliases, (str, bytes, bytearray)):
            raise ContractError(f"{_row(path, row)}: aliases must be a sequence of non-empty strings")
    flat = [alias for row in value for alias in row]
    ends = np.cumsum(np.fromiter((len(row) for row in value), np.uint64, len(value)), dtype=np.uint64)
    return (*_texts(flat, path, None)[:2], ends)


def _flags(value: Any, path: str, rows: int) -> _Ints | None:
    if value is None:
        return None
    if value is True or value is False:
        return np.full(rows, value, np.uint8)
    found = np.asarray(value)
    if found.dtype.kind != "b" or found.ndim != 1:
        raise ContractError(f"{path}: {path.rsplit('.', 1)[-1]} must be one bool a row")
    return np.ascontiguousarray(found, np.uint8)


def _as_is(value: Any, path: str, rows: int) -> Any:
    return value


_PREPARE = {
    **dict.fromkeys(("tensor_id", "dtype", "layout_fingerprint", "fragment_id", "worker_id", "endpoint", "device"), _texts),
    **dict.fromkeys(("global_shape", "global_offset", "local_shape"), _lists),
    **dict.fromkeys(("shard_dims", "stride"), _optional_lists),
    **dict.fromkeys(("partition_dim", "layer_id", "expert_id", "storage_offset", "byte_offset"), _optional_numbers),
    **dict.fromkeys(("address", "nbytes", "lease_generation"), _numbers(np.uint64)),
    "itemsize": _numbers(np.int64),
    "tensor": _numbers(np.uint32),
    "placement_fragment_id": _optional_texts,
    "rank": _ranks,
    "aliases": _aliases,
    "is_contiguous": _flags,
    "address_semantics": _as_is,
}  # fmt: skip
