"""The weight contracts from Python: vectors, every quoted refusal, and that the types have the manners of frozen dataclasses."""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import json
import pickle
import typing

import numpy as np
import pytest

import steelyard.model_weight as W

TENSOR = W.TensorDescriptor("w", (4, 4), "bf16", 2, 0, "f")
RANK = W.ParallelRank()
PLACED = W.PlacementFragment("p0", "w", (0, 0), (2, 4), 16, RANK)
RUNNING = W.RuntimeFragment("x", "w", (0, 0), (2, 4), 4096, 16, "w0", "e0", "cpu", RANK, 7)
BOUND = W.RuntimeBindingFragment("p0", "x", 4096, 16, "w0", "e0", "cpu")
PLACEMENT = W.PlacementManifest("m", "r", [TENSOR], [PLACED])
RUNTIME = W.RuntimeManifest("m", "r", "i", [TENSOR], [RUNNING], lease_id="l")
BINDING = W.RuntimeBindingManifest("m", "r", PLACEMENT.placement_id, PLACEMENT.digest, "i", 7, "l", [BOUND])
VALUES = [RANK, TENSOR, PLACED, RUNNING, BOUND, PLACEMENT, RUNTIME, BINDING]


def placed(**changes) -> W.PlacementFragment:
    return dataclasses.replace(PLACED, **changes)


def running(**changes) -> W.RuntimeFragment:
    return dataclasses.replace(RUNNING, **changes)


def runtime(*fragments, **options) -> W.RuntimeManifest:
    return W.RuntimeManifest("m", "r", "i", options.pop("tensors", [TENSOR]), fragments, **options)


def test_vectors():
    assert PLACEMENT.placement_id == "sha256:4be6b21a77dd50df576261ad8fa9739925efa5b12b6ab601005032a5f50e4e75"
    assert PLACEMENT.digest == "b129e63182fc69f727976cab4ec843f8ffaeee8f946d26c5a39e1b6781f43bc4"
    projected = W.placement_manifest_from_runtime_manifest(RUNTIME)
    assert projected.fragments[0].fragment_id == "logical:e8728ff64abb831aab937ef5e99ae32ab406cd101c66079f4cbc08832e0bbbf9"
    empty = W.PlacementManifest("m", "r", [], [])
    assert empty.placement_id == "sha256:65e60da33f39b251b1b47dfc71795c890e90c56bbab9c16ff7ab2414dcd15fd1"


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
class TestManners:
    def test_fields_and_vars(self, value):
        names = [field.name for field in dataclasses.fields(value)]
        assert list(vars(value)) == names
        assert all(getattr(value, name) == vars(value)[name] for name in names)
        assert set(typing.get_type_hints(type(value))) == set(names)

    def test_positional_and_keyword_are_the_same(self, value):
        values = [getattr(value, field.name) for field in dataclasses.fields(value)]
        names = [field.name for field in dataclasses.fields(value)]
        assert type(value)(*values) == type(value)(**dict(zip(names, values))) == value

    def test_equality_hash_repr(self, value):
        other = dataclasses.replace(value)
        assert other == value and hash(other) == hash(value) and repr(other) == repr(value)
        assert value != object() and repr(value).startswith(type(value).__name__ + "(")
        assert len({value, other}) == 1

    def test_frozen(self, value):
        name = dataclasses.fields(value)[0].name
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(value, name, 1)
        with pytest.raises(dataclasses.FrozenInstanceError):
            delattr(value, name)

    def test_copies_and_pickles(self, value):
        assert copy.copy(value) is value and copy.deepcopy([value])[0] is value
        for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
            assert pickle.loads(pickle.dumps(value, protocol)) == value

    def test_shown_under_the_public_module(self, value):
        assert type(value).__module__ == "steelyard.model_weight"


def test_a_pickle_is_checked_again():
    for value in VALUES[1:]:
        good = pickle.dumps(value, 0)
        bad = good.replace(b"V4096", b"V0").replace(b"I16\n", b"I-5\n").replace(b"I2\n", b"I0\n").replace(b'"nbytes":16', b'"nbytes":15')
        bad = bad.replace(b"I4096", b"I0")
        assert bad != good
        with pytest.raises(W.ContractError):
            pickle.loads(bad)


