"""`python -m steelyard`, and the `steelyard` command that pip installs: the same program as the binary."""

from __future__ import annotations

import os
import sys

from steelyard import _ext


def main() -> int:
    """Runs the program with the process's own arguments and returns its exit code."""
    return _ext.run([b"steelyard", *map(os.fsencode, sys.argv[1:])])


if __name__ == "__main__":
    sys.exit(main())
