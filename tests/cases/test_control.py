"""What the catalog promises: acknowledged is durable, one name means one content, nothing calls home, all writers are kept."""

from __future__ import annotations

import contextlib
import re
import shutil
import signal
import sqlite3
import subprocess
from pathlib import Path

import pytest

from crash import checker, harness
from lib.checkpoints import make_checkpoint, tree_digests

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.fixture
def source(tmp_path):
    return harness.small_checkpoint(tmp_path / "source")


def test_what_was_acknowledged_is_there(steelyard, tmp_path):
    """A restarted master came up empty. Every answer that was given before the kill stands after it."""
    source = make_checkpoint(tmp_path / "source", shards=1, tensors_per_shard=1)
    acknowledged = [steelyard("-q", "import", source, f"model-{number}").last for number in range(3)]
    leases = [steelyard("-q", "lease", "acquire", acknowledged[0], "--holder", "h", "--ttl", "1h").last for _ in range(3)]
    for point in ("log.after_commit", "import.after_commit", "log.prepared", "log.turn"):
        for words in (["import", source, f"killed-{point}"], ["lease", "acquire", acknowledged[0], "--holder", "h", "--ttl", "1h"]):
            steelyard.run(*words, env={"STEELYARD_FAULT": f"kill@{point}"})
        listed = [one["ref"] for one in harness.revisions(steelyard)]
        assert listed[:3] == acknowledged
        assert all(steelyard.json("verify", ref)["ok"] for ref in listed)
        assert set(leases) <= set(steelyard("-q", "lease", "list").lines)


def test_a_name_whose_first_writer_died(steelyard, source, tmp_path):
    """A client died after its first call, and its key was of no use to anybody. Another source may take the name over, too."""
    killed = steelyard.run(*harness.import_args(source), env={"STEELYARD_FAULT": "kill@import.after_begin"})
    assert killed.code == -signal.SIGKILL
    other = harness.small_checkpoint(tmp_path / "other", seed="other")
    done = steelyard.json(*harness.import_args(other))["revision"]
    assert (done["weight_generation"], done["import_attempt"]) == (1, 2)
    harness.assert_whole(steelyard, other, tmp_path)
    harness.assert_no_strays(steelyard.store)


def test_a_name_that_is_used_again_never_serves_the_old_bytes(steelyard, tmp_path):
    """An adapter was loaded again under its old name, and the cache gave the old one. A new import is a new generation."""
    old = make_checkpoint(tmp_path / "old", shards=1, seed="old")
    new = make_checkpoint(tmp_path / "new", shards=1, seed="new")
    steelyard("import", old, "adapter")
    lease = steelyard("-q", "lease", "acquire", "adapter", "--holder", "h", "--ttl", "1h").last
    reading = harness.stop_at(steelyard, "tier.read", 1, "materialize", "adapter", tmp_path / "first")
    steelyard("import", new, "adapter")
    reading.send_signal(signal.SIGCONT)
    assert harness.finish(reading)[1]["ref"] == "adapter@main#1"
    assert tree_digests(tmp_path / "first") == tree_digests(old), "a reader keeps what it began with"
    steelyard("materialize", "adapter", tmp_path / "second")
    assert tree_digests(tmp_path / "second") == tree_digests(new)
    assert steelyard("cat", "adapter#1", "model.safetensors").stdout_bytes == (old / "model.safetensors").read_bytes()
    (held,) = steelyard.json("lease", "list")["leases"]
    assert (held["lease_id"], held["ref"]) == (lease, "adapter@main#1")
    digests = [steelyard.json("inspect", f"adapter#{number}")["revision"]["manifest_sha256"] for number in (1, 2)]
    assert digests[0] != digests[1]


