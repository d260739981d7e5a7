"""The benchmark's own steps, on models of a layer or two: what it times is right, and the peers that it runs itself do the same work."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

BENCH = Path(__file__).resolve().parent.parent.parent / "bench"


@pytest.fixture
def steps(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCH))
    import reshard_ours

    yield reshard_ours
    reshard_ours.forget()
    for name in ("reshard_ours", "layouts", "timed_process"):
        sys.modules.pop(name, None)


def test_columns_and_objects_are_the_same_placement(steps):
    found = steps.contracts(layers=1)
    assert found["fragments"] == 928 and {"columns", "objects", "dump", "load"} <= set(found)


def test_plans_segments_and_rebinding(steps):
    steps.build("source", "src", "dense", {"layers": 1, "tp": 8})
    steps.build("target", "dst", "dense", {"layers": 1, "tp": 4})
    made = steps.plan("source", "target", keep="plan")
    assert steps.segments("plan", 2)["segments"] == made["segments"] > 0
    assert steps.rebind("plan", 3)["regions"] == made["regions"]
    steps.build("source", "src", "replicas", {"dp": 8, "tensors": 9})
    steps.build("target", "dst", "replicas", {"tp": 8, "tensors": 9})
    read = steps.plan("source", "target")
    assert len(read["read"]) == 8 and max(read["read"]) - min(read["read"]) <= read["largest"]


@pytest.mark.parametrize("columns, dim", [(4096, 1), (4096, 0)])
def test_the_numpy_loops_do_what_the_executor_does(steps, columns, dim):
    made = steps.copies("copies", layers=1, columns=columns, dim=dim)
    arrived = steps.KEPT["copies"][1][1][1]
    wanted = arrived.copy()  # by the executor, verified
    assert made["bytes"] == arrived.nbytes == 64 << 20
    steps.execute("copies", threads=2)
    for loop in (lambda: steps.numpy_loop("copies"), lambda: steps.run_loop("copies", made["regions"])):
        arrived[:] = 0
        loop()
        assert np.array_equal(arrived, wanted)


def test_the_process_protocol_answers_in_turn(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(BENCH))
    import timed_process

    script = tmp_path / "child.py"
    script.write_text(
        f"import sys\nsys.path.insert(0, {str(BENCH)!r})\nfrom timed_process import serve\n"
        "def add(step, more):\n    print('noise')\n    return {'sum': step + more}\nserve({'add': add})\n"
    )
    child = timed_process.Process(Path(sys.executable), script, {})
    assert [child("add", step=1, more=one)["sum"] for one in (1, 2)] == [2, 3]
    child.close()
    assert child.child.returncode == 0
    sys.modules.pop("timed_process", None)
