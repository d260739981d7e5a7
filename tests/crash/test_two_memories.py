"""Two containers with one store and a memory each: neither publishes anything of the other's."""

from __future__ import annotations

import pytest

from crash import checker, harness
from lib.checkpoints import flip_bit
from lib.runner import Steelyard


@pytest.fixture
def containers(memory_path, source) -> tuple[Steelyard, Steelyard]:
    """The revision `m` is HOT in the first one's memory."""
    found = []
    for name in ("a", "b"):
        (memory_path / name).mkdir()
        env = {"STEELYARD_HOT_PATH": str(memory_path / name), "STEELYARD_HOT_CAPACITY": "64MiB"}
        found.append(Steelyard(memory_path / "store", memory_path / "home", env))
    found[0](*harness.import_args(source, "m"), "--residency", "hot")
    return found[0], found[1]


def revision(steelyard) -> dict:
    return steelyard.json("inspect", "m")["revision"]


def hot_objects(steelyard) -> int:
    return steelyard.json("inspect", "m")["replicas"]["hot"]["objects"]


def payload(steelyard):
    return max(harness.groups_folder(steelyard.store).glob("*/*/*/p/*"), key=lambda path: path.stat().st_size)


def test_what_the_other_has_is_left_alone(containers, source, tmp_path):
    a, b = containers
    before = revision(a)
    for words in (("reconcile",), ("verify", "m"), ("materialize", "m", tmp_path / "out"), ("gc", "--yes"), ("usage",), ("doctor",)):
        b(*words)
    assert revision(b) == before and before["residency"] == "HOT", "it saw an empty memory, which says nothing about the other"
    assert b.error("evict", "m", code=10)["code"] == "UNAVAILABLE"
    assert revision(a) == before and hot_objects(a) == before["payload_count"] and hot_objects(b) == 0
    checker.assert_one_of(tmp_path / "out", [source])
    checker.assert_sound(a)
    # Who brings all of it into its own memory says so; the first one's copy is still found by the first one.
    b("rehydrate", "m")
    assert revision(b)["residency"] == "HOT" and hot_objects(a) == hot_objects(b) == before["payload_count"]
    for one in (a, b):
        assert one.json("verify", "m")["hot_objects"] == before["payload_count"]
    # A memory that holds less takes nothing over from one that holds all.
    b("rehydrate", "m")
    owner, other = (b, a)
    gone = checker.replicas_in_memory(other)[0]
    gone.unlink()
    before = revision(owner)
    other("reconcile")
    assert revision(owner) == before
    checker.assert_sound(owner)


@pytest.mark.parametrize("verb", ["evict", "make-room"])
def test_what_the_record_does_not_name_can_be_freed(containers, tmp_path, verb):
    """Both have it in memory, and the record names b's. Nobody reads a's copy."""
    a, b = containers
    b("rehydrate", "m")
    before = revision(b)
    assert hot_objects(a) == hot_objects(b) == before["payload_count"]
    assert "`steelyard evict m@main#1` frees it" in a("inspect", "m").stdout
    assert any("recorded in another memory instance: m@main#1" in check["found"] for check in a.json("doctor", code=(0, 1))["checks"])
    # A lease holds up nothing: whoever reads in a reads the cold tier.
    lease = a.json("lease", "acquire", "m", "--ttl", "1h", "--holder", "reader")["lease"]["lease_id"]
    if verb == "evict":
        document = a.json("evict", "m")
        assert (document["operation"], document["revision"]["residency"]) == (None, "HOT")
    else:
        a(*harness.import_args(harness.small_checkpoint(tmp_path / "other", seed="other"), "other"))
        short = ("rehydrate", "other", "--hot-capacity", str(2 * before["logical_bytes"] - 1))
        assert "(m@main#1)" in a.error(*short, code=8)["message"]
        assert a.json(*short, "--make-room")["evicted"] == ["m@main#1"]
        a("evict", "other")
    assert hot_objects(a) == 0 and hot_objects(b) == before["payload_count"]
    a("lease", "release", lease)
    assert revision(b) == before
    if verb == "evict":
        assert a.error("evict", "m", code=10)["code"] == "UNAVAILABLE", "nothing is left here"
    checker.assert_sound(b)
    assert b.json("evict", "m")["revision"]["residency"] == "COLD"


def test_damage_that_the_others_memory_can_mend(containers):
    """Who does not see that memory does not know whether anything is lost: it names what it found, and publishes nothing."""
    a, b = containers
    flip_bit(payload(a))
    before = revision(a)
    assert b.json("verify", "m", code=5)["problems"]
    b("reconcile", code=(0, 5))
    after = revision(b)
    assert (after["availability"], after["residency"]) == ("READY", "HOT") == (before["availability"], before["residency"])
    a("verify", "m", code=5)
    a("reconcile")
    assert a.json("verify", "m")["ok"] and b.json("verify", "m")["ok"]
    assert (revision(a)["availability"], revision(a)["residency"], revision(a)["operation"]) == ("READY", "HOT", "NONE")


@pytest.mark.parametrize("verb", ["evict", "rehydrate"])
def test_a_move_in_the_others_memory(containers, verb):
    """A reconcile leaves it to whoever has that memory, and says so."""
    a, b = containers
    if verb == "rehydrate":
        a("evict", "m")
    a(verb, "m", "--no-wait")
    before = revision(a)
    assert [one["ref"] for one in b.json("reconcile")["waiting"]] == ["m@main#1"]
    assert revision(b) == before
    if verb == "evict":
        assert b.error("evict", "m", code=10)["code"] == "UNAVAILABLE"
        b.error("rehydrate", "m", code=6)
        assert revision(b) == before and hot_objects(a) == before["payload_count"]
    a("reconcile")
    after = revision(a)
    assert (after["residency"], after["operation"]) == ({"evict": "COLD", "rehydrate": "HOT"}[verb], "NONE")
    assert checker.files_in_memory(b) == []
    checker.assert_sound(a)


def test_a_revision_that_the_other_deletes(containers):
    """Its replicas stay where nobody who deletes it looks, and go with the next gc there."""
    a, b = containers
    b("delete", "m", "--yes")
    assert checker.files_in_memory(a) != []
    b("gc", "--yes", "--gc-grace", "0s")
    assert checker.files_in_memory(a) != []
    a("gc", "--yes", "--gc-grace", "0s")
    assert checker.files_in_memory(a) == [] == checker.files_in_memory(b)
    checker.assert_back_to_nothing(a)
