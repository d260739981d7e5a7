"""A store copied while it is used; containers whose clocks begin elsewhere; wall clocks that are set."""

from __future__ import annotations

import datetime
import shutil
import signal
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from crash import checker, harness
from lib.waiting import wait_until

DAY = 24 * 3600


# --- a copy of a store in use ---


def copy_in_use(origin: Path, copy: Path) -> None:
    """As `cp -r` does it, file after file; what goes away under it is left out."""
    subprocess.run(["cp", "-r", origin, copy], check=False, capture_output=True)


@pytest.mark.slow
def test_a_copy_made_during_imports(steelyard, source, tmp_path):
    """No point in time is copied. The copy opens or says what is wrong with it; what it calls READY verifies or is named;
    a recovery gives whatever its files hold."""
    steelyard(*harness.import_args(source, "before"))
    seen: Counter[str] = Counter()
    points = ["import.after_object_put", "import.after_flush", "log.prepared", "import.after_commit", "tier.after_link"]
    for number, point in enumerate(points):
        other = harness.small_checkpoint(tmp_path / f"other-{number}", seed=number)
        stopped = harness.stop_at(steelyard, point, 2 if point.startswith("log") else 1, *harness.import_args(other, f"m-{number}"))
        more = [steelyard.start(*harness.import_args(source, f"twin-{number}-{n}")) for n in range(2)] if point != "log.prepared" else []
        copy = steelyard.at(tmp_path / f"copy-{number}")
        try:
            copy_in_use(steelyard.store, copy.store)
        finally:
            stopped.send_signal(signal.SIGCONT)
            for process in (stopped, *more):
                process.communicate(timeout=300)
                assert process.returncode == 0
        check_copy(copy, seen)
    checker.assert_sound(steelyard)
    assert seen["READY"] >= len(points), seen


def check_copy(copy, seen: Counter) -> None:
    listed = copy.run("--json", "list")
    assert listed.code in (0, 5, 10), listed.explain()
    if listed.code == 0:
        for one in listed.json()["revisions"]:
            report = copy.run("--json", "verify", one["ref"])
            assert report.code in (0, 5, 11), report.explain()
            assert report.code != 5 or report.json()["problems"], report.explain()
            seen["READY" if report.code == 0 else "named"] += 1
    copy("recover", "--force", "--yes")
    recovered = harness.revisions(copy)
    assert any(one["resource_id"] == "before" for one in recovered)
    for one in recovered:
        report = copy.run("--json", "verify", one["ref"])
        assert report.code in (0, 5) and (report.code == 0) == (report.json()["problems"] == []), report.explain()
    assert copy.json("verify", "before")["ok"], "what lay still was copied whole"


# --- time namespaces ---


def container(offset_s: int) -> tuple:
    """A time namespace whose CLOCK_MONOTONIC and CLOCK_BOOTTIME are ahead by an offset."""
    wrapper = ("unshare", "--time", "--monotonic", str(offset_s), "--boottime", str(offset_s))
    done = subprocess.run([*wrapper, "true"], capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"unshare --time: {done.stderr.strip()}")
    return wrapper


@pytest.mark.parametrize("offset", [DAY, 400 * DAY])
def test_leases_of_containers(steelyard, source, offset):
    """A lease that one gives the other sees with the time that is left: it neither ends at once nor lives for ever."""
    steelyard(*harness.import_args(source, "m"))
    wrapper = container(offset)
    for mine, other in ((wrapper, ()), ((), wrapper)):
        lease = steelyard("-q", "lease", "acquire", "m", "--holder", "h", "--ttl", "1h", wrapper=mine).last
        for seen_by in (mine, other):
            (row,) = steelyard.json("lease", "list", wrapper=seen_by)["leases"]
            assert row["lease_id"] == lease and 3000 < row["ttl_seconds_left"] <= 3600, row
            steelyard.error("delete", "m", "--yes", code=6, wrapper=seen_by)
        steelyard("lease", "renew", lease, "--ttl", "1h", wrapper=other)
        steelyard("lease", "release", lease, wrapper=other)
        short = steelyard("-q", "lease", "acquire", "m", "--holder", "h", "--ttl", "1s", wrapper=mine).last
        wait_until(lambda other=other: steelyard.json("lease", "list", wrapper=other)["leases"] == [], timeout_s=30)
        assert steelyard.error("lease", "renew", short, "--ttl", "1h", code=(3, 12), wrapper=other)
    steelyard("delete", "m", "--yes", wrapper=wrapper)


