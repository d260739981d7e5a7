// Placement: revisions with their use and what they keep in the memory that is mounted here, as the pure functions of
// metadata/placement_policy.h want to know it.
#pragma once

#include <optional>
#include <vector>

#include "metadata/placement_policy.h"
#include "store/context.h"

namespace steelyard::store {

struct Placement {
  /// READY and DEGRADED, of every tenant and namespace: those that keep something in memory, and with `for_policies`
  /// those that have a policy.
  std::vector<metadata::PlacedRevision> revisions;
  metadata::Memory memory;
  Status no_memory;  ///< only for the policies: why none can be used here, so that what wants it has to wait
};

/// With `for_policies`, what the sets that the policies prefer would add too; absent where no record has a policy that
/// moves it. Absent also where the store has no memory tier.
Result<std::optional<Placement>> find_placement(Context& context, bool for_policies);

/// Whether a move that was chosen from a placement came too late: others were faster, or somebody reads it by now.
bool is_overtaken(const Status& status);

}  // namespace steelyard::store
