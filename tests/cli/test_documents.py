"""The JSON documents: keys and types of every verb. Keys are stable; new ones may be added."""

from __future__ import annotations

import re

import pytest

from lib.checkpoints import flip_bit, make_checkpoint, tree_digests

TEXT, COUNT, REAL, FLAG = str, int, (int, float), bool
NONE = type(None)
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")

REVISION = {
    "tenant_id": TEXT, "namespace": TEXT, "resource_id": TEXT, "revision": TEXT, "weight_generation": COUNT, "ref": TEXT,
    "availability": TEXT, "residency": TEXT, "operation": TEXT, "operation_id": (TEXT, NONE), "metadata_generation": COUNT,
    "manifest_key": TEXT, "manifest_sha256": (TEXT, NONE), "payload_group_id": TEXT, "payload_keys_sha256": (TEXT, NONE),
    "payload_count": COUNT, "logical_bytes": COUNT, "created_at": TEXT, "updated_at": TEXT, "labels": dict,
    "active_lease_count": COUNT, "committed_seq": (COUNT, NONE), "import_attempt": COUNT, "policy": dict,
}  # fmt: skip
STATS = {
    "files": COUNT, "tensors": COUNT, "payload_objects": COUNT, "logical_bytes": COUNT, "written_bytes": COUNT,
    "reused_bytes": COUNT, "seconds": REAL, "skipped": COUNT, "skipped_bytes": COUNT, "already_there": bool,
}  # fmt: skip
LEASE = {"lease_id": TEXT, "ref": TEXT, "holder": TEXT, "ttl_seconds_left": REAL}


def check(value: dict, schema: dict, where: str = "") -> dict:
    """Every key is there with its type, in the order of the schema."""
    assert [key for key in value if key in schema] == list(schema), where
    for key, kind in schema.items():
        good = isinstance(value[key], kind) and not (kind is COUNT and isinstance(value[key], bool))
        assert good, f"{where}.{key} is {value[key]!r}"
    return value


def check_revision(value: dict) -> dict:
    check(value, REVISION, "revision")
    assert TIME.fullmatch(value["created_at"]) and TIME.fullmatch(value["updated_at"])
    check(value["policy"], {"prefer": TEXT, "ratio": (REAL[0], REAL[1], NONE), "mode": TEXT}, "policy")
    return value


@pytest.fixture
def imported(steelyard, checkpoint):
    return steelyard.json("import", checkpoint, "demo", "--label", "b=2", "--label", "a=1")


def test_import(imported, checkpoint):
    check(imported, {"schema_version": COUNT, "revision": dict, "stats": dict})
    revision, stats = check_revision(imported["revision"]), check(imported["stats"], STATS)
    assert imported["schema_version"] == 1
    assert (revision["tenant_id"], revision["namespace"]) == ("default", "default")
    assert (revision["resource_id"], revision["revision"], revision["weight_generation"]) == ("demo", "main", 1)
    assert revision["ref"] == "demo@main#1"
    assert (revision["availability"], revision["residency"], revision["operation"]) == ("READY", "COLD", "NONE")
    assert revision["operation_id"] is None and revision["active_lease_count"] == 0
    assert revision["labels"] == {"a": "1", "b": "2"} and list(revision["labels"]) == ["a", "b"]
    assert revision["policy"] == {"prefer": "cold", "ratio": None, "mode": "manual"}
    assert revision["manifest_key"] == "weights/default/demo/main/1/manifest"
    assert re.fullmatch("weight:[0-9a-f]{64}", revision["payload_group_id"])
    assert stats["files"] == len(tree_digests(checkpoint)) and stats["tensors"] == 7
    size = sum(path.stat().st_size for path in checkpoint.rglob("*") if path.is_file())
    assert stats["logical_bytes"] == size == stats["written_bytes"] + stats["reused_bytes"] == revision["logical_bytes"]
    assert stats["payload_objects"] == revision["payload_count"]


def test_dry_run_makes_nothing(steelyard, tmp_path):
    source = make_checkpoint(tmp_path / "model")
    (source / "pytorch_model.bin").write_bytes(b"x" * 1000)
    document = steelyard.json("import", source, "--dry-run")
    check(document, {"schema_version": COUNT, "dry_run": FLAG, "files": list, "logical_bytes": COUNT, "skipped": list})
    assert document["dry_run"] is True and not steelyard.store.exists()
    for one in document["files"]:
        check(one, {"path": TEXT, "kind": TEXT, "bytes": COUNT})
        assert one["kind"] in ("weight", "metadata")
    assert document["logical_bytes"] == sum(one["bytes"] for one in document["files"])
    (skipped,) = document["skipped"]
    check(skipped, {"path": TEXT, "reason": TEXT})
    assert skipped["path"] == "pytorch_model.bin" and "--include" in skipped["reason"]
    human = steelyard("import", source, "--dry-run").stdout
    assert "pytorch_model.bin" in human and "nothing was written" in human.splitlines()[-1]


