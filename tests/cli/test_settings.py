"""Settings: one table; flag over environment over config file over default; docs made from it."""

from __future__ import annotations

from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs" / "settings.md"


def show(steelyard, *words, **options) -> dict[str, dict]:
    document = steelyard.json("config", "show", *words, **options)
    assert document["schema_version"] == 1
    return {one["name"]: one for one in document["settings"]}


def write_config(steelyard, text: str) -> Path:
    path = steelyard.home / ".config" / "steelyard" / "config.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_docs_are_the_table(steelyard):
    assert DOCS.read_text() == steelyard("config", "show", "--defaults", "--markdown").stdout


def test_docs_have_every_setting_and_its_default(steelyard):
    text = DOCS.read_text()
    for one in show(steelyard, "--defaults").values():
        row = next(line for line in text.splitlines() if line.startswith(f"| `{one['name']}` |"))
        assert f"`{one['flag']}`" in row and f"`{one['environment']}`" in row and one["default"] in row
        assert one["flag"] == "--" + one["name"].replace(".", "-").replace("_", "-")
        assert one["environment"] == "STEELYARD_" + one["name"].replace(".", "_").upper()


def test_all_settings_are_there(steelyard):
    names = set(show(steelyard))
    assert names >= {
        "store", "namespace", "tenant", "io_memory", "jobs", "chunk_size", "header_limit", "cold.path", "cold.medium",
        "cold.reserve_free", "hot.path", "hot.capacity", "hot.high_watermark", "hot.low_watermark", "lease.ttl",
        "import.writer_ttl", "import.abandon_after", "policy.prefer", "policy.ratio", "policy.mode", "policy.cooldown",
        "log.snapshot_every", "gc.grace", "weight_management_oplog_capability_confirmed",
    }  # fmt: skip


def test_precedence(steelyard):
    assert (show(steelyard)["lease.ttl"]["value"], show(steelyard)["lease.ttl"]["origin"]) == ("30s", "default")
    path = write_config(steelyard, '[lease]\nttl = "10s"\n')
    one = show(steelyard)["lease.ttl"]
    assert (one["value"], one["origin"], one["where"]) == ("10s", "config_file", f"{path}:2")
    one = show(steelyard, env={"STEELYARD_LEASE_TTL": "11s"})["lease.ttl"]
    assert (one["value"], one["origin"], one["where"]) == ("11s", "environment", "STEELYARD_LEASE_TTL")
    one = show(steelyard, "--lease-ttl", "12s", env={"STEELYARD_LEASE_TTL": "11s"})["lease.ttl"]
    assert (one["value"], one["origin"], one["where"]) == ("12s", "flag", "--lease-ttl")
    assert show(steelyard, "--lease-ttl", "12s", "--lease-ttl=13s")["lease.ttl"]["value"] == "13s"


def test_an_empty_variable_counts_as_unset(steelyard):
    assert show(steelyard, env={"STEELYARD_LEASE_TTL": ""})["lease.ttl"]["origin"] == "default"
    assert show(steelyard, env={"STEELYARD_CONFIG": ""})["lease.ttl"]["origin"] == "default"


@pytest.mark.parametrize("word, value", [(w, "true") for w in ("1", "true", "YES", "On")] + [(w, "false") for w in ("0", "False", "no", "OFF")])
def test_booleans(steelyard, word, value):
    name = "weight_management_oplog_capability_confirmed"
    assert show(steelyard, env={"STEELYARD_" + name.upper(): word})[name]["value"] == value
    assert show(steelyard, f"--{name.replace('_', '-')}={word}")[name]["value"] == value


def test_kinds_of_values_in_the_config_file(steelyard):
    write_config(
        steelyard,
        'namespace = "prod east"\njobs = 3\nchunk_size = 2097152\nhot.high_watermark = 0.95\n'
        "weight_management_oplog_capability_confirmed = true\n[cold]\nmedium = 'dfs'\n",
    )
    settings = show(steelyard)
    assert {name: settings[name]["value"] for name in ("namespace", "jobs", "chunk_size", "hot.high_watermark", "cold.medium")} == {
        "namespace": "prod east", "jobs": "3", "chunk_size": "2097152", "hot.high_watermark": "0.95", "cold.medium": "dfs",
    }  # fmt: skip


