"""What another user may do with a test's files."""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path


def let_others_in(folder: Path) -> None:
    """Others may pass through the folders that lead to it, and those in it. What they reach already keeps its mode: it may be everybody's (/tmp)."""
    for one in [folder, *folder.parents, *[path for path in folder.iterdir() if path.is_dir()]]:
        mode = one.stat().st_mode
        if mode & 0o005 != 0o005 and one.stat().st_uid == os.geteuid():
            one.chmod(mode | 0o055)


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
