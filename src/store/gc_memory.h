// What gc does in the memory that is mounted here:
//
//   - Of revisions that are gone everything goes: late runners put it there, or it was another container's turn to
//     remove it. As in the cold tier it is held before the catalog is asked for the last time.
//   - Of any other revision nothing, also of what no record counts (evict.h): only who asks for it reads cold bytes
//   back.
#pragma once

#include "store/context.h"

namespace steelyard::store {

/// Adds to `report` what was freed, or would be in a dry run, and why a group stays.
Status collect_memory(Context& context, bool dry_run, const CancelFlag& cancel, GcReport& report);

}  // namespace steelyard::store
