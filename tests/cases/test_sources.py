"""Sources as people really have them: damaged, half fetched, doubled, oddly named. What is wrong is named, and nothing is published."""

from __future__ import annotations

import json
import os
import shutil
import struct

import pytest

from lib.checkpoints import (
    DTYPE_BITS,
    Tensor,
    lfs_pointer,
    make_checkpoint,
    make_hub_cache,
    shard_name,
    tensor,
    tree_bytes,
    tree_digests,
    write_file,
    write_index,
    write_safetensors,
)


def refused(steelyard, source, *words, code=5, **options) -> str:
    """Imports, wants that exit code and no revision in any state; returns message and hint."""
    error = steelyard.error("import", source, "model", *words, code=code, **options)
    assert steelyard.json("list", "--all")["revisions"] == []
    return f"{error['message']}\n{error['hint']}"


def tensors_of(steelyard, ref="model") -> dict[str, dict]:
    return {one["name"]: one for one in steelyard.json("inspect", ref, "--tensors")["manifest"]["tensors"]}


def taken_back(steelyard, source, tmp_path, *words) -> dict:
    """Imports, verifies, and gets every byte back; returns the import's document."""
    done = steelyard.json("import", source, "model", *words)
    assert steelyard.json("verify", "model")["ok"]
    steelyard("materialize", "model", tmp_path / "back")
    assert tree_digests(tmp_path / "back") == tree_digests(source)
    return done


# --- content that was never fetched, or only in part ---


def test_pointer_files_among_real_shards(steelyard, tmp_path):
    """A clone without git-lfs: 130 bytes where 9 GB should be. Loaders said only "header too large"."""
    source = make_checkpoint(tmp_path / "source", shards=15, tensors_per_shard=1)
    for number, size in ((3, 9_904_129_368), (10, 77)):
        write_file(source / shard_name(number, 15), lfs_pointer(size, number))
    said = refused(steelyard, source)
    for words in ("2 git-lfs pointer files", shard_name(3, 15), "9904129368", shard_name(10, 15), "77", "git lfs pull"):
        assert words in said, said
    write_file(source / "tokenizer.json", lfs_pointer(500))
    assert "tokenizer.json" in refused(steelyard, source), "a pointer in a metadata file's place is none the better"
    assert "git lfs pull" in refused(steelyard, source / shard_name(3, 15)), "nor when the shard is imported alone"


