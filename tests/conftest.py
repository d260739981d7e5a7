"""Fixtures for every test that runs the real binary.

`steelyard` is a runner bound to a store and a home of its own, so that nothing of the developer's environment is seen:

    result = steelyard("import", checkpoint, "demo")        # fails the test unless it exits 0
    result = steelyard("inspect", "demo", code=3)            # fails unless it exits 3
    record = steelyard.json("inspect", "demo")["revision"]   # adds --json, parses stdout
    error = steelyard.error("inspect", "none", code=3)       # adds --json, parses the last line of stderr

STEELYARD_BIN names the binary (default build/bin/steelyard).
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Iterator

import pytest

from lib.checkpoints import make_checkpoint
from lib.runner import Steelyard, binary


@pytest.fixture
def store_path(tmp_path: Path) -> Path:
    """Where the test's store will be; it does not exist yet."""
    return tmp_path / "store"


@pytest.fixture
def steelyard(tmp_path: Path, store_path: Path) -> Steelyard:
    if not binary().exists():
        pytest.fail(f"{binary()} is not there: run `make build`, or set STEELYARD_BIN")
    return Steelyard(store_path, tmp_path / "home")


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """A small sharded checkpoint with a nested component."""
    return make_checkpoint(tmp_path / "checkpoint", nested=True)


@pytest.fixture
def unprivileged() -> dict:
    """Arguments of run() that take root's powers away: permissions matter then."""
    return {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}


@pytest.fixture
def memory() -> Iterator[Path]:
    """A folder in memory."""
    if not os.access("/dev/shm", os.W_OK):
        pytest.skip("/dev/shm cannot be written")
    folder = Path(tempfile.mkdtemp(prefix="steelyard-test-", dir="/dev/shm"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def hot(steelyard: Steelyard, memory: Path) -> Steelyard:
    """The same runner with a memory tier of its own."""
    return steelyard.at(steelyard.store, STEELYARD_HOT_PATH=str(memory), STEELYARD_HOT_CAPACITY="256MiB")
