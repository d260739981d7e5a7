"""Inventories of mappings and of objects, and whole columns: they say the same as the types, and are refused for the same reasons."""

from __future__ import annotations

import dataclasses
import types

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import steelyard.model_weight as W

RANK = {"dp": 0, "tp": 1, "pp": 0, "ep": 0}
PLACED = {
    "tensor_id": "w", "global_shape": [4, 4], "dtype": "bf16", "itemsize": 2, "partition_dim": 0, "layout_fingerprint": "f",
    "global_offset": [0, 0], "local_shape": [2, 4], "nbytes": 16, "placement_fragment_id": "p0", "rank": RANK,
}  # fmt: skip
RUNNING = {
    **PLACED, "fragment_id": "x", "address": 4096, "worker_id": "w0", "endpoint": "e0", "device": "cpu", "lease_generation": 7,
    "is_contiguous": True, "stride": (4, 1), "storage_offset": 0, "byte_offset": 0,
}  # fmt: skip
BOUND = {
    "placement_fragment_id": "p0", "fragment_id": "x", "address": 4096, "nbytes": 16, "worker_id": "w0", "endpoint": "e0",
    "device": "cpu", "is_contiguous": True,
}  # fmt: skip


def inventory(*records, **more):
    return {"model_id": "m", "revision": "r", "tensors": list(records), **more}


def running(*records, **more):
    return inventory(*records, instance_id="i", generation=7, lease_id="l", **more)


def placement() -> W.PlacementManifest:
    return W.PlacementManifest.from_runtime_inventory(inventory(PLACED))


def binding(*records, **more):
    made = placement()
    head = {"model_id": "m", "revision": "r", "placement_id": made.placement_id, "placement_digest": made.digest}
    return {**head, "instance_id": "i", "generation": 7, "lease_id": "l", "fragments": list(records), **more}


def as_object(value):
    if isinstance(value, dict):
        return types.SimpleNamespace(**{key: as_object(one) for key, one in value.items()})
    return [as_object(one) for one in value] if isinstance(value, list) else value


def test_mappings_objects_and_types_say_the_same():
    tensor = W.TensorDescriptor("w", (4, 4), "bf16", 2, 0, "f")
    fragment = W.PlacementFragment("p0", "w", (0, 0), (2, 4), 16, W.ParallelRank(tp=1))
    wanted = W.PlacementManifest("m", "r", [tensor], [fragment])
    for given_ in (inventory(PLACED), as_object(inventory(PLACED)), types.MappingProxyType(inventory(PLACED))):
        assert W.PlacementManifest.from_runtime_inventory(given_) == wanted
    assert W.PlacementManifest.from_runtime_inventory(running(RUNNING)) == wanted
    manifest = W.RuntimeManifest.from_inventory(as_object(running(RUNNING)))
    assert W.placement_manifest_from_runtime_manifest(manifest) == wanted
    bound = W.RuntimeBindingManifest.from_inventory(binding(BOUND))
    assert W.runtime_binding_from_runtime_manifest(manifest) == bound
    assert W.bind_runtime_manifest(wanted, bound).fragments == manifest.fragments


def test_owners_come_from_the_resolver():
    owners = {"x": object()}
    resolve = lambda record: owners[record["fragment_id"]]  # noqa: E731
    assert W.RuntimeManifest.from_inventory(running(RUNNING), owner_resolver=resolve).fragments[0].owner is owners["x"]
    made = W.RuntimeBindingManifest.from_inventory(binding(BOUND), owner_resolver=resolve)
    assert made.fragments[0].owner is owners["x"]
    with pytest.raises(KeyError):
        W.RuntimeManifest.from_inventory(running({**RUNNING, "fragment_id": "z"}), owner_resolver=resolve)


@pytest.mark.parametrize("name", [*PLACED, "rank.pp"])
def test_a_placement_record_lacks_a_field(name):
    record = {**PLACED, "rank": dict(RANK)}
    (record["rank"] if "." in name else record).pop(name.split(".")[-1])
    for given_ in (inventory(record), as_object(inventory(record))):
        with pytest.raises(W.ContractError, match=f"missing required field: {name.split('.')[-1]}") as caught:
            W.PlacementManifest.from_runtime_inventory(given_)
        assert caught.value.path.startswith("tensors[0]")


@pytest.mark.parametrize("name", [name for name in RUNNING if name != "placement_fragment_id"])
def test_a_runtime_record_lacks_a_field(name):
    with pytest.raises(W.ContractError, match=f"missing required field: {name}"):
        W.RuntimeManifest.from_inventory(running({key: value for key, value in RUNNING.items() if key != name}))


@pytest.mark.parametrize("name", list(BOUND))
def test_a_binding_record_lacks_a_field(name):
    with pytest.raises(W.ContractError, match=f"missing required field: {name}"):
        W.RuntimeBindingManifest.from_inventory(binding({key: value for key, value in BOUND.items() if key != name}))


