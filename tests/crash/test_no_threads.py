"""Where no thread is to be had: done without, or an error with a hint; never an abort, never without end."""

from __future__ import annotations

import pytest

from crash import harness

NONE_LEFT = {"STEELYARD_FAULT": "EAGAIN@runtime.spawn"}


@pytest.mark.parametrize("verb", ["import", "verify", "materialize", "repair", "delete", "doctor", "gc", "reconcile"])
def test_each_verb(steelyard, source, tmp_path, verb):
    steelyard(*harness.import_args(source))
    arguments = {
        "import": harness.import_args(harness.small_checkpoint(tmp_path / "other", seed="other"), "other"),
        "verify": ("verify", harness.REF),
        "materialize": ("materialize", harness.REF, tmp_path / "out"),
        "repair": ("repair", harness.REF),
        "delete": ("delete", harness.REF, "--yes"),
        "doctor": ("doctor",),
        "gc": ("gc", "--yes"),
        "reconcile": ("reconcile",),
    }[verb]
    needs_one = verb in ("import", "verify", "materialize")
    result = steelyard(*arguments, code=10 if needs_one else 0, env=NONE_LEFT, timeout=120)
    if needs_one:
        assert "no thread could be started" in result.stderr and "ulimit -u" in result.stderr
        steelyard(*arguments)
