// Fill: an object of one tier put into another, every block of it checked on the way. What REHYDRATING does for each
// member.
//
// Thread-safety: may be called from any thread; the memory belongs to one call at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "base/bytes.h"
#include "base/status.h"
#include "tiers/tier.h"

namespace steelyard::tiers {

struct FillRequest {
  ObjectName from;
  ObjectName to;
  std::uint64_t bytes = 0;
  Digest sha256;
  std::span<const std::uint64_t> blocks;  ///< XXH3-64 of each block of limits::kBlockBytes, as the manifest has them
};

/// Memory with which a disk is kept busy while what was read is checked and written.
inline constexpr std::uint64_t kFillBytes = 32 * 1024 * 1024;
inline constexpr std::uint64_t kFillBytesMin = 2 * 1024 * 1024;

/// The object is visible in `target` whole and checked, or not at all. Content that is there already is linked, and
/// then nothing is read. `memory` comes from the caller's budget, from aligned_buffer(): kFillBytesMin at least.
/// `progress` is told the bytes done after each piece; an error from it ends the fill with that error, for
/// cancellation. CORRUPT naming object and block, with the sum found and wanted, where the source's bytes are not the
/// manifest's; INVALID_ARGUMENT for sums that are not as many as the blocks.
Result<PutOutcome> fill(Tier& source, Tier& target, const FillRequest& request, ByteSpan memory,
                        const std::function<Status(std::uint64_t done)>& progress = {});

}  // namespace steelyard::tiers
