"""Several importers at once: of one identity, of different ones, stopped ones that wake late, and without working locks."""

from __future__ import annotations

import signal
from collections import Counter

import pytest

from crash import harness

SHORT_TTL = {"STEELYARD_IMPORT_WRITER_TTL": "2s"}


def test_two_importers_of_one_identity(steelyard, source, tmp_path):
    for round_number in range(5):
        ref = f"model-{round_number}"
        both = [steelyard.start("--json", *harness.import_args(source, f"{ref}#1")) for _ in range(2)]
        codes = Counter()
        for process in both:
            code, _, error = harness.finish(process)
            codes[code] += 1
            if code != 0:
                assert error["code"] in ("BUSY", "CONFLICT"), error
        assert codes[0] == 1, codes
        harness.assert_whole(steelyard, source, tmp_path, ref)
    assert len(harness.revisions(steelyard)) == 5
    harness.assert_no_strays(steelyard.store)


def test_the_second_one_can_wait(steelyard, source, tmp_path):
    """--wait: BUSY is waited out; then the identity is there already."""
    first = harness.stop_at(steelyard, "import.after_object_put", 1, *harness.import_args(source, "model#1"))
    second = steelyard.start("--json", *harness.import_args(source, "model#1"), "--wait", "60s")
    try:
        first.send_signal(signal.SIGCONT)
        assert harness.finish(first)[0] == 0
        code, _, error = harness.finish(second)
        assert (code, error["code"]) == (4, "CONFLICT")
    finally:
        for process in (first, second):
            process.kill()
    harness.assert_whole(steelyard, source, tmp_path, "model")


def wait_for_another(steelyard, source):
    """An import that has met the first writer, and stands where it waits for him."""
    return harness.stop_at(steelyard, "import.waiting", 1, *harness.import_args(source, "model"), "--wait", "60s")


def succeed_in_turn(*stopped) -> list[dict]:
    """Lets stopped processes go on, each after the one before has ended; the documents that they answer with."""
    documents = []
    try:
        for process in stopped:
            process.send_signal(signal.SIGCONT)
            code, document, error = harness.finish(process)
            assert code == 0, error
            documents.append(document)
    finally:
        for process in stopped:
            process.kill()
    return documents


def test_what_the_other_writer_published_is_not_made_twice(steelyard, source, tmp_path):
    first = harness.stop_at(steelyard, "import.after_object_put", 1, *harness.import_args(source, "model"))
    second = wait_for_another(steelyard, source)
    published, document = succeed_in_turn(first, second)
    assert document["revision"] == published["revision"]
    stats = document["stats"]
    assert stats["already_there"] is True and stats["written_bytes"] == 0 and published["stats"]["already_there"] is False
    assert stats["reused_bytes"] == stats["logical_bytes"] == published["stats"]["logical_bytes"]
    assert len(harness.revisions(steelyard, "--all")) == 1
    harness.assert_whole(steelyard, source, tmp_path, "model")


def test_other_content_than_the_other_writers_is_the_next_generation(steelyard, source, tmp_path):
    other = harness.small_checkpoint(tmp_path / "other", seed="other")
    first = harness.stop_at(steelyard, "import.after_object_put", 1, *harness.import_args(source, "model"))
    second = wait_for_another(steelyard, other)
    _, document = succeed_in_turn(first, second)
    assert document["revision"]["ref"] == "model@main#2" and document["stats"]["already_there"] is False
    harness.assert_whole(steelyard, other, tmp_path, "model#2")
    harness.assert_whole(steelyard, source, tmp_path, "model#1")


def test_who_waited_for_a_writer_that_died_goes_on_with_his_import(steelyard, source, tmp_path):
    first = harness.stop_at(steelyard, "import.after_object_put", 1, *harness.import_args(source, "model"))
    second = wait_for_another(steelyard, source)
    try:
        first.kill()
        first.communicate()
        second.send_signal(signal.SIGCONT)
        code, document, error = harness.finish(second)
        assert code == 0, error
    finally:
        second.kill()
    assert document["revision"]["ref"] == "model@main#1" and document["revision"]["import_attempt"] == 2
    harness.assert_whole(steelyard, source, tmp_path, "model")


def test_a_live_writer_is_named(steelyard, source):
    stopped = harness.stop_at(steelyard, "import.after_object_put", 1, *harness.import_args(source, "model#1"))
    try:
        error = steelyard.error(*harness.import_args(source, "model#1"), code=6)
        assert error["code"] == "BUSY" and "--wait 30s" in error["hint"]
        assert str(stopped.pid) in error["message"] + str(error["hint"]), error
    finally:
        stopped.kill()
        stopped.communicate()


def test_two_importers_of_different_identities(steelyard, tmp_path):
    sources = [harness.small_checkpoint(tmp_path / f"source-{number}", seed=number) for number in range(2)]
    both = [steelyard.start("--json", *harness.import_args(one, f"model-{number}")) for number, one in enumerate(sources)]
    assert [harness.finish(process)[0] for process in both] == [0, 0]
    for number, one in enumerate(sources):
        harness.assert_whole(steelyard, one, tmp_path, f"model-{number}")
    harness.assert_no_strays(steelyard.store)


