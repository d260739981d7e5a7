"""watch: the changes of a revision or a resource, as other processes make them; and reconcile --watch."""

from __future__ import annotations

import json
import os
import queue
import shutil
import signal
import threading
from pathlib import Path

import pytest

from crash import harness
from lib.checkpoints import make_checkpoint
from lib.waiting import wait_until


class Watch:
    """A running `watch` or `reconcile --watch`, whose lines are read as they come."""

    def __init__(self, steelyard, *args, **options):
        self.process = steelyard.start(*args, **options)
        self._lines: queue.Queue[str] = queue.Queue()
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for line in self.process.stdout:
            self._lines.put(line.decode().rstrip("\n"))

    def until(self, part: str) -> list[str]:
        """The lines up to the first further one that has `part`, which must come."""
        taken = []
        while True:
            try:
                taken.append(self._lines.get(timeout=60))
            except queue.Empty:
                pytest.fail(f"{part!r} never came: {self.lines}")
            self.lines.append(taken[-1])
            if part in taken[-1]:
                return taken

    def documents(self, part: str) -> list[dict]:
        return [json.loads(line) for line in self.until(part)]

    def end(self, number: int | None = None) -> tuple[int, str]:
        """Its exit code and stderr, once it has ended, by a signal or by itself."""
        if number is not None:
            self.process.send_signal(number)
        try:
            self.process.wait(timeout=60)
        finally:
            self.process.kill()
        self._reader.join()
        while not self._lines.empty():
            self.lines.append(self._lines.get())
        err = self.process.stderr.read().decode()
        self.process.stdout.close()
        self.process.stderr.close()
        return self.process.returncode, err


@pytest.fixture
def watch(steelyard):
    started: list[Watch] = []

    def start(*args, **options) -> Watch:
        started.append(Watch(steelyard, *args, **options))
        return started[-1]

    yield start
    for one in started:
        if one.process.poll() is None:
            one.end(signal.SIGKILL)


@pytest.fixture
def hot(steelyard):
    """A capacity of its own; what is in memory goes with its revisions, which this test deletes."""
    steelyard.extra_env["STEELYARD_HOT_CAPACITY"] = str(64 << 20)
    yield steelyard
    for one in harness.revisions(steelyard):
        steelyard("delete", one["ref"], "--yes")


def states(documents: list[dict]) -> list[str]:
    return [f"{one['revision']['availability']} {one['revision']['residency']} {one['revision']['operation']}" for one in documents]


def test_every_change_of_a_revision_in_order(hot, steelyard, watch, tmp_path):
    """One process watches from before it is published, others import, rehydrate, evict and delete."""
    source = harness.small_checkpoint(tmp_path / "a source")
    steelyard("import", source, "other")
    follower = watch("--json", "watch", "m#1")
    process = harness.stop_at(steelyard, "import.after_begin", 1, "import", source, "m")
    follower.until("IMPORTING")
    process.send_signal(signal.SIGCONT)
    assert harness.finish(process)[0] == 0
    steelyard("rehydrate", "m")
    steelyard("evict", "m")
    steelyard("delete", "m", "--yes")
    code, err = follower.end()
    assert code == 0, err  # nothing follows a tombstone
    documents = [json.loads(line) for line in follower.lines]
    assert all(one["ref"] == "m@main#1" == one["revision"]["ref"] for one in documents)
    generations = [one["revision"]["metadata_generation"] for one in documents]
    last = steelyard.json("inspect", "m#1")["revision"]["metadata_generation"]
    assert generations == list(range(1, last + 1)), "none is missed, none comes twice"
    sequences = [one["sequence"] for one in documents]
    assert sequences == sorted(set(sequences))
    seen = states(documents)
    published = [
        "READY COLD NONE", "READY COLD REHYDRATING", "READY HOT NONE",
        "READY HOT EVICTING", "READY COLD EVICTING", "READY COLD NONE", "DELETING COLD NONE", "DELETED ABSENT NONE",
    ]  # fmt: skip
    assert [one for one in seen if not one.startswith("IMPORTING")] == published


