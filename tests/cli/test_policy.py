"""policy show, policy set: what a policy says, who may change it, and that setting it moves nothing."""

from __future__ import annotations

import pytest


@pytest.fixture
def model(steelyard, checkpoint) -> str:
    return steelyard("import", checkpoint, "m").last


def rows(text: str) -> dict[str, str]:
    return dict(line.split(maxsplit=1) for line in text.splitlines())


def test_an_import_takes_its_policy_from_the_settings(steelyard, checkpoint):
    ref = steelyard("import", checkpoint, "m", "--policy-mode", "auto").last
    shown = steelyard.json("policy", "show", ref)
    assert shown["policy"] == {"prefer": "cold", "ratio": None, "mode": "auto"} == shown["revision"]["policy"]


@pytest.mark.parametrize(("prefer", "wanted"), [("cold", "hot"), ("hot", "cold")])
def test_a_pinned_import_ends_where_it_is_pinned(steelyard, checkpoint, prefer, wanted):
    refused = steelyard(
        "import", checkpoint, "m", "--policy-mode", "pinned", "--policy-prefer", prefer, "--residency", wanted, code=13
    )
    assert f"pins the revision to {prefer.upper()}, and the import is to end {wanted.upper()}" in refused.stderr
    assert not steelyard.store.exists()


def test_what_is_not_named_stays(steelyard, model):
    def policy_set(*flags) -> tuple:
        policy = steelyard.json("policy", "set", model, *flags)["policy"]
        assert policy == steelyard.json("policy", "show", "m")["policy"]
        return policy["prefer"], policy["ratio"], policy["mode"]

    assert policy_set("--mode", "auto") == ("cold", None, "auto")
    assert policy_set("--prefer", "mixed", "--ratio", "0.25") == ("mixed", 0.25, "auto")
    assert policy_set("--ratio", "0.5") == ("mixed", 0.5, "auto")
    assert policy_set("--mode", "pinned") == ("mixed", 0.5, "pinned")
    # A ratio goes with mixed alone.
    assert policy_set("--prefer", "hot") == ("hot", None, "pinned")
    error = steelyard.error("policy", "set", model, "--ratio", "0.5", code=2)
    assert "mixed only" in error["message"] and "--prefer mixed" in error["hint"]
    error = steelyard.error("policy", "set", model, "--prefer", "mixed", code=2)
    assert "needs a ratio" in error["message"]
    assert steelyard.json("policy", "show", "m")["policy"]["prefer"] == "hot"


def test_it_says_what_follows_and_moves_nothing(steelyard, model):
    shown = rows(steelyard("policy", "show", model).stdout)
    assert shown["ref"] == model and (shown["prefer"], shown["mode"], shown["now"]) == ("cold", "manual", "COLD")
    assert "nothing moves by itself" in shown["follows"]
    pinned = rows(steelyard("policy", "set", model, "--prefer", "hot", "--mode", "pinned").stdout)
    assert pinned["now"] == "COLD" and "a reconcile keeps it hot" in pinned["follows"]
    assert steelyard.json("inspect", model)["revision"]["residency"] == "COLD"
    auto = rows(steelyard("policy", "set", model, "--prefer", "mixed", "--ratio", "0.5", "--mode", "auto").stdout)
    assert "mixed (0.5 hot) while a lease is held" in auto["follows"]
    assert steelyard("-q", "policy", "show", model).stdout == model + "\n"


def test_the_generation_is_the_fence_and_a_retry_is_recognised(steelyard, model):
    before = steelyard.json("policy", "show", model)["revision"]["metadata_generation"]
    command = ("policy", "set", model, "--mode", "auto", "--expect-generation", before)
    after = steelyard.json(*command)["revision"]["metadata_generation"]
    assert after == before + 1
    # The answer was lost: the same request again is the same answer.
    assert steelyard.json(*command)["revision"]["metadata_generation"] == after
    error = steelyard.error("policy", "set", model, "--mode", "pinned", "--expect-generation", before, code=7)
    assert error["code"] == "STALE_GENERATION" and str(after) in error["message"]
    # Without a fence, what is there already appends nothing.
    assert steelyard.json("policy", "set", model, "--mode", "auto")["revision"]["metadata_generation"] == after


def test_what_a_revision_waits_for_is_said_everywhere(hot, checkpoint):
    model = hot("import", checkpoint, "m", "--policy-mode", "auto", "--policy-prefer", "hot", "--residency", "cold").last

    def waiting() -> str:
        shown, seen = hot.json("policy", "show", model)["waiting"], hot.json("inspect", model)["waiting"]
        assert shown == seen
        for verb in (("policy", "show"), ("inspect",)):
            assert ("\nwaiting " in hot(*verb, model).stdout) == (shown is not None)
        return shown["what"] if shown else ""

    assert f"{model} is COLD, and nobody reads it; its policy makes it HOT while somebody does" in waiting()
    hot("lease", "acquire", model, "--holder", "h")
    assert waiting() == "", "it came"
    hot("policy", "set", model, "--prefer", "cold", "--mode", "pinned")
    assert "is pinned to COLD and HOT, and somebody reads it" in waiting()
    hot("lease", "release", hot("-q", "lease", "list").last)
    hot("reconcile")
    hot("policy", "set", model, "--prefer", "hot", "--mode", "auto")
    hot("lease", "acquire", model, "--holder", "h")
    assert "was moved less than 5m ago (policy.cooldown)" in waiting()
    assert waiting() in hot("reconcile").stdout, "and so says a reconcile"


def test_a_pinned_mixed_revision_that_is_there_says_so(hot, checkpoint):
    model = hot("import", checkpoint, "m").last
    hot("policy", "set", model, "--prefer", "mixed", "--ratio", "0.5", "--mode", "pinned")
    assert "a reconcile keeps it mixed (0.5 hot)" in hot("policy", "show", model).stdout
    hot("reconcile")
    assert "it is there, and stays mixed (0.5 hot)" in hot("policy", "show", model).stdout


def test_a_pin_refuses_what_it_does_not_want(steelyard, model):
    steelyard("policy", "set", model, "--mode", "pinned")
    error = steelyard.error("rehydrate", model, code=13)
    assert error["code"] == "POLICY_UNSATISFIABLE" and "policy set" in error["hint"]


def test_only_what_is_published_has_one_to_change(steelyard, model):
    assert steelyard.error("policy", "set", "n", "--mode", "auto", code=3)["code"] == "NOT_FOUND"
    steelyard("delete", model, "--yes")
    error = steelyard.error("policy", "set", model, "--mode", "auto", code=11)
    assert "DELETED" in error["message"]
    assert "DELETED" in rows(steelyard("policy", "show", model).stdout)["follows"]


def test_setting_wants_a_store_and_permission(steelyard, tmp_path):
    error = steelyard.error("policy", "show", "m", code=3)
    assert str(steelyard.store) in error["message"]
    steelyard.error("policy", "set", "m", "--mode", "auto", code=3)
    assert not steelyard.store.exists()
