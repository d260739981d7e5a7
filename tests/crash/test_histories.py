"""One cold tier, two histories: an older catalog that was put back, and two stores that share a cold tier by mistake.

Whatever the catalog does not know, published bytes are never taken away."""

from __future__ import annotations

import shutil

from crash import harness


def conflict(runner, source, ref, *options) -> None:
    for _ in range(2):
        error = runner.error(*harness.import_args(source, ref), *options, code=4)
        assert "cold tier" in error["message"] and "--generation" in error["hint"], error
        assert "resumes" not in error["hint"], error


def test_an_older_catalog_that_was_put_back(steelyard, source, tmp_path):
    steelyard(*harness.import_args(source, "first"))
    old, new = tmp_path / "old.db", tmp_path / "new.db"
    shutil.copy(steelyard.store / "catalog.db", old)
    steelyard(*harness.import_args(source, "second"))
    shutil.copy(steelyard.store / "catalog.db", new)

    shutil.copy(old, steelyard.store / "catalog.db")
    assert [one["resource_id"] for one in harness.revisions(steelyard)] == ["first"]
    conflict(steelyard, source, "second")
    steelyard(*harness.import_args(source, "second#2"))
    harness.assert_whole(steelyard, source, tmp_path, "second")

    shutil.copy(new, steelyard.store / "catalog.db")
    harness.assert_whole(steelyard, source, tmp_path, "second#1")


def test_two_catalogs_of_one_cold_tier(steelyard, source, tmp_path):
    cold = ("--cold-path", tmp_path / "cold")
    steelyard(*harness.import_args(source, "before"), *cold)
    copy = steelyard.at(tmp_path / "copy")
    shutil.copytree(steelyard.store, copy.store)
    steelyard(*harness.import_args(source, "model"), *cold)
    other = harness.small_checkpoint(tmp_path / "other", seed="other")
    conflict(copy, other, "model", *cold)
    assert steelyard.json("verify", "model", *cold)["ok"]
    assert copy.json("verify", "before", *cold)["ok"]