def test_lines_for_people(steelyard, watch, checkpoint):
    steelyard("import", checkpoint, "other")
    follower = watch("watch", "m@main")
    steelyard("import", checkpoint, "m")
    lines = follower.until("READY")
    assert lines[-1].split()[1:] == ["m@main#1", "READY", "COLD"] and lines[-1].split()[0].endswith("Z")
    # Every generation of the revision, and no other revision.
    steelyard("import", checkpoint, "m@step-2")
    steelyard("import", checkpoint, "m")
    assert {line.split()[1] for line in follower.until("READY")} == {"m@main#2"}
    code, err = follower.end(signal.SIGINT)
    assert code == 130 and "interrupted" in err and "the same command" in err


def test_until_an_import_publishes(steelyard, watch, checkpoint):
    source = harness.small_checkpoint(checkpoint.parent / "a source")
    steelyard("import", checkpoint, "other")
    followers = [watch("watch", ref, "--until", "READY") for ref in ("m#1", "m@main", "m")]
    process = harness.stop_at(steelyard, "import.after_begin", 1, "import", source, "m")
    for follower in followers[:2]:
        follower.until("IMPORTING")
    process.send_signal(signal.SIGCONT)
    assert harness.finish(process)[0] == 0
    for follower in followers:
        code, err = follower.end()
        assert code == 0 and "m@main#1  READY" in follower.lines[-1], err
    # What stands already is found at once.
    assert steelyard("-q", "watch", "m", "--until", "READY").stdout == "m@main#1\n"


def test_the_newest_generation_counts(steelyard, watch, checkpoint):
    steelyard("import", checkpoint, "m")
    steelyard("delete", "m", "--yes")
    steelyard("import", checkpoint, "m")
    follower = watch("watch", "m@main", "--until", "DELETED")
    follower.until("m@main#2")
    steelyard("delete", "m#2", "--yes")
    code, err = follower.end()
    assert code == 0 and follower.lines[-1].endswith("m@main#2  DELETED"), err


def test_until_a_residency(hot, steelyard, watch, checkpoint):
    steelyard("import", checkpoint, "m")
    follower = watch("watch", "m@main", "--until", "HOT")
    steelyard("rehydrate", "m")
    code, err = follower.end()
    assert code == 0 and follower.lines[-1].endswith("READY  HOT"), err


def test_what_can_come_no_more(steelyard, watch, checkpoint):
    steelyard("import", checkpoint, "m")
    follower = watch("watch", "m#1", "--until", "HOT")
    follower.until("READY")
    steelyard("delete", "m", "--yes")
    code, err = follower.end()
    assert code == 11 and "will not be HOT" in err
    assert "will not be READY" in steelyard("watch", "m#1", "--until", "READY", code=11).stderr
    # A watch for a removal's beginning is content with its end.
    steelyard("watch", "m#1", "--until", "DELETING")


def test_the_newest_of_a_resource(steelyard, watch, checkpoint):
    steelyard("import", checkpoint, "other")
    follower = watch("--json", "watch", "org/m")
    assert steelyard("import", checkpoint, "org/m@a").last == "org/m@a#1"
    (first,) = follower.documents("org/m@a#1")[-1:]
    assert first["revision"]["availability"] == "READY"
    steelyard("import", checkpoint, "org/m@b")
    steelyard("import", checkpoint, "org/n")
    assert [one["ref"] for one in follower.documents("org/m@b#1")] == ["org/m@b#1"]
    # The one before it is the newest again; then there is none.
    steelyard("delete", "org/m@b", "--yes")
    assert [one["ref"] for one in follower.documents("org/m@a#1")] == ["org/m@a#1"]
    steelyard("delete", "org/m@a", "--yes")
    assert [one["revision"] for one in follower.documents('"ref":null')] == [None]
    assert follower.end(signal.SIGTERM)[0] == 143


