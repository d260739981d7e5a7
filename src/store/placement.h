// Placement: revisions with their use and what they keep in the memory that is mounted here, as the pure functions of
// metadata/placement_policy.h want to know it.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "metadata/placement_policy.h"
#include "store/context.h"
#include "store/store.h"

namespace steelyard::store {

struct Placement {
  /// READY and DEGRADED, of every tenant and namespace.
  std::vector<metadata::PlacedRevision> revisions;
  metadata::Memory memory;
  std::shared_ptr<tiers::Tier> tier;  ///< null where no_memory is an error
  Status no_memory;                   ///< only for policies: why none can be used here, so that what wants it waits
};

/// Revisions whose policies are asked; absent: all.
using Asked = std::optional<std::set<metadata::Identity>>;

/// What keeps something in memory, for who makes room there. UNAVAILABLE where the store has no memory tier.
Result<Placement> find_placement(Context& context);
/// The same with those whose policies are asked, and what the sets that these prefer would add. Where some are named,
/// its cost is that of what lies in memory, not of the whole store. Absent where no policy moves one of them, or there
/// is no memory; who only looks makes none.
enum class MemoryFor { kMoves, kLook };
Result<std::optional<Placement>> find_placement_for(Context& context, const Asked& asked, const metadata::LastUse& now,
                                                    MemoryFor what = MemoryFor::kMoves);

/// The request that carries out a move that was chosen from a placement: only as long as nobody else is there.
ResidencyRequest request_of(const metadata::Move& move);

/// Whether a move that was chosen from a placement came too late: others were faster, or somebody reads it by now.
bool is_overtaken(const Status& status);

}  // namespace steelyard::store
