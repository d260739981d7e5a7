"""A store of a hundred thousand revisions: every verb still answers, page by page, in memory that does not follow their number.

The catalog is made by the rules in one process, since importing as many takes an hour; its revisions have no bytes, which
only who reads them minds.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import pytest

from lib.checkpoints import make_checkpoint
from lib.runner import binary

REVISIONS = 100_000
NAMESPACE = ("-n", "production")
STORE_ID = "b" * 32  # as the program gives it
MIB = 1024 * 1024


@pytest.fixture
def many(steelyard, tmp_path):
    build = binary().parent.parent
    if not (build / "build.ninja").exists():
        pytest.skip("the program was not built here, and the maker of the catalog is built beside it")
    subprocess.run(["ninja", "-C", build, "reads_bench"], check=True, capture_output=True)
    steelyard("import", make_checkpoint(tmp_path / "first", shards=1, seed="first"), "first")
    for path in steelyard.store.glob("catalog.*"):
        path.unlink()
    for name in ("groups", "content"):
        shutil.rmtree(steelyard.store / "cold" / name)
    identity = steelyard.store / "cold" / "store.json"
    identity.chmod(0o644)
    identity.write_text(json.dumps({**json.loads(identity.read_text()), "store_id": STORE_ID}, separators=(",", ":")) + "\n")
    subprocess.run([build / "bin" / "reads_bench", "make", steelyard.store, str(REVISIONS)], check=True)
    return steelyard


# A process learns the peak of its children, to which their memory before they became another program counts: so a small one asks.
MEASURE = """
import json, resource, subprocess, sys
code = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL).returncode
print(json.dumps([code, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024]))
"""


def peak_bytes(steelyard, *words) -> int:
    """The peak of one command's memory; it has to end well."""
    result = steelyard(*words, wrapper=(sys.executable, "-c", MEASURE))
    code, peak = json.loads(result.stdout)
    assert code == 0, result.explain()
    return peak


def test_a_hundred_thousand(many, tmp_path):
    seen, token, pages = set(), None, 0
    while token is not None or pages == 0:
        page = many.json("list", *NAMESPACE, "--limit", "1000", *(["--page-token", token] if token else []))
        seen.update(one["ref"] for one in page["revisions"])
        token, pages = page["next_page_token"], pages + 1
    assert (len(seen), pages) == (REVISIONS, 100)
    assert peak_bytes(many, "list", *NAMESPACE, "--limit", "1000") < 96 * MIB

    some = "org/model-77@step-50077#1"
    assert many.json("inspect", some, *NAMESPACE)["revision"]["ref"] == some
    assert len(many.json("list", "org/model-77", *NAMESPACE, "--limit", "1000")["revisions"]) == REVISIONS // 1000
    lease = many("-q", "lease", "acquire", some, *NAMESPACE, "--allow-degraded", "--holder", "h", "--ttl", "1h").last
    assert [one["lease_id"] for one in many.json("lease", "list", *NAMESPACE)["leases"]] == [lease]
    many.error("delete", some, *NAMESPACE, "--yes", code=6)
    many("lease", "release", lease)
    assert many.json("delete", some, *NAMESPACE, "--yes")["revision"]["availability"] == "DELETED"

    # One more, of real bytes, beside them.
    source = make_checkpoint(tmp_path / "real", shards=1, seed="real")
    assert many("import", source, "real").last == "real@main#1"
    assert many("verify", "real").last == "ok"
    assert peak_bytes(many, "gc", "--yes", "--gc-grace", "0s") < 256 * MIB, "it saves a snapshot, which holds the state once"
    assert len(many.json("usage", *NAMESPACE)["revisions"]) == REVISIONS - 1