def strace_or_skip(tmp_path, calls: str) -> tuple:
    strace = ("strace", "-f", "-qq", "-o", str(tmp_path / "trace"), "-e", f"trace={calls}")
    if shutil.which("strace") is None or subprocess.run([*strace, "true"], capture_output=True).returncode != 0:
        pytest.skip("strace is not installed or may not trace here")
    return strace


def local_verbs(source, out) -> list[list]:
    return [
        ["import", source, "model"],
        ["import", source, "model", "--dry-run"],
        ["list", "--all"],
        ["inspect", "model", "--files", "--tensors"],
        ["verify", "model"],
        ["cat", "model", "config.json"],
        ["materialize", "model", out],
        ["lease", "acquire", "model", "--holder", "h"],
        ["lease", "list"],
        ["config", "show"],
        ["completion", "bash"],
        ["--version"],
    ]


def test_no_verb_calls_home(steelyard, source, tmp_path):
    """An offline flag was set, and it still called home. Here no verb opens a socket, and none misses a network."""
    strace = strace_or_skip(tmp_path, "network")
    alone = ("unshare", "--net")
    if subprocess.run([*alone, "true"], capture_output=True).returncode != 0:
        alone = ()
    for words in local_verbs(source, tmp_path / "out"):
        steelyard(*words, wrapper=(*strace, *alone))
        trace = (tmp_path / "trace").read_text()
        assert not re.search(r"\b(socket|connect|sendto|sendmsg|bind)\(", trace), f"{words[0]}: {trace[:500]}"


def test_finding_a_revision_reads_no_payload(steelyard, source, tmp_path):
    """Every reader on a node fetched the model again. Finding one that is there opens the catalog and the manifest alone."""
    steelyard(*harness.import_args(source, "model"))
    strace = strace_or_skip(tmp_path, "open,openat,openat2")
    payload = re.compile(r"content/[0-9a-f]{2}|p/\d{8}")
    steelyard("cat", "model", "config.json", wrapper=strace)
    assert payload.search((tmp_path / "trace").read_text()), "the pattern finds payload where it is read"
    for words in (["list"], ["inspect", "model", "--files", "--tensors"], ["lease", "acquire", "model", "--holder", "h"]):
        steelyard(*words, wrapper=strace)
        found = payload.search((tmp_path / "trace").read_text())
        assert not found, (words, found)


def test_documented_defaults_are_the_real_ones(steelyard):
    """The documentation had other defaults than the code. The page is made from the table, and so is this."""
    text = (DOCS / "settings.md").read_text()
    settings = steelyard.json("config", "show", "--defaults")["settings"]
    rows = re.findall(r"^\| `([a-z_.]+)` \|", text, re.M)
    assert sorted(rows) == sorted(one["name"] for one in settings)
    assert text == steelyard("config", "show", "--defaults", "--markdown").stdout


def test_sixteen_imports_at_once_of_sixteen_contents(steelyard, tmp_path):
    """Reading an index, changing and writing it lost entries. Sixteen writers, sixteen revisions, each with its own bytes."""
    sources = [make_checkpoint(tmp_path / f"source-{number}", shards=1, tensors_per_shard=1, seed=number) for number in range(16)]
    running = [steelyard.start("--json", "import", one, f"model-{number:02d}") for number, one in enumerate(sources)]
    results = [harness.finish(process, timeout=300) for process in running]
    assert [code for code, _, _ in results] == [0] * 16, [error for _, _, error in results if error]
    listed = harness.revisions(steelyard)
    assert sorted(one["resource_id"] for one in listed) == [f"model-{number:02d}" for number in range(16)]
    assert len({one["committed_seq"] for one in listed}) == 16
    for number, one in enumerate(sources):
        assert steelyard("cat", f"model-{number:02d}", "model.safetensors").stdout_bytes == (one / "model.safetensors").read_bytes()
    harness.assert_no_strays(steelyard.store)


