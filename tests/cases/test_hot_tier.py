"""Memory: seen before it is taken, read once however many ask, used by whoever comes next, mended from the other tier."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cases import support
from cases.support import MIB
from crash import harness
from lib.checkpoints import tree_digests
from lib.damage import flip, large, objects_of, state


@pytest.fixture
def source(tmp_path):
    return harness.small_checkpoint(tmp_path / "source")


def replicas_in(memory: Path) -> list[Path]:
    """The payload files in memory, by number."""
    return sorted(memory.glob("steelyard-*/groups/*/*/*/p/*"), key=lambda path: path.name)


def spoil_cold(steelyard, ref: str) -> None:
    """Whatever is read from the cold tier is found to be bad from now on."""
    for path in objects_of(steelyard, ref):
        flip(path, 0)


# --- what is seen ---


def test_what_lies_in_memory_is_shown(hot, source):
    hot("import", source, "m")
    assert hot.json("inspect", "m")["replicas"]["hot"] == {"objects": 0, "bytes": 0}
    assert "hot" not in hot.json("usage")["tiers"]
    assert "no instance there yet" in hot("doctor").stdout
    hot("rehydrate", "m")
    document = hot.json("inspect", "m")
    revision = document["revision"]
    assert document["replicas"]["hot"] == {"objects": revision["payload_count"], "bytes": revision["logical_bytes"]}
    assert "\nhot " in hot("inspect", "m").stdout
    hot("evict", "m", "--ratio", "0.5")
    hot("policy", "set", "m", "--prefer", "mixed", "--ratio", "0.5")
    (listed,) = [line for line in hot("list").lines if line.startswith("m@main#1")]
    assert "MIXED" in listed and " % " in listed and "manual, mixed (0.5 hot)" in listed
    text = hot("inspect", "m").stdout
    assert "READY, MIXED " in text and " %\n" in text and "manual, mixed (0.5 hot)" in text
    ratio = hot.json("inspect", "m")["memory"]["hot_ratio"]
    assert 0 < ratio < 1
    hot("rehydrate", "m")
    hot("policy", "set", "m", "--prefer", "cold")
    assert "POLICY" not in hot("list").stdout and "\npolicy" not in hot("inspect", "m").stdout
    tier = hot.json("usage")["tiers"]["hot"]
    assert tier["capacity_bytes"] == 256 * MIB and tier["claimed_bytes"] == 0
    assert 0 < tier["bytes"] <= revision["logical_bytes"] and tier["free_bytes"] <= tier["capacity_bytes"] - tier["bytes"]
    assert hot.json("list")["revisions"][0]["residency"] == "HOT"
    mounted = document["memory"]["instance"]
    assert document["memory"] == {"instance": mounted, "recorded_instance": mounted, "recorded_objects": revision["payload_count"], "recorded_is_mounted": True, "hot_ratio": None}
    assert len(mounted) == 32 and f"memory instance {mounted}" in hot("inspect", "m").stdout
    doctor = hot("doctor").stdout
    assert "hot tier" in doctor and "capacity 256MiB" in doctor and "gone with the next boot" in doctor


def test_memory_that_is_not_mounted_here(hot, source, tmp_path, memory):
    hot("import", source, "m", "--residency", "hot")
    other = hot.at(hot.store, STEELYARD_HOT_PATH=str(memory / "other"))
    (memory / "other").mkdir()
    document = other.json("inspect", "m")
    assert document["revision"]["residency"] == "HOT" and document["replicas"]["hot"] == {"objects": 0, "bytes": 0}
    assert "not mounted here" in other("inspect", "m").stdout
    assert document["memory"]["instance"] is None and not document["memory"]["recorded_is_mounted"]
    verified = other("verify", "m")
    assert verified.last == "ok" and f"memory instance {document['memory']['recorded_instance']} was not read: it is not mounted here" in verified.stdout
    checks = [check for check in other.json("doctor")["checks"] if check["name"] == "hot tier"]
    assert any(check["state"] == "warning" and "m@main#1" in check["found"] for check in checks)
    other("materialize", "m", tmp_path / "out")
    assert tree_digests(tmp_path / "out") == tree_digests(source)


def test_a_place_that_is_no_memory(steelyard, source, tmp_path):
    (tmp_path / "disk").mkdir()
    if os.statvfs(tmp_path).f_fsid == os.statvfs("/dev/shm").f_fsid or in_memory(tmp_path):
        pytest.skip("this test's folder is in memory")
    here = steelyard.at(steelyard.store, STEELYARD_HOT_PATH=str(tmp_path / "disk"))
    error = here.error("import", source, "m", "--residency", "hot", code=2)
    assert "no tmpfs" in error["message"]
    here("import", source, "m")
    checks = [check for check in here.json("doctor")["checks"] if check["name"] == "hot tier"]
    assert [check["state"] for check in checks] == ["warning"] and "no tmpfs" in checks[0]["found"]


@pytest.mark.parametrize(
    ("place", "found"), [("absent", "does not exist"), ("file", "is no folder"), ("shm", "is relative"), ("disk", "is no tmpfs")]
)
def test_a_place_that_is_none_is_a_setting_that_is_wrong(steelyard, source, tmp_path, place, found):
    (tmp_path / "file").write_text("no folder")
    (tmp_path / "disk").mkdir()
    if place == "disk" and in_memory(tmp_path):
        pytest.skip("this test's folder is in memory")
    path = place if place == "shm" else str(tmp_path / place)
    steelyard("import", source, "m")
    here = steelyard.at(steelyard.store, STEELYARD_HOT_PATH=path)
    for command in (("rehydrate", "m"), ("import", source, "n", "--residency", "hot")):
        error = here.error(*command, code=2)
        assert f"hot.path {path} {found}" in error["message"] and "--hot-path" in error["hint"]
    here("verify", "m")


def test_a_place_that_may_not_be_written(steelyard, source, memory):
    steelyard("import", source, "m")
    here = steelyard.at(steelyard.store, STEELYARD_HOT_PATH=str(memory))
    error = here.error("rehydrate", "m", code=9, env={"STEELYARD_FAULT": "EACCES@tier.mkdir"})
    assert f"hot.path {memory} may not be written" in error["message"] and "--hot-path" in error["hint"]


def in_memory(folder: Path) -> bool:
    found = subprocess.run(["stat", "-f", "-c", "%T", folder], capture_output=True, text=True, check=True)
    return found.stdout.strip() == "tmpfs"


# --- what is not ours ---


def test_a_folder_with_the_name_of_an_object_keeps_nothing_in_memory(hot, source, memory):
    hot(*harness.import_args(source, "m"), "--residency", "hot")
    foreign = replicas_in(memory)[1]
    foreign.unlink()
    foreign.mkdir()
    (foreign / "own").write_text("mine")
    evicted = hot("evict", "m")
    assert f"what is no replica of m@main#1 stays in memory: remove {foreign}: " in evicted.stderr
    revision = hot.json("inspect", "m")["revision"]
    assert (revision["residency"], revision["operation"]) == ("COLD", "NONE")
    assert replicas_in(memory) == [foreign] and (foreign / "own").read_text() == "mine"
    hot("rehydrate", "m")
    assert hot("verify", "m").last == "ok" and hot.json("inspect", "m")["revision"]["residency"] == "HOT"
    hot("delete", "m", "--yes")
    assert hot.json("inspect", "m#1")["revision"]["availability"] == "DELETED"
    assert (foreign / "own").read_text() == "mine"


# --- an import that ends in memory ---


KILLED = {"STEELYARD_FAULT": "kill@rehydrate.after_object"}


def test_an_import_that_was_killed_on_the_way_into_memory_goes_on(hot, source):
    words = (*harness.import_args(source, "m"), "--residency", "hot", "--label", "k=v")
    assert hot.run(*words, env=KILLED).code == -9
    (begun,) = harness.revisions(hot, "--all")
    assert (begun["availability"], begun["operation"]) == ("READY", "REHYDRATING")
    document = hot.json(*words)
    assert document["revision"]["ref"] == "m@main#1" and document["revision"]["residency"] == "HOT"
    assert document["stats"]["already_there"] and document["stats"]["written_bytes"] == 0
    assert len(harness.revisions(hot, "--all")) == 1
    assert hot.json("operation", "show", begun["operation_id"])["operation"]["state"] == "DONE"
    # What is in memory is published and done: the next one is another generation.
    assert hot.json(*words)["revision"]["ref"] == "m@main#2"


@pytest.mark.parametrize("other", ["content", "label", "policy", "residency"])
def test_an_import_of_something_else_leaves_what_was_interrupted(hot, source, tmp_path, other):
    words = (*harness.import_args(source, "m"), "--residency", "hot")
    assert hot.run(*words, env=KILLED).code == -9
    others = {
        "content": (*harness.import_args(harness.small_checkpoint(tmp_path / "other", seed=1), "m"), "--residency", "hot"),
        "label": (*words, "--label", "k=v"),
        "policy": (*words, "--policy-prefer", "hot"),
        "residency": (*harness.import_args(source, "m"), "--residency", "cold"),
    }
    document = hot.json(*others[other])
    assert document["revision"]["ref"] == "m@main#2" and not document["stats"]["already_there"]
    assert hot.json("inspect", "m#1")["revision"]["operation"] == "REHYDRATING"


# --- room ---


def test_a_memory_filesystem_of_64_mib(steelyard, tmp_path):
    """Containers have 64 MiB of shared memory, and a load of more ended with a bus error."""
    source = support.large_checkpoint(tmp_path / "source", 100)
    folder = tmp_path / "shm"
    with support.mounted(folder, 64 * MIB, "tmpfs") as missing:
        if missing:
            pytest.skip(missing)
        here = steelyard.at(steelyard.store, STEELYARD_HOT_PATH=str(folder), STEELYARD_HOT_CAPACITY="1GiB")
        before = here("import", source, "m").last
        generation = here.json("inspect", "m")["revision"]["metadata_generation"]
        error = here.error("rehydrate", "m", code=8)
        assert "filesystem" in error["message"] and "--shm-size" in error["hint"]
        document = here.json("inspect", before)
        assert document["revision"]["metadata_generation"] == generation and document["operation"] is None
        # The default, half of the filesystem, is named by its setting.
        error = steelyard.at(steelyard.store, STEELYARD_HOT_PATH=str(folder)).error("rehydrate", "m", code=8)
        assert "hot.capacity" in error["message"] and "half of the filesystem" in error["message"]
        # An import that should end there is refused before it copies anything.
        error = here.error("import", source, "n", "--residency", "hot", code=8)
        assert "--shm-size" in error["hint"] and "--residency cold" in error["hint"]
        here("inspect", "n", code=3)
        preview = here.json("import", source, "n", "--residency", "hot", "--dry-run")
        assert preview["residency"] == "hot"
        assert preview["memory"]["needed_bytes"] == preview["logical_bytes"] > preview["memory"]["available_bytes"]
        assert not replicas_in(folder)


@pytest.mark.slow
def test_a_limit_of_a_container(steelyard, tmp_path):
    """The pages of a memory filesystem count against the container's memory, and the OOM killer came first."""
    source = support.large_checkpoint(tmp_path / "source", 512)
    here = steelyard.at(steelyard.store, STEELYARD_HOT_CAPACITY="100GiB")
    with support.memory_group(256 * MIB) as group:
        if isinstance(group, str):
            pytest.skip(group)
        error = here.error("import", source, "m", "--residency", "hot", code=8, wrapper=group.wrapper)
        assert "memory limit of the cgroup" in error["hint"]
        here("import", source, "m")
        error = here.error("rehydrate", "m", code=8, wrapper=group.wrapper)
        assert "memory limit of the cgroup" in error["hint"]
        assert here.json("inspect", "m")["revision"]["residency"] == "COLD"
        # Who brings it from outside pays for its pages: a reader in the container maps twice as much as it may have.
        here("rehydrate", "m")
        here("materialize", "m", tmp_path / "out", wrapper=group.wrapper)
        with open(os.devnull, "wb") as nowhere:
            here("cat", "m", "part-1.safetensors", wrapper=group.wrapper, stdout=nowhere)
        assert group.kills() == 0
    same = subprocess.run(["cmp", tmp_path / "out" / "part-1.safetensors", source / "part-1.safetensors"])
    assert same.returncode == 0
    here("evict", "m")


