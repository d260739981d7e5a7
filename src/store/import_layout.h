// How a checkpoint's bytes become runs, objects, pieces and tensor places. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "formats/checkpoint.h"
#include "formats/stored_manifest.h"

namespace steelyard::store {

/// One payload object of an import: a consecutive part of one file.
struct ObjectSpan {
  std::uint32_t file = 0;  ///< index into the plan's files
  std::uint64_t file_offset = 0;
  std::uint64_t bytes = 0;
};

/// A file's objects are consecutive and cover it from its first byte to its last.
struct FileSpan {
  std::uint32_t first_object = 0;
  std::uint32_t objects = 0;
};

struct ImportLayout {
  std::vector<formats::Run> runs;
  std::vector<ObjectSpan> objects;
  std::vector<FileSpan> files;  ///< by the plan's files
  std::vector<std::vector<formats::Piece>> pieces;
  formats::TensorTable tensors;  ///< sorted
  std::uint64_t object_bytes_max = 0;
};

/// Runs in path order: a validated safetensors file is a header run (its 8 length bytes first) and a data run, any
/// other file one run, an empty file none. Takes the tensors out of `plan`'s headers. INVALID_ARGUMENT when there are
/// more objects or tensors than a manifest may hold, with the next step.
Result<ImportLayout> lay_out(formats::CheckpointPlan& plan, std::uint64_t chunk_bytes);

}  // namespace steelyard::store
