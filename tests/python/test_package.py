"""The package as it is installed: the wheel, its types, its command."""

from __future__ import annotations

import importlib.metadata
import os
import re
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import numpy as np
import pytest

import steelyard
from lib.runner import binary
from steelyard import dtypes, model_weight, reshard

ROOT = Path(__file__).resolve().parent.parent.parent


def run(*command, **env: str) -> subprocess.CompletedProcess:
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=900, cwd="/", env={**os.environ, **env})
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def same_program(command, tmp_path, checkpoint, **env: str) -> None:
    """A command behaves as the binary does: results, errors, exit codes."""
    env = {"STEELYARD_STORE": str(tmp_path / "store"), "HOME": str(tmp_path), "STEELYARD_COLD_RESERVE_FREE": "0", **env}
    assert run(*command, "--version", **env).stdout == run(binary(), "--version").stdout
    assert run(*command, "import", checkpoint, "demo", **env).stdout.splitlines()[-1] == "demo@main#1"
    assert run(*command, "verify", "demo", **env).stdout == run(binary(), "verify", "demo", **env).stdout
    for words in (["lst"], ["inspect", "nothing"]):
        both = [subprocess.run([*map(str, one), *words], capture_output=True, env={**os.environ, **env}) for one in (command, [binary()])]
        assert both[0].returncode == both[1].returncode != 0 and both[0].stderr == both[1].stderr


def test_python_m_steelyard_is_the_program(tmp_path, checkpoint):
    same_program([sys.executable, "-m", "steelyard"], tmp_path, checkpoint)


def test_the_installed_command_is_the_program(tmp_path, checkpoint):
    script = Path(sysconfig.get_path("scripts")) / "steelyard"
    if not script.exists():
        pytest.skip("the package is not installed in this environment")
    same_program([script], tmp_path, checkpoint)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """What `pip install .` installs, built in the build folder, where everything is compiled already."""
    build = os.environ.get("STEELYARD_BUILD", str(ROOT / "build"))
    if not (Path(build) / "CMakeCache.txt").exists():
        pytest.skip("there is no build folder to make the wheel in")
    where = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--no-build-isolation", "--no-deps", f"--config-settings=build-dir={build}", "-w", where, ROOT)
    (wheel,) = where.iterdir()
    return wheel


@pytest.fixture(scope="module")
def fresh(wheel, tmp_path_factory):
    """A new environment with the wheel and what it asks for, and nothing else."""
    where = tmp_path_factory.mktemp("fresh") / "venv"
    run(sys.executable, "-m", "venv", where)
    pip = [where / "bin/python", "-m", "pip", "--disable-pip-version-check"]
    run(*pip, "install", "--quiet", wheel)
    listed = {line.split("==")[0].lower() for line in run(*pip, "freeze").stdout.splitlines()}
    assert {one.split(" @")[0] for one in listed} == {"steelyard", "numpy"}
    return where


def test_the_wheel_has_the_package_and_no_sources(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {"steelyard/py.typed", "steelyard/_ext.pyi", "steelyard/model_weight/__init__.py"} <= names
    outside = [name for name in names if not re.match(r"steelyard(-[\d.]+\.dist-info)?/", name) or name.endswith((".cc", ".h", ".cmake", ".so.0.1"))]
    assert not outside, outside


def test_a_fresh_environment_imports_the_wheel(fresh):
    code = "import steelyard, steelyard.reshard as r, steelyard.model_weight as w; print(steelyard.__file__, w.PlacementManifest('m', 'r', [], []).placement_id)"
    out = run(fresh / "bin/python", "-c", code).stdout
    assert out.startswith(str(fresh)) and "sha256:65e60da33f39" in out


@pytest.mark.parametrize("command", [["bin/steelyard"], ["bin/python", "-m", "steelyard"]], ids=" ".join)
def test_the_program_of_a_fresh_environment_is_the_program(fresh, command, tmp_path, checkpoint):
    same_program([fresh / command[0], *command[1:]], tmp_path, checkpoint)


def test_numpy_is_the_only_required_dependency():
    try:
        wanted = importlib.metadata.requires("steelyard") or []
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("the package is not installed in this environment")
    assert [one for one in wanted if "extra ==" not in one] == ["numpy>=1.24"]
    code = "import sys; sys.modules['ml_dtypes'] = None; import steelyard.reshard, steelyard.dtypes; print(steelyard.dtypes.numpy_dtype('F32'))"
    assert run(sys.executable, "-c", code).stdout == "float32\n"


def test_the_command_needs_no_numpy():
    run(sys.executable, "-c", "import sys; sys.modules['numpy'] = None; import steelyard, steelyard.__main__")


def test_types_are_checked():
    pytest.importorskip("mypy")
    done = subprocess.run([sys.executable, "-m", "mypy", "--cache-dir=/dev/null"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_stubs_are_those_of_the_extension(tmp_path):
    run(sys.executable, "-m", "nanobind.stubgen", "-q", "-m", "steelyard._ext", "-o", tmp_path / "_ext.pyi")
    assert (tmp_path / "_ext.pyi").read_text() == (ROOT / "python/steelyard/_ext.pyi").read_text(), (
        "run: .venv/bin/python -m nanobind.stubgen -q -m steelyard._ext -o python/steelyard/_ext.pyi"
    )


def test_version_and_doors():
    assert steelyard.__version__ == "0.1.0"
    for module in (model_weight, reshard, dtypes):
        assert all(hasattr(module, name) for name in module.__all__) and module.__all__ == sorted(module.__all__)


def test_dtypes():
    assert {dtypes.canonical(one) for one in ("BF16", "bf16", "bfloat16", "torch.bfloat16")} == {"BF16"}
    assert dtypes.same("torch.half", "F16") and not dtypes.same("F16", "BF16") and dtypes.same("mine", "mine")
    assert not dtypes.same("mine", "yours") and dtypes.itemsize("f32") == 4 and dtypes.bits("F4") == 4
    for wrong in (lambda: dtypes.canonical("mine"), lambda: dtypes.itemsize("F4"), lambda: dtypes.numpy_dtype("F6_E2M3")):
        with pytest.raises(ValueError):
            wrong()
    for name in set(dtypes.SPELLINGS.values()) - {"F4", "F6_E2M3", "F6_E3M2"}:
        assert dtypes.numpy_dtype(name).itemsize == dtypes.itemsize(name), name