def test_sequences_become_tuples_and_integers_plain():
    tensor = W.TensorDescriptor("w", np.array([4, 4]), "bf16", np.int32(2), np.int64(0), "f", shard_dims=range(1))
    assert tensor.global_shape == (4, 4) and type(tensor.global_shape) is tuple
    assert {type(value) for value in (*tensor.global_shape, tensor.itemsize, tensor.partition_dim)} == {int}
    assert tensor.shard_dims == (0,) and tensor.effective_shard_dims == (0,)
    assert type(PLACEMENT.fragments) is tuple and type(PLACEMENT.tensors) is tuple
    assert placed(aliases=["b", "a"]).aliases == ("a", "b")
    assert W.TensorDescriptor("w", (4,), "b", 1, None, "f").effective_shard_dims == ()


def test_the_owner_is_outside_of_everything_but_kept_alive():
    class Owner:
        ended = 0

        def __del__(self):
            Owner.ended += 1

    mine = running(owner=Owner())
    assert mine == RUNNING and hash(mine) == hash(RUNNING) and "owner" not in repr(mine)
    assert pickle.loads(pickle.dumps(mine)).owner is None
    manifest = runtime(mine, lease_id="l")
    placement = W.placement_manifest_from_runtime_manifest(manifest)
    bound = W.bind_runtime_manifest(placement, W.runtime_binding_from_runtime_manifest(manifest))
    assert bound.fragments[0].owner is mine.owner
    del mine, manifest
    assert Owner.ended == 0
    del bound
    assert Owner.ended == 1


def test_manifests_are_canonical():
    tensors = [dataclasses.replace(TENSOR, tensor_id=name) for name in ("b", "a", "\U0001f600", "\uffff")]
    fragments = [placed(placement_fragment_id=name, tensor_id=name) for name in ("\U0001f600", "b", "\uffff", "a")]
    one = W.PlacementManifest("m", "r", tensors, fragments)
    assert [tensor.tensor_id for tensor in one.tensors] == ["a", "b", "\uffff", "\U0001f600"]
    assert one == W.PlacementManifest("m", "r", tensors[::-1], fragments[::-1])
    assert one.tensors[0].shard_dims == (0,) and one.tensors[0].partition_dim == 0
    assert W.PlacementManifest.from_json(one.to_json()) == one
    assert one.fragment(2) == one.fragments[2] and one.fragment_count == 4


def test_json_is_the_digested_document():
    document = json.loads(PLACEMENT.to_json())
    assert document.pop("schema_version") == 1
    text = json.dumps(document, sort_keys=True, separators=(",", ":"))
    assert hashlib.sha256(text.encode()).hexdigest() == PLACEMENT.digest
    assert W.PlacementManifest.from_json(text) == PLACEMENT
    assert W.PlacementManifest.from_json(json.dumps(document, indent=3).encode()) == PLACEMENT


def test_layouts_of_two_revisions_are_equal():
    other = dataclasses.replace(PLACEMENT, revision="r2", placement_id=None)
    assert other.layout_digest == PLACEMENT.layout_digest and other.digest != PLACEMENT.digest