def auto_hot(here, tmp_path, names: str, mib: int) -> None:
    for name in names:
        here("import", support.large_checkpoint(tmp_path / name, mib, seed=name), name)
        here("policy", "set", name, "--prefer", "hot", "--mode", "auto")


def residencies(here, names: str) -> list[str]:
    return [here.json("inspect", name)["revision"]["residency"] for name in names]


def test_policies_keep_to_the_limit_of_a_container(steelyard, memory, tmp_path):
    """hot.capacity is far more than the container has: what is idle goes for what is read, and a pin that has no room waits."""
    limit = 230 * MIB
    here = steelyard.at(steelyard.store, STEELYARD_HOT_PATH=str(memory), STEELYARD_HOT_CAPACITY="100GiB", STEELYARD_POLICY_COOLDOWN="0s")
    auto_hot(here, tmp_path, "abc", 48)
    with support.memory_group(limit) as group:
        if isinstance(group, str):
            pytest.skip(group)
        inside = {"wrapper": group.wrapper}
        lease = here("-q", "lease", "acquire", "a", "--holder", "first", "--ttl", "1h", **inside).last
        assert residencies(here, "abc") == ["HOT", "COLD", "COLD"]
        here("lease", "release", lease)
        document = here.json("lease", "acquire", "c", "--holder", "second", "--ttl", "1h", **inside)
        assert document["evicted"] == ["a@main#1"] and residencies(here, "abc") == ["COLD", "COLD", "HOT"]
        here("policy", "set", "b", "--mode", "pinned")
        waiting = here.json("reconcile", **inside)["waiting"]
        assert [(one["ref"], one["code"]) for one in waiting] == [("b@main#1", "NO_SPACE")]
        assert "memory limit of the cgroup" in waiting[0]["hint"]
        here("lease", "release", document["lease"]["lease_id"])
        here("reconcile", **inside)
        assert residencies(here, "abc") == ["COLD", "HOT", "COLD"]
        assert group.kills() == 0
        here("evict", "b", code=13)
        here("policy", "set", "b", "--mode", "manual")
        here("evict", "b", **inside)


