"""Completion scripts: they load, and bash gives the right words."""

from __future__ import annotations

import shlex
import shutil
import subprocess

import pytest

from lib.runner import binary

ASK = """
COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _steelyard; printf '%s\\n' "${{COMPREPLY[@]}}"
"""


def complete(script: str, words: str) -> list[str]:
    done = subprocess.run(["bash", "-euc", script + ASK.format(words=words)], capture_output=True, text=True, timeout=300)
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
    assert complete(script, "steelyard policy ''") == ["show", "set"]
    assert complete(script, "steelyard policy set x --mode ''") == ["pinned", "manual", "auto"]
    assert complete(script, "steelyard watch x --until DEL") == ["DELETING", "DELETED"]
    assert complete(script, "steelyard completion ''") == ["bash", "zsh", "fish"]
    assert "--cold-path" in complete(script, "steelyard list --c")


def test_bash_completes_references(steelyard, checkpoint, tmp_path):
    for ref in ("llama@step-1", "llama@step-2", "mistral"):
        steelyard("import", checkpoint, ref)
    steelyard("import", checkpoint, "elsewhere", "-n", "other")
    script = steelyard("completion", "bash").stdout
    env = {**steelyard.environment(), "PATH": f"{binary().parent}:/usr/bin:/bin"}

    def refs(line: str) -> list[str]:
        words = " ".join(shlex.quote(word) for word in line.split(" "))
        ask = f"COMP_LINE={shlex.quote(line)}; COMP_POINT=${{#COMP_LINE}}; " + ASK.format(words=words)
        done = subprocess.run(["bash", "-euc", script + ask], capture_output=True, text=True, timeout=300, env=env)
        assert done.returncode == 0 and done.stderr == "", done.stderr
        return done.stdout.split()

    both = ["step-1#1", "step-2#1"]
    assert refs("steelyard inspect ll") == ["llama@" + end for end in both]
    # Bash breaks words at `@`, so that only what is behind it is given.
    assert refs("steelyard inspect llama@st") == both
    assert refs("steelyard verify --allow-degraded mi") == ["mistral@main#1"]
    assert refs("steelyard lease acquire --ttl 5s mi") == ["mistral@main#1"]
    assert refs("steelyard -n other cat ") == ["elsewhere@main#1"]
    assert refs("steelyard list ") == ["llama", "mistral"]
    assert refs(f"steelyard --store={tmp_path}/none inspect ") == []
    (tmp_path / "folder").mkdir()
    assert refs(f"steelyard materialize mistral {tmp_path}/fol") == [f"{tmp_path}/folder"]
    assert refs("steelyard lease release x") == []
    assert refs("steelyard policy set mi") == refs("steelyard watch mi") == ["mistral@main#1"]
    assert refs("steelyard rm mi") == ["mistral@main#1"] and refs("steelyard abort mi") == []


@pytest.mark.parametrize("shell, check", [("zsh", ["-n"]), ("fish", ["--no-execute"])])
def test_other_shells_parse_it(steelyard, tmp_path, shell, check):
    script = steelyard("completion", shell).stdout
    assert "steelyard" in script and script.count("materialize") >= 1
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed; the text was looked at only")
    (tmp_path / "script").write_text(script)
    done = subprocess.run([shell, *check, tmp_path / "script"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
