// The `committed` marker of a published revision, by which its record can be recovered from the cold tier.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "metadata/types.h"
#include "tiers/tier.h"

namespace steelyard::store {

enum class MarkerState : std::uint8_t { kFits, kMissing, kDamaged };

/// What lies in the marker's place: one that says what was committed of the record, nothing, or anything else. A marker
/// of a newer format is UNAVAILABLE.
Result<MarkerState> look_at_committed_marker(tiers::Tier& cold, const metadata::RevisionRecord& record);

/// Writes the marker unless it is there and fits, over what else has its name; what it says of the record is what was
/// committed. For whoever commits, and for the next writing process after a crash between Commit and marker.
Status ensure_committed_marker(tiers::Tier& cold, const metadata::RevisionRecord& record);

}  // namespace steelyard::store