def test_nothing_goes_where_a_container_has_too_little_anyway(steelyard, memory, tmp_path):
    """What the container may take is exceeded by more than an eviction frees: none is begun."""
    here = steelyard.at(steelyard.store, STEELYARD_HOT_PATH=str(memory), STEELYARD_HOT_CAPACITY="1GiB")
    auto_hot(here, tmp_path, "ab", 24)
    with support.memory_group(100 * MIB) as group:
        if isinstance(group, str):
            pytest.skip(group)
        here("rehydrate", "a")
        error = here.error("rehydrate", "b", "--make-room", code=8, wrapper=group.wrapper)
        assert "evicting every idle revision would free" in error["message"] and "memory limit of the cgroup" in error["hint"]
        assert "evicted" not in error["hint"] and residencies(here, "ab") == ["HOT", "COLD"]


@pytest.mark.parametrize("foreign", [0, 24 * MIB])
def test_policies_keep_to_what_others_leave_of_a_filesystem(steelyard, tmp_path, foreign):
    folder = tmp_path / "shm"
    with support.mounted(folder, 64 * MIB, "tmpfs") as missing:
        if missing:
            pytest.skip(missing)
        here = steelyard.at(steelyard.store, STEELYARD_HOT_PATH=str(folder), STEELYARD_HOT_CAPACITY="1GiB", STEELYARD_POLICY_COOLDOWN="0s")
        auto_hot(here, tmp_path, "ab", 24)
        (folder / "of others").write_bytes(bytes(foreign))
        lease = here("-q", "lease", "acquire", "a", "--holder", "first", "--ttl", "1h").last
        here("lease", "release", lease)
        document = here.json("lease", "acquire", "b", "--holder", "second", "--ttl", "1h")
        assert document["evicted"] == (["a@main#1"] if foreign else [])
        assert residencies(here, "ab") == (["COLD", "HOT"] if foreign else ["HOT", "HOT"])


