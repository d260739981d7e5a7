"""The grammar of the command line: verbs, flags, their errors and hints. No store is needed for any of it."""

from __future__ import annotations

import pytest

VERBS = [
    "import", "list", "inspect", "verify", "materialize", "cat", "lease acquire", "lease renew", "lease release", "lease list",
    "delete", "abort", "reconcile", "gc", "repair", "evict", "rehydrate", "policy show", "policy set", "watch", "operation show", "operation cancel", "recover", "doctor", "bench", "usage", "config show", "completion",
]  # fmt: skip


def test_no_verb_is_a_usage_error(steelyard):
    result = steelyard(code=2)
    assert "no verb" in result.stderr and "--help" in result.stderr and result.stdout == ""


def test_help_lists_every_verb_and_global_flag(steelyard):
    for words in (["--help"], ["-h"], ["help"]):
        out = steelyard(*words).stdout
        for verb in VERBS:
            assert f"  {verb} " in out, verb
        for flag in ("--store", "--namespace", "--json", "--quiet", "--progress", "--io-memory", "--config", "--log-level"):
            assert flag in out, flag


@pytest.mark.parametrize("verb", VERBS)
def test_help_of_a_verb(steelyard, verb):
    out = steelyard(*verb.split(), "--help").stdout
    assert out.startswith("usage: steelyard ")


@pytest.mark.parametrize("words", [["help", "lease"], ["lease", "--help"], ["lease", "help"], ["model", "help", "lease"]])
def test_help_of_a_verb_with_sub_verbs(steelyard, words):
    out = steelyard(*words).stdout
    assert out.startswith("usage: steelyard lease VERB")
    for verb in ("lease acquire", "lease renew", "lease release", "lease list"):
        assert f"  {verb} " in out
    assert "import" not in out
    assert steelyard("help", "lease", "acquire").stdout == steelyard("lease", "acquire", "--help").stdout


def test_version(steelyard):
    assert steelyard("--version").stdout.startswith("steelyard ")
    assert steelyard("version").stdout == steelyard("--version").stdout


def test_states_and_places_are_taken_in_any_case(steelyard, checkpoint):
    ref = steelyard("import", checkpoint, "m", "--residency", "COLD").last
    steelyard("watch", ref, "--until", "ready")
    steelyard("watch", ref, "--until", "Cold", "--timeout", "0s")
    assert steelyard("-q", "list", "--state", "ready").lines == [ref]
    policy = steelyard.json("policy", "set", ref, "--prefer", "Hot", "--mode", "AUTO")["policy"]
    assert (policy["prefer"], policy["mode"]) == ("hot", "auto")
    shown = steelyard.json("config", "show", env={"STEELYARD_POLICY_PREFER": "HOT"})
    assert [one["value"] for one in shown["settings"] if one["name"] == "policy.prefer"] == ["hot"]


def test_an_import_says_how_a_policy_is_given(steelyard):
    out = steelyard("import", "--help").stdout
    assert "  steelyard import ./llama llama-70b --policy-prefer mixed --policy-ratio 0.25" in out


@pytest.mark.parametrize(
    "words, message, hint",
    [
        (["imprt", "x"], 'unknown verb "imprt"', "`import`"),
        (["ls"], 'unknown verb "ls"', "`list`"),
        (["show", "x"], 'unknown verb "show"', "`inspect`"),
        (["lease", "aquire"], "`lease aquire`", "`lease acquire`"),
        (["lease"], "needs to know what to do", "lease list"),
        (["model"], "no verb", "--help"),
        (["list", "--lable", "a=b"], 'unknown flag "--lable" of `list`', "`--label`"),
        (["list", "--jsno"], 'unknown flag "--jsno"', "`--json`"),
        (["--files", "inspect", "x"], "before the verb", "flag of `inspect`"),
        (["cat", "x", "y", "--files"], 'unknown flag "--files" of `cat`', "flag of `inspect`"),
        (["list", "-z"], 'unknown flag "-z"', "-q"),
        (["list", "--state"], "--state needs a value", "STATE"),
        (["--store", "--quiet", "list"], '--store needs a value; found "--quiet"', "--store=--quiet"),
        (["inspect"], "`inspect` wants REF", "usage: steelyard inspect"),
        (["materialize", "x"], 'only "x"', "usage: steelyard materialize"),
        (["verify", "a", "b"], 'does not take "b"', "usage: steelyard verify"),
        (["list", "--all=yes"], "--all takes no value", ""),
        (["import", "--source", "a", "b", "c"], "the source is named twice", ""),
        (["import"], "wants SOURCE", "usage: steelyard import"),
        (["policy", "set", "m"], "at least one of --prefer, --ratio and --mode", "policy show"),
        (["policy", "set", "m", "--prefer", "warm"], '--prefer is "warm"; wanted one of hot, cold, mixed', ""),
        (["policy", "set", "m", "--mode", "on"], '--mode is "on"; wanted one of pinned, manual, auto', ""),
        (["watch", "m@main", "--until", "there"], '--until is "there"; wanted one of IMPORTING, READY', ""),
        (["help", "nope"], 'unknown verb "nope"', "wanted one of import, "),
        (["help", "impor"], 'unknown verb "impor"', "`import`"),
        (["--help", "ls"], 'unknown verb "ls"', "`list`"),
        (["help", "lease", "aquire"], "`lease aquire`", "`lease acquire`"),
        (["watch", "m", "--until", "DELETED"], "only the READY revisions are watched", "m@main"),
        (["completion", "tcsh"], 'unknown shell "tcsh"; wanted bash, zsh or fish', ""),
    ],
)  # fmt: skip
def test_usage_errors_name_found_wanted_and_the_nearest(steelyard, words, message, hint):
    result = steelyard(*words, code=2)
    assert result.stdout == ""
    first, *rest = result.stderr.splitlines()
    assert first.startswith("error: ") and message in first, result.explain()
    assert hint in "\n".join(rest), result.explain()


