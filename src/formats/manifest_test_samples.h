// Small manifests for tests.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "formats/stored_manifest.h"
#include "hash/sha256.h"

namespace steelyard::formats::samples {

inline Run add_run(StoredManifest& manifest, std::uint64_t bytes, std::uint64_t chunk_bytes) {
  Run run{bytes, chunk_bytes, static_cast<std::uint32_t>(manifest.objects.size()), 0};
  for (std::uint64_t offset = 0; offset < bytes; offset += chunk_bytes, ++run.objects) {
    ObjectEntry object;
    object.bytes = std::min(chunk_bytes, bytes - offset);
    object.sha256 = hash::sha256(as_bytes("object " + std::to_string(manifest.objects.size())));
    for (std::uint64_t block = 0; block * limits::kBlockBytes < object.bytes; ++block) {
      object.blocks.push_back(0x0123456789abcdefULL + manifest.objects.size() * 16 + block);
    }
    manifest.objects.push_back(object);
  }
  manifest.runs.push_back(run);
  return run;
}

inline FileEntry file(const std::string& path, FileKind kind, std::vector<Piece> pieces) {
  FileEntry entry;
  entry.path = path;
  entry.kind = kind;
  entry.sha256 = hash::sha256(as_bytes(path));
  for (const Piece& piece : pieces) entry.bytes += piece.bytes;
  entry.pieces = std::move(pieces);
  return entry;
}

/// Every kind of field is in it: two shards' worth of runs, an empty file, a cut tensor, aliases, an unknown dtype.
inline StoredManifest everything() {
  constexpr std::uint64_t kMiB = limits::kMiB;
  StoredManifest manifest;
  manifest.identity = {{"default", "prod east", "family/model", "v1%candidate"}, 7};
  manifest.created_at_ms = 1'767'323'045'678;
  manifest.chunk_bytes = kMiB;
  manifest.source = {{"hub_ref", "main"}, {"origin", "/models/gr\xC3\xBC\xC3\x9F\x65 \"x\"\n\x01\x7F"}};
  add_run(manifest, 11, kMiB);
  add_run(manifest, 200, kMiB);
  add_run(manifest, 2 * kMiB + 4096, kMiB);
  add_run(manifest, 64, 2 * kMiB);
  manifest.files = {file("config.json", FileKind::kMetadata, {{0, 0, 11}}), file("empty.txt", FileKind::kMetadata, {}),
                    file("unet/model-\xC3\xA9.safetensors", FileKind::kWeight, {{1, 0, 200}, {2, 0, 2 * kMiB}})};
  const std::vector<std::int64_t> matrix = {1024, 256};
  const std::vector<std::int64_t> square = {4, 4};
  const std::vector<std::int64_t> three = {3};
  const std::vector<std::int64_t> none = {0, 7};
  manifest.tensors.add({"cut", "F32", square, "row-major", std::nullopt, std::nullopt, std::nullopt, {}});
  manifest.tensors.add({"empty", "BF16", none, "row-major", TensorPlace{2, 5, 0}, std::nullopt, std::nullopt, {}});
  manifest.tensors.add({"layer.\xF0\x9F\x98\x80.weight",
                        "F32",
                        matrix,
                        "row-major",
                        TensorPlace{2, 0, kMiB},
                        3,
                        -1,
                        {"alias/a", "alias/b"}});
  manifest.tensors.add({"opaque", "F8_XYZ", three, "tiles", TensorPlace{2, kMiB, 17}, std::nullopt, 5, {}});
  manifest.tensors.add(
      {"scalar", "I64", {}, "row-major", TensorPlace{2, kMiB + 24, 8}, std::nullopt, std::nullopt, {}});
  manifest.fragments = {
      {"cut", {0, 0}, {2, 4}, {3, 0, 32}}, {"cut", {2, 0}, {2, 2}, {3, 32, 16}}, {"cut", {2, 2}, {2, 2}, {3, 48, 16}}};
  return manifest;
}

/// One object, one file, no tensor.
inline StoredManifest smallest() {
  StoredManifest manifest;
  manifest.identity = {{"default", "default", "m", "main"}, 1};
  manifest.chunk_bytes = limits::kMiB;
  add_run(manifest, 3, limits::kMiB);
  manifest.files = {file("a", FileKind::kWeight, {{0, 0, 3}})};
  return manifest;
}

}  // namespace steelyard::formats::samples
