// One damaged object of the cold tier made whole again: its own good blocks, and for the others those that anybody has
// (block_sources.h), become new bytes of the right SHA-256, which take its place under every name that shares it.
#pragma once

#include <optional>
#include <vector>

#include "formats/stored_manifest.h"
#include "store/block_sources.h"
#include "store/context.h"
#include "store/progress_meter.h"
#include "store/stop_signal.h"

namespace steelyard::store {

/// What an object lacks that nobody has.
struct Unrestored {
  std::uint32_t object = 0;
  std::uint64_t blocks = 0;
  std::uint64_t first_block = 0;
};

/// The memory that repairing objects of at most `object_bytes` takes of the budget: the whole of one where that fits,
/// beside what the tier holds of a stream and a block of what is compared.
std::uint64_t object_repair_bytes(std::uint64_t io_budget, std::uint64_t object_bytes);

/// Used once, by one thread. The references must outlive it.
class ObjectRepair {
 public:
  /// `memory`: object_repair_bytes.
  ObjectRepair(Context& context, const tiers::AttemptName& attempt, const formats::StoredManifest& manifest,
               std::uint32_t object, BlockSources& sources, ByteSpan memory, StopSignal& stop, ProgressMeter& progress);

  /// Absent: it is whole. `names` receives the others that got its bytes, or share them.
  Result<std::optional<Unrestored>> run(std::vector<tiers::ObjectName>& names);

 private:
  std::uint64_t blocks() const { return entry_.blocks.size(); }
  std::uint64_t bytes_of(std::uint64_t block) const;
  ByteSpan place_of(std::uint64_t block) const;
  bool is_right(std::uint64_t block, ByteView bytes) const;
  Status examine();
  Result<bool> link_content(const std::vector<tiers::ObjectName>& names);
  Result<std::optional<Unrestored>> find_blocks();
  Status write(const std::vector<tiers::ObjectName>& names);
  Status read_again(std::uint64_t block, ByteSpan into);

  Context& context_;
  const tiers::ObjectName name_;
  const formats::ObjectEntry& entry_;
  const std::uint32_t object_;
  BlockSources& sources_;
  const ByteSpan memory_;
  const bool keeps_;  ///< the whole object fits into memory_
  StopSignal& stop_;
  ProgressMeter& progress_;
  std::vector<bool> bad_;
  bool whole_ = false;
  Status unread_;  ///< the first block that only could not be read now
  std::uint64_t storage_ = 0;
};

}  // namespace steelyard::store