def test_list(steelyard, imported):
    document = check(steelyard.json("list"), {"schema_version": COUNT, "revisions": list, "next_page_token": (TEXT, NONE)})
    assert document["next_page_token"] is None
    (revision,) = document["revisions"]
    assert check_revision(revision) == imported["revision"]


def test_inspect(steelyard, imported, checkpoint):
    document = steelyard.json("inspect", "demo")
    check(
        document,
        {"schema_version": COUNT, "revision": dict, "manifest": dict, "replicas": dict, "leases": list, "operation": NONE, "read_only": FLAG},
    )
    check_revision(document["revision"])
    manifest = check(document["manifest"], {"format": TEXT, "files": list, "tensor_count": COUNT})
    assert "tensors" not in manifest and manifest["tensor_count"] == 7
    digests = tree_digests(checkpoint)
    assert {one["path"]: one["sha256"] for one in manifest["files"]} == digests
    for one in manifest["files"]:
        check(one, {"path": TEXT, "kind": TEXT, "bytes": COUNT, "sha256": TEXT, "objects": COUNT})
        assert one["bytes"] == (checkpoint / one["path"]).stat().st_size
        assert (one["objects"] == 0) == (one["bytes"] == 0)
    assert set(document["replicas"]) <= {"cold", "hot"}
    cold = check(document["replicas"]["cold"], {"objects": COUNT, "bytes": COUNT})
    assert cold["objects"] == document["revision"]["payload_count"] + 1
    assert cold["bytes"] > document["revision"]["logical_bytes"]
    assert document["read_only"] is False


def test_inspect_tensors(steelyard, imported):
    tensors = steelyard.json("inspect", "demo", "--tensors")["manifest"]["tensors"]
    for one in tensors:
        check(one, {"name": TEXT, "dtype": TEXT, "shape": list, "bytes": COUNT, "file": TEXT})
    by_name = {one["name"]: one for one in tensors}
    assert by_name["1_Dense/linear.weight"] == {
        "name": "1_Dense/linear.weight", "dtype": "F32", "shape": [8, 8], "bytes": 256, "file": "1_Dense/model.safetensors",
    }  # fmt: skip
    assert by_name["model.layers.0.mlp.up_proj.weight"]["file"] == "model-00001-of-00002.safetensors"
    assert by_name["model.layers.5.mlp.up_proj.weight"]["file"] == "model-00002-of-00002.safetensors"


def test_verify(steelyard, imported):
    document = steelyard.json("verify", "demo")
    check(
        document,
        {"schema_version": COUNT, "ref": TEXT, "ok": FLAG, "checked_files": COUNT, "checked_objects": COUNT, "checked_bytes": COUNT, "problems": list},
    )
    assert document["ok"] is True and document["problems"] == [] and document["ref"] == "demo@main#1"
    assert document["checked_objects"] == imported["revision"]["payload_count"] + 1
    assert document["checked_bytes"] > imported["revision"]["logical_bytes"]


def test_verify_all_names_what_could_not_be_verified(steelyard, imported, checkpoint):
    other = steelyard("import", make_checkpoint(checkpoint.parent / "other", shards=1, seed="other"), "other").last
    document = steelyard("--json", "verify", "--all", code=10, env={"STEELYARD_FAULT": "EIO@tier.open_read"}).json()
    assert [one["ref"] for one in document["revisions"]] == ["demo@main#1", other] and document["ok"] is False
    for row in document["revisions"]:
        check(row, {"ref": TEXT, "ok": FLAG, "code": TEXT, "error": TEXT, "hint": str})
        assert not row["ok"] and row["code"] == "UNAVAILABLE" and "manifest" in row["error"]


def test_verify_all(steelyard, imported, checkpoint):
    other = steelyard("import", make_checkpoint(checkpoint.parent / "other", shards=1, seed="other"), "other").last
    assert steelyard("verify", "--all").lines[-2:] == ["2 revisions verified", "ok"]
    damage(steelyard, imported)
    document = steelyard("--json", "verify", "--all", code=5).json()
    check(document, {"schema_version": COUNT, "revisions": list, "ok": FLAG})
    assert {one["ref"]: one["ok"] for one in document["revisions"]} == {"demo@main#1": False, other: True}
    result = steelyard("verify", "--all", "-q", code=5)
    assert "demo@main#1 is damaged" in result.stderr and "steelyard repair demo@main#1" in result.stderr and "ok" not in result.lines
    assert "--all" in steelyard.error("verify", code=2)["message"]
    steelyard.error("verify", "demo", "--all", code=2)


