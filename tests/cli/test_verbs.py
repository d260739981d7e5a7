"""What people see: last lines, quiet output, tables, references, and the exit codes."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

import pytest

from lib.checkpoints import lfs_pointer, make_checkpoint, make_hub_cache, tree_digests, write_file
from lib.runner import Steelyard, binary
from lib.waiting import wait_until


@pytest.fixture
def demo(steelyard, checkpoint):
    return steelyard("import", checkpoint, "demo").last


def test_last_lines(steelyard, checkpoint, tmp_path):
    result = steelyard("import", checkpoint, "demo")
    assert result.last == "demo@main#1" and result.lines[0].startswith("imported ")
    assert steelyard("inspect", "demo").lines[0].split() == ["ref", "demo@main#1"]
    assert steelyard("verify", "demo").last == "ok"
    assert steelyard("materialize", "demo", tmp_path / "out").last == str(tmp_path / "out")
    lease = steelyard("lease", "acquire", "demo", "--holder", "h").last
    assert len(lease) == 32 and steelyard("lease", "renew", lease).last == lease and steelyard("lease", "release", lease).last == lease
    head, row = steelyard("list").lines
    assert head.split() == ["REF", "STATE", "RESIDENCY", "SIZE", "LEASES", "CREATED"]
    assert row.split()[:3] == ["demo@main#1", "READY", "COLD"]


def test_quiet(steelyard, checkpoint, tmp_path):
    assert steelyard("-q", "import", checkpoint, "demo").lines == ["demo@main#1"]
    assert steelyard("-q", "list").lines == ["demo@main#1"]
    assert steelyard("-q", "verify", "demo").lines == ["ok"]
    assert steelyard("-q", "inspect", "demo").lines == ["demo@main#1"]
    assert steelyard("-q", "inspect", "demo", "--files").lines == sorted(tree_digests(checkpoint))
    assert steelyard("-q", "materialize", "demo", tmp_path / "out").lines == [str(tmp_path / "out")]
    lease = steelyard("-q", "lease", "acquire", "demo", "--holder", "h").lines
    assert steelyard("-q", "lease", "list").lines == lease


def test_silent_on_success(steelyard, checkpoint, tmp_path):
    for words in (["import", checkpoint, "demo"], ["list"], ["inspect", "demo"], ["verify", "demo"], ["materialize", "demo", tmp_path / "out"]):
        assert steelyard(*words).said == ""


def test_inspect_lists_files_and_tensors(steelyard, demo, checkpoint):
    out = steelyard("inspect", "demo", "--files", "--tensors").stdout
    for path, digest in tree_digests(checkpoint).items():
        assert path in out and digest in out
    assert "1_Dense/linear.weight" in out and "[8, 8]" in out


def test_default_names(steelyard, checkpoint, tmp_path):
    assert steelyard("import", f"{checkpoint}/").last == "checkpoint@main#1"
    odd = make_checkpoint(tmp_path / "a@b#c d", shards=1, seed="odd")
    ref = steelyard("import", odd).last
    assert ref == "a%40b%23c d@main#1"
    assert steelyard.json("inspect", ref)["revision"]["resource_id"] == "a@b#c d"
    shard = make_checkpoint(tmp_path / "one", shards=1, seed="one") / "model.safetensors"
    assert steelyard("import", shard).last == "model.safetensors@main#1"


def test_a_hub_snapshot(steelyard, checkpoint, tmp_path):
    snapshot = make_hub_cache(tmp_path / "hub", checkpoint, repo="org/name")
    revision = steelyard.json("import", snapshot)["revision"]
    assert (revision["resource_id"], revision["revision"]) == ("org/name", snapshot.name)
    assert revision["labels"] == {"hub_ref": "main"}
    named = steelyard.json("import", snapshot, "mine")["revision"]
    assert named["labels"] == {} and named["ref"] == "mine@main#1"


def test_the_words_of_the_file_level_cache(steelyard, checkpoint):
    document = steelyard.json(
        "model", "import", "--source", checkpoint, "--checkpoint-id", "a@b%20", "--model-id", "llama", "--revision", "step#1", "--generation", "7"
    )
    revision = document["revision"]
    assert (revision["resource_id"], revision["revision"], revision["weight_generation"]) == ("a@b%20", "step#1", 7)
    assert revision["ref"] == "a%40b%2520@step%231#7" and revision["labels"] == {"model_id": "llama"}
    for words, text in (
        (["demo", "--checkpoint-id", "x"], "resource is named twice"),
        (["demo@a", "--revision", "b"], "revision is named twice"),
        (["demo@a#1", "--generation", "2"], "generation is named twice"),
        (["demo", "--label", "a=1", "--label", "a=2"], "given twice"),
    ):
        assert text in steelyard.error("import", checkpoint, *words, code=2)["message"]


def test_namespaces_are_apart(steelyard, checkpoint):
    steelyard("import", checkpoint, "demo", "-n", "prod")
    assert steelyard.json("list")["revisions"] == []
    assert steelyard.json("list", "--namespace", "prod")["revisions"][0]["namespace"] == "prod"
    assert steelyard.json("list", "-n", "prod", "--tenant", "t2")["revisions"] == []
    assert "_hidden" in steelyard.error("list", "--tenant", "_hidden", code=2)["message"]


def test_list_queries(steelyard, tmp_path):
    source = make_checkpoint(tmp_path / "m", shards=1)
    for number, ref in enumerate(("a@1", "b@1", "a@2")):
        steelyard("import", source, ref, "--label", f"n={number}", "--label", "all=yes")
    refs = lambda *words: steelyard("-q", "list", *words).lines  # noqa: E731
    assert refs() == ["a@1#1", "b@1#1", "a@2#1"]
    assert refs("a") == ["a@1#1", "a@2#1"] and refs("none") == []
    assert refs("--newest") == ["b@1#1", "a@2#1"] or set(refs("--newest")) == {"b@1#1", "a@2#1"}
    assert refs("--label", "n=1", "--label", "all=yes") == ["b@1#1"] and refs("--label", "n=9") == []
    assert refs("--state", "READY") == refs("--all") == refs() and refs("--state", "DELETED") == []
    assert "inspect" in steelyard.error("list", "a@1", code=2)["hint"]
    assert "--all and --state" in steelyard.error("list", "--all", "--state", "READY", code=2)["message"]
    seen, token = [], None
    while True:
        page = steelyard.json("list", "--limit", "2", *(["--page-token", token] if token else []))
        seen += [one["ref"] for one in page["revisions"]]
        token = page["next_page_token"]
        if token is None:
            break
    assert seen == refs()
    first = steelyard.json("list", "--limit", "1")["next_page_token"]
    # A script that reads only the names learns that it has not all of them.
    quiet = steelyard.run("list", "-q", "--limit", "1")
    assert len(quiet.stdout.splitlines()) == 1 and "--page-token" in quiet.stderr
    assert steelyard.run("list", "-q").stderr == ""
    assert steelyard.error("list", "--label", "n=1", "--page-token", first, code=2)["code"] == "INVALID_ARGUMENT"
    assert "--page-token" in steelyard("list", "--limit", "1").last


def test_cat(steelyard, demo, checkpoint):
    data = (checkpoint / "model-00001-of-00002.safetensors").read_bytes()
    cat = lambda *words, **more: steelyard("cat", "demo", "model-00001-of-00002.safetensors", *words, **more)  # noqa: E731
    assert cat().stdout_bytes == data
    assert cat("--range", "0-0").stdout_bytes == data[:1]
    assert cat("--range", "100-199").stdout_bytes == data[100:200]
    assert cat("--range", "100-").stdout_bytes == data[100:]
    assert steelyard("cat", "demo", "empty.txt").stdout_bytes == b""
    assert cat("--range", f"{len(data)}-{len(data) + 5}", code=2).stdout_bytes == b""
    assert steelyard.error("cat", "demo", "none.txt", code=3)["code"] == "NOT_FOUND"


def test_materialize_refuses_what_is_there(steelyard, demo, checkpoint, tmp_path):
    target = tmp_path / "out"
    write_file(target / "mine.txt", "mine")
    error = steelyard.error("materialize", "demo", target, code=4)
    assert error["code"] == "CONFLICT" and str(target) in error["message"] and "--force" in error["hint"]
    assert (target / "mine.txt").read_text() == "mine"
    steelyard("materialize", "demo", target, "--force")
    assert tree_digests(target) == tree_digests(checkpoint)
    assert os.stat(target / "config.json").st_nlink == 1


# --- exit codes ---


def test_code_3_names_what_is_not_there(steelyard, demo, tmp_path):
    assert steelyard.error("inspect", "demo@other", code=3)["code"] == "NOT_FOUND"
    assert steelyard.error("inspect", "demo#2", code=3)["code"] == "NOT_FOUND"
    assert steelyard.error("lease", "renew", "0" * 32, code=3)["code"] == "NOT_FOUND"
    for words in (["inspect", "x"], ["verify", "x"], ["cat", "x", "f"], ["materialize", "x", tmp_path / "o"], ["lease", "list"], ["lease", "acquire", "x", "--holder", "h"]):
        error = steelyard.at(tmp_path / "nowhere").error(*words, code=3)
        assert str(tmp_path / "nowhere") in error["message"], error
    assert not (tmp_path / "nowhere").exists()
    assert steelyard.at(tmp_path / "nowhere").json("list") == {"schema_version": 1, "revisions": [], "next_page_token": None}


def test_code_2_and_5_of_a_source(steelyard, tmp_path):
    assert str(tmp_path / "none") in steelyard.error("import", tmp_path / "none", code=3)["message"]
    (tmp_path / "empty").mkdir()
    steelyard.error("import", tmp_path / "empty", code=2)
    write_file(tmp_path / "text" / "readme.md", "no weights")
    assert "--allow-empty" in steelyard.error("import", tmp_path / "text", code=2)["hint"]
    assert steelyard("import", tmp_path / "text", "--allow-empty").last == "text@main#1"
    broken = make_checkpoint(tmp_path / "broken")
    shard = broken / "model-00002-of-00002.safetensors"
    shard.write_bytes(shard.read_bytes()[:-1])
    error = steelyard.error("import", broken, code=5)
    assert error["code"] == "CORRUPT" and shard.name in error["message"]
    shard.write_bytes(lfs_pointer(9 << 30))
    assert "git lfs pull" in "".join(str(part) for part in steelyard.error("import", broken, code=5).values())
    assert "broken" not in steelyard("-q", "list").stdout


def test_code_4_of_an_identity_that_was_published(steelyard, demo, checkpoint):
    assert steelyard.error("import", checkpoint, "demo#1", code=4)["code"] == "CONFLICT"
    assert steelyard("import", checkpoint, "demo").last == "demo@main#2"
    assert steelyard("-q", "inspect", "demo").last == "demo@main#2"


def test_code_7_at_the_last_generation(steelyard, checkpoint):
    last = 2**63 - 1
    assert steelyard("import", checkpoint, f"demo#{last}").last == f"demo@main#{last}"
    assert steelyard.error("import", checkpoint, "demo", code=7)["code"] == "GENERATION_EXHAUSTED"


def test_code_8_of_a_full_disk(steelyard, demo):
    with open("/dev/full", "w") as full:
        for words in (["list"], ["--help"], ["cat", "demo", "config.json"], ["config", "show"]):
            result = steelyard(*words, code=8, stdout=full)
            assert "No space left" in result.stderr and "standard output" in result.stderr


@pytest.fixture
def shared(steelyard, unprivileged):
    """A runner whose store lies where every user can enter, and a folder beside it in which everybody may write."""
    with tempfile.TemporaryDirectory(prefix="steelyard-test-") as folder:
        os.chmod(folder, 0o755)
        runner = Steelyard(Path(folder) / "store", Path(folder) / "home")
        if subprocess.run([str(binary()), "--version"], capture_output=True, **unprivileged).returncode != 0:
            pytest.skip("another user cannot run the program where it lies")
        (Path(folder) / "out").mkdir()
        os.chmod(Path(folder) / "out", 0o777)
        yield runner


def test_a_user_who_may_only_read(shared, checkpoint, unprivileged):
    shared("import", checkpoint, "demo")
    if not unprivileged:
        for path in [shared.store, *shared.store.rglob("*")]:
            path.chmod(path.stat().st_mode & ~0o222)
    out = shared.home.parent / "out"
    before = tree_digests(shared.store)
    assert shared.json("inspect", "demo", **unprivileged)["read_only"] is True
    assert shared("-q", "list", **unprivileged).lines == ["demo@main#1"]
    assert shared("verify", "demo", **unprivileged).last == "ok"
    assert shared("cat", "demo", "config.json", **unprivileged).stdout_bytes == (checkpoint / "config.json").read_bytes()
    shared("materialize", "demo", out / "copy", **unprivileged)
    assert tree_digests(out / "copy") == tree_digests(checkpoint)
    for words in (["lease", "acquire", "demo", "--holder", "h"], ["import", checkpoint / "config.json", "--allow-empty"]):
        assert shared.run("--json", *words, **unprivileged).code == 9, words
    assert tree_digests(shared.store) == before


def test_code_9_of_a_config_file(shared, unprivileged):
    private = shared.home / "private.toml"
    private.write_text("jobs = 1\n")
    private.chmod(0)
    error = shared.error("--config", private, "list", code=9, **unprivileged)
    assert error["code"] == "UNAUTHORIZED" and str(private) in error["message"]


def test_code_10_of_a_store_without_its_catalog(steelyard, demo):
    for path in steelyard.store.glob("catalog.db*"):
        path.unlink()
    for words in (["list"], ["inspect", "demo"]):
        error = steelyard.error(*words, code=10)
        assert error["code"] == "UNAVAILABLE" and "recover" in error["hint"]


def test_labels_are_bounded(steelyard, checkpoint):
    many = [word for number in range(65) for word in ("--label", f"k{number}=v")]
    for words in (many, ["--label", "a\nb=c"], ["--label", f"{'k' * 257}=v"], ["--label", f"k={'v' * 4097}"]):
        assert steelyard.error("import", checkpoint, "demo", *words, code=2)["code"] == "INVALID_ARGUMENT"


def test_references_are_checked(steelyard, demo):
    assert steelyard("-q", "inspect", "de%6do@main#1").last == "demo@main#1"
    for ref, text in (("a@b@c", "%40"), ("a#1#2", "%23")):
        assert text in steelyard.error("inspect", ref, code=2)["hint"]
    for ref in ("", "@r", "a@", "a#", "a#0", "a#01", "a#x", "a%2", "a%zz", ".", "a%00", f"a#{2**63}"):
        assert steelyard.error("inspect", ref, code=2)["code"] == "INVALID_ARGUMENT", ref


def test_code_12_of_a_lease_that_ended(steelyard, demo):
    lease = steelyard("lease", "acquire", "demo", "--holder", "h", "--ttl", "1s").last

    def expired() -> bool:
        return steelyard.json("lease", "list")["leases"] == []

    wait_until(expired)
    assert steelyard.error("lease", "renew", lease, code=12)["code"] == "LEASE_EXPIRED"


def test_a_table_fits_and_colours_are_for_terminals(steelyard, tmp_path):
    source = make_checkpoint(tmp_path / "m", shards=1)
    long = "x" * 200
    steelyard("import", source, long)
    assert f"{long}@main#1" in steelyard("list").stdout, "nothing is cut where it is no terminal"
    assert "\x1b" not in steelyard("nonsense", code=2).stderr


def test_many_at_once_make_one_store(steelyard, tmp_path):
    source = make_checkpoint(tmp_path / "m", shards=1)
    running = [steelyard.start("import", source, f"r{number}") for number in range(8)]
    for process in running:
        _, err = process.communicate(timeout=120)
        assert process.returncode == 0, err.decode()
    assert sorted(steelyard("-q", "list").lines) == [f"r{number}@main#1" for number in range(8)]
