// Copies strided runs of bytes in memory. Thread-safe: no state.
#pragma once

#include <cstddef>
#include <cstdint>

namespace steelyard::reshard {

/// `count` runs of `bytes` bytes; from one to the next `source_stride` and `target_stride` bytes.
struct CopyRuns {
  const std::byte* source = nullptr;
  std::byte* target = nullptr;
  std::uint64_t bytes = 0;
  std::uint64_t count = 0;
  std::uint64_t source_stride = 0;
  std::uint64_t target_stride = 0;
};

/// Source and target do not overlap. `past_cache`: the target is not read soon, so wide runs are written around the
/// caches where the CPU can (finish_copies orders those writes before what follows).
void copy_runs(const CopyRuns& runs, bool past_cache);

/// To be called by a thread after its last copy_runs(…, true), before it says that it is done.
void finish_copies();

}  // namespace steelyard::reshard
