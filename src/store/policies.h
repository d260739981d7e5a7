// Policies: carries out the moves that the revisions' policies ask for, in the order in which a pure function gives
// them (metadata/placement_policy.h), each through the revision's own eviction or rehydration.
#pragma once

#include <functional>
#include <optional>

#include "metadata/placement_policy.h"
#include "store/context.h"
#include "store/placement.h"

namespace steelyard::store {

/// A move that was made, failed, or that others were in the way of (BUSY). One that was planned from a record that has
/// changed since is not told.
using OnMove = std::function<void(const metadata::Move& move, const Status& status)>;

struct PolicyHooks {
  OnMove on_move;
  OnMove on_wait =
      {};  ///< of pins that memory has no room for, or of which none can be used here; else that is an error
  OnMove on_stay = {};  ///< of AUTO ones that somebody reads now: memory has no room for them, or they cool down
  std::function<Status(const metadata::Move& move)> may_try = {};  ///< an error is why a move is not tried again yet
  std::function<void(std::int64_t at_mono_ms)> on_again = {};      ///< a cool-down ends then, which may change the plan
};

/// The moves of those that are asked, and the evictions that make room for them; then what they left without room is
/// looked at again, as they may have made some. An error only where what is to be done
/// could not be found out, or when it was cancelled.
Status follow_policies(Context& context, const Asked& asked, Observer& observer, const CancelFlag& cancel,
                       const PolicyHooks& hooks);

/// See Store::why_it_waits: memory that cannot be used, room, a cool-down, a lease that is there or is not, another
/// operation, or damage.
Status why_it_waits(Context& context, const metadata::RevisionRecord& record);

}  // namespace steelyard::store