ID = PLACEMENT.placement_id
JSON = PLACEMENT.to_json()
CUT_BOTH = dataclasses.replace(TENSOR, partition_dim=None, shard_dims=(0, 1))
WHOLE = dataclasses.replace(TENSOR, partition_dim=None)
REFUSALS = [
    (lambda: W.ParallelRank(dp=True), "dp must be an integer"),
    (lambda: W.ParallelRank(tp=1.0), "tp must be an integer"),
    (lambda: W.ParallelRank(pp=np.True_), "pp must be an integer"),
    (lambda: W.ParallelRank(ep=-1), "ep must be at least 0"),
    (lambda: dataclasses.replace(TENSOR, tensor_id=""), "tensor_id must be a non-empty string"),
    (lambda: dataclasses.replace(TENSOR, dtype=b"bf16"), "dtype must be a non-empty string"),
    (lambda: dataclasses.replace(TENSOR, dtype=np.str_("bf16")), "dtype must be a non-empty string"),
    (lambda: dataclasses.replace(TENSOR, tensor_id="\ud800"), "surrogate"),
    (lambda: dataclasses.replace(TENSOR, global_shape={4}), "global_shape must contain integers"),
    (lambda: dataclasses.replace(TENSOR, global_shape="44"), "global_shape must contain integers"),
    (lambda: dataclasses.replace(TENSOR, global_shape=b"44"), "global_shape must contain integers"),
    (lambda: dataclasses.replace(TENSOR, global_shape=(x for x in (4, 4))), "global_shape must contain integers"),
    (lambda: dataclasses.replace(TENSOR, global_shape=np.ones((2, 2), int)), "global_shape must contain integers"),
    (lambda: dataclasses.replace(TENSOR, global_shape=(4, 1.5)), "global_shape must contain integers"),
    (lambda: dataclasses.replace(TENSOR, global_shape=(4, 0)), "global_shape must be at least 1"),
    (lambda: dataclasses.replace(TENSOR, global_shape=(2**32, 2**31)), "63"),
    (lambda: dataclasses.replace(TENSOR, itemsize=0), "itemsize must be at least 1"),
    (lambda: dataclasses.replace(TENSOR, partition_dim=2), "partition_dim is out of range"),
    (lambda: dataclasses.replace(TENSOR, partition_dim=None, shard_dims=(1, 0)), "must be sorted"),
    (lambda: dataclasses.replace(TENSOR, partition_dim=None, shard_dims=(0, 0)), "must not contain duplicates"),
    (lambda: dataclasses.replace(TENSOR, partition_dim=None, shard_dims=(0, 2)), "out-of-range dimension"),
    (lambda: dataclasses.replace(TENSOR, shard_dims=(1,)), "partition_dim conflicts with shard_dims"),
    (lambda: placed(aliases=("a", "a")), "aliases"),
    (lambda: placed(aliases=("",)), "must be a non-empty string"),
    (lambda: placed(rank=(0, 0, 0, 0)), "rank must be a ParallelRank"),
    (lambda: placed(nbytes=0), "nbytes must be at least 1"),
    (lambda: placed(nbytes=2**64), "nbytes must fit in an unsigned 64-bit integer"),
    (lambda: running(address=0), "address must be at least 1"),
    (lambda: running(address=2**64 - 15), "address range must fit in an unsigned 64-bit integer"),
    (lambda: running(lease_generation=2**64), "lease_generation must fit in an unsigned 64-bit integer"),
    (lambda: W.PlacementManifest("m", "r", {TENSOR}, []), "tensors must be a sequence"),
    (lambda: W.PlacementManifest("m", "r", [PLACED], []), "tensors must contain TensorDescriptor"),
    (lambda: W.PlacementManifest("m", "r", [TENSOR], [RUNNING]), "fragments must contain PlacementFragment"),
    (lambda: W.PlacementManifest("m", "r", [TENSOR], [PLACED], "sha256:0"), "placement_id does not match canonical logical content"),
    (lambda: W.PlacementManifest("m", "r", [TENSOR, TENSOR], []), "duplicate"),
    (lambda: W.PlacementManifest("m", "r", [TENSOR], [PLACED, PLACED]), "duplicate"),
    (lambda: W.PlacementManifest("m", "r", [TENSOR], [PLACED, placed(placement_fragment_id="p1")]), "duplicate logical fragment for tensor and parallel rank"),
    (lambda: W.PlacementManifest("m", "r", [], [PLACED]), "unknown tensor"),
    (lambda: W.PlacementManifest("m", "r", [TENSOR], [placed(global_offset=(0,), local_shape=(4,))]), "fragment rank mismatch"),
    (lambda: W.PlacementManifest("m", "r", [TENSOR], [placed(global_offset=(3, 0))]), "out of bounds"),
    (lambda: W.PlacementManifest("m", "r", [WHOLE], [placed(global_offset=(2, 0))]), "replicated fragment has an offset"),
    (lambda: W.PlacementManifest("m", "r", [WHOLE], [PLACED]), "is incomplete"),
    (lambda: W.PlacementManifest("m", "r", [TENSOR], [placed(local_shape=(4, 2))]), "fragment offset/shape uses a non-shard axis"),
    (lambda: W.PlacementManifest("m", "r", [TENSOR], [placed(nbytes=15)]), "byte size mismatch"),
    (lambda: W.PlacementManifest("m", "r", [CUT_BOTH], [PLACED, placed(placement_fragment_id="p1", global_offset=(1, 0))]), "logical fragment boxes overlap"),
    (lambda: runtime(RUNNING, running(fragment_id="y", global_offset=(2, 0), address=4104)), "address ranges overlap"),
    (lambda: runtime(RUNNING, running(fragment_id="y", global_offset=(2, 0), address=8192, lease_generation=8)), "inconsistent lease generations"),
    (lambda: runtime(RUNNING, generation=8), "does not match fragment generation"),
    (lambda: W.runtime_binding_from_runtime_manifest(runtime(RUNNING)), "has no lease_id"),
    (lambda: W.runtime_binding_from_runtime_manifest(runtime(lease_id="l")), "has no generation"),
    (lambda: dataclasses.replace(BINDING, placement_digest="0" * 63 + "A"), "must be a lowercase SHA-256 digest"),
    (lambda: dataclasses.replace(BINDING, fragments=[BOUND, dataclasses.replace(BOUND, fragment_id="y", address=8192)]), "duplicate placement fragment in runtime binding"),
    (lambda: dataclasses.replace(BINDING, fragments=[BOUND, dataclasses.replace(BOUND, placement_fragment_id="p1", address=8192)]), "duplicate runtime fragment_id in runtime binding"),
    (lambda: W.bind_runtime_manifest(PLACEMENT, dataclasses.replace(BINDING, model_id="n")), "differ"),
    (lambda: W.bind_runtime_manifest(PLACEMENT, dataclasses.replace(BINDING, placement_digest="0" * 64)), "differ"),
    (lambda: W.bind_runtime_manifest(PLACEMENT, dataclasses.replace(BINDING, fragments=[])), "missing"),
    (lambda: W.bind_runtime_manifest(PLACEMENT, dataclasses.replace(BINDING, fragments=[dataclasses.replace(BOUND, placement_fragment_id="p9")])), "unknown"),
    (lambda: W.bind_runtime_manifest(PLACEMENT, dataclasses.replace(BINDING, fragments=[dataclasses.replace(BOUND, nbytes=8)])), "byte size"),
    (lambda: W.bind_runtime_manifest(BINDING, PLACEMENT), "placement must be a PlacementManifest"),
    (lambda: W.validate_binding_fence(BINDING, lease_id="l2", generation=7), "lease_id"),
    (lambda: W.validate_binding_fence(BINDING, lease_id="l", generation=8), "generation"),
    (lambda: W.PlacementManifest.from_json("[]"), "object"),
    (lambda: W.PlacementManifest.from_json("{}"), "schema fields do not match contract"),
    (lambda: W.PlacementManifest.from_json(JSON.replace('"schema_version":1', '"schema_version":2')), "schema_version"),
    (lambda: W.PlacementManifest.from_json(JSON.replace('"nbytes":16', '"nbytes":16,"nbytes":16')), "duplicate JSON field"),
    (lambda: W.PlacementManifest.from_json(JSON.replace('"nbytes":16', '"nbytes":NaN')), "non-finite"),
    (lambda: W.PlacementManifest.from_json(JSON.replace('"nbytes":16', '"nbytes":Infinity')), "non-finite"),
    (lambda: W.PlacementManifest.from_json(JSON.replace('"nbytes":16', '"nbytes":16,"more":1')), "schema fields do not match contract"),
    (lambda: W.PlacementManifest.from_json(json.dumps({**json.loads(JSON), "tensors": {}})), "tensors"),
    (lambda: W.PlacementManifest.from_json(7), "must be a non-empty string"),
]  # fmt: skip


