// Checkpoints in memory that imports of a simulation read.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/runtime.h"
#include "store/source.h"

namespace steelyard::sim {

/// Files by path. Immutable.
struct Checkpoint {
  std::string path;  ///< its name as a source
  std::map<std::string, std::string> files;
  std::map<std::string, std::string> sha256{};  ///< hex, of each file
};

/// A few checkpoints that share some of their files and tensors; made once, the same in every history. The last is one
/// small file without weights, for publishing by hand.
const std::vector<Checkpoint>& checkpoints();

/// A source over one of them. With `changes`, it turns out to have changed while it was read. Reads take up to
/// `latency_ms_max` each. The runtime must outlive the source.
std::unique_ptr<store::Source> open_checkpoint(Runtime& runtime, const Checkpoint& checkpoint, bool changes,
                                               std::int64_t latency_ms_max);

}  // namespace steelyard::sim
