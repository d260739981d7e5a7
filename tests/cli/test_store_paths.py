"""Where a store and its cold tier may be; what is said about places where they cannot."""

from __future__ import annotations


def test_a_path_that_the_catalog_cannot_have(steelyard, checkpoint, tmp_path):
    for parts, code in ((1, 0), (3, 2), (15, 2)):
        runner = steelyard.at(tmp_path.joinpath(*["d" * 200] * parts))
        if code == 0:
            runner("import", checkpoint, "demo")
            assert runner.json("verify", "demo")["ok"]
        else:
            error = runner.error("import", checkpoint, "demo", code=code)
            assert "480" in error["message"] and not runner.store.exists()


def test_the_longest_path(steelyard, checkpoint, tmp_path):
    """Just within the limit works, one byte more is refused."""
    rest = 480 - len(str(tmp_path)) - len("/") - len("/catalog.db")
    names = [str(tmp_path)]
    while rest > 200:
        names.append("d" * 100)
        rest -= 101
    for extra, code in ((0, 0), (1, 2)):
        runner = steelyard.at("/".join([*names, "e" * (rest + extra)]))
        runner("import", checkpoint, "demo", code=code)


def test_a_cold_tier_that_is_a_file(steelyard, checkpoint, tmp_path):
    error = steelyard.error("import", checkpoint, "demo", "--cold-path", checkpoint / "config.json", code=2)
    assert "not a folder" in error["message"] and "--cold-path" in error["hint"]


def test_the_cold_tier_of_another_store(steelyard, checkpoint, tmp_path):
    steelyard("import", checkpoint, "demo")
    other = steelyard.at(tmp_path / "other")
    other("import", checkpoint, "demo")
    error = steelyard.error("verify", "demo", "--cold-path", other.store / "cold", code=5)
    assert "--cold-path" in error["hint"]
    assert steelyard.json("verify", "demo")["ok"] and other.json("verify", "demo")["ok"]
