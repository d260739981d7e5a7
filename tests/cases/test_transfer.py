"""Writers that die or meet, readers of damaged or read-only stores, and what progress says meanwhile."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time

import pytest

from crash import harness
from lib.checkpoints import make_checkpoint, tree_digests
from lib.waiting import wait_until

MIB = 1024 * 1024


@pytest.fixture
def source(tmp_path):
    return harness.small_checkpoint(tmp_path / "source")


def payload_of(store, file_number: int):
    """The payload object of that number in the only group."""
    (path,) = store.rglob(f"groups/*/*/*/p/{file_number:08d}")
    return path


def object_of(steelyard, ref: str, path: str, index: int) -> int:
    """Number of the index-th object of a file: objects are numbered in the order of the paths."""
    number = 0
    for one in steelyard.json("inspect", ref)["manifest"]["files"]:
        if one["path"] == path:
            return number + index
        number += one["objects"]
    raise AssertionError(path)


def events(text: str) -> dict[str, list[dict]]:
    phases: dict[str, list[dict]] = {}
    for line in text.splitlines():
        one = json.loads(line)
        if one.get("event") == "progress":
            phases.setdefault(one["phase"], []).append(one)
    return phases


def check_progress(text: str, complete: bool) -> None:
    """Totals stay, what is done never goes back nor beyond, and the end is the whole."""
    phases = events(text)
    assert "import" in phases
    for name, shown in phases.items():
        assert len({(one["bytes_total"], one["files_total"]) for one in shown}) == 1, name
        for key in ("bytes", "files"):
            done = [one[f"{key}_done"] for one in shown]
            assert done == sorted(done) and done[-1] <= shown[0][f"{key}_total"], name
        if complete:
            assert shown[-1]["bytes_done"] == shown[-1]["bytes_total"], name


def test_a_dead_writer_blocks_nobody(steelyard, source):
    """A lock outlived its owner and blocked for ever. A killed import is taken over at once, under the same generation."""
    for point in ("import.after_begin", "import.after_object_put", "import.after_manifest_put"):
        killed = steelyard.run(*harness.import_args(source), env={"STEELYARD_FAULT": f"kill@{point}"})
        assert killed.code == -signal.SIGKILL
        assert steelyard.json("inspect", f"{harness.REF}#1")["revision"]["availability"] == "IMPORTING"
    done = harness.import_until_done(steelyard, source)["revision"]
    assert (done["weight_generation"], done["import_attempt"]) == (1, 4)
    assert done["created_at"] <= done["updated_at"]


def test_a_resumed_import_writes_only_what_is_missing(steelyard, source):
    killed = steelyard.run(*harness.import_args(source), env={"STEELYARD_FAULT": "kill@import.after_objects"})
    assert killed.code == -signal.SIGKILL
    stats = steelyard.json(*harness.import_args(source))["stats"]
    assert stats["written_bytes"] < MIB < stats["reused_bytes"]


@pytest.mark.parametrize("fault", ["", "ENOSPC@tier.short_write", "EIO@tier.short_read", "EINVAL@tier.direct", "EIO@tier.io_uring"])
def test_totals_stay_the_same(steelyard, source, fault):
    """A retry made the total grow. Work that is done twice, or by another way, does not show."""
    result = steelyard(*harness.import_args(source), "--progress", "json", "--verify-after-write", env={"STEELYARD_FAULT": fault} if fault else {})
    check_progress(result.stderr, complete=True)


def test_totals_stay_the_same_when_it_fails_and_goes_on(steelyard, source):
    failed = steelyard(*harness.import_args(source), "--progress", "json", code=10, env={"STEELYARD_FAULT": "EIO@tier.write#4"})
    check_progress("\n".join(line for line in failed.stderr.splitlines() if line.startswith("{")), complete=False)
    resumed = steelyard(*harness.import_args(source), "--progress", "json")
    check_progress(resumed.stderr, complete=True)
    first = events(failed.stderr.replace("error:", "")[: failed.stderr.index("error:")])["import"][0]
    assert events(resumed.stderr)["import"][0]["bytes_total"] == first["bytes_total"]


def test_progress_in_a_log_file(steelyard, source, tmp_path):
    """Logs of containers showed nothing: all was one line, rewritten by carriage returns."""
    with open(tmp_path / "log", "wb") as log:
        process = steelyard.start(*harness.import_args(source), stderr=log, env={"STEELYARD_FAULT": "stop@import.after_object_put#2"})
        harness.wait_until(lambda: harness.is_stopped(process), "stop")
        # Longer than the time between two lines, which was counted from before the stop.
        begin = time.monotonic()
        wait_until(lambda: time.monotonic() - begin > 3.2)
        process.send_signal(signal.SIGCONT)
        process.communicate(timeout=300)
        seconds = time.monotonic() - begin
    assert process.returncode == 0
    text = (tmp_path / "log").read_bytes().decode()
    assert "\r" not in text and "\x1b" not in text and text.endswith("\n")
    lines = text.splitlines()
    assert 2 <= len(lines) <= 3 + seconds / 3 and all(line.startswith("import: ") for line in lines) and "100 %" in lines[-1], text


@pytest.mark.parametrize("verb", ["materialize", "cat", "verify"])
def test_an_object_cut_while_it_is_read(steelyard, tmp_path, verb):
    """A file that shrank under a mapping killed the reader (SIGBUS). Here it is an error with the object's name."""
    source = harness.small_checkpoint(tmp_path / "source", mib_per_shard=8)
    steelyard(*harness.import_args(source))
    file = "model-00002-of-00002.safetensors"
    words = {"materialize": [tmp_path / "out"], "cat": [file], "verify": []}[verb]
    process = harness.stop_at(steelyard, "tier.read", 3, verb, harness.REF, *words)
    try:
        for index in (6, 7, 8):
            victim = payload_of(steelyard.store, object_of(steelyard, harness.REF, file, index))
            victim.chmod(0o600)
            assert victim.stat().st_size == MIB
            os.truncate(victim, 4097)
        process.send_signal(signal.SIGCONT)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 5, err
    if verb == "verify":
        problems = json.loads(out)["problems"]
        assert {one["kind"] for one in problems} & {"object_size", "object_checksum"} and any(one["file"] == file for one in problems)
    else:
        message = json.loads(err.decode().splitlines()[-1])["error"]["message"]
        assert "/payload/0000" in message, message
    assert not (tmp_path / "out").exists()


