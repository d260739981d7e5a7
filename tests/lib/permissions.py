"""What another user may do with a test's files."""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path


def let_others_in(tmp_path: Path) -> None:
    """Others may pass through the folders that lead to a test's own."""
    for folder in [tmp_path, *list(tmp_path.parents)[:3], *[path for path in tmp_path.iterdir() if path.is_dir()]]:
        if folder.stat().st_uid == os.geteuid():
            folder.chmod(0o755)


@contextmanager
def nobody_writes(store: Path):
    """Nothing in the store has write bits meanwhile."""
    for path in (store, *store.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        yield
    finally:
        for path in (store, *store.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