@pytest.mark.parametrize(
    "text, message, hint",
    [
        ("[cold]\npaht = 'x'\n", "unknown key `cold.paht`", "`cold.path`"),
        ("name_space = 'x'\n", "unknown key `name_space`", "`namespace`"),
        ("cold = 'x'\n", "unknown key `cold`", ""),
        ("jobs = 0\n", "jobs is 0; wanted a whole number from 1 to 256", ""),
        ("jobs = 'many'\n", "many", ""),
        ("jobs = [1]\n", "a list", ""),
        ("namespace = ''\n", "empty", ""),
        ("jobs = \n", "config.toml:1:", ""),
        ("config = 'x'\n", "unknown key `config`", ""),
    ],
)  # fmt: skip
def test_config_errors_name_the_place(steelyard, text, message, hint):
    path = write_config(steelyard, text)
    error = steelyard.error("list", code=2)
    assert str(path) in error["message"] and message in error["message"], error
    assert hint in (error["hint"] or "")


def test_a_config_file_that_is_named_must_be_there(steelyard, tmp_path):
    missing = tmp_path / "none.toml"
    for words, env in ((["--config", missing], {}), ([], {"STEELYARD_CONFIG": str(missing)})):
        error = steelyard.error(*words, "list", code=2, env=env)
        assert str(missing) in error["message"] and "not there" in error["message"]
    missing.write_text("jobs = 7\n")
    assert show(steelyard, "--config", missing)["jobs"]["value"] == "7"


def test_errors_name_the_variable_or_the_flag(steelyard):
    assert "STEELYARD_JOBS is 0" in steelyard.error("list", code=2, env={"STEELYARD_JOBS": "0"})["message"]
    assert "--jobs is 0" in steelyard.error("list", "--jobs", "0", code=2)["message"]
    assert "--store is empty" in steelyard.error("list", "--store=", code=2)["message"]


def test_watermarks_must_agree(steelyard):
    error = steelyard.error("list", "--hot-low-watermark", "0.95", code=2)
    assert "hot.low_watermark is 0.95" in error["message"] and "0.9" in error["message"]


def test_the_store_s_default_place(steelyard, tmp_path):
    home = {"STEELYARD_STORE": ""}
    assert show(steelyard, env=home)["store"]["value"] == f"{steelyard.home}/.local/share/steelyard"
    assert show(steelyard, env={**home, "XDG_DATA_HOME": "/data"})["store"]["value"] == "/data/steelyard"
    assert show(steelyard, env={**home, "XDG_DATA_HOME": "relative"})["store"]["value"] == f"{steelyard.home}/.local/share/steelyard"
    error = steelyard.error("list", code=2, env={**home, "HOME": ""})
    assert "--store DIR" in error["hint"]


def test_a_store_path_that_is_a_file(steelyard, tmp_path):
    (tmp_path / "file").write_text("x")
    for verb in (["list"], ["inspect", "x"], ["import", tmp_path]):
        error = steelyard.error("--store", tmp_path / "file", *verb, code=2)
        assert "not a folder" in error["message"]


def test_defaults_ignore_what_is_set(steelyard):
    assert show(steelyard, "--defaults", "--jobs", "9")["jobs"]["origin"] == "default"
    out = steelyard("config", "show", "--defaults", "--jobs", "9").stdout
    assert "the number of cores" in out
    assert "jobs=9" in steelyard("config", "show", "-q", "--jobs", "9").lines


def test_a_config_without_end_is_refused(steelyard):
    error = steelyard.error("list", "--config", "/dev/zero", code=2)
    assert "/dev/zero" in error["message"] and "TOML" in error["message"]


def test_a_relative_path_in_the_config_file_is_relative_to_the_file(steelyard, tmp_path):
    path = write_config(steelyard, '[cold]\npath = "../tier"\n')
    assert show(steelyard)["cold.path"]["value"] == str(path.parent.parent / "tier")
    assert show(steelyard, "--cold-path", "tier")["cold.path"]["value"] == "tier"


def test_a_config_file_that_cannot_be_looked_for(steelyard):
    """Nobody named it: the next step is another HOME."""
    (steelyard.home / ".config").symlink_to(".config")
    error = steelyard.error("list", code=10)
    assert "looking for the config file" in error["message"] and "--config" in error["hint"]