def test_right_size_and_wrong_bytes(steelyard, tmp_path):
    """Garbled answers came from one flipped byte in a file of the right size."""
    source = make_checkpoint(tmp_path / "source", shards=2, tensors_per_shard=2, shape=(1024, 1024), nested=True)
    steelyard("import", source, "model", "--chunk-size", "1MiB")
    file = "model-00002-of-00002.safetensors"
    number = object_of(steelyard, "model", file, 4)  # after its header: 1 MiB objects of two tensors of 2 MiB
    victim = payload_of(steelyard.store, number)
    victim.chmod(0o600)
    with open(victim, "r+b") as out:
        out.seek(MIB // 2)
        byte = out.read(1)
        out.seek(MIB // 2)
        out.write(bytes([byte[0] ^ 0x40]))
    result = steelyard("--json", "verify", "model", code=5)
    report = result.json()
    (problem,) = [one for one in report["problems"] if one["kind"] == "object_checksum"]
    assert problem["file"] == file and problem["object"].endswith(f"/payload/{number:08d}") and problem["offset"] == 0
    assert problem["tensor"] == "model.layers.3.mlp.up_proj.weight" and problem["tensors"] == [problem["tensor"]]
    assert not report["ok"] and problem["expected"] != problem["actual"]
    again = steelyard.json("verify", "model", code=5)
    assert again["problems"] == report["problems"], "verify says the same a second time"
    assert steelyard.error("cat", "model", file, code=11)["code"] == "NOT_READY"
    healthy = "model-00001-of-00002.safetensors"
    assert steelyard("cat", "model", healthy, "--allow-degraded").stdout_bytes == (source / healthy).read_bytes()
    result = steelyard("--json", "materialize", "model", tmp_path / "out", "--allow-degraded", code=5)
    assert result.error()["code"] == "CORRUPT" and file in result.error()["message"]
    assert [one["file"] for one in result.json()["missing"]] == [file]
    whole = tree_digests(source)
    del whole[file]
    assert tree_digests(tmp_path / "out") == whole, "what is intact, and no file that looks whole and is not"
    # The same checkpoint again is a new revision and must not share the bad bytes.
    steelyard("import", source, "model", "--chunk-size", "1MiB")
    assert steelyard.json("verify", "model")["ok"]


def tried_writes(trace: str) -> list[str]:
    """Calls that change a filesystem, or would have, had they been let."""
    calls = []
    for line in trace.splitlines():
        opened = "open" in line and any(flag in line for flag in ("O_WRONLY", "O_RDWR", "O_CREAT"))
        changed = any(f" {name}(" in line for name in ("mkdir", "mkdirat", "unlink", "unlinkat", "rename", "renameat2", "linkat", "fchmod", "ftruncate"))
        if (opened or changed) and "/dev/" not in line:
            calls.append(line)
    return calls


def test_a_read_only_mount(steelyard, source, tmp_path):
    """A read-only cache failed to load, or served an old file. Here nothing is even tried, and EROFS says what it is."""
    steelyard(*harness.import_args(source))
    mounted = tmp_path / "mounted"
    mounted.mkdir()
    for words in (("--bind", steelyard.store, mounted), ("-o", "remount,bind,ro", mounted)):
        refused = harness.mount(*words)
        if refused:
            subprocess.run(["umount", "-l", mounted], check=False, capture_output=True)
            pytest.skip(refused)
    try:
        reader = steelyard.at(mounted)
        trace = tmp_path / "trace"
        calls = "trace=open,openat,openat2,mkdir,mkdirat,unlink,unlinkat,rename,renameat2,linkat,fchmod,ftruncate"
        strace = ("strace", "-f", "-qq", "-o", trace, "-e", calls)
        traceable = shutil.which("strace") is not None and subprocess.run([*map(str, strace), "true"], capture_output=True).returncode == 0
        for words in (["list"], ["inspect", harness.REF], ["verify", harness.REF], ["cat", harness.REF, "config.json"]):
            reader(*words, wrapper=strace if traceable else ())
            # SQLite asks for write access first and is content with less.
            tried = [line for line in tried_writes(trace.read_text()) if not ("catalog.db" in line and "EROFS" in line)] if traceable else []
            assert tried == [], words
        reader("materialize", harness.REF, tmp_path / "out")
        assert tree_digests(tmp_path / "out") == tree_digests(source)
        error = reader.error(*harness.import_args(source, "new"), code=(9, 10))
        assert "ead-only" in error["message"] + error["hint"], error
    finally:
        subprocess.run(["umount", "-l", mounted], check=False)