def fill(folder: Path, leave: int) -> Path:
    """A foreign file that takes all of a filesystem but so many bytes."""
    with open(folder / "of others", "wb") as out:
        there = os.statvfs(folder)
        os.posix_fallocate(out.fileno(), 0, there.f_bavail * there.f_frsize - leave)
    return folder / "of others"


def test_room_is_made_beside_a_foreign_file(steelyard, tmp_path):
    """What an eviction frees is just what is needed: then it fits, the pages of the claim and of folders with it."""
    folder = tmp_path / "shm"
    with support.mounted(folder, 100 * MIB, "tmpfs") as missing:
        if missing:
            pytest.skip(missing)
        here = steelyard.at(steelyard.store, STEELYARD_HOT_PATH=str(folder), STEELYARD_HOT_CAPACITY="1GiB")
        for name in "abc":
            here("import", support.large_checkpoint(tmp_path / name, 24, seed=name), name)
        here("rehydrate", "a")
        here("rehydrate", "b")
        others = fill(folder, 0)
        document = here.json("rehydrate", "c", "--make-room")
        assert "a@main#1" in document["evicted"] and document["revision"]["residency"] == "HOT"
        # Where even all of it is too little, none of it goes.
        here("evict", "b")
        here("evict", "c")
        here("rehydrate", "b")
        others.unlink()
        others = fill(folder, 0)
        here("import", support.large_checkpoint(tmp_path / "d", 32, seed="d"), "d")
        error = here.error("rehydrate", "d", "--make-room", code=8)
        assert "evicting every idle revision would free" in error["message"] and "--shm-size" in error["hint"]
        assert residencies(here, "bd") == ["HOT", "COLD"]
        others.unlink()
        here("rehydrate", "d", "--make-room")
        assert residencies(here, "bd") == ["HOT", "HOT"]


