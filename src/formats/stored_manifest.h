// StoredWeightManifest: files, tensors, and where every byte of them lies in which payload object, with checksums.
//
// Format: docs/formats/manifest.md (canonical_utf8 JSON, schema_version 1). Thread-compatible values.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/limits.h"
#include "base/status.h"
#include "formats/identity.h"
#include "formats/tensor_table.h"

namespace steelyard::formats {

/// A run: bytes cut into objects of exactly `chunk_bytes` but the last.
struct Run {
  std::uint64_t bytes = 0;
  std::uint64_t chunk_bytes = 0;
  std::uint32_t first_object = 0;
  std::uint32_t objects = 0;
  bool operator==(const Run&) const = default;
};

/// Payload object i, at payload key i. `blocks` holds XXH3-64 (seed 0) of each 1 MiB block from the object's byte 0.
struct ObjectEntry {
  std::uint64_t bytes = 0;
  Digest sha256;
  std::vector<std::uint64_t> blocks;
  bool operator==(const ObjectEntry&) const = default;
};

/// A piece of a file: `bytes` bytes from `offset` of run `run`.
struct Piece {
  std::uint32_t run = 0;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  bool operator==(const Piece&) const = default;
};

enum class FileKind : std::uint8_t { kMetadata, kWeight };

struct FileEntry {
  std::string path;  ///< relative, `/`, valid UTF-8, no empty, `.` or `..` part
  FileKind kind = FileKind::kMetadata;
  std::uint64_t bytes = 0;
  Digest sha256;
  std::vector<Piece> pieces;  ///< in file order; empty for an empty file
  bool operator==(const FileEntry&) const = default;
};

/// A box of a tensor that is stored cut.
struct FragmentEntry {
  std::string tensor_id;
  std::vector<std::int64_t> global_offset;
  std::vector<std::int64_t> local_shape;
  TensorPlace place;
  bool operator==(const FragmentEntry&) const = default;
};

struct StoredManifest {
  Identity identity;
  std::int64_t created_at_ms = 0;  ///< the import record's, so that a retry writes the same bytes
  std::uint64_t chunk_bytes = limits::kChunkBytesDefault;
  std::vector<std::pair<std::string, std::string>> source;  ///< sorted by key, at most 64
  std::vector<Run> runs;
  std::vector<ObjectEntry> objects;
  std::vector<FileEntry> files;  ///< sorted by path
  TensorTable tensors;           ///< sorted by tensor_id
  std::vector<FragmentEntry> fragments;

  /// Sum of all objects' bytes.
  std::uint64_t logical_bytes() const;
  bool operator==(const StoredManifest&) const = default;
};

/// A half-open byte range of one payload object.
struct ObjectRange {
  std::uint32_t object = 0;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  bool operator==(const ObjectRange&) const = default;
};

/// The objects' ranges that hold [offset, offset + bytes) of a run, in order. The range must lie inside the run.
std::vector<ObjectRange> ranges_of(const Run& run, std::uint64_t offset, std::uint64_t bytes);

/// What is wrong with a manifest, as "path: found …; wanted …"; absent when it satisfies every rule of the format. The
/// one validator of the writer and of the reader.
std::optional<std::string> find_manifest_problem(const StoredManifest& manifest);

/// Writes the canonical form. INVALID_ARGUMENT, with the field's path, if the manifest does not satisfy the format (the
/// same validator as for reading).
Result<std::string> write_manifest(const StoredManifest& manifest);

/// Strict reader. CORRUPT, with the field's path, for unknown, missing or duplicate fields, wrong types, numbers that
/// are not integers, bad geometry, wrong order, a form that is not canonical, or a limit exceeded.
/// Does not check the identity against anything: `check_manifest_identity` does.
Result<StoredManifest> read_manifest(std::string_view json);

/// CORRUPT when the manifest is another revision's.
Status check_manifest_identity(const StoredManifest& manifest, const Identity& expected);

}  // namespace steelyard::formats