def test_equal_content_under_two_names_at_once(steelyard, source, tmp_path):
    """Both link or write the same objects at the same time."""
    both = [steelyard.start("--json", *harness.import_args(source, f"model-{number}")) for number in range(2)]
    assert [harness.finish(process)[0] for process in both] == [0, 0]
    for number in range(2):
        harness.assert_whole(steelyard, source, tmp_path, f"model-{number}")
    harness.assert_no_strays(steelyard.store)


def test_sixteen_imports_at_once(steelyard, source):
    processes = [steelyard.start("--json", *harness.import_args(source, f"model-{number:02d}")) for number in range(16)]
    results = [harness.finish(process, timeout=300) for process in processes]
    assert [code for code, _, _ in results] == [0] * 16, [error for _, _, error in results if error]
    listed = harness.revisions(steelyard)
    assert sorted(one["resource_id"] for one in listed) == [f"model-{number:02d}" for number in range(16)]
    assert [one["committed_seq"] for one in listed] == sorted(one["committed_seq"] for one in listed)
    for number in range(16):
        assert steelyard.json("verify", f"model-{number:02d}")["ok"]
    harness.assert_no_strays(steelyard.store)


def late_points(points: tuple[str, ...]) -> list[tuple[str, int]]:
    """Import points before the commit, each at its last pass, and a few of the tier's in the middle: how often those are
    passed differs a little with how two workers meet."""
    counts = Counter(points)
    imports = [name for name in counts if name.startswith("import.")]
    tier = [name for name in counts if name.startswith("tier.")]
    some = tier[:: max(1, len(tier) // 5)]
    return [(name, counts[name]) for name in imports] + [(name, max(1, counts[name] // 2)) for name in some]


@pytest.mark.slow
def test_a_stopped_writer_that_wakes_late(steelyard, source, tmp_path):
    """Its place was taken meanwhile. What it still does lands where nobody reads, and it says that it lost."""
    points = tuple(harness.trace(steelyard.at(tmp_path / "traced"), tmp_path, *harness.import_args(source)))
    for round_number, (point, number) in enumerate(late_points(points)):
        runner = steelyard.at(tmp_path / f"store-{round_number}", **SHORT_TTL)
        stopped = harness.stop_at(runner, point, number, *harness.import_args(source, "model#1"))
        try:
            second = runner.run("--json", *harness.import_args(source, "model#1"), "--wait", "30s")
            assert second.code in (0, 4), f"{point}#{number}\n{second.explain()}"
            before = harness.revisions(runner)
            assert [one["availability"] for one in before] == ["READY"], f"{point}#{number}"
            stopped.send_signal(signal.SIGCONT)
            code, _, error = harness.finish(stopped)
        finally:
            stopped.kill()
        if second.code == 0:
            assert code != 0, f"{point}#{number}: both say that they published"
            assert error["code"] in ("STALE_GENERATION", "CONFLICT"), f"{point}#{number}: {error}"
        else:
            assert code == 0, f"{point}#{number}: published, but said {error}"
        assert harness.revisions(runner) == before, f"{point}#{number}"
        harness.assert_whole(runner, source, tmp_path, "model")


def test_without_working_locks(steelyard, source, tmp_path, noflock):
    """flock does nothing on some filesystems: locks only save work, they keep nothing true."""
    preload = {"LD_PRELOAD": str(noflock)}
    for round_number in range(5):
        same = [steelyard.start("--json", *harness.import_args(source, f"same-{round_number}#1"), env=preload) for _ in range(2)]
        other = [steelyard.start("--json", *harness.import_args(source, f"other-{round_number}-{n}"), env=preload) for n in range(2)]
        codes = [harness.finish(process) for process in same]
        assert sorted(code for code, _, _ in codes)[0] == 0 and sum(code == 0 for code, _, _ in codes) == 1, codes
        assert [harness.finish(process)[0] for process in other] == [0, 0]
        harness.assert_whole(steelyard, source, tmp_path, f"same-{round_number}")
    assert len(harness.revisions(steelyard)) == 15
    harness.assert_no_strays(steelyard.store)


@pytest.mark.slow
@pytest.mark.parametrize("point", ["log.create.begin", "log.create.before_link"])
def test_a_stopped_creator_holds_nobody(steelyard, source, tmp_path, point):
    """A process that was stopped while it made the store: the next one makes it, and the late one goes on with that."""
    stopped = harness.stop_at(steelyard, point, 1, *harness.import_args(source, "late"))
    try:
        steelyard(*harness.import_args(source, "early"))
        stopped.send_signal(signal.SIGCONT)
        assert harness.finish(stopped)[0] == 0
    finally:
        stopped.kill()
    for ref in ("early", "late"):
        harness.assert_whole(steelyard, source, tmp_path, ref)


def test_many_creators_without_working_locks(steelyard, source, tmp_path, noflock):
    """Each may take the other's unfinished database for a leftover; all of them end with one store."""
    for round_number in range(10):
        runner = steelyard.at(tmp_path / f"store-{round_number}", LD_PRELOAD=str(noflock))
        processes = [runner.start("--json", *harness.import_args(source, f"model-{number}")) for number in range(6)]
        results = [harness.finish(process) for process in processes]
        assert [code for code, _, _ in results] == [0] * 6, [error for _, _, error in results if error]
        assert len(harness.revisions(runner)) == 6