@pytest.mark.parametrize("number", [1, 3])
def test_a_clean_up_goes_on_past_a_failure(steelyard, source, tmp_path, number):
    """A clean-up stopped at its first failure and left everything behind it."""
    other = harness.small_checkpoint(tmp_path / "other", seed="other")
    killed = steelyard.run(*harness.import_args(other), env={"STEELYARD_FAULT": "kill@import.after_objects"})
    assert killed.code == -signal.SIGKILL
    objects = len(list(steelyard.store.rglob("groups/*/*/1/p/*")))
    assert objects > 5
    trace = tmp_path / "trace"
    done = steelyard.json(
        *harness.import_args(source),
        env={"STEELYARD_FAULT": f"EIO@tier.remove#{number},trace@any", "STEELYARD_FAULT_TRACE": str(trace)},
    )
    assert done["revision"]["import_attempt"] == 2, "a clean-up that fails is not the import's failure"
    assert trace.read_text().split().count("tier.remove") >= objects
    left = [path for path in steelyard.store.rglob("groups/*/*/1/**/*") if path.is_file()]
    assert len(left) <= 1, left
    harness.assert_whole(steelyard, source, tmp_path)


def test_what_five_killed_imports_left_is_seen_and_goes(steelyard, source, tmp_path):
    """Unfinished files stayed for ever, and no listing, pruning or removing saw them."""
    steelyard(*harness.import_args(source, "kept"))
    empty = checker.files_of(steelyard.store)
    other = harness.small_checkpoint(tmp_path / "other", seed="other")
    for point in ("tier.after_write#2", "tier.after_link#3", "import.after_objects", "import.after_manifest_put", "tier.after_write#4"):
        killed = steelyard.run(*harness.import_args(other, "half"), env={"STEELYARD_FAULT": f"kill@{point}"})
        assert killed.code == -signal.SIGKILL
    (half,) = [one for one in harness.revisions(steelyard, "--all") if one["availability"] == "IMPORTING"]
    assert (half["ref"], half["import_attempt"]) == ("half@main#1", 5)
    would = steelyard.json("gc", "--dry-run", "--gc-grace", "0s")
    done = steelyard.json("gc", "--yes", "--gc-grace", "0s")
    assert would["objects"] == done["objects"] > 0 and would["bytes"] == done["bytes"] > 0
    steelyard("abort", "half", "--yes")
    steelyard("gc", "--yes", "--gc-grace", "0s")
    left = [name for name in checker.files_of(steelyard.store) if not name.startswith(("cold/catalog/", "catalog.")) and not name.endswith("/deleting")]
    assert left == [name for name in empty if not name.startswith(("cold/catalog/", "catalog."))]
    assert steelyard.json("verify", "kept")["ok"]


def test_the_log_does_not_grow_for_ever(steelyard, tmp_path):
    """A log without an end filled its database until nothing could be written. Snapshots replace what they hold."""
    source = make_checkpoint(tmp_path / "source", shards=1, tensors_per_shard=1)
    every = {"STEELYARD_LOG_SNAPSHOT_EVERY": "8"}
    steelyard("import", source, "model", env=every)
    sizes = []
    for _ in range(3):
        for _ in range(20):
            lease = steelyard("-q", "lease", "acquire", "model", "--holder", "h", env=every).last
            steelyard("lease", "release", lease, env=every)
        with contextlib.closing(sqlite3.connect(f"file:{steelyard.store / 'catalog.db'}?mode=ro", uri=True)) as catalog:
            assert catalog.execute("SELECT count(*) FROM log").fetchone()[0] <= 2 * 8
            assert catalog.execute("SELECT count(*) FROM snapshot").fetchone()[0] == 1
        sizes.append(sum((steelyard.store / name).stat().st_size for name in ("catalog.db", "catalog.db-wal")))
    assert sizes[2] <= sizes[0] + 64 * 1024, sizes
    assert len(list((steelyard.store / "cold" / "catalog").glob("[0-9]*"))) == 2
    assert steelyard.json("verify", "model")["ok"]
