"""A container's seccomp filter forbids io_uring: threads do the work, and one log line says so."""

from __future__ import annotations

import errno
import sys

import pytest

from crash import harness
from lib.checkpoints import tree_digests

# Answers io_uring_setup (425 on every architecture) with an errno, for the command that it becomes.
FILTER = """
import ctypes, os, struct, sys
rules = [(0x20, 0, 0, 0), (0x15, 0, 1, 425), (0x06, 0, 0, 0x00050000 | int(sys.argv[1])), (0x06, 0, 0, 0x7FFF0000)]
code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *rule) for rule in rules))
program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(rules), ctypes.addressof(code)))
libc = ctypes.CDLL(None, use_errno=True)
NO_NEW_PRIVS, SET_SECCOMP, MODE_FILTER = 38, 22, 2
for words in ((NO_NEW_PRIVS, 1, 0, 0, 0), (SET_SECCOMP, MODE_FILTER, ctypes.addressof(program), 0, 0)):
    if libc.prctl(words[0], *map(ctypes.c_ulong, words[1:])) != 0:
        sys.exit(f"prctl: {os.strerror(ctypes.get_errno())}")
os.execv(sys.argv[2], sys.argv[2:])
"""


@pytest.mark.parametrize("error", [errno.EPERM, errno.ENOSYS])
def test_where_io_uring_is_forbidden(steelyard, source, tmp_path, error):
    wrapper = (sys.executable, "-c", FILTER, error)
    imported = steelyard("--log-level", "info", *harness.import_args(source), wrapper=wrapper)
    assert imported.stderr.count("io_uring is not available here") == 1, imported.stderr
    assert steelyard.json("verify", harness.REF, wrapper=wrapper)["ok"]
    steelyard("materialize", harness.REF, tmp_path / "out", wrapper=wrapper)
    assert tree_digests(tmp_path / "out") == tree_digests(source)