@pytest.mark.parametrize("name", ["model_id", "revision", "tensors", "instance_id", "generation"])
def test_an_inventory_lacks_a_field(name):
    given_ = running(RUNNING)
    del given_[name]
    with pytest.raises(W.ContractError, match=f"missing required field: {name}"):
        W.RuntimeManifest.from_inventory(given_)


RUNTIME_REFUSALS = [
    ({"is_contiguous": 1}, "must be contiguous"),
    ({"is_contiguous": False}, "must be contiguous"),
    ({"stride": (1, 4)}, "must use canonical stride"),
    ({"stride": (1,)}, "stride"),
    ({"storage_offset": -1}, "storage_offset must be at least 0"),
    ({"byte_offset": 3, "address_semantics": "view"}, "item-aligned"),
    ({"byte_offset": 2}, "view"),
    ({"storage_offset": 1}, "view"),
    ({"address_semantics": "base"}, "address_semantics must be 'view'"),
    ({"address_semantics": 1}, "address_semantics must be 'view'"),
    ({"lease_generation": 8}, "lease generation mismatch"),
]


@pytest.mark.parametrize("changes, words", RUNTIME_REFUSALS)
def test_what_an_allocator_may_not_say(changes, words):
    with pytest.raises(W.ContractError) as caught:
        W.RuntimeManifest.from_inventory(running({**RUNNING, **changes}))
    assert words in str(caught.value) and caught.value.path.startswith("tensors[0]")


def test_a_view_keeps_its_address_and_a_dimension_of_one_any_stride():
    record = {**RUNNING, "storage_offset": 5, "byte_offset": 10, "address_semantics": "view"}
    assert W.RuntimeManifest.from_inventory(running(record)).fragments[0].address == 4096
    row = {**RUNNING, "local_shape": (1, 4), "nbytes": 8, "stride": (77, 1)}
    assert W.RuntimeManifest.from_inventory(running(row)).fragment_count == 1


def test_records_of_one_tensor_agree_after_canonicalisation():
    other = {**PLACED, "placement_fragment_id": "p1", "global_offset": [2, 0], "partition_dim": None, "shard_dims": [0]}
    assert W.PlacementManifest.from_runtime_inventory(inventory(PLACED, other)).fragment_count == 2
    with pytest.raises(W.ContractError, match="placement descriptor mismatch"):
        W.PlacementManifest.from_runtime_inventory(inventory(PLACED, {**other, "dtype": "fp16"}))


def test_records_are_a_sequence():
    with pytest.raises(W.ContractError, match="tensors must be a sequence"):
        W.PlacementManifest.from_runtime_inventory({**inventory(), "tensors": {}})


# --- columns ------------------------------------------------------------------------------------------------------------------------


def columns_of(manifest: W.PlacementManifest, text=list, numbers=np.asarray):
    """A manifest taken apart into columns."""
    tensors, fragments = manifest.tensors, manifest.fragments
    number = {tensor.tensor_id: row for row, tensor in enumerate(tensors)}
    none = lambda value: -1 if value is None else value  # noqa: E731
    return (
        {
            "tensor_id": text([t.tensor_id for t in tensors]),
            "global_shape": numbers([t.global_shape for t in tensors]).reshape(-1, 2),
            "dtype": text([t.dtype for t in tensors]),
            "itemsize": 2,
            "partition_dim": numbers([none(t.partition_dim) for t in tensors]),
            "layout_fingerprint": "f",
            "layer_id": numbers([none(t.layer_id) for t in tensors]),
            "shard_dims": [t.shard_dims for t in tensors],
        },
        {
            "placement_fragment_id": text([f.fragment_id for f in fragments]),
            "tensor": numbers([number[f.tensor_id] for f in fragments]),
            "global_offset": numbers([f.global_offset for f in fragments]).reshape(-1, 2),
            "local_shape": [f.local_shape for f in fragments],
            "nbytes": numbers([f.nbytes for f in fragments]),
            "rank": numbers([dataclasses.astuple(f.rank) for f in fragments]).reshape(-1, 4),
            "aliases": [f.aliases for f in fragments],
        },
    )


@st.composite
def placements(draw) -> W.PlacementManifest:
    names = draw(st.lists(st.text(st.characters(blacklist_categories=("Cs",), min_codepoint=1), min_size=1), unique=True, max_size=5))
    tensors, fragments = [], []
    for name in names:
        parts, rows = draw(st.integers(1, 4)), draw(st.integers(1, 3))
        tensors.append(W.TensorDescriptor(name, (parts * rows, 3), draw(st.sampled_from(["bf16", "é"])), 2, 0, "f", layer_id=parts))
        for part in draw(st.lists(st.integers(0, parts - 1), unique=True)):
            rank = W.ParallelRank(tp=part, dp=draw(st.integers(0, 2)))
            aliases = draw(st.lists(st.sampled_from("abc"), unique=True))
            fragments.append(W.PlacementFragment(f"{name}/{part}", name, (part * rows, 0), (rows, 3), rows * 6, rank, aliases))
    order = draw(st.permutations(range(len(fragments))))
    return W.PlacementManifest("m", "r", draw(st.permutations(tensors)), [fragments[i] for i in order])


