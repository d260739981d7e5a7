"""Eight ranks of one node load one model: cut by rows and by columns, as the planner says, through memory that they share."""

from __future__ import annotations

import json
import resource
import struct
from concurrent.futures import ThreadPoolExecutor

import pytest

from cases import support
from cases.support import MIB
from lib.checkpoints import Tensor, safetensors_bytes

numpy = pytest.importorskip("numpy")
W = pytest.importorskip("steelyard.model_weight")
R = pytest.importorskip("steelyard.reshard")

RANKS = 8
SHAPES = {"layer.column_parallel": ((8, 4 * MIB), 0), "layer.row_parallel": ((4, 8 * MIB), 1)}
MODEL_BYTES = 64 * MIB


@pytest.fixture
def model() -> dict:
    generator = numpy.random.default_rng(1)
    return {name: generator.integers(0, 256, shape, numpy.uint8) for name, (shape, _) in SHAPES.items()}


@pytest.fixture
def stored(steelyard, tmp_path, model) -> R.StoredManifest:
    """The model in the cold tier, and the manifest that is stored with it."""
    source = tmp_path / "source"
    source.mkdir()
    tensors = {name: Tensor("U8", values.shape, values.tobytes()) for name, values in model.items()}
    (source / "model.safetensors").write_bytes(safetensors_bytes(tensors))
    steelyard("import", source, "m")
    (path,) = (path for path in (steelyard.store / "cold").rglob("manifest") if path.is_file())
    return R.StoredManifest.from_json(path.read_bytes())


def slice_of(values, dim: int, rank: int):
    return numpy.ascontiguousarray(numpy.split(values, RANKS, axis=dim)[rank])


def plan_of(stored: R.StoredManifest, rank: int) -> R.TransferPlan:
    tensors, fragments = [], []
    for name, (shape, dim) in SHAPES.items():
        tensors.append(W.TensorDescriptor(name, shape, "uint8", 1, dim, "row-major"))
        for box in R.boxes_from_mesh(shape, (RANKS,), [R.Shard(dim)], (rank,)):
            fragments.append(W.PlacementFragment(name, name, *box, int(numpy.prod(box[1])), W.ParallelRank(tp=rank)))
    return R.plan_transfer(stored, W.PlacementManifest("m", "r", tensors, fragments))


def segments_of(plan: R.TransferPlan):
    """Tensor, first byte in it, first byte in the rank's memory, length."""
    segments, target = plan.segments(), plan.columns()["target_fragment"]
    for row in range(len(segments)):
        name = plan.target_fragment_ids[target[segments.region[row]]]
        yield name, int(segments.source_offset[row]), int(segments.target_offset[row]), int(segments.nbytes[row])


def load(steelyard, stored: R.StoredManifest, begins: dict, rank: int) -> dict:
    """What a rank does: it reads the segments of its plan, and nothing else."""
    local = {name: bytearray(MODEL_BYTES // len(SHAPES) // RANKS) for name in SHAPES}
    for name, source, target, size in segments_of(plan_of(stored, rank)):
        first = begins[name] + source
        read = steelyard("cat", "m", "model.safetensors", "--range", f"{first}-{first + size - 1}").stdout_bytes
        local[name][target : target + size] = read
    return local


def read_from_disk() -> int:
    """By all commands so far, the page cache's own reads for them included."""
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_inblock * 512


def begins_of(steelyard, model) -> dict:
    """Where each tensor begins in its file: the format has the header's length first."""
    head = steelyard("cat", "m", "model.safetensors", "--range", "0-7").stdout_bytes
    (size,) = struct.unpack("<Q", head)
    header = json.loads(steelyard("cat", "m", "model.safetensors", "--range", f"8-{7 + size}").stdout_bytes)
    return {name: 8 + size + header[name]["data_offsets"][0] for name in model}


def test_a_node_reads_the_model_once_for_all_its_ranks(steelyard, model, stored):
    """Each of 16 ranks read everything. Eight that start at once bring the model into memory once, and take their slices there."""
    begins = begins_of(steelyard, model)
    support.forget(steelyard.store / "cold")
    before = read_from_disk()

    def start(rank: int) -> dict:
        steelyard("rehydrate", "m")
        return load(steelyard, stored, begins, rank)

    with ThreadPoolExecutor(RANKS) as ranks:
        loaded = list(ranks.map(start, range(RANKS)))
    taken = read_from_disk() - before
    for rank, local in enumerate(loaded):
        for name, (_, dim) in SHAPES.items():
            assert local[name] == slice_of(model[name], dim, rank).tobytes(), (rank, name)
    if taken == 0:
        pytest.skip("the system does not count what is read, or the store is in memory")
    assert 0.95 * MODEL_BYTES < taken <= 1.05 * MODEL_BYTES


@pytest.mark.parametrize("rank", [0, 5])
def test_a_rank_alone_reads_its_own_part_from_the_disk(steelyard, model, stored, rank):
    """Without memory to share, a rank still reads an eighth: whole blocks of 1 MiB, and none of another's."""
    begins = begins_of(steelyard, model)
    support.forget(steelyard.store / "cold")
    before = read_from_disk()
    local = load(steelyard, stored, begins, rank)
    taken = read_from_disk() - before
    for name, (_, dim) in SHAPES.items():
        assert local[name] == slice_of(model[name], dim, rank).tobytes(), name
    if taken == 0:
        pytest.skip("the system does not count what is read, or the store is in memory")
    assert 0.95 * MODEL_BYTES / RANKS < taken <= 1.05 * MODEL_BYTES / RANKS + MIB
