"""Waiting for a condition with a deadline, so that no test sleeps for a fixed time."""

from __future__ import annotations

import time
from typing import Callable

import pytest


def wait_until(condition: Callable[[], object], timeout_s: float = 60, every_s: float = 0.02) -> None:
    """Returns once `condition()` is true; fails the test at the deadline."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            pytest.fail(f"still not true after {timeout_s} s")
        time.sleep(every_s)