def test_a_timeout(steelyard, checkpoint):
    steelyard("import", checkpoint, "m")
    error = steelyard("--json", "watch", "m#1", "--until", "DELETED", "--timeout", "50ms", code=10).error()
    assert error["code"] == "UNAVAILABLE" and "m@main#1 is READY" in error["message"] and "DELETED" in error["message"]
    error = steelyard("--json", "watch", "m#1", "--until", "HOT", "--timeout", "0s", code=10).error()
    assert "did not become HOT: m@main#1 is READY, COLD" in error["message"]
    shown = steelyard("watch", "m#1", "--timeout", "0s", code=10)
    assert shown.lines[0].endswith("READY  COLD") and "are over" in shown.stderr
    assert "it is not there" in steelyard("watch", "n#1", "--timeout", "0s", code=10).stderr
    assert "no revision of it is READY" in steelyard("watch", "n", "--timeout", "0s", code=10).stderr
    assert str(steelyard.store) not in shown.stderr
    none = steelyard.at(steelyard.store.parent / "none")
    assert "none" in none.error("watch", "m", code=3)["message"]


def test_a_trim_is_said_and_survived(steelyard, watch, checkpoint):
    """The watcher stands still while so much happens that the log is trimmed."""
    steelyard("import", checkpoint, "m")
    follower = watch("--json", "watch", "m@main")
    (first,) = follower.documents("m@main#1")
    follower.process.send_signal(signal.SIGSTOP)
    steelyard("import", checkpoint, "m", "--log-snapshot-every", "1")
    steelyard("policy", "set", "m#1", "--mode", "auto", "--log-snapshot-every", "1")
    follower.process.send_signal(signal.SIGCONT)
    documents = follower.documents("m@main#2")
    assert first["resnapshot"] and all(one["resnapshot"] for one in documents)
    assert [one["ref"] for one in documents] == ["m@main#1", "m@main#2"]
    # And it goes on from there.
    steelyard("delete", "m#1", "--yes")
    after = follower.documents("DELETED")
    assert not any(one["resnapshot"] for one in after) and states(after)[0].startswith("DELETING")
    code, err = follower.end(signal.SIGINT)
    assert code == 130 and "does not hold what came after" in err


def test_a_tombstone_that_was_compacted_is_deleted(steelyard, watch, tmp_path):
    """A lineage keeps its newest 16 tombstones."""
    source = make_checkpoint(tmp_path / "tiny", shards=1, seed="tiny")
    first = steelyard("import", source, "m").last
    follower = watch("watch", first)
    follower.until("READY")
    follower.process.send_signal(signal.SIGSTOP)
    for _ in range(17):
        steelyard("delete", "m", "--yes")
        steelyard("import", source, "m")
    steelyard("delete", "m", "--yes")
    # Two copies of the catalog have to know them before their records go.
    for number in range(3):
        steelyard("import", source, f"other{number}")
        steelyard("gc", "--gc-grace", "0s", "--yes")
    assert "compacted" in steelyard.error("inspect", first, code=3)["message"]
    follower.process.send_signal(signal.SIGCONT)
    code, err = follower.end()
    assert code == 0, err
    assert follower.lines[-1] == f"{first}  DELETED, and its record is compacted" and "does not hold" in err
    # And for one that begins now.
    assert "compacted" in steelyard("watch", first, "--until", "DELETED").last
    document = steelyard.json("watch", first)
    assert document["ref"] == first and document["revision"] is None
    assert "will not be READY" in steelyard("watch", first, "--until", "READY", code=11).stderr


def test_a_killed_writer_leaves_nothing_half_told(steelyard, watch, tmp_path):
    source = harness.small_checkpoint(tmp_path / "a source")
    steelyard("import", source, "other")
    follower = watch("--json", "watch", "m@main")
    killed = steelyard.run("import", source, "m", env={"STEELYARD_FAULT": "kill@log.before_commit#2"})
    assert killed.code == -signal.SIGKILL
    steelyard("import", source, "m")
    documents = follower.documents("READY")
    generations = [one["revision"]["metadata_generation"] for one in documents]
    assert generations == sorted(set(generations))
    assert generations[-1] == steelyard.json("inspect", "m")["revision"]["metadata_generation"]
    assert {one["revision"]["availability"] for one in documents[:-1]} <= {"IMPORTING"}


