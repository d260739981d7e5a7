"""The worked example of docs/operations.md, "Policies", with MiB for GiB and a short cool-down: what the table says happens."""

from __future__ import annotations

import os
import re
import signal
import time

import pytest

from lib.checkpoints import safetensors_bytes, tensor
from lib.runner import ROOT, hot_folder
from lib.waiting import wait_until

MIB = 1024 * 1024
COOLDOWN_S = 2
CHAT, CODE, DRAFT, EVAL = "chat@v7", "code@v3", "draft@v1", "eval@v2"
SIZES = {CHAT: 120, CODE: 50, DRAFT: 30, EVAL: 35}


class Node:
    """A store with the four revisions, and the service that follows their policies."""

    def __init__(self, steelyard):
        self.run = steelyard
        self.service = None

    def serve(self) -> None:
        self.service = self.run.start("-q", "reconcile", "--watch")

    def stop(self) -> None:
        if self.service is None:
            return
        self.service.send_signal(signal.SIGTERM)
        self.service.communicate()
        self.service = None

    def revision(self, ref: str) -> dict:
        return self.run.json("policy", "show", ref)["revision"]

    def hot(self) -> set[str]:
        revisions = self.run.json("list")["revisions"]
        return {f"{one['resource_id']}@{one['revision']}" for one in revisions if one["residency"] == "HOT"}

    def comes_to(self, *wanted: str) -> int:
        """Waits until just these are in memory and nothing moves, and gives their MiB there."""
        wait_until(lambda: self.hot() == set(wanted) and not self.moves(), timeout_s=240, every_s=0.2)
        return round(self.run.json("usage")["tiers"]["hot"]["bytes"] / MIB)

    def moves(self) -> bool:
        return any(one["operation"] != "NONE" for one in self.run.json("list")["revisions"])

    def lease(self, ref: str) -> str:
        return self.run("-q", "lease", "acquire", ref, "--holder", "server", "--ttl", "1h").last

    def wait_for_the_cooldown_of(self, ref: str) -> None:
        """Without anything else to see of it: only its clock says that it is over."""
        before = self.revision(ref)["metadata_generation"]
        begun = time.monotonic()
        wait_until(lambda: time.monotonic() - begun > COOLDOWN_S)
        assert self.revision(ref)["metadata_generation"] == before


@pytest.fixture
def node(steelyard, tmp_path):
    folder = hot_folder()
    if folder is None or os.statvfs(folder).f_bavail * os.statvfs(folder).f_frsize < 256 * MIB:
        pytest.skip("there is no memory of 256 MiB")
    node = Node(
        steelyard.at(
            steelyard.store,
            STEELYARD_HOT_CAPACITY="200MiB",
            STEELYARD_HOT_HIGH_WATERMARK="0.9",
            STEELYARD_HOT_LOW_WATERMARK="0.8",
            STEELYARD_POLICY_COOLDOWN=f"{COOLDOWN_S}s",
        )
    )
    for ref, mib in SIZES.items():
        source = tmp_path / ref
        source.mkdir()
        (source / "model.safetensors").write_bytes(safetensors_bytes({"w": tensor("U8", [mib * MIB - 4096], seed=ref)}))
        node.run("import", source, ref, "--chunk-size", "8MiB")
    for ref, mode in ((CHAT, "pinned"), (CODE, "auto"), (DRAFT, "auto")):
        node.run("policy", "set", ref, "--prefer", "hot", "--mode", mode)
    yield node
    node.stop()


def test_what_the_table_says(node):
    node.serve()
    assert node.comes_to(CHAT) == 120

    code = node.lease(CODE)
    assert node.comes_to(CHAT, CODE) == 170

    # Had the server of code gone on: nothing that is leased is evicted.
    draft = node.lease(DRAFT)
    assert node.comes_to(CHAT, CODE) == 170
    node.run("lease", "release", draft)

    # Somebody only runs cat. The service might hear of it while that lives; a reconcile after its end does not.
    node.stop()
    node.run("lease", "release", code)
    node.wait_for_the_cooldown_of(CODE)
    node.run("cat", DRAFT, "model.safetensors", "--range", "0-7")
    node.run("reconcile")
    assert node.hot() == {CHAT, CODE}, "nothing is evicted for a reader who has left"

    node.serve()
    draft = node.lease(DRAFT)
    assert node.comes_to(CHAT, DRAFT) == 150

    node.run("rehydrate", EVAL)
    assert node.comes_to(CHAT, DRAFT, EVAL) == 185

    node.run("lease", "release", draft)
    assert node.comes_to(CHAT, EVAL) == 155

    assert "pin" in node.run.error("evict", CHAT, code=13)["message"]
    assert node.comes_to(CHAT, EVAL) == 155
    node.run("policy", "set", CHAT, "--mode", "manual")
    node.run("evict", CHAT)
    assert CHAT not in node.hot()


def test_the_table_has_the_numbers_of_this_test():
    text = (ROOT / "docs" / "operations.md").read_text()
    table = text.split("| what happens | what follows | in memory |")[1].split("\n\n")[0]
    rows = [int(number) for number in re.findall(r"\| (\d+) GiB \|$", table, re.MULTILINE)]
    assert rows == [120, 170, 150, 170, 170, 185, 155, 155]
    for ref, gib in SIZES.items():
        assert re.search(rf"{ref}.*\b{gib} GiB", text), ref
    assert "`hot.capacity` is 200 GiB. `hot.high_watermark` (0.9)" in text and "`hot.low_watermark` (0.8)" in text
