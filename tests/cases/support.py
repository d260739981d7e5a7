"""Filesystems and memory limits of a test's own, and large sources that cost little to make."""

from __future__ import annotations

import os
import struct
import subprocess
import uuid
from contextlib import contextmanager
from pathlib import Path

from lib.checkpoints import make_checkpoint

MIB = 1024 * 1024


def large_checkpoint(folder: Path, mib: int, shards: int = 2, seed: str = "") -> Path:
    """A checkpoint of about `mib` MiB in sparse files. Each MiB begins with its own number, so that no two objects are equal;
    those of another seed are others."""
    make_checkpoint(folder, shards=1, tensors_per_shard=1)
    (folder / "model.safetensors").unlink()
    for shard in range(shards):
        size = mib // shards * MIB
        header = b'{"part%d.weight":{"dtype":"U8","shape":[%d],"data_offsets":[0,%d]}}' % (shard, size, size)
        header += b" " * (-len(header) % 8)
        with open(folder / f"part-{shard}.safetensors", "wb") as out:
            out.write(struct.pack("<Q", len(header)) + header)
            begin = out.tell()
            out.truncate(begin + size)
            for number in range(size // MIB):
                out.seek(begin + number * MIB)
                out.write(b"%s%d/%d" % (seed.encode(), shard, number))
    return folder


def forget(folder: Path) -> None:
    """Takes the files of a folder out of the page cache, so that whoever reads them reads the disk, and is charged for them."""
    for path in folder.rglob("*"):
        if not path.is_file():
            continue
        with open(path, "rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


@contextmanager
def mounted(folder: Path, size: int, kind: str):
    """A filesystem of `size` bytes on `folder`; yields None, or why it could not be had."""
    folder.mkdir(parents=True, exist_ok=True)
    if os.geteuid() != 0:
        yield "mounting needs root"
        return
    if kind == "tmpfs":
        words = ["-t", "tmpfs", "-o", f"size={size}", "tmpfs"]
    else:
        image = folder.with_suffix(".image")
        with open(image, "wb") as out:
            out.truncate(size)
        subprocess.run(["mkfs.ext4", "-q", "-m", "0", "-O", "^has_journal", image], check=True)
        words = ["-o", "loop", str(image)]
    done = subprocess.run(["mount", *words, str(folder)], capture_output=True, text=True)
    try:
        yield None if done.returncode == 0 else f"mount {' '.join(words)}: {done.stderr.strip()}"
    finally:
        if done.returncode == 0:
            subprocess.run(["umount", "-l", folder], check=False)


# The largest resident size of a process counts from its fork: the one that forks has to be small itself.
LARGEST = """
import os, sys
pid = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ, file_actions=[(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)])
_, status, usage = os.wait4(pid, 0)
print(os.waitstatus_to_exitcode(status), usage.ru_maxrss)
"""


class MemoryGroup:
    """A control group with a limit. `wrapper` starts a command inside it."""

    def __init__(self, folder: Path, peak: str, events: str):
        self.folder, self.peak_file, self.events = folder, peak, events
        self.wrapper = ("sh", "-c", f'echo $$ > "{folder}/cgroup.procs" && exec "$0" "$@"')

    def peak(self) -> int:
        return int((self.folder / self.peak_file).read_text())

    def kills(self) -> int:
        rows = dict(line.split() for line in (self.folder / self.events).read_text().splitlines())
        return int(rows.get("oom_kill", 0))


def own_group(controller: str) -> str:
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, group = line.split(":", 2)
        if controller in controllers.split(","):
            return group
    return "/"


@contextmanager
def memory_group(limit: int):
    """A MemoryGroup (version 1 or 2 of the interface), or the reason why there is none."""
    name = f"steelyard-test-{uuid.uuid4().hex[:12]}"
    first, second = Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")
    try:
        if (first / "memory.limit_in_bytes").exists():
            folder = first / own_group("memory").lstrip("/") / name
            folder.mkdir()
            group = MemoryGroup(folder, "memory.max_usage_in_bytes", "memory.oom_control")
            (folder / "memory.limit_in_bytes").write_text(str(limit))
        elif "memory" in (second / "cgroup.controllers").read_text().split():
            folder = second / name
            folder.mkdir()
            group = MemoryGroup(folder, "memory.peak", "memory.events")
            (folder / "memory.max").write_text(str(limit))
            (folder / "memory.swap.max").write_text("0")
            (folder / group.peak_file).read_text()
        else:
            yield "no memory controller"
            return
    except OSError as error:
        yield f"no control group can be made: {error}"
        return
    try:
        yield group
    finally:
        folder.rmdir()
