"""The program is killed at every fault point, and at random moments. Nothing half visible, and the same command again succeeds."""

from __future__ import annotations

import random
import signal
import subprocess
import time

import pytest

from crash import harness
from lib.checkpoints import make_hub_cache, tree_bytes, tree_digests


def test_an_import_passes_points(steelyard, source, tmp_path):
    """Were there none, the tests below would test nothing."""
    points = set(harness.trace(steelyard, tmp_path, *harness.import_args(source)))
    for area in ("import.", "tier.", "log."):
        assert any(name.startswith(area) for name in points), sorted(points)
    assert len(points) >= 10


def test_killed_at_a_point(steelyard, source, tmp_path, import_pass):
    point, number = import_pass
    killed = steelyard.run(*harness.import_args(source), env={"STEELYARD_FAULT": f"kill@{point}#{number}"})
    # Threads may pass a point fewer times in another run; then the import is simply done.
    assert killed.code in (-signal.SIGKILL, 0), killed.explain()
    published = killed.code == 0 or (steelyard.store.exists() and harness.revisions(steelyard) != [])
    if published:
        # Killed after the commit: it is there and whole, and importing it again is refused.
        assert [one["availability"] for one in harness.revisions(steelyard)] == ["READY"]
        steelyard.error(*harness.import_args(source, harness.REF + "#1"), code=4)
        harness.assert_whole(steelyard, source, tmp_path)
        return
    harness.assert_nothing_half_visible(steelyard)
    done = harness.import_until_done(steelyard, source)
    assert done["revision"]["weight_generation"] == 1, "an interrupted generation is continued"
    harness.assert_whole(steelyard, source, tmp_path)
    harness.assert_no_strays(steelyard.store, done["stats"]["payload_objects"])


def test_killed_twice_in_a_row(steelyard, source, tmp_path, import_point):
    """An import that resumes is killed again; the third one succeeds."""
    for _ in range(2):
        killed = steelyard.run(*harness.import_args(source), env={"STEELYARD_FAULT": f"kill@{import_point}"})
        if killed.code != -signal.SIGKILL or harness.revisions(steelyard):
            break
        harness.assert_nothing_half_visible(steelyard)
    if harness.revisions(steelyard) == []:
        harness.import_until_done(steelyard, source)
    harness.assert_whole(steelyard, source, tmp_path)