@settings(max_examples=60, deadline=None)
@given(placements())
def test_columns_json_and_pickles_give_the_same_manifest(manifest):
    for text in (list, tuple, lambda texts: np.array(texts, object), np.array):
        # numpy's fixed-width texts end before trailing NULs, and an empty array of them is one of floats.
        tensors, fragments = columns_of(manifest, text if manifest.tensors and manifest.fragments else list)
        assert W.PlacementManifest.from_columns("m", "r", tensors, fragments) == manifest
    assert W.PlacementManifest.from_json(manifest.to_json()) == manifest
    assert W.PlacementManifest("m", "r", manifest.tensors, manifest.fragments, manifest.placement_id) == manifest


def test_text_columns_and_list_columns():
    tensors, fragments = columns_of(placement())
    tensors["dtype"] = W.TextColumn(b"xbf16", [1, 5], np.array([1]))
    fragments["placement_fragment_id"] = W.TextColumn(bytearray(b"p0"), [2])
    fragments["local_shape"] = W.ListColumn([2, 4], [2])
    made = W.PlacementManifest.from_columns("m", "r", W.TensorColumns(**tensors), W.FragmentColumns(**fragments))
    assert made == placement()


COLUMN_REFUSALS = [
    ({"nbytes": [15]}, "byte size mismatch"),
    ({"nbytes": [-1]}, "nbytes must be at least 1"),
    ({"nbytes": [2**64]}, "nbytes must fit in an unsigned 64-bit integer"),
    ({"nbytes": [16.0]}, "nbytes must contain integers"),
    ({"nbytes": [True]}, "nbytes must contain integers"),
    ({"nbytes": [16, 16]}, "rows"),
    ({"tensor": [1]}, "tensor"),
    ({"tensor": [2**32]}, "tensor must fit in 32 bits"),
    ({"global_offset": [(0, 2**63)]}, "63 bits"),
    ({"placement_fragment_id": W.TextColumn(b"p0", [3])}, "placement_fragment_id"),
    ({"placement_fragment_id": W.TextColumn(b"p0", [2], [1])}, "code"),
    ({"placement_fragment_id": W.TextColumn(b"\xff0", [2])}, "must be valid Unicode"),
    ({"placement_fragment_id": [""]}, "must be a non-empty string"),
    ({"placement_fragment_id": [1]}, "must be a non-empty string"),
    ({"local_shape": W.ListColumn([2, 4], [3])}, "local_shape"),
    ({"rank": [(0, 0)]}, "four numbers"),
    ({"rank": [(0, -1, 0, 0)]}, "must be at least 0"),
    ({"aliases": [("a", "a")]}, "aliases"),
    ({"aliases": ["ab"]}, "fragments[0].aliases: aliases must be a sequence of non-empty strings"),
    ({"aliases": [None]}, "fragments[0].aliases: aliases must be a sequence of non-empty strings"),
    ({"aliases": []}, "fragments.aliases: column has 0 rows, wanted 1"),
    ({"other": 1}, "there is no such column"),
]


@pytest.mark.parametrize("changes, words", COLUMN_REFUSALS, ids=[words for _, words in COLUMN_REFUSALS])
def test_columns_are_refused(changes, words):
    tensors, fragments = columns_of(placement())
    with pytest.raises(W.ContractError) as caught:
        W.PlacementManifest.from_columns("m", "r", tensors, {**fragments, **changes})
    assert words in str(caught.value)


def test_runtime_and_binding_columns():
    tensors, fragments = columns_of(placement())
    ids = fragments.pop("placement_fragment_id")
    where = {"address": [4096], "worker_id": "w0", "endpoint": "e0", "device": "cpu", "fragment_id": ["x"]}
    facts = {"lease_generation": 7, "is_contiguous": True, "stride": [(4, 1)], "storage_offset": 0, "byte_offset": 0}
    columns = {**fragments, **where, **facts, "placement_fragment_id": ids}
    made = W.RuntimeManifest.from_columns("m", "r", "i", tensors, columns, lease_id="l")
    assert W.placement_manifest_from_runtime_manifest(made) == placement()
    with pytest.raises(W.ContractError, match="must use canonical stride"):
        W.RuntimeManifest.from_columns("m", "r", "i", tensors, {**columns, "stride": [(1, 4)]})
    head = ("m", "r", placement().placement_id, placement().digest, "i", 7, "l")
    bound = W.RuntimeBindingManifest.from_columns(*head, {**where, "nbytes": 16, "placement_fragment_id": ids})
    assert bound == W.runtime_binding_from_runtime_manifest(made)