def damage(steelyard, imported, at: int = 5) -> None:
    """Flips a byte of the largest stored object, under every name that it has."""
    objects = [path for path in steelyard.store.rglob("*") if path.is_file() and path.parent.name == "p"]
    largest = max(objects, key=lambda path: path.stat().st_size)
    flip_bit(largest, at)


def test_verify_of_a_damaged_revision(steelyard, imported, checkpoint):
    damage(steelyard, imported)
    result = steelyard("--json", "verify", "demo", code=5)
    document = result.json()
    assert document["ok"] is False and document["problems"]
    for one in document["problems"]:
        check(
            one,
            {"kind": TEXT, "file": (TEXT, NONE), "tensor": (TEXT, NONE), "tensors": list, "object": (TEXT, NONE), "offset": (COUNT, NONE),
             "expected": (TEXT, NONE), "actual": (TEXT, NONE)},
        )  # fmt: skip
    first = next(one for one in document["problems"] if one["kind"] == "object_checksum")
    assert first["file"].startswith("model-0000") and first["tensor"] == first["tensors"][0] and first["offset"] == 0
    assert result.error()["code"] == "CORRUPT"
    human = steelyard("verify", "demo", code=5)
    assert "object_checksum: file model-0000" in human.stdout and human.lines[-1] != "ok"
    assert "damaged" in human.stderr and first["file"] in human.stderr
    assert (human.stdout + human.stderr).count("object_checksum") == 1, "said once"
    # It is published, and reading wants the flag.
    assert steelyard.json("inspect", "demo")["revision"]["availability"] == "DEGRADED"
    assert "--allow-degraded" in steelyard.error("cat", "demo", "config.json", code=11)["hint"]
    assert b"synthetic" in steelyard("cat", "demo", "config.json", "--allow-degraded").stdout_bytes
    # What was verified before the damage may be on stdout already; nothing from it on is.
    partial = steelyard("--json", "cat", "demo", first["file"], "--allow-degraded", code=5)
    assert partial.error()["code"] == "CORRUPT" and first["file"] in partial.error()["message"]
    data = (checkpoint / first["file"]).read_bytes()
    assert len(partial.stdout_bytes) < len(data) and data.startswith(partial.stdout_bytes)


def test_materialize(steelyard, imported, checkpoint, tmp_path):
    target = tmp_path / "new" / "copy"
    document = check(
        steelyard.json("materialize", "demo", target), {"schema_version": COUNT, "ref": TEXT, "path": TEXT, "files": COUNT, "bytes": COUNT, "missing": list}
    )
    assert document["path"] == str(target) and tree_digests(target) == tree_digests(checkpoint)
    assert document["files"] == len(tree_digests(checkpoint)) and document["bytes"] == imported["stats"]["logical_bytes"]


def test_leases(steelyard, imported):
    document = check(steelyard.json("lease", "acquire", "demo", "--ttl", "60s", "--holder", "me"), {"schema_version": COUNT, "lease": dict})
    lease = check(document["lease"], LEASE)
    assert lease["ref"] == "demo@main#1" and lease["holder"] == "me" and 0 < lease["ttl_seconds_left"] <= 60
    renewed = steelyard.json("lease", "renew", lease["lease_id"], "--ttl", "2h")
    assert check(renewed["lease"], LEASE)["lease_id"] == lease["lease_id"] and renewed["lease"]["ttl_seconds_left"] > 60
    other = steelyard.json("lease", "acquire", "demo", "--holder", "me")["lease"]
    assert other["lease_id"] != lease["lease_id"], "a fresh nonce gives a lease of its own"
    again = [steelyard.json("lease", "acquire", "demo", "--holder", "me", "--nonce", "n")["lease"]["lease_id"] for _ in range(2)]
    assert again[0] == again[1]
    for words in (["lease", "list"], ["lease", "list", "demo"]):
        document = check(steelyard.json(*words), {"schema_version": COUNT, "leases": list})
        assert {check(one, LEASE)["lease_id"] for one in document["leases"]} == {lease["lease_id"], other["lease_id"], again[0]}
    (inside, *_) = steelyard.json("inspect", "demo")["leases"]
    check(inside, {"lease_id": TEXT, "holder": TEXT, "ttl_seconds_left": REAL})
    assert steelyard.json("list")["revisions"][0]["active_lease_count"] == 3
    for _ in range(2):
        assert steelyard.json("lease", "release", lease["lease_id"])["released"] is True
    assert steelyard.json("inspect", "demo")["revision"]["active_lease_count"] == 2


def test_nothing_else_is_on_stdout_and_stderr(steelyard, imported, tmp_path):
    for words in (["list"], ["inspect", "demo"], ["verify", "demo"], ["materialize", "demo", tmp_path / "m"], ["lease", "list"], ["config", "show"]):
        result = steelyard("--json", *words)
        result.json()
        assert result.stdout.count("\n") == 1 and result.said == "", result.explain()