def test_a_reader_who_goes_away(steelyard, checkpoint):
    steelyard("import", checkpoint, "m")
    process = steelyard.start("watch", "m#1")
    assert process.stdout.readline().rstrip().endswith(b"READY  COLD")
    process.stdout.close()
    # Nothing changes any more; it is seen all the same.
    process.wait(timeout=60)
    assert process.returncode == -signal.SIGPIPE and process.stderr.read() == b""
    process.stderr.close()


def test_a_full_output(steelyard, checkpoint):
    steelyard("import", checkpoint, "m")
    with open("/dev/full", "wb") as full:
        assert steelyard.run("watch", "m#1", stdout=full).code == 8


def test_without_write_permission(steelyard, watch, checkpoint, unprivileged):
    if not unprivileged:
        pytest.skip("root only: another user watches")
    steelyard("import", checkpoint, "m")
    for folder in (steelyard.store, *steelyard.store.parents):
        if folder.stat().st_uid == os.getuid() and folder != Path("/"):
            folder.chmod(folder.stat().st_mode | 0o055)
        if folder.name.startswith("pytest-of"):
            break
    follower = watch("watch", "m@main", **unprivileged)
    follower.until("m@main#1")
    steelyard("import", checkpoint, "m")
    follower.until("m@main#2  READY")
    follower.end(signal.SIGKILL)


# reconcile --watch


def test_reconcile_ends_what_others_leave(steelyard, watch, checkpoint):
    steelyard("import", checkpoint, "m")
    keeper = watch("reconcile", "--watch")
    assert keeper.until("watching")[-1] == "1 revision checked, 0 changes; watching"
    killed = steelyard.run("delete", "m", "--yes", env={"STEELYARD_FAULT": "kill@delete.after_deleting"})
    assert killed.code == -signal.SIGKILL
    assert keeper.until("m@main#1")[-1] == "m@main#1: the delete that was begun is done"
    wait_until(lambda: steelyard.json("inspect", "m#1")["revision"]["availability"] == "DELETED")
    code, err = keeper.end(signal.SIGINT)
    assert code == 130 and "next reconcile" in err


def test_reconcile_waits_for_leases_and_says_it_once(steelyard, watch, checkpoint):
    steelyard("import", checkpoint, "m")
    lease = steelyard("lease", "acquire", "m", "--holder", "reader", "--ttl", "1h").last
    keeper = watch("--json", "reconcile", "m", "--watch")
    assert keeper.documents("checked")[0]["waiting"] == []
    steelyard("delete", "m", "--yes", "--wait", "0s", code=6)
    (document,) = keeper.documents("BUSY")
    assert [one["code"] for one in document["waiting"]] == ["BUSY"]
    steelyard("lease", "release", lease)
    (document,) = keeper.documents("is done")
    assert [one["ref"] for one in document["changes"]] == ["m@main#1"]
    assert keeper.end(signal.SIGTERM)[0] == 143


def test_reconcile_goes_on_with_what_a_dead_runner_left(hot, steelyard, watch, tmp_path):
    steelyard(*harness.import_args(harness.small_checkpoint(tmp_path / "a source"), "m"))
    keeper = watch("reconcile", "--watch")
    keeper.until("watching")
    killed = steelyard.run("rehydrate", "m", env={"STEELYARD_FAULT": "kill@residency.after_start"})
    assert killed.code == -signal.SIGKILL
    assert keeper.until("m@main#1")[-1] == "m@main#1: the rehydration that was begun is done"
    assert steelyard.json("inspect", "m")["revision"]["residency"] == "HOT"
    keeper.end(signal.SIGINT)


def test_reconcile_of_what_is_not_there(steelyard, checkpoint):
    steelyard("import", checkpoint, "m")
    assert steelyard.error("reconcile", "n", "--watch", code=3)["code"] == "NOT_FOUND"


# a store that goes away under them

