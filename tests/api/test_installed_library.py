"""The C++ library as somebody else's program gets it: installed, found by CMake or pkg-config, and nothing but its public headers needed."""

from __future__ import annotations

import json
import os
import re
import struct
import subprocess
import zlib
from pathlib import Path

import pytest

from lib.checkpoints import make_checkpoint
from lib.runner import binary

ROOT = Path(__file__).resolve().parent.parent.parent
HEADERS = ("layout", "log", "placement", "reshard", "revision", "status", "store", "values")
EXAMPLES = ("reshard", "store", "serve")


def run(*command, cwd="/", code=0, env=None) -> str:
    done = subprocess.run(
        [*map(str, command)], cwd=cwd, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=900, env={**os.environ, **(env or {})}
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout if code == 0 else done.stderr


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    build = Path(binary()).resolve().parent.parent
    if not list(build.glob("src/api/libsteelyard.so*")):
        pytest.skip("the library is not built")
    where = tmp_path_factory.mktemp("prefix")
    run("cmake", "--install", build, "--component", "cpp", "--prefix", where)
    return where


def pkg_config_flags(prefix: Path) -> list[str]:
    """What compiles and links a program, and lets it find the library where it is installed."""
    (pc,) = prefix.rglob("steelyard.pc")
    flags = run("pkg-config", "--cflags", "--libs", "steelyard", env={"PKG_CONFIG_PATH": str(pc.parent)}).split()
    (folder,) = [flag[2:] for flag in flags if flag.startswith("-L")]
    return [*flags, f"-Wl,-rpath,{folder}"]


@pytest.fixture(scope="module", params=["cmake", "pkg-config"])
def examples(prefix, request, tmp_path_factory):
    """The example programs by name, built as somebody's own."""
    work = tmp_path_factory.mktemp(request.param)
    programs = {}
    for name in EXAMPLES:
        program = work / name / f"{name}_example"
        if request.param == "cmake":
            run("cmake", "-S", ROOT / "examples" / name, "-B", work / name, f"-DCMAKE_PREFIX_PATH={prefix}")
            run("cmake", "--build", work / name)
        else:
            program.parent.mkdir()
            source = ROOT / "examples" / name / "main.cc"
            run("g++", "-std=c++20", "-Wall", "-Wextra", "-Werror", "-o", program, source, *pkg_config_flags(prefix), "-pthread")
        programs[name] = program
    return programs


@pytest.fixture(params=["synthetic", "real"])
def checkpoint(request, tmp_path):
    if request.param == "synthetic":
        return make_checkpoint(tmp_path / "checkpoint", nested=True)
    found = sorted((ROOT / "build/quickstart/package").rglob("*.safetensors"))
    if not found:
        pytest.skip("no real checkpoint is there: `make quickstart` gets one")
    return found[0].parent


def tensors_of(folder: Path) -> dict[str, tuple[str, list[int], bytes]]:
    """By the store's ids: dtype, shape and bytes of every tensor below a folder, without the code under test."""
    found = {}
    for path in sorted(folder.rglob("*.safetensors")):
        component = path.parent.relative_to(folder).as_posix()
        data = path.read_bytes()
        (header_bytes,) = struct.unpack_from("<Q", data)
        for name, entry in json.loads(data[8 : 8 + header_bytes]).items():
            if name == "__metadata__":
                continue
            begin, end = (8 + header_bytes + at for at in entry["data_offsets"])
            found[name if component == "." else f"{component}/{name}"] = (entry["dtype"], entry["shape"], data[begin:end])
    return found


def test_two_layouts_of_one_model(examples):
    out = run(examples["reshard"])
    assert re.search(r"^step-3: \d+ bytes in \d+ regions$", out, re.M) and out.endswith(" elements compared, 0 differ\n"), out
    assert "with another generation: " in out and "wanted 2" in out


def test_a_checkpoint_goes_into_a_store_and_out_again(examples, checkpoint, tmp_path, steelyard):
    (weights, *_) = sorted(checkpoint.glob("*.safetensors"))
    store = steelyard.store
    out = run(examples["store"], store, checkpoint, weights.name)
    assert re.search(r"^imported \d+ files, \d+ tensors: \d+ bytes written, \d+ were stored already$", out, re.M), out
    assert re.search(r"^\S+#1 READY \d+ bytes$", out, re.M), out
    assert Path(f"{store}.copy").read_bytes() == weights.read_bytes()
    assert re.search(r"^verified \d+ bytes, 0 problems$", out, re.M), out
    assert re.search(r"^delete while it is read: .*the example", out, re.M), out
    assert re.search(r"^deleted \S+#1$", out, re.M), out
    assert steelyard.json("list")["revisions"] == []
    # Again: the generation goes on, the bytes are there within the grace.
    assert re.search(r": 0 bytes written", run(examples["store"], store, checkpoint, weights.name))


def test_an_engine_reads_every_tensor(examples, checkpoint, steelyard):
    steelyard("import", checkpoint, "model@r")
    out = run(examples["serve"], steelyard.store, "model@r", 4)
    lines = out.splitlines()
    assert lines[0] == "serving model@r#1"
    assert lines[-1].endswith("with 4 threads, leases left: 0")
    found = dict(line.split(" ", 1) for line in lines[1:-1])
    wanted = {
        name: f"{dtype} [{','.join(map(str, shape))}] {len(data)} {zlib.adler32(data):08x}"
        for name, (dtype, shape, data) in tensors_of(checkpoint).items()
    }
    assert found == wanted
    assert "error: " in run(examples["serve"], steelyard.store, "other", code=1)


def test_the_program_of_the_documentation(prefix, checkpoint, steelyard, tmp_path):
    (program,) = re.findall(r"^```cpp\n(.*?)^```$", (ROOT / "docs/cpp.md").read_text(), re.M | re.S)
    source = tmp_path / "program.cc"
    source.write_text(program)
    run("g++", "-std=c++20", "-Wall", "-Wextra", "-Werror", "-o", tmp_path / "program", source, *pkg_config_flags(prefix))
    out = run(tmp_path / "program", steelyard.store, checkpoint)
    wanted = [f"{name} {dtype} {len(data)} bytes" for name, (dtype, _, data) in sorted(tensors_of(checkpoint).items())]
    assert out.splitlines() == wanted
    assert steelyard.json("inspect", "org/model@step-100")["revision"]["availability"] == "READY"
    assert "NOT_FOUND" in run(tmp_path / "program", steelyard.store, tmp_path / "none", code=1)


def test_only_the_public_headers_are_installed(prefix):
    found = sorted(path.relative_to(prefix / "include").as_posix() for path in (prefix / "include").rglob("*.h"))
    assert found == [f"steelyard/{name}.h" for name in HEADERS]
    for path in (prefix / "include").rglob("*.h"):
        includes = re.findall(r"^#include (.*)$", path.read_text(), re.M)
        assert all(one.startswith(("<", '"steelyard/')) for one in includes), path


@pytest.mark.parametrize("name", HEADERS)
def test_every_header_compiles_alone(prefix, name, tmp_path):
    source = tmp_path / "alone.cc"
    source.write_text(f'#include "steelyard/{name}.h"\n#include "steelyard/{name}.h"\n')
    run("g++", "-std=c++20", "-Wall", "-Wextra", "-Wshadow", "-Wconversion", "-pedantic", "-Werror", "-fsyntax-only", f"-I{prefix}/include", source)


def test_the_library_shows_nothing_of_the_rooms(prefix):
    (library,) = [path for path in prefix.rglob("libsteelyard.so*") if not path.is_symlink()]
    symbols = run("nm", "-D", "--defined-only", "-C", library)
    names = {match.group(1) for match in re.finditer(r"^\S+ [TDBRVWu] (steelyard::\S+)", symbols, re.M)}
    assert any(name.startswith("steelyard::TransferPlan::make(") for name in names)
    assert any(name.startswith("steelyard::Store::open(") for name in names)
    inside = [name for name in names if re.match(r"steelyard::[a-z]\w*::", name)]
    assert not inside, inside[:5]
    strangers = [line for line in symbols.splitlines() if "steelyard::" not in line]
    assert not strangers, strangers[:5]


def test_who_links_it_names_no_other_library(prefix):
    """The libraries behind it are its own: neither CMake's package nor pkg-config asks for one of theirs."""
    (pc,) = prefix.rglob("steelyard.pc")
    assert "Requires" not in pc.read_text()
    assert run("pkg-config", "--modversion", "steelyard", env={"PKG_CONFIG_PATH": str(pc.parent)}).strip()
    for path in prefix.rglob("*.cmake"):
        assert not re.search(r"find_dependency|protobuf|sqlite|OpenSSL|uring", path.read_text(), re.I), path
