"""Where a store and its cold tier may be; what is said about places where they cannot."""

from __future__ import annotations


from lib.permissions import let_others_in


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


def names_the_setting(error: dict) -> None:
    assert "--store DIR" in error["hint"] and "STEELYARD_STORE" in error["hint"], error


def test_a_folder_with_other_files_is_no_place_for_a_store(steelyard, checkpoint, tmp_path):
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis.tex").write_text("mine")
    error = steelyard.at(mine).error("import", checkpoint, "demo", code=2)
    assert "thesis.tex" in error["message"]
    names_the_setting(error)
    assert [path.name for path in mine.iterdir()] == ["thesis.tex"]


def test_a_cold_tier_among_other_files(steelyard, checkpoint, tmp_path):
    (tmp_path / "volume" / "datasets").mkdir(parents=True)
    error = steelyard.error("import", checkpoint, "demo", "--cold-path", tmp_path / "volume", code=5)
    assert "datasets" in error["message"] and "--cold-path" in error["hint"]


def test_a_store_that_is_a_file_or_lies_below_one(steelyard, checkpoint):
    for path in (checkpoint / "config.json", checkpoint / "config.json" / "store"):
        for words in (("import", checkpoint, "demo"), ("list",), ("inspect", "demo")):
            names_the_setting(steelyard.at(path).error(*words, code=2))


def test_a_store_that_may_not_be_made(steelyard, checkpoint, tmp_path, unprivileged):
    locked = tmp_path / "locked"
    locked.mkdir()
    locked.chmod(0o555)
    let_others_in(tmp_path)
    names_the_setting(steelyard.at(locked / "a" / "store").error("import", checkpoint, "demo", code=9, **unprivileged))
    names_the_setting(steelyard.at(locked).error("import", checkpoint, "demo", code=9, **unprivileged))


def test_a_list_says_that_there_is_no_store(steelyard):
    listed = steelyard("list", "--json")
    assert listed.json()["revisions"] == []
    assert listed.stderr == f"note: there is no store at {steelyard.store} yet; `steelyard import` makes it\n"
    assert "note: there is no store at" in steelyard("-q", "list").stderr


def test_no_store(steelyard):
    names_the_setting(steelyard.error("inspect", "demo", code=3))


def test_a_store_that_may_not_be_looked_into(steelyard, checkpoint, tmp_path, unprivileged):
    let_others_in(tmp_path)
    steelyard("import", checkpoint, "demo")
    steelyard.store.chmod(0o000)
    try:
        for words in (("list",), ("inspect", "demo"), ("import", checkpoint, "demo")):
            names_the_setting(steelyard.error(*words, code=9, **unprivileged))
    finally:
        steelyard.store.chmod(0o755)