WATCHES = {"watch": ["watch", "m@main"], "reconcile": ["reconcile", "--watch"]}
FIRST_LINES = {"watch": "m@main#1", "reconcile": "watching"}


@pytest.mark.parametrize("verb", WATCHES)
def test_a_store_that_is_moved_away_ends_it(steelyard, watch, checkpoint, tmp_path, verb):
    steelyard("import", checkpoint, "m")
    follower = watch(*WATCHES[verb])
    follower.until(FIRST_LINES[verb])
    steelyard.store.rename(tmp_path / "elsewhere")
    code, err = follower.end()
    assert code == 10
    assert f"error: the store at {steelyard.store} is not there any more" in err
    assert f"is in {tmp_path / 'elsewhere'} now" in err and f"--store {tmp_path / 'elsewhere'}" in err


@pytest.mark.parametrize("verb", WATCHES)
def test_a_store_that_is_replaced_ends_it(steelyard, watch, checkpoint, tmp_path, verb):
    """By a copy of itself: only the file is another one."""
    steelyard("import", checkpoint, "m")
    follower = watch(*WATCHES[verb])
    follower.until(FIRST_LINES[verb])
    # It may look at any moment, and must not see that nothing is there in between.
    follower.process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, follower.process.pid, os.WSTOPPED | os.WNOWAIT)
    steelyard.store.rename(tmp_path / "elsewhere")
    shutil.copytree(tmp_path / "elsewhere", steelyard.store)
    code, err = follower.end(signal.SIGCONT)
    assert code == 10
    assert "another catalog lies there than the one that was opened" in err and "hint: run it again" in err


def test_a_store_that_is_removed_ends_it(steelyard, watch, checkpoint):
    steelyard("import", checkpoint, "m")
    follower = watch("--json", "watch", "m@main")
    follower.until("READY")
    shutil.rmtree(steelyard.store)
    code, err = follower.end()
    error = json.loads(err.splitlines()[-1])["error"]
    assert code == 10 and error["code"] == "UNAVAILABLE" and "was removed" in error["message"]
    assert "--store" in error["hint"]


def test_a_rehydration_that_waits_says_that_its_store_was_moved_away(hot, checkpoint, tmp_path):
    hot("import", checkpoint, "m")
    first = harness.stop_at(hot, "residency.after_start", 1, "rehydrate", "m")
    second = hot.start("rehydrate", "m")
    assert b"waiting: " in second.stderr.readline()
    hot.store.rename(tmp_path / "elsewhere")
    _, err = second.communicate(timeout=60)
    (tmp_path / "elsewhere").rename(hot.store)
    assert second.returncode == 10 and f"is in {tmp_path / 'elsewhere'} now" in err.decode()
    first.send_signal(signal.SIGCONT)
    assert harness.finish(first)[0] == 0


def test_a_delete_that_waits_says_that_its_store_was_moved_away(steelyard, checkpoint, tmp_path):
    steelyard("import", checkpoint, "m")
    steelyard("lease", "acquire", "m", "--holder", "reader", "--ttl", "1h")
    process = harness.stop_at(steelyard, "delete.waiting", 1, "delete", "m", "--yes", "--wait", "1h")
    steelyard.store.rename(tmp_path / "elsewhere")
    process.send_signal(signal.SIGCONT)
    code, _, error = harness.finish(process)
    assert code == 10 and f"is in {tmp_path / 'elsewhere'} now" in error["message"]


def test_an_import_says_that_its_store_was_moved_away(steelyard, checkpoint, tmp_path):
    """Nothing is written into a store that does not lie any more where it is named."""
    steelyard("import", checkpoint, "other")
    process = harness.stop_at(steelyard, "import.after_manifest_put", 1, "import", checkpoint, "m")
    steelyard.store.rename(tmp_path / "elsewhere")
    process.send_signal(signal.SIGCONT)
    code, _, error = harness.finish(process)
    assert code == 10 and f"is in {tmp_path / 'elsewhere'} now" in error["message"]
    (tmp_path / "elsewhere").rename(steelyard.store)
    steelyard("import", checkpoint, "m")
