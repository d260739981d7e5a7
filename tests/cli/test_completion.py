"""Completion scripts: they load, and bash gives the right words."""

from __future__ import annotations

import shutil
import subprocess

import pytest

ASK = """
COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _steelyard; printf '%s\\n' "${{COMPREPLY[@]}}"
"""


def complete(script: str, words: str) -> list[str]:
    done = subprocess.run(["bash", "-euc", script + ASK.format(words=words)], capture_output=True, text=True, timeout=30)
    assert done.returncode == 0 and done.stderr == "", done.stderr
    return done.stdout.split()


def test_bash(steelyard):
    script = steelyard("completion", "bash").stdout
    assert complete(script, "steelyard ins") == ["inspect"]
    assert complete(script, "steelyard --json li") == ["list"]
    assert complete(script, "steelyard lease ''") == ["acquire", "renew", "release", "list"]
    assert complete(script, "steelyard import --dry") == ["--dry-run"]
    assert complete(script, "steelyard inspect x --fi") == ["--files"]
    assert complete(script, "steelyard --progress ''") == ["auto", "plain", "json", "none"]
    assert complete(script, "steelyard list --state D") == ["DEGRADED", "DELETING", "DELETED"]
    assert complete(script, "steelyard completion ''") == ["bash", "zsh", "fish"]
    assert "--cold-path" in complete(script, "steelyard list --c")


@pytest.mark.parametrize("shell, check", [("zsh", ["-n"]), ("fish", ["--no-execute"])])
def test_other_shells_parse_it(steelyard, tmp_path, shell, check):
    script = steelyard("completion", shell).stdout
    assert "steelyard" in script and script.count("materialize") >= 1
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed; the text was looked at only")
    (tmp_path / "script").write_text(script)
    done = subprocess.run([shell, *check, tmp_path / "script"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