def test_writers_of_containers(steelyard, source, tmp_path):
    """A writer in one container is alive for the other until its time is over, and then is taken over."""
    wrapper = container(DAY)
    env = {"STEELYARD_IMPORT_WRITER_TTL": "2s"}
    for mine, other, ref in ((wrapper, (), "a"), ((), wrapper, "b")):
        stopped = start_in(steelyard, mine, env, source, ref)
        try:
            done = steelyard.json(*harness.import_args(source, f"{ref}#1"), "--wait", "60s", wrapper=other, env=env)
            assert done["revision"]["import_attempt"] == 2
        finally:
            stopped.kill()
            stopped.communicate()
        harness.assert_whole(steelyard, source, tmp_path, ref)
    assert len(harness.revisions(steelyard)) == 2


def start_in(steelyard, wrapper, env, source, ref):
    """An import in a container that has stopped itself."""
    process = steelyard.start(
        "--json", *harness.import_args(source, f"{ref}#1"), wrapper=wrapper, env={**env, "STEELYARD_FAULT": "stop@import.after_flush#1"}
    )
    harness.wait_until(lambda: harness.is_stopped(process) or process.poll() is not None, "stop in the container")
    assert process.poll() is None, process.communicate()
    return process


# --- wall clocks ---


def test_wall_clocks_that_are_set(steelyard, source, wallclock):
    """Years ahead and back: no lease ends by it, no record goes back in time, and nothing is lost."""
    ahead, back, right = ({"LD_PRELOAD": str(wallclock), "WALLCLOCK_OFFSET": str(days * DAY)} for days in (3650, -3650, 0))
    steelyard(*harness.import_args(source, "m"), env=ahead)
    assert int(steelyard.json("inspect", "m")["revision"]["created_at"][:4]) > datetime.date.today().year + 5, "the clock is wrong"
    lease = steelyard("-q", "lease", "acquire", "m", "--holder", "h", "--ttl", "1h", env=back).last
    for env in (ahead, back, right):
        (row,) = steelyard.json("lease", "list", env=env)["leases"]
        assert row["lease_id"] == lease and 3000 < row["ttl_seconds_left"] <= 3600
        steelyard.error("delete", "m", "--yes", code=6, env=env)
    # A writer that lives is not abandoned ten years later, and one that is gone is taken over.
    stopped = harness.stop_at(steelyard, "import.after_flush", 1, *harness.import_args(source, "n#1"), **back)
    try:
        steelyard("reconcile", env=ahead)
        assert steelyard.json("inspect", "n#1")["revision"]["availability"] == "IMPORTING"
    finally:
        stopped.kill()
        stopped.communicate()
    steelyard(*harness.import_args(source, "n#1"), env=back)
    before = steelyard.json("inspect", "m")["revision"]
    steelyard("lease", "release", lease, env=back)
    after = steelyard.json("delete", "m", "--yes", env=back)["revision"]
    assert after["updated_at"] >= before["updated_at"] >= before["created_at"]
    checker.assert_back_to_nothing(steelyard)


# --- clocks and boots beside memory ---


def with_memory(steelyard, memory_path, **env):
    (memory_path / "hot").mkdir(exist_ok=True)
    return steelyard.at(steelyard.store, STEELYARD_HOT_PATH=str(memory_path / "hot"), STEELYARD_HOT_CAPACITY="64MiB", **env)


def residency(steelyard, wrapper=()) -> tuple[str, str, str]:
    one = steelyard.json("inspect", "m", wrapper=wrapper)["revision"]
    return one["availability"], one["residency"], one["operation"]


@pytest.mark.parametrize("days", [3650, -3650])
def test_a_move_beside_a_wall_clock_that_is_set(steelyard, source, memory_path, wallclock, days):
    """The token of a runner that stands still is not over ten years later, and a lease keeps what is in memory."""
    hot, wrong = with_memory(steelyard, memory_path), {"LD_PRELOAD": str(wallclock), "WALLCLOCK_OFFSET": str(days * DAY)}
    hot(*harness.import_args(source, "m"))
    stopped = harness.stop_at(hot, "rehydrate.after_object", 1, "rehydrate", "m")
    try:
        operation = hot.json("inspect", "m")["operation"]["operation_id"]
        assert "REHYDRATING" in hot.error("evict", "m", code=6, env=wrong)["message"]
        assert hot.json("operation", "show", operation, env=wrong)["operation"]["state"] == "RUNNING"
        stopped.send_signal(signal.SIGCONT)
        assert harness.finish(stopped)[0] == 0
    finally:
        stopped.kill()
    lease = hot("-q", "lease", "acquire", "m", "--holder", "h", "--ttl", "1h", env=wrong).last
    for env in (wrong, {}):
        hot.error("evict", "m", code=6, env=env)
        hot("reconcile", env=env)
        assert residency(hot) == ("READY", "HOT", "NONE")
    hot("lease", "release", lease, env=wrong)
    hot("evict", "m", env=wrong)
    hot("rehydrate", "m", env=wrong)
    checker.assert_sound(hot)
    checker.assert_back_to_nothing(hot)


