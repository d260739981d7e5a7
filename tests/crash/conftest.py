"""Parametrises tests by the fault points that a real import passes, found by tracing one when tests are collected."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import pytest

from crash import harness, mutations
from lib.runner import Steelyard, binary


@cache
def traced(verb: str) -> tuple[str, ...]:
    if not binary().exists():
        return ()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        steelyard = Steelyard(folder / "store", folder / "home")
        source = harness.small_checkpoint(folder / "checkpoint")
        points = harness.trace(steelyard, folder, *harness.import_args(source))
        if verb == "materialize":
            points = harness.trace(steelyard, folder, "materialize", harness.REF, folder / "out")
        return tuple(points)


def pytest_generate_tests(metafunc):
    """`import_pass`: (point, pass) of an import; `import_point`: its names; `import_io_pass`, `import_io_point`: those where a
    system call can be made to fail; the same for `materialize_`."""
    for verb in ("import", "materialize"):
        for infix, pattern in (("", ""), ("io_", r"^(?!import\.)(?!.*\.(after|before)_)")):
            as_pass, as_point = f"{verb}_{infix}pass", f"{verb}_{infix}point"
            if as_pass not in metafunc.fixturenames and as_point not in metafunc.fixturenames:
                continue
            points = [name for name in traced(verb) if re.search(pattern, name)]
            if not points and binary().exists():
                raise pytest.UsageError(f"{verb} passes no fault point")
            if as_pass in metafunc.fixturenames:
                tries = harness.passes_to_try(points)
                metafunc.parametrize(as_pass, tries or [("none", 1)], ids=[f"{name}#{number}" for name, number in tries] or ["unbuilt"])
            else:
                names = list(dict.fromkeys(points))
                metafunc.parametrize(as_point, names or ["none"], ids=names or ["unbuilt"])


@pytest.fixture(scope="session")
def source(tmp_path_factory) -> Path:
    """One small checkpoint for all tests that only read it."""
    return harness.small_checkpoint(tmp_path_factory.mktemp("source") / "checkpoint")


def preloaded(folder: Path, name: str) -> Path:
    """A library of this folder that stands in front of the system's."""
    compiler = shutil.which("gcc") or shutil.which("cc") or shutil.which("clang")
    library = folder / f"{name}.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, Path(__file__).resolve().parent / f"{name}.c"], check=True)
    return library


@pytest.fixture(scope="session")
def noflock(tmp_path_factory) -> Path:
    return preloaded(tmp_path_factory.mktemp("noflock"), "noflock")


@pytest.fixture(scope="session")
def wallclock(tmp_path_factory) -> Path:
    return preloaded(tmp_path_factory.mktemp("wallclock"), "wallclock")


@pytest.fixture
def memory_path():
    """A folder in memory where there is room."""
    with tempfile.TemporaryDirectory(prefix="steelyard-test-", dir=mutations.memory_folder()) as folder:
        yield Path(folder)
