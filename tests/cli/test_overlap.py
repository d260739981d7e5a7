"""A store is never its own target or source: --force must not take it away."""

from __future__ import annotations

import pytest

from lib.checkpoints import make_checkpoint


@pytest.fixture
def filled(steelyard, checkpoint):
    steelyard("import", checkpoint, "demo")
    return steelyard


@pytest.mark.parametrize("target", ["", "cold", "cold/groups", "new", "cold/new", ".."])
@pytest.mark.parametrize("flags", [(), ("--force",)], ids=["plain", "force"])
def test_materialize_never_takes_the_store(filled, target, flags):
    error = filled.error("materialize", "demo", filled.store / target, *flags, code=2)
    assert error["code"] == "INVALID_ARGUMENT" and str(filled.store) in error["message"]
    assert filled.json("verify", "demo")["ok"]


def test_materialize_never_takes_the_store_by_a_link(filled, tmp_path):
    (tmp_path / "link").symlink_to(filled.store)
    filled.error("materialize", "demo", tmp_path / "link", "--force", code=2)
    filled.error("materialize", "demo", tmp_path / "link" / "cold", "--force", code=2)
    assert filled.json("verify", "demo")["ok"]


def test_materialize_never_takes_a_cold_tier_elsewhere(steelyard, checkpoint, tmp_path):
    cold = tmp_path / "far" / "cold"
    steelyard("import", checkpoint, "demo", "--cold-path", cold)
    for target in (cold, cold.parent, cold / "new"):
        error = steelyard.error("materialize", "demo", target, "--force", "--cold-path", cold, code=2)
        assert str(cold) in error["message"]
    assert steelyard.json("verify", "demo", "--cold-path", cold)["ok"]


def test_a_store_in_its_source(steelyard, tmp_path):
    source = make_checkpoint(tmp_path / "source")
    runner = steelyard.at(source / "store")
    error = runner.error("import", source, "demo", code=2)
    assert "--exclude 'store/*'" in error["hint"]
    runner("import", source, "demo", "--exclude", "store/*")
    assert runner.json("verify", "demo")["ok"]


def test_a_source_in_the_store(filled):
    for source in (filled.store, filled.store / "cold"):
        error = filled.error("import", source, "again", "--allow-empty", code=2)
        assert "into itself" in error["message"]