def test_a_move_in_another_time_namespace(steelyard, source, memory_path):
    """A runner of one container lives for the other until its time is over; then it is taken over."""
    wrapper = container(DAY)
    hot = with_memory(steelyard, memory_path, STEELYARD_IMPORT_WRITER_TTL="2s")
    hot(*harness.import_args(source, "m"))
    process = hot.start("rehydrate", "m", wrapper=wrapper, env={"STEELYARD_FAULT": "stop@rehydrate.after_object#1"})
    try:
        harness.wait_until(lambda: harness.is_stopped(process) or process.poll() is not None, "stop in the container")
        hot("rehydrate", "m")
        assert residency(hot) == residency(hot, wrapper) == ("READY", "HOT", "NONE")
    finally:
        process.kill()
        process.communicate()
    lease = hot("-q", "lease", "acquire", "m", "--holder", "h", "--ttl", "1h", wrapper=wrapper).last
    for seen_by in (wrapper, ()):
        hot.error("evict", "m", code=6, wrapper=seen_by)
    hot("lease", "release", lease)
    hot("evict", "m", wrapper=wrapper)
    checker.assert_back_to_nothing(hot)


def another_boot(folder: Path) -> tuple:
    """Starts a command that finds the machine's boot to be another one."""
    boot = folder / "boot_id"
    boot.write_text("11111111-2222-4333-8444-555555555555\n")
    wrapper = ("unshare", "--mount", "sh", "-c", f'mount --bind "{boot}" /proc/sys/kernel/random/boot_id && exec "$0" "$@"')
    done = subprocess.run([*wrapper, "true"], capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"unshare --mount: {done.stderr.strip()}")
    return wrapper


@pytest.mark.parametrize("operation", ["none", "evicting", "rehydrating", "in the middle of its removals"])
def test_memory_that_is_lost_with_a_boot(steelyard, source, tmp_path, memory_path, operation):
    """What was HOT is COLD, nothing is damaged, and what was begun comes to its end."""
    hot, boot = with_memory(steelyard, memory_path), another_boot(tmp_path)
    hot(*harness.import_args(source, "m"), *(() if operation == "rehydrating" else ("--residency", "hot")))
    if operation == "in the middle of its removals":
        hot("evict", "m", code=-signal.SIGKILL, env={"STEELYARD_FAULT": "kill@tier.remove#2", "STEELYARD_IMPORT_WRITER_TTL": "2s"})
    elif operation != "none":
        hot({"evicting": "evict", "rehydrating": "rehydrate"}[operation], "m", "--no-wait")
    lease = hot("-q", "lease", "acquire", "m", "--holder", "h", "--ttl", "1h").last
    for folder in (memory_path / "hot").iterdir():
        shutil.rmtree(folder)
    # Before anybody has looked: readable, from the cold tier.
    assert hot.json("verify", "m", wrapper=boot)["ok"]
    (row,) = hot.json("lease", "list", wrapper=boot)["leases"]
    assert row["lease_id"] == lease
    hot("lease", "release", lease, wrapper=boot)
    # The token of a runner of another boot is waited for, which a reconcile does not.
    told = hot(*(("evict", "m") if operation == "in the middle of its removals" else ("reconcile",)), wrapper=boot)
    assert residency(hot, boot) == ("READY", "HOT" if operation == "rehydrating" else "COLD", "NONE"), told.explain()
    assert hot.json("doctor", wrapper=boot)["ok"]
    hot("rehydrate", "m", wrapper=boot)
    assert residency(hot, boot) == ("READY", "HOT", "NONE")
    assert hot.json("verify", "m", wrapper=boot)["hot_objects"] > 0
    hot("evict", "m", wrapper=boot)
    hot("materialize", "m", tmp_path / "out", wrapper=boot)
    checker.assert_one_of(tmp_path / "out", [source])