@pytest.mark.parametrize("leave_pages", range(4))
def test_room_that_is_a_page_or_so_short(steelyard, tmp_path, leave_pages):
    """It is made, or refused before anything went."""
    folder = tmp_path / "shm"
    with support.mounted(folder, 64 * MIB, "tmpfs") as missing:
        if missing:
            pytest.skip(missing)
        here = steelyard.at(steelyard.store, STEELYARD_HOT_PATH=str(folder), STEELYARD_HOT_CAPACITY="1GiB")
        for name in "ab":
            here("import", support.large_checkpoint(tmp_path / name, 24, seed=name), name)
        here("rehydrate", "a")
        fill(folder, leave_pages * os.sysconf("SC_PAGE_SIZE"))
        run = here.run("--json", "rehydrate", "b", "--make-room")
        assert residencies(here, "ab") == (["COLD", "HOT"] if run.code == 0 else ["HOT", "COLD"]), run.stderr
        assert run.code in (0, 8)


def test_memory_that_is_taken_while_it_is_copied(hot, source):
    """What cannot be known first: it is published, and the command says that it is not in memory."""
    error = hot.error("import", source, "m", "--residency", "hot", code=8, env={"STEELYARD_FAULT": "ENOSPC@tier.claim_write"})
    assert "m@main#1, which is published and in the cold tier" in error["message"]
    assert "steelyard rehydrate m@main#1" in error["hint"]
    assert hot.json("inspect", "m")["revision"]["residency"] == "COLD"
    hot("rehydrate", "m")


@pytest.fixture
def three(steelyard, memory, tmp_path):
    """Three revisions of 4 MiB, and memory for two of them."""
    here = steelyard.at(steelyard.store, STEELYARD_HOT_PATH=str(memory), STEELYARD_HOT_CAPACITY="10MiB")
    for name in "abc":
        here("import", harness.small_checkpoint(tmp_path / name, seed=name), name)
    return here


def test_a_refusal_says_what_could_go(three):
    three("rehydrate", "a")
    three("rehydrate", "b")
    error = three.error("rehydrate", "c", code=8)
    assert "hot.capacity is 10" in error["message"]
    assert "evicting 1 idle revision would free" in error["message"] and "(a@main#1)" in error["message"]
    assert "`steelyard rehydrate c@main#1 --make-room`" in error["hint"] and "raise hot.capacity" in error["hint"]
    leases = [three("-q", "lease", "acquire", name, "--holder", "server", "--ttl", "1h").last for name in "ab"]
    for room in ((), ("--make-room",)):
        error = three.error("rehydrate", "c", *room, code=6)
        assert "2 leases of server on a@main#1, b@main#1, the nearest expiry in" in error["message"]
        assert "steelyard lease list a@main#1" in error["hint"]
    three("lease", "release", leases[1])
    assert three.json("rehydrate", "c", "--make-room")["evicted"] == ["b@main#1"]


def test_an_acquire_says_what_went_for_it(three):
    for name in "abc":
        three("policy", "set", name, "--prefer", "hot", "--mode", "auto")
    now = ("--holder", "server", "--ttl", "1h", "--policy-cooldown", "0s")
    assert three.json("lease", "acquire", "a", *now)["evicted"] == []
    for lease in three.json("lease", "list")["leases"]:
        three("lease", "release", lease["lease_id"])
    three("rehydrate", "b")
    document = three.json("lease", "acquire", "c", *now)
    assert document["evicted"] == ["a@main#1"] and document["lease"]["ref"] == "c@main#1"
    assert three.json("inspect", "c")["revision"]["residency"] == "HOT"
    # b is read too, so there is no room for a.
    three("lease", "acquire", "b", *now)
    run = three("lease", "acquire", "a", *now)
    assert "warning: a@main#1 stays where it is" in run.stderr and "hot.high_watermark" in run.stderr


def test_a_lease_that_was_granted_is_told_though_the_revision_is_damaged(three):
    three("policy", "set", "a", "--prefer", "hot", "--mode", "auto")
    spoil_cold(three, "a")
    run = three("-q", "lease", "acquire", "a", "--holder", "server", "--ttl", "1h")
    assert "warning: a@main#1 stays where it is" in run.stderr
    assert three.json("inspect", "a")["revision"]["availability"] == "DEGRADED"
    assert [lease["lease_id"] for lease in three.json("lease", "list", "a")["leases"]] == [run.last]