@pytest.mark.slow
def test_killed_at_random_moments(steelyard, tmp_path):
    """Forty imports of a larger checkpoint, each killed after a seeded delay; every other one at a seeded point, so that
    enough are killed however quick or busy the machine is."""
    source = harness.small_checkpoint(tmp_path / "source", mib_per_shard=24)
    begin = time.monotonic()
    points = harness.trace(steelyard.at(tmp_path / "timing"), tmp_path, *harness.import_args(source))
    whole_s = time.monotonic() - begin
    rng = random.Random(20)
    outcomes = {"killed": 0, "done": 0}
    for round_number in range(40):
        runner = steelyard.at(tmp_path / f"store-{round_number % 4}")
        ref = f"model-{round_number}@main"
        before = [one["ref"] for one in harness.revisions(runner)] if runner.store.exists() else []
        if round_number % 2:
            point = rng.choice(points)
            # How often a point is passed differs a little with how two workers meet.
            number = rng.randint(1, max(1, points.count(point) // 2))
            process = runner.start(*harness.import_args(source, ref), env={"STEELYARD_FAULT": f"kill@{point}#{number}"})
        else:
            process = runner.start(*harness.import_args(source, ref))
            try:
                process.wait(timeout=rng.uniform(0, whole_s))
            except subprocess.TimeoutExpired:
                process.kill()
        process.communicate()
        outcomes["killed" if process.returncode == -signal.SIGKILL else "done"] += 1
        after = [one["ref"] for one in harness.revisions(runner)] if runner.store.exists() else []
        assert after in (before, before + [f"{ref}#1"]), f"round {round_number}"
        if after == before:
            harness.import_until_done(runner, source, ref)
        assert runner.json("verify", ref)["ok"], f"round {round_number}"
    assert outcomes["killed"] >= 10, outcomes
    for number in range(4):
        harness.assert_no_strays(tmp_path / f"store-{number}", cleaned_up=False)


def test_five_kills_leave_no_more_than_one_import(steelyard, source, tmp_path):
    """Disk usage after five kills and one success is that of a success alone."""
    points = harness.passes_to_try(harness.trace(steelyard.at(tmp_path / "clean"), tmp_path, *harness.import_args(source)))
    tier_points = [(name, number) for name, number in points if name.startswith("tier.")]
    for name, number in random.Random(3).choices(tier_points, k=5):
        steelyard.run(*harness.import_args(source), env={"STEELYARD_FAULT": f"kill@{name}#{number}"})
    if not harness.revisions(steelyard):
        harness.import_until_done(steelyard, source)
    clean = tree_bytes(harness.groups_folder(tmp_path / "clean").parent / "groups")
    assert tree_bytes(harness.groups_folder(steelyard.store)) <= clean + 65536


def test_a_killed_materialize_shows_nothing(steelyard, source, tmp_path, materialize_pass):
    point, number = materialize_pass
    steelyard(*harness.import_args(source))
    target = tmp_path / "out"
    killed = steelyard.run("materialize", harness.REF, target, env={"STEELYARD_FAULT": f"kill@{point}#{number}"})
    assert killed.code in (-signal.SIGKILL, 0), killed.explain()
    if target.exists():
        assert tree_digests(target) == tree_digests(source), "visible means complete"
    else:
        steelyard("materialize", harness.REF, target)
        assert tree_digests(target) == tree_digests(source)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
def test_an_interrupted_import_gives_its_token_back(steelyard, source, tmp_path, number):
    points = [name for name in harness.trace(steelyard.at(tmp_path / "clean"), tmp_path, *harness.import_args(source)) if name.startswith("tier.")]
    process = harness.stop_at(steelyard, points[len(points) // 2], 1, *harness.import_args(source))
    process.send_signal(number)
    process.send_signal(signal.SIGCONT)
    code, document, _ = harness.finish(process)
    assert code == 128 + number and document is None
    harness.assert_nothing_half_visible(steelyard)
    harness.import_until_done(steelyard, source)
    harness.assert_whole(steelyard, source, tmp_path)
    harness.assert_no_strays(steelyard.store)


def test_a_hub_snapshot_whose_ref_moved_is_resumed(steelyard, tmp_path):
    """The label hub_ref is given by the import itself: that it would be another one now is no other import."""
    plain = harness.small_checkpoint(tmp_path / "plain")
    for refs_then, refs_now in ((("main",), ()), ((), ("main",)), (("main",), ("v2",))):
        hub = tmp_path / f"hub-{len(refs_then)}-{len(refs_now)}-{'v2' in refs_now}"
        snapshot = make_hub_cache(hub, plain, repo="org/name", refs=refs_then)
        runner = steelyard.at(tmp_path / f"store-{hub.name}")
        killed = runner.run("import", snapshot, "--label", "a=b", env={"STEELYARD_FAULT": "kill@import.after_object_put"})
        assert killed.code == -signal.SIGKILL
        for ref in refs_then:
            (snapshot.parents[1] / "refs" / ref).unlink()
        for ref in refs_now:
            path = snapshot.parents[1] / "refs" / ref
            path.parent.mkdir(exist_ok=True)
            path.write_text(snapshot.name)
        error = runner.error("import", snapshot, "--label", "a=c", code=4)
        assert error["code"] == "CONFLICT" and "labels" in error["message"]
        revision = runner.json("import", snapshot, "--label", "a=b")["revision"]
        assert revision["import_attempt"] == 2 and revision["weight_generation"] == 1
        assert revision["labels"] == {"a": "b", **({"hub_ref": refs_then[0]} if refs_then else {})}