@pytest.mark.parametrize(
    "words, found, wanted",
    [
        (["list", "--limit", "0"], '"0"', "1 to 1000"),
        (["list", "--limit", "1001"], '"1001"', "1 to 1000"),
        (["list", "--limit", "-1"], '"-1"', "1 to 1000"),
        (["list", "--limit", "ten"], '"ten"', "1 to 1000"),
        (["list", "--state", "there"], '"there"', "READY"),
        (["list", "--label", "novalue"], '"novalue"', "KEY=VALUE"),
        (["--jobs", "0", "list"], "0", "1 to 256"),
        (["--jobs", "257", "list"], "257", "1 to 256"),
        (["--jobs", "99999999999999999999", "list"], "99999999999999999999", "1 to 256"),
        (["--io-memory", "15MiB", "list"], "15MiB", "16MiB to 1TiB"),
        (["--io-memory", "lots", "list"], "lots", "16MiB to 1TiB"),
        (["--chunk-size", "1MB", "list"], "1MB", "multiple of 1MiB from 1MiB to 4GiB"),
        (["--chunk-size", "5GiB", "list"], "5GiB", "4GiB"),
        (["--lease-ttl", "30", "list"], "30", "1s to 1d"),
        (["--import-writer-ttl", "1s", "list"], "1s", "2s to 1h"),
        (["--import-abandon-after", "31d", "list"], "31d", "2s to 30d"),
        (["--gc-grace", "31d", "list"], "31d", "0s to 30d"),
        (["--hot-capacity", "1KiB", "list"], "1KiB", "1MiB"),
        (["--progress", "loud", "list"], '"loud"', "auto, plain, json, none"),
        (["--cold-medium", "tape", "list"], '"tape"', "disk, dfs, nof"),
        (["--policy-ratio", "1", "list"], "1", "0.000001 to 0.999999"),
        (["--json=maybe", "list"], '"maybe"', "true or false"),
        (["lease", "acquire", "x", "--holder", "h", "--ttl", "500ms"], '"500ms"', "1s to 1d"),
        (["lease", "acquire", "x", "--holder", "h", "--ttl", "25h"], '"25h"', "1s to 1d"),
        (["import", ".", "--generation", "0"], '"0"', "1 to 9223372036854775807"),
        (["import", ".", "--generation", "9223372036854775808"], '"9223372036854775808"', "1 to 9223372036854775807"),
        (["import", ".", "--generation", "01"], '"01"', "leading zeros"),
        (["import", ".", "--residency", "warm"], '"warm"', "one of hot, cold"),
        (["import", ".", "--wait", "5"], "5", "duration"),
        (["policy", "set", "m", "--ratio", "1"], '"1"', "0.000001 to 0.999999"),
        (["policy", "set", "m", "--ratio", "0.1234567"], '"0.1234567": it has 7 decimal places', "0.000001 to 0.999999"),
        (["evict", "m", "--ratio", "0"], '"0"', "0.000001 to 0.999999"),
        (["watch", "m", "--timeout", "31d"], '"31d"', "0s to 30d"),
        (["cat", "x", "f", "--range", "9-3"], '"9-3"', "START-END"),
        (["cat", "x", "f", "--range", "-5"], '"-5"', "START-END"),
        (["cat", "x", "f", "--range", "a-b"], '"a-b"', "START-END"),
    ],
)  # fmt: skip
def test_values_are_checked_against_a_range_that_is_named(steelyard, words, found, wanted):
    result = steelyard(*words, code=2)
    assert found in result.stderr and wanted in result.stderr, result.explain()


def test_the_holder_is_bounded(steelyard):
    assert "1025 bytes" in steelyard("lease", "acquire", "x", "--holder", "h" * 1025, code=2).stderr
    assert "control" in steelyard("lease", "acquire", "x", "--holder", "a\nb", code=2).stderr
    assert "--holder" in steelyard("lease", "acquire", "x", code=2).stderr


def test_flags_stand_before_and_after_the_verb(steelyard):
    for words in (["--json", "list"], ["list", "--json"], ["model", "list", "--json"], ["--json", "model", "list"]):
        assert steelyard(*words).json()["revisions"] == []
    assert steelyard("-qn", "other", "list").stdout == ""
    assert steelyard("list", "-nother").stdout == "no revisions in namespace other\n"
    # A filter that matches nothing is not an empty store.
    nothing = steelyard("list", "other", "--label", "a=b", "--state", "DELETED").stdout
    assert nothing == "no revision in namespace default matches: resource other, state DELETED, label a=b\n"


def test_an_error_is_the_last_line_of_stderr_in_json(steelyard):
    for words in (["--json", "nonsense"], ["nonsense", "--json"]):
        result = steelyard(*words, code=2)
        assert result.stdout == "" and len(result.stderr.splitlines()) == 1
        assert set(result.error()) == {"code", "message", "hint"}
    result = steelyard("nonsense", code=2, env={"STEELYARD_JSON": "on"})
    assert result.error()["code"] == "INVALID_ARGUMENT"


def test_words_behind_two_dashes_are_operands(steelyard):
    assert 'does not take "--all"' in steelyard("verify", "--", "a", "--all", code=2).stderr
