"""The C++ library as somebody else's program gets it: installed, found by CMake, and nothing but its public headers needed."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from lib.runner import binary

ROOT = Path(__file__).resolve().parent.parent.parent


def run(*command, cwd="/") -> str:
    done = subprocess.run([*map(str, command)], cwd=cwd, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    build = Path(binary()).resolve().parent.parent
    if not list(build.glob("src/api/libsteelyard.so*")):
        pytest.skip("the library is not built")
    where = tmp_path_factory.mktemp("prefix")
    run("cmake", "--install", build, "--component", "cpp", "--prefix", where)
    return where


def test_the_example_builds_and_runs_against_the_installed_library(prefix, tmp_path):
    run("cmake", "-S", ROOT / "examples/reshard", "-B", tmp_path, f"-DCMAKE_PREFIX_PATH={prefix}")
    run("cmake", "--build", tmp_path)
    out = run(tmp_path / "reshard_example")
    assert re.search(r"^step-3: \d+ bytes in \d+ regions$", out, re.M) and out.endswith(" elements compared, 0 differ\n"), out
    assert "with another generation: " in out and "wanted 2" in out


def test_only_the_public_headers_are_installed(prefix):
    found = sorted(path.relative_to(prefix / "include").as_posix() for path in (prefix / "include").rglob("*.h"))
    assert found == [f"steelyard/{name}.h" for name in ("layout", "placement", "reshard", "status", "values")]
    for path in (prefix / "include").rglob("*.h"):
        includes = re.findall(r"^#include (.*)$", path.read_text(), re.M)
        assert all(one.startswith(("<", '"steelyard/')) for one in includes), path


def test_the_library_shows_nothing_of_the_rooms(prefix):
    (library,) = [path for path in prefix.rglob("libsteelyard.so*") if not path.is_symlink()]
    symbols = run("nm", "-D", "--defined-only", "-C", library)
    names = {match.group(1) for match in re.finditer(r"^\S+ [TDBRVWu] (steelyard::\S+)", symbols, re.M)}
    assert any(name.startswith("steelyard::TransferPlan::make(") for name in names)
    inside = [name for name in names if re.match(r"steelyard::[a-z]\w*::", name)]
    assert not inside, inside[:5]
