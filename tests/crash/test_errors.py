"""System calls that fail at every tier and log point: a typed error, nothing published, the import can be repeated."""

from __future__ import annotations

import pytest

from crash import harness

# Which exit codes say the truth about an errno. An import may also succeed by another way (a copy instead of a link).
EXITS = {
    "ENOSPC": {0, 8, 10},
    "EIO": {0, 5, 10},
    "EACCES": {0, 9, 10},
    "EROFS": {0, 9, 10},
}


@pytest.mark.parametrize("errno_name", sorted(EXITS))
def test_a_call_that_always_fails(steelyard, source, tmp_path, import_io_point, errno_name):
    check(steelyard, source, tmp_path, f"{errno_name}@{import_io_point}", errno_name)


@pytest.mark.parametrize("errno_name", ["ENOSPC", "EIO"])
def test_a_call_that_fails_once(steelyard, source, tmp_path, import_io_pass, errno_name):
    point, number = import_io_pass
    check(steelyard, source, tmp_path, f"{errno_name}@{point}#{number}", errno_name)


@pytest.mark.parametrize("errno_name", ["EMLINK", "EPERM", "EXDEV", "ENOTSUP", "EINVAL"])
def test_a_filesystem_that_cannot(steelyard, source, tmp_path, import_io_point, errno_name):
    """Links and direct I/O that a filesystem does not offer are done without, or the error is typed."""
    check(steelyard, source, tmp_path, f"{errno_name}@{import_io_point}", None)


def check(steelyard, source, tmp_path, rule: str, errno_name: str | None) -> None:
    result = steelyard.run("--json", *harness.import_args(source), env={"STEELYARD_FAULT": rule})
    if result.code == 0:
        harness.assert_whole(steelyard, source, tmp_path)
        return
    error = harness.assert_typed(result)
    assert result.stdout == "", result.explain()
    if errno_name is not None:
        assert result.code in EXITS[errno_name], result.explain()
    if error["code"] != "UNKNOWN_OUTCOME":
        harness.assert_nothing_half_visible(steelyard)
    if not steelyard.store.exists() or not harness.revisions(steelyard):
        harness.import_until_done(steelyard, source)
    harness.assert_whole(steelyard, source, tmp_path)
    harness.assert_no_strays(steelyard.store)


@pytest.mark.parametrize("errno_name", ["EIO", "EACCES"])
def test_reading_that_fails(steelyard, source, tmp_path, materialize_io_point, errno_name):
    """A failing read is an error; no folder appears."""
    steelyard(*harness.import_args(source))
    target = tmp_path / "out"
    result = steelyard.run("--json", "materialize", harness.REF, target, env={"STEELYARD_FAULT": f"{errno_name}@{materialize_io_point}"})
    if result.code != 0:
        harness.assert_typed(result)
        assert not target.exists()
    harness.assert_whole(steelyard, source, tmp_path)
