// One component of a checkpoint: a folder's safetensors files and indexes, and which of them hold its tensors.
//
// Internal to plan_checkpoint.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "formats/checkpoint.h"
#include "formats/checkpoint_index.h"

namespace steelyard::formats {

/// A safetensors file of the component.
struct ComponentFile {
  std::string path;
  std::uint64_t bytes = 0;
  SafetensorsHeader header;
  bool has_tensors = true;  ///< false: kept as bytes, its tensors are not the checkpoint's
  bool variant = false;     ///< a double by its name: `model.fp16.safetensors` beside `model.safetensors`
  bool dropped = false;     ///< a double: not taken
  std::string why_dropped;
};

struct Component {
  std::string folder;  ///< "" for the root
  std::vector<ComponentFile> files;
  std::vector<CheckpointIndex> indexes;
  std::vector<CheckpointIndex> variant_indexes;  ///< of files that are variants; they place no tensor
  std::vector<SkippedFile> skipped_indexes;
  std::vector<std::string> warnings;

  /// `name` for messages: the folder, or "the root folder".
  std::string shown() const;
};

/// How a shard that an index names, but the component does not have, stands in the source.
enum class AbsentShard { kMissing, kDeselected };

/// Decides which files hold the component's tensors. `keep_doubles`: a double is kept as bytes instead of skipped
/// (everything was asked for by name).
///
/// CORRUPT: a missing shard, an index that names nothing that is there, a tensor that its shard lacks, a tensor in two
/// files. INVALID_ARGUMENT: a shard that the index names and the globs leave out.
Status settle_component(Component& component, bool keep_doubles,
                        const std::function<AbsentShard(const std::string& path)>& absent);

}  // namespace steelyard::formats
