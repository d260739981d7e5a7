// The `committed` marker of a published revision, by which its record can be recovered from the cold tier.
#pragma once

#include "base/status.h"
#include "metadata/types.h"
#include "tiers/tier.h"

namespace steelyard::store {

/// Writes the marker unless it is there; what it says of the record is what was committed. For whoever commits, and for
/// the next writing process after a crash between Commit and marker.
Status ensure_committed_marker(tiers::Tier& cold, const metadata::RevisionRecord& record);

}  // namespace steelyard::store
