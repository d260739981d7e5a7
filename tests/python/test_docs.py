"""The Python blocks of the pages run, in order, in one namespace for each page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.mark.parametrize("name", ["python.md", "resharding.md"])
def test_every_block_of_the_page_runs(name, monkeypatch):
    monkeypatch.chdir(ROOT)
    page = ROOT / "docs" / name
    blocks = re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.M | re.S)
    assert len(blocks) >= 4
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, str(page), "exec"), names)