@pytest.mark.parametrize("make, words", REFUSALS, ids=[words for _, words in REFUSALS])
def test_refusal(make, words):
    with pytest.raises(W.ContractError) as caught:
        make()
    assert isinstance(caught.value, ValueError) and words in str(caught.value)


def test_the_error_names_the_field():
    fragments = [placed(placement_fragment_id=f"p{i}", rank=W.ParallelRank(tp=i)) for i in range(3)]
    broken = placed(placement_fragment_id="p3", rank=W.ParallelRank(tp=3))
    object.__setattr__(broken, "local_shape", (2, -1))
    with pytest.raises(W.ContractError) as caught:
        W.PlacementManifest("m", "r", [TENSOR], [*fragments, broken])
    assert caught.value.path == "fragments[3].local_shape[1]"
    assert pickle.loads(pickle.dumps(caught.value)).path == caught.value.path


def test_ranks_may_overlap_and_leave_gaps():
    replica = placed(placement_fragment_id="p1", rank=W.ParallelRank(dp=1))
    across = placed(placement_fragment_id="p2", global_offset=(1, 0), rank=W.ParallelRank(tp=1))
    assert W.PlacementManifest("m", "r", [TENSOR], [PLACED, replica, across]).fragment_count == 3


def test_a_declared_alias_may_share_its_address():
    names = ("w", "v")
    tensors = [TENSOR, dataclasses.replace(TENSOR, tensor_id="v")]
    one, two = running(aliases=names), running(fragment_id="y", tensor_id="v", aliases=names)
    assert runtime(one, two, tensors=tensors).fragment_count == 2
    with pytest.raises(W.ContractError, match="address ranges overlap"):
        runtime(one, dataclasses.replace(two, aliases=()), tensors=tensors)


def test_an_empty_runtime_manifest_keeps_its_generation():
    assert runtime(generation=5).generation == 5 and runtime().generation is None
    assert runtime(RUNNING).generation == 7