def test_a_reader_that_is_gone_is_named(hot, tmp_path):
    source = support.large_checkpoint(tmp_path / "source", 4)
    hot("import", source, "m")
    hot("rehydrate", "m")
    # Its output is larger than a pipe, so it stays in the middle.
    with hot.start("cat", "m", "part-0.safetensors") as reader:
        reader.stdout.read(1)
        reader.kill()
    lease = hot.json("lease", "list", "m")["leases"][0]["lease_id"]
    error = hot.error("evict", "m", code=6)
    assert "is gone" in error["hint"] and f"steelyard lease release {lease}" in error["hint"]
    hot("lease", "release", lease)
    hot("evict", "m")


# --- who reads what ---


def test_bringing_what_is_in_memory_reads_nothing(hot, source):
    """Warming up read everything again on every node."""
    hot("import", source, "m", "--residency", "hot")
    spoil_cold(hot, "m")
    document = hot.json("rehydrate", "m")
    assert document["operation"] is None and document["revision"]["residency"] == "HOT"
    assert hot("warm", "m").lines[0].startswith("every object is in memory already: ")


def test_eight_at_once_bring_it_once(hot, source):
    """The same bytes were streamed twice to a node that had them."""
    hot("import", source, "m")
    running = [hot.start("rehydrate", "m") for _ in range(8)]
    said = [process.communicate()[0].decode() for process in running]
    assert [process.returncode for process in running] == [0] * 8
    objects = hot.json("inspect", "m")["revision"]["payload_count"]
    brought = [line for text in said for line in text.splitlines() if line.startswith("moved")]
    assert len(brought) == 1 and brought[0].startswith(f"moved {objects} objects")
    assert hot.json("usage")["tiers"]["hot"]["claimed_bytes"] == 0


def test_another_process_reads_what_the_node_has(hot, source, tmp_path):
    """Every process fetched its own copy although the node had one."""
    hot("import", source, "m", "--residency", "hot")
    spoil_cold(hot, "m")
    hot("materialize", "m", tmp_path / "out")
    assert tree_digests(tmp_path / "out") == tree_digests(source)
    assert state(hot, "m") == ("READY", "NONE")


def test_a_name_that_moves_is_never_served_from_old_memory(hot, tmp_path):
    """An adapter reloaded under the same name was served from the cache of the old one."""
    first = harness.small_checkpoint(tmp_path / "first")
    second = harness.small_checkpoint(tmp_path / "second", seed="second")
    for folder in (first, second):
        hot("import", folder, "adapter", "--residency", "hot")
    for ref, folder in (("adapter", second), ("adapter@main#1", first), ("adapter@main#2", second)):
        hot("materialize", ref, tmp_path / "out", "--force")
        assert tree_digests(tmp_path / "out") == tree_digests(folder)


def test_loading_faults_in_no_page(steelyard, memory, tmp_path):
    """A mapped checkpoint that was not in memory was faulted in page by page."""
    hot = steelyard.at(steelyard.store, STEELYARD_HOT_PATH=str(memory), STEELYARD_HOT_CAPACITY="300MiB")
    hot("import", support.large_checkpoint(tmp_path / "source", 256), "m")
    for words in (["cat", "m", "part-0.safetensors"], ["materialize", "m", tmp_path / "out"], ["rehydrate", "m"]):
        support.forget(hot.store / "cold")
        with open(os.devnull, "wb") as nowhere:
            process = hot.start(*words, stdout=nowhere)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0
        # Pages of the program itself may come from the disk; those of 128 MiB would be 32768.
        assert usage.ru_majflt < 1000, words[0]


# --- mending ---


def test_a_block_that_either_tier_has(hot, tmp_path):
    """Of one object the cold replica is bad in one block, and the one in memory in another."""
    source = support.large_checkpoint(tmp_path / "source", 8, shards=1)
    hot("import", source, "m", "--chunk-size", "4MiB", "--residency", "hot")
    cold = max(objects_of(hot, "m"), key=lambda path: path.stat().st_size)
    memory = Path(hot.extra_env["STEELYARD_HOT_PATH"])
    (replica,) = [path for path in replicas_in(memory) if path.name == cold.name]
    flip(cold, 12345)
    flip(replica, 2 * MIB + 1)
    hot("materialize", "m", tmp_path / "out")
    assert tree_digests(tmp_path / "out") == tree_digests(source)
    hot("repair", "m", code=0)
    assert hot("verify", "m").last == "ok"
    assert hot.json("inspect", "m")["revision"]["residency"] == "HOT"


