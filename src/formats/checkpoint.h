// What a checkpoint folder holds: which files are taken, which are skipped and why, and what its indexes promise.
//
// Pure but for the SourceReader it is given; the folder itself is walked by store/source_folder.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "formats/checkpoint_files.h"
#include "formats/safetensors.h"
#include "formats/stored_manifest.h"

namespace steelyard::formats {

/// A regular file (links already followed) of the source.
struct SourceFile {
  std::string path;  ///< relative to the source, `/`
  std::uint64_t bytes = 0;
};

/// Reads `bytes` bytes at `offset` of a file of the listing; an error names the file.
using SourceReader =
    std::function<Result<std::string>(const std::string& path, std::uint64_t offset, std::uint64_t bytes)>;

struct CheckpointOptions {
  std::vector<std::string> include;  ///< globs over the relative path (glob_match); with one, nothing else is taken
  std::vector<std::string> exclude;  ///< wins over include
  bool ignore_index = false;         ///< indexes are plain files then
  bool allow_empty = false;          ///< no weight file is no error
  std::uint64_t header_limit = limits::kHeaderBytesDefault;
};

struct SkippedFile {
  std::string path;  ///< a skipped folder stands for its files
  std::uint64_t bytes = 0;
  std::string reason;  ///< with the flag that takes it
};

struct PlannedFile {
  std::string path;
  std::uint64_t bytes = 0;
  FileKind kind = FileKind::kMetadata;
  /// Component prefix of its tensors: "" in the root component, else `<folder>/`. Tensors only where `header` is set.
  std::string component;
  /// Present for safetensors files whose tensors belong to the checkpoint: validated.
  std::optional<SafetensorsHeader> header;
};

struct CheckpointPlan {
  std::vector<PlannedFile> files;  ///< sorted by path
  std::vector<SkippedFile> skipped;
  std::vector<std::string> warnings;
  std::uint64_t logical_bytes = 0;
};

/// Decides over the whole listing and validates headers and indexes. Every refusal names the file, what was found, what
/// was wanted and what to do; INVALID_ARGUMENT for a well-formed source refused by rule, CORRUPT for a damaged or
/// inconsistent one. A component is one folder with weight files or indexes of its own; its index is its authority.
Result<CheckpointPlan> plan_checkpoint(const std::vector<SourceFile>& listing, const SourceReader& read,
                                       const CheckpointOptions& options);

}  // namespace steelyard::formats
