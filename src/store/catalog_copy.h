// Snapshot copies of the catalog in the cold tier.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "oplog/op_log.h"
#include "tiers/tier.h"

namespace steelyard::store {

/// A copy, whole. Its head is judged before the rest is read, so that what only has the name of a copy takes no memory
/// however large it is. NOT_FOUND, CORRUPT, or UNAVAILABLE for a newer format.
Result<oplog::Snapshot> read_snapshot_copy(tiers::Tier& cold, std::uint64_t sequence);

}  // namespace steelyard::store