@pytest.mark.parametrize("verb", ["repair", "reconcile"])
def test_bad_cold_bytes_come_back_from_memory(hot, source, verb):
    hot(*harness.import_args(source, "m"), "--residency", "hot")
    objects = large(objects_of(hot, "m"))
    flip(objects[0])
    objects[1].unlink()
    document = hot.run("--json", "verify", "m")
    assert document.code == 5
    assert {problem["tier"] for problem in document.json()["problems"] if problem["object"]} == {"cold"}
    assert "every byte of it can still be read" in document.error()["hint"]
    assert state(hot, "m") == ("READY", "REPAIRING")
    hot(verb, "m")
    assert state(hot, "m") == ("READY", "NONE")
    assert hot("verify", "m").last == "ok"


def test_bad_bytes_in_memory_are_brought_again(hot, source, memory):
    hot(*harness.import_args(source, "m"), "--residency", "hot")
    flip([path for path in replicas_in(memory) if path.stat().st_size == MIB][0])
    document = hot.run("--json", "verify", "m")
    assert document.code == 5 and [problem["tier"] for problem in document.json()["problems"]] == ["hot"]
    hot("reconcile")
    assert hot("verify", "m").last == "ok" and state(hot, "m") == ("READY", "NONE")
    assert hot.json("inspect", "m")["revision"]["residency"] == "HOT"


def bad_in_memory(memory: Path) -> Path:
    replica = [path for path in replicas_in(memory) if path.stat().st_size == MIB][0]
    flip(replica)
    return replica


@pytest.mark.parametrize("verb", ["cat", "materialize"])
@pytest.mark.parametrize("then", ["repair", "reconcile"])
def test_a_read_that_meets_bad_memory_has_it_mended(hot, source, memory, tmp_path, verb, then):
    """The bytes come from the cold tier, everybody sees what was found, and it is made anew."""
    hot(*harness.import_args(source, "m"), "--residency", "hot")
    whole = {path.name: path.read_bytes() for path in replicas_in(memory)}
    bad = bad_in_memory(memory)
    if verb == "materialize":
        read = hot("materialize", "m", tmp_path / "out")
        assert tree_digests(tmp_path / "out") == tree_digests(source)
    else:
        paths = [one["path"] for one in hot.json("inspect", "m")["manifest"]["files"] if one["objects"]]
        for path in paths:
            read = hot("cat", "m", path)
            assert read.stdout_bytes == (source / path).read_bytes()
            if "damaged in memory" in read.stderr:
                break
    assert "damaged in memory" in read.stderr and bad.name in read.stderr
    assert state(hot, "m") == ("READY", "REPAIRING")
    document = hot.json("inspect", "m")
    assert document["revision"]["residency"] == "MIXED" and document["memory"]["recorded_objects"] == len(whole) - 1
    text = hot("inspect", "m").stdout
    assert "MIXED" in text and "REPAIRING 0 %" in text and "`steelyard repair m@main#1` or a reconcile goes on with it" in text
    assert "REPAIRING of m@main#1" in hot("doctor").stdout
    hot(then, "m")
    assert state(hot, "m") == ("READY", "NONE")
    assert hot.json("inspect", "m")["revision"]["residency"] == "HOT"
    assert {path.name: path.read_bytes() for path in replicas_in(memory)} == whole
    assert hot("verify", "m").last == "ok"


def test_all_that_is_in_memory_is_bad(hot, tmp_path, memory):
    """Then nothing counts as hot, and its good blocks serve what the cold tier lacks all the same."""
    source = support.large_checkpoint(tmp_path / "source", 8, shards=1)
    hot("import", source, "m", "--chunk-size", "16MiB", "--residency", "hot")
    for path in replicas_in(memory):
        flip(path, 10)
    hot("materialize", "m", tmp_path / "out")
    assert state(hot, "m") == ("READY", "REPAIRING") and hot.json("inspect", "m")["revision"]["residency"] == "COLD"
    flip(max(objects_of(hot, "m"), key=lambda path: path.stat().st_size), 2 * MIB + 1)
    hot("materialize", "m", tmp_path / "again")
    assert tree_digests(tmp_path / "again") == tree_digests(source)
    hot("reconcile")
    assert hot("verify", "m").last == "ok" and hot.json("inspect", "m")["revision"]["residency"] == "HOT"