@pytest.mark.parametrize("cut", ["one byte", "half", "header only", "in the header", "seven bytes", "nothing left"])
def test_a_download_that_stopped(steelyard, tmp_path, cut):
    """A cut shard: the file, its bytes, and the bytes it should have."""
    source = make_checkpoint(tmp_path / "source", shards=3)
    shard = source / shard_name(1, 3)
    whole = shard.read_bytes()
    header_end = 8 + struct.unpack("<Q", whole[:8])[0]
    size = {"one byte": len(whole) - 1, "half": len(whole) // 2, "header only": header_end, "in the header": header_end - 9, "seven bytes": 7, "nothing left": 0}[cut]
    shard.write_bytes(whole[:size])
    said = refused(steelyard, source)
    assert shard.name in said and str(size) in said, said
    wanted = len(whole) if size >= header_end else header_end - 8 if size >= 8 else 8
    assert str(wanted) in said, said
    refused(steelyard, source, "--dry-run")
    shard.write_bytes(whole + b"tail")
    said = refused(steelyard, source)
    assert shard.name in said and str(len(whole) + 4) in said and str(len(whole)) in said, said


@pytest.mark.parametrize("index", [True, False], ids=["index", "numbers"])
def test_missing_shards_are_listed(steelyard, tmp_path, index):
    """A loader filled what was missing with uninitialised memory and served it."""
    source = make_checkpoint(tmp_path / "source", shards=5, index=index)
    for number in (1, 3):
        (source / shard_name(number, 5)).unlink()
    said = refused(steelyard, source)
    assert "2 of the 5" in said and shard_name(1, 5) in said and shard_name(3, 5) in said and shard_name(2, 5) not in said, said


def test_a_shard_of_another_download(steelyard, tmp_path):
    """Complete by number, but one shard is not the one that the index means."""
    source = make_checkpoint(tmp_path / "source", shards=3)
    write_safetensors(source / shard_name(1, 3), {"other": tensor("F32", [4])})
    said = refused(steelyard, source)
    assert shard_name(1, 3) in said and "model.layers.3.mlp.up_proj.weight" in said and "--ignore-index" in said, said


def test_a_link_to_a_blob_that_is_gone(steelyard, tmp_path):
    snapshot = make_hub_cache(tmp_path / "hub", make_checkpoint(tmp_path / "source"))
    (snapshot / shard_name(0, 2)).resolve().unlink()
    assert shard_name(0, 2) in refused(steelyard, snapshot)


# --- headers ---


@pytest.fixture(scope="module")
def longest_header(tmp_path_factory):
    """A file whose header has exactly the bytes that other tools accept at most."""
    path = tmp_path_factory.mktemp("header") / "limit" / "model.safetensors"
    return write_safetensors(path, {"a": tensor("U8", [3])}, header_bytes=100_000_000)


def test_the_header_limit_is_one_number(steelyard, longest_header, tmp_path):
    """One tool wrote headers that its own reader refused. At the limit in, over it refused with both numbers."""
    steelyard("import", longest_header, "at-limit")
    assert steelyard.json("verify", "at-limit")["ok"]
    over = write_safetensors(tmp_path / "over" / "model.safetensors", {"a": tensor("U8", [3])}, header_bytes=100_000_001)
    error = steelyard.error("import", over, "over", code=5)
    for words in ("model.safetensors", "100000001", "100000000"):
        assert words in error["message"], error
    assert "--header-limit" in error["hint"]
    steelyard("import", over, "over", "--header-limit", "100000001")
    # What went in comes out; nobody has to know the limit that was set then.
    assert steelyard.json("verify", "over")["ok"]
    assert tensors_of(steelyard, "over")["a"]["bytes"] == 3
    steelyard("materialize", "over", tmp_path / "back")
    assert (tmp_path / "back" / "model.safetensors").read_bytes() == over.read_bytes()


@pytest.mark.slow
def test_more_than_a_million_tensors(steelyard, tmp_path):
    count = 1_300_000
    stem = "model.language_model.layers.mlp.experts.weight."
    header = "{" + ",".join(f'"{stem}{i}":{{"dtype":"U8","shape":[1],"data_offsets":[{i},{i + 1}]}}' for i in range(count)) + "}"
    data = os.urandom(count)
    source = write_file(tmp_path / "model.safetensors", struct.pack("<Q", len(header)) + header.encode() + data)
    assert len(header) > 100_000_000
    error = steelyard.error("import", source, "many", code=5)
    assert str(len(header)) in error["message"] and str(len(header)) in error["hint"]
    done = steelyard.json("import", source, "many", "--header-limit", "256MiB")
    assert done["stats"]["tensors"] == count
    assert steelyard.json("verify", "many")["ok"]
    last = len(header) + 8 + count - 1
    assert steelyard("cat", "many", "model.safetensors", "--range", f"{last}-{last}").stdout_bytes == data[-1:]


def test_duplicate_names_are_called_that(steelyard, tmp_path):
    """A reader called it an invalid offset, and people looked at the offsets."""
    entry = '"key00":{"dtype":"U8","shape":[1],"data_offsets":[%d,%d]}'
    header = "{" + entry % (0, 1) + "," + entry % (1, 2) + "}"
    source = write_safetensors(tmp_path / "model.safetensors", {"a": Tensor("U8", (2,), b"ab")}, header=header)
    assert "duplicate tensor name key00" in refused(steelyard, source)


def test_tensors_without_bytes(steelyard, tmp_path):
    """Several zero-size tensors at one offset, and scalars, are legal; shape and dtype are kept."""
    tensors = {
        "first": Tensor("F32", (0,), b""),
        "a.full": tensor("F32", [3]),
        "none": Tensor("BF16", (2, 0), b""),
        "none.again": Tensor("I64", (0, 5), b""),
        "scalar": tensor("F64", []),
        "last": Tensor("BOOL", (0,), b""),
    }
    source = tmp_path / "source"
    write_safetensors(source / "model.safetensors", tensors)
    write_safetensors(source / "empty" / "model.safetensors", {"x": Tensor("F32", (0,), b""), "y": Tensor("F16", (7, 0), b"")})
    write_safetensors(source / "nothing" / "model.safetensors", {})
    taken_back(steelyard, source, tmp_path)
    found = {name: (one["dtype"], one["shape"], one["bytes"]) for name, one in tensors_of(steelyard).items()}
    wanted = {name: (one.dtype, list(one.shape), len(one.data)) for name, one in tensors.items()}
    assert found == {**wanted, "empty/x": ("F32", [0], 0), "empty/y": ("F16", [7, 0], 0)}


def test_every_dtype(steelyard, tmp_path):
    """Small floats were unknown here and lost there. An unknown one is bytes, with a warning, and comes back."""
    assert len(DTYPE_BITS) == 22
    source = tmp_path / "source"
    write_safetensors(source / "model.safetensors", {name: tensor(name, [3, 8]) for name in DTYPE_BITS})
    taken_back(steelyard, source, tmp_path)
    found = tensors_of(steelyard)
    assert {name: one["dtype"] for name, one in found.items()} == {name: name for name in DTYPE_BITS}
    assert {name: one["bytes"] for name, one in found.items()} == {name: 3 * bits for name, bits in DTYPE_BITS.items()}

    new = write_safetensors(tmp_path / "new" / "model.safetensors", {"w": Tensor("F8_XYZ", (2, 3), b"sixsix"), "v": tensor("F32", [1])})
    result = steelyard("import", new.parent, "new")
    assert "F8_XYZ" in result.stderr and result.stderr.startswith("warning: ") and result.stderr.count("\n") == 1
    assert tensors_of(steelyard, "new")["w"] == {"name": "w", "dtype": "F8_XYZ", "shape": [2, 3], "bytes": 6, "file": "model.safetensors"}
    assert steelyard("cat", "new", "model.safetensors").stdout_bytes == new.read_bytes()


@pytest.mark.parametrize("dtype, shape, size", [("F4", (3,), 1), ("F4", (5, 1), 3), ("F6_E2M3", (3,), 2), ("F6_E3M2", (2, 3), 5), ("F32", (2,), 7), ("BF16", (2,), 5)])
def test_a_shape_that_does_not_fill_its_bytes(steelyard, tmp_path, dtype, shape, size):
    source = write_safetensors(tmp_path / "model.safetensors", {"odd.weight": Tensor(dtype, shape, b"x" * size)})
    said = refused(steelyard, source)
    assert "odd.weight" in said and dtype in said, said


# --- the same weights twice ---


@pytest.mark.parametrize("index", [True, False], ids=["index", "no index"])
def test_consolidated_beside_shards(steelyard, tmp_path, index):
    """Both were taken: twice the memory, and whichever was read last won."""
    source = make_checkpoint(tmp_path / "source", shards=2, tensors_per_shard=1, index=index)
    names = [f"model.layers.{number}.mlp.up_proj.weight" for number in range(2)]
    double = write_safetensors(source / "consolidated.safetensors", {name: tensor("BF16", [16, 32], "double") for name in names})
    result = steelyard("import", source, "model")
    (warning,) = result.said.splitlines()
    assert "consolidated.safetensors" in warning and "model" in warning
    assert {name: one["file"] for name, one in tensors_of(steelyard).items()} == {name: shard_name(i, 2) for i, name in enumerate(names)}
    preview = steelyard.json("import", source, "--dry-run", "--progress", "none")
    assert [(one["path"], one["bytes"]) for one in preview["skipped"]] == [(double.name, double.stat().st_size)]


def test_an_index_by_any_name(steelyard, tmp_path):
    """A repository that has only consolidated.safetensors.index.json was "not a safetensors repository"."""
    source = make_checkpoint(tmp_path / "source", shards=2, index_name="consolidated.safetensors.index.json")
    taken_back(steelyard, source, tmp_path)
    assert len(tensors_of(steelyard)) == 6
    (source / shard_name(1, 2)).unlink()
    error = steelyard.error("import", source, "cut", code=5)
    assert "consolidated.safetensors.index.json" in error["message"] and shard_name(1, 2) in error["message"]


def test_variants_beside_the_plain_files(steelyard, tmp_path):
    """Pipelines carry fp16 copies beside the plain files: all of it is kept, and the tensors are those of the plain ones."""
    source = tmp_path / "source"
    write_safetensors(source / "vae" / "model.safetensors", {"w": tensor("F32", [8, 4])})
    write_safetensors(source / "vae" / "model.fp16.safetensors", {"w": tensor("F16", [8, 4])})
    make_checkpoint(source / "unet", shards=2, tensors_per_shard=1, dtype="F32")
    names = [f"model.layers.{number}.mlp.up_proj.weight" for number in range(2)]
    for number, name in enumerate(names):
        write_safetensors(source / "unet" / shard_name(number, 2, "model.fp16"), {name: tensor("F16", [16, 32])})
    write_index(source / "unet" / "model.safetensors.index.fp16.json", {name: shard_name(i, 2, "model.fp16") for i, name in enumerate(names)})
    write_safetensors(source / "text" / "model.fp16.safetensors", {"t": tensor("F16", [2])})
    done = taken_back(steelyard, source, tmp_path)
    assert done["stats"]["logical_bytes"] == tree_bytes(source)
    found = {name: (one["dtype"], one["file"]) for name, one in tensors_of(steelyard).items()}
    assert found == {
        "vae/w": ("F32", "vae/model.safetensors"),
        "text/t": ("F16", "text/model.fp16.safetensors"),
        **{f"unet/{name}": ("F32", f"unet/{shard_name(i, 2)}") for i, name in enumerate(names)},
    }
    warnings = steelyard("import", source, "again").said.splitlines()
    assert len(warnings) == 2, "one for each folder that has a double"
    assert any("vae/model.safetensors" in one and "vae/model.fp16.safetensors" in one for one in warnings)
    steelyard("import", source / "vae", "half", "--exclude", "model.safetensors")
    assert tensors_of(steelyard, "half")["w"]["dtype"] == "F16"


def test_one_tensor_in_two_unrelated_files(steelyard, tmp_path):
    for name in ("model", "other"):
        write_safetensors(tmp_path / "source" / f"{name}.safetensors", {"w": tensor("F32", [4], name)})
    said = refused(steelyard, tmp_path / "source")
    for words in ("tensor w", "model.safetensors", "other.safetensors", "--exclude"):
        assert words in said, said


def test_other_formats_are_not_taken_twice(steelyard, tmp_path):
    """41 GB were fetched where 14 GB are used. The preview shows what is left out, how large it is, and how to have it."""
    source = make_checkpoint(tmp_path / "source")
    wanted = tree_digests(source)
    extra = {"pytorch_model.bin": 1000, "original/consolidated.00.pth": 2000, "original/params.json": 30, "metal/model.bin": 400, "onnx/model.onnx": 50}
    for path, size in extra.items():
        write_file(source / path, b"x" * size)
    preview = steelyard.json("import", source, "--dry-run")
    assert {one["path"] for one in preview["files"]} == set(wanted)
    assert {one["path"]: one["bytes"] for one in preview["skipped"]} == {"pytorch_model.bin": 1000, "original": 2030, "metal": 400, "onnx/model.onnx": 50}
    assert all("--include" in one["reason"] for one in preview["skipped"])
    assert not steelyard.store.exists()
    chosen = lambda *words: {one["path"] for one in steelyard.json("import", source, "--dry-run", *words)["files"]}  # noqa: E731
    assert chosen("--include", "original/*") == {"original/consolidated.00.pth", "original/params.json"}
    assert chosen("--include", "*", "--exclude", "*.bin", "--exclude", "*.onnx") == set(wanted) | {"original/consolidated.00.pth", "original/params.json"}
    assert chosen("--exclude", "*.safetensors*") == {path for path in set(wanted) | set(extra) if ".safetensors" not in path}
    stats = steelyard.json("import", source, "model")["stats"]
    assert (stats["skipped"], stats["skipped_bytes"]) == (4, 3480), "an import says that it left something out"
    assert "not taken: 4 files or folders" in steelyard("import", source, "model").stdout
    steelyard("materialize", "model", tmp_path / "back")
    assert tree_digests(tmp_path / "back") == wanted


# --- names and links ---


@pytest.mark.parametrize("shard", ["../../x.safetensors", "/etc/x.safetensors", "", "a//b.safetensors", "./a.safetensors", "sub/../../a.safetensors", "a\0.safetensors"])
def test_an_index_that_points_out_of_its_folder(steelyard, tmp_path, shard):
    """"../../.." in a file name wrote outside the target."""
    source = make_checkpoint(tmp_path / "source")
    write_index(source / "model.safetensors.index.json", {"w": shard})
    write_safetensors(tmp_path / "x.safetensors", {"w": tensor("F32", [1])})
    assert "model.safetensors.index.json" in refused(steelyard, source)


@pytest.mark.parametrize("path", ["../../../evil", "/tmp/evil.json", "a/../../ev"])
def test_a_manifest_edited_by_hand_writes_nothing(steelyard, tmp_path, path):
    source = make_checkpoint(tmp_path / "source")
    write_file(source / ("z" * len(path)), b"payload")
    steelyard("import", source, "model")
    (manifest,) = steelyard.store.rglob("groups/*/*/*/manifest")
    manifest.chmod(0o600)
    text = manifest.read_text()
    assert text.count('"' + "z" * len(path) + '"') == 1
    manifest.write_text(text.replace("z" * len(path), path))
    before = sorted(tmp_path.rglob("*"))
    assert steelyard.error("materialize", "model", tmp_path / "a" / "b" / "out", "--allow-degraded", code=(5, 11))
    assert not steelyard.json("verify", "model", code=5)["ok"]
    assert [one for one in sorted(tmp_path.rglob("*")) if one not in before and steelyard.store not in one.parents] in ([], [tmp_path / "a", tmp_path / "a" / "b"])
    assert not os.path.exists("/tmp/evil.json")


def test_links_are_followed_and_never_kept(steelyard, tmp_path):
    """A copied snapshot held links only, and was worth nothing once the cache was cleaned."""
    plain = make_checkpoint(tmp_path / "source", nested=True)
    snapshot = make_hub_cache(tmp_path / "hub", plain)
    steelyard("import", snapshot, "model")
    shutil.rmtree(tmp_path / "hub")
    assert steelyard.json("verify", "model")["ok"]
    steelyard("materialize", "model", tmp_path / "back")
    for path in (tmp_path / "back").rglob("*"):
        assert not path.is_symlink() and (path.is_dir() or os.stat(path).st_nlink == 1), path
    assert tree_digests(tmp_path / "back") == tree_digests(plain)


def test_links_out_of_the_source_want_a_flag(steelyard, tmp_path):
    source = make_checkpoint(tmp_path / "source")
    (source / "notes.txt").symlink_to(write_file(tmp_path / "outside.txt", "mine"))
    said = refused(steelyard, source, code=2)
    assert "notes.txt" in said and "--follow-links" in said
    steelyard("import", source, "model", "--follow-links")
    assert steelyard("cat", "model", "notes.txt").stdout == "mine"


def test_long_names(steelyard, tmp_path):
    """Names grew a suffix while they were written, and the longest legal ones failed."""
    source = make_checkpoint(tmp_path / "s")
    write_file(source / ("b" * 250 + ".json"), b"{}")
    write_safetensors(source / ("w" * 243 + ".safetensors"), {"w": tensor("F32", [4])})
    write_file(source / ("é" * 127 + "x"), b"accents")
    deep = "/".join(["d" * 250] * 15) + "/" + "f" * 200
    where = os.open(source, os.O_RDONLY)
    for part in deep.split("/")[:-1]:
        os.mkdir(part, dir_fd=where)
        below = os.open(part, os.O_RDONLY, dir_fd=where)
        os.close(where)
        where = below
    file = os.open(deep.split("/")[-1], os.O_WRONLY | os.O_CREAT, dir_fd=where)
    os.write(file, b"deep")
    os.close(file)
    os.close(where)
    assert len(deep) > 3900
    steelyard("import", source, "model", "--ignore-index")
    assert steelyard("cat", "model", deep).stdout == "deep"
    assert {"b" * 250 + ".json", "é" * 127 + "x", deep} < set(steelyard("-q", "inspect", "model", "--files").lines)
    steelyard("materialize", "model", tmp_path / "back")
    found = os.fwalk(tmp_path / "back")
    assert sum(len(files) for _, _, files, _ in found) == sum(len(files) for _, _, files, _ in os.fwalk(source))
    assert (tmp_path / "back" / ("b" * 250 + ".json")).read_bytes() == b"{}"
    shutil.rmtree(source)
    shutil.rmtree(tmp_path / "back")


def test_names_that_are_legal_and_odd(steelyard, tmp_path):
    source = make_checkpoint(tmp_path / "source", shards=1)
    odd = ["a b", "tab\there", "line\nbreak", 'quote"back\\slash', "%2F", "#@%", "🦙.txt", "-n", ".hidden", "e\u0301", "\u00e9", "~", "*?[x]"]
    for name in odd:
        write_file(source / name, name)
    taken_back(steelyard, source, tmp_path)
    for name in odd:
        assert steelyard("cat", "model", "--", name).stdout == name
    os.mkdir(os.fsencode(tmp_path) + b"/bytes")
    with open(os.fsencode(tmp_path) + b"/bytes/\xff.bin", "wb") as out:
        out.write(b"x")
    error = steelyard.error("import", tmp_path / "bytes", "bytes", code=2)
    assert "UTF-8" in error["message"]


def test_references_have_a_grammar(steelyard, tmp_path):
    """`refs/pr/1` was not found; whether "a//b" is a name, nobody could say. Every legal name has one spelling and comes back."""
    source = make_checkpoint(tmp_path / "source", shards=1, tensors_per_shard=1)
    legal = ["a/b", "a//b", "a/", "/a", "a b", "a@b", "a#b", "100%", "%2F", "...", "🦙", "é", "e\u0301", "x" * 300, "a:b", "~", "-x"]
    keys = set()
    for name in legal:
        revision = steelyard.json("import", f"--source={source}", f"--checkpoint-id={name}", "--revision=refs/pr/1")["revision"]
        assert (revision["resource_id"], revision["revision"], revision["weight_generation"]) == (name, "refs/pr/1", 1), name
        keys.add(revision["manifest_key"])
        assert revision["manifest_key"].count("/") == 5, "a part's own slash is written %2F"
        assert steelyard.json("inspect", "--", revision["ref"])["revision"]["ref"] == revision["ref"]
    assert len(keys) == len(legal)
    assert steelyard.json("inspect", "a/b@refs/pr/1")["revision"]["resource_id"] == "a/b"
    assert [one["resource_id"] for one in steelyard.json("list", "--limit", "1000")["revisions"]] == legal
    for name in ("", ".", "..", "x" * 1025, "a\nb", "\x7f"):
        error = steelyard.error("import", f"--source={source}", f"--checkpoint-id={name}", code=2)
        assert error["code"] == "INVALID_ARGUMENT", name
    longest = "x" * 1024
    assert steelyard.json("import", f"--source={source}", f"--checkpoint-id={longest}")["revision"]["resource_id"] == longest
    # A name may be as long as that, but the key made of all parts has a limit of its own.
    error = steelyard.error("import", f"--source={source}", f"--checkpoint-id={'é' * 512}", code=2)
    assert "3000" in error["message"], error


def test_json_of_a_preview_is_whole(steelyard, tmp_path):
    """Every file of the source is either taken or skipped with its reason."""
    source = make_checkpoint(tmp_path / "source", nested=True)
    write_file(source / "pytorch_model.bin", b"x")
    write_file(source / ".git" / "config", b"x")
    preview = steelyard.json("import", source, "--dry-run", "--exclude", "*.txt")
    assert {one["path"] for one in preview["files"] + preview["skipped"]} == {path for path in tree_digests(source) if not path.startswith(".git/")}
    assert preview["logical_bytes"] == sum(one["bytes"] for one in preview["files"])
    assert json.dumps(preview)


def test_an_index_without_tensors(steelyard, tmp_path):
    """It would have published a model without a single tensor."""
    source = make_checkpoint(tmp_path / "source")
    write_index(source / "model.safetensors.index.json", {})
    said = refused(steelyard, source)
    assert "model.safetensors.index.json" in said and "--ignore-index" in said
    steelyard("import", source, "model", "--ignore-index")
    assert len(tensors_of(steelyard)) == 6


def test_a_whole_hub_repository(steelyard, tmp_path):
    """Blobs and snapshots are the same bytes twice."""
    snapshot = make_hub_cache(tmp_path / "hub", make_checkpoint(tmp_path / "source"))
    said = refused(steelyard, snapshot.parent.parent, code=2)
    assert str(snapshot) in said


def test_places_that_are_no_folders(steelyard, tmp_path):
    """A link to nothing and a file in a path are the caller's mistake, and are named."""
    source = make_checkpoint(tmp_path / "source")
    file = write_file(tmp_path / "file", "x")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    steelyard("import", source, "model")
    for place in (tmp_path / "link", file, file / "below"):
        error = steelyard.error("materialize", "model", place, code=2)
        assert str(place.parent if place.name == "below" else place) in error["message"] and error["hint"], error
        error = steelyard.at(place).error("import", source, "model", code=2)
        assert str(place) in error["message"], error
    assert not (tmp_path / "nowhere").exists() and file.read_text() == "x"