def test_a_replica_that_is_gone_is_a_problem_of_memory(hot, source, memory):
    hot(*harness.import_args(source, "m"), "--residency", "hot")
    gone = [path for path in replicas_in(memory) if path.stat().st_size == MIB][0]
    gone.unlink()
    assert "less in memory than is recorded: m@main#1" in hot("doctor").stdout
    assert "reconcile" in hot("inspect", "m").stdout
    found = hot.run("--json", "verify", "m")
    assert found.code == 5
    (problem,) = found.json()["problems"]
    assert (problem["kind"], problem["tier"]) == ("missing_object", "hot") and problem["object"].endswith(gone.name)
    assert "not whole in memory" in found.error()["message"] and "steelyard rehydrate m@main#1" in found.error()["hint"]
    assert state(hot, "m") == ("READY", "NONE") and hot.json("inspect", "m")["revision"]["residency"] == "MIXED"
    assert hot("verify", "m").last == "ok", "what is recorded is there"
    hot("rehydrate", "m")
    assert hot("verify", "m").last == "ok" and hot.json("inspect", "m")["revision"]["residency"] == "HOT"


def test_a_replica_that_is_gone_of_a_part(hot, source, memory):
    """Of a part nobody knows which ones they were."""
    hot(*harness.import_args(source, "m"))
    hot("rehydrate", "m", "--ratio", "0.5")
    replicas_in(memory)[0].unlink()
    result = hot("verify", "m", code=5)
    assert "missing_object: in the hot tier; wanted" in result.stdout
    assert hot("verify", "m").last == "ok"


@pytest.mark.parametrize("verb", ["cat", "materialize"])
def test_a_read_that_misses_a_replica_records_it(hot, source, memory, tmp_path, verb):
    hot(*harness.import_args(source, "m"), "--residency", "hot")
    replicas_in(memory)[0].unlink()
    read = hot("cat", "m", "config.json") if verb == "cat" else hot("materialize", "m", tmp_path / "out")
    assert "steelyard rehydrate m@main#1" in read.stderr
    assert hot.json("inspect", "m")["revision"]["residency"] == "MIXED"
    assert hot("cat", "m", "config.json").stderr == "", "it is said once"


def test_a_rehydration_whose_memory_went_away(hot, source, memory):
    hot("import", source, "m")
    operation = hot.json("rehydrate", "m", "--no-wait")["operation"]["operation_id"]
    for folder in memory.glob("steelyard-*"):
        shutil.rmtree(folder)
    hot("rehydrate", "m")
    assert hot.json("operation", "show", operation)["operation"]["state"] == "FAILED"
    assert hot.json("inspect", "m")["revision"]["residency"] == "HOT"


# --- what it takes ---


def test_a_damaged_object_takes_no_second_budget(hot, tmp_path):
    """What is wrong with it is found when the buffers of the move are free."""
    source = support.large_checkpoint(tmp_path / "source", 96, shards=1)
    hot("import", source, "m")

    def largest(*words, code) -> int:
        run = hot("--io-memory", "16MiB", *words, wrapper=[sys.executable, "-c", support.LARGEST])
        ended, kibibytes = map(int, run.stdout.split())
        assert ended == code, run.explain()
        return kibibytes * 1024

    whole = largest("rehydrate", "m", code=0)
    evicted = largest("evict", "m", code=0)
    flip(max(objects_of(hot, "m"), key=lambda path: path.stat().st_size))
    assert largest("rehydrate", "m", code=5) <= whole + 6 * MIB
    assert state(hot, "m") == ("DEGRADED", "NONE")
    assert evicted <= whole + 6 * MIB


def test_a_cancel_of_what_has_ended_says_how(hot, source):
    hot("import", source, "m")
    operation = hot.json("rehydrate", "m")["operation"]
    assert operation["processed_members"] == operation["total_members"] and operation["processed_bytes"] == operation["total_bytes"]
    said = hot("operation", "cancel", operation["operation_id"]).stdout
    assert said.splitlines()[0] == "there is nothing to cancel: the operation had ended DONE"
    hot("evict", "m", "--no-wait")
    running = hot.json("inspect", "m")["operation"]["operation_id"]
    assert "nothing to cancel" not in hot("operation", "cancel", running).stdout
    assert hot("operation", "cancel", running).stdout.splitlines()[0].endswith("had ended CANCELLED")
    assert hot("-q", "operation", "cancel", running).stdout.split() == [running]
