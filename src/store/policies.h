// Policies: carries out the moves that the revisions' policies ask for, in the order in which a pure function gives
// them (metadata/placement_policy.h), each through the revision's own eviction or rehydration.
#pragma once

#include <functional>
#include <optional>

#include "metadata/placement_policy.h"
#include "store/context.h"

namespace steelyard::store {

/// A move that was made, or failed. One that a lease, an operation or another process was in the way of is not told.
using OnMove = std::function<void(const metadata::Move& move, const Status& status)>;

/// With `only`, the move of this revision alone, and the evictions that make room for it. `on_wait` is told of pins
/// that memory has no room for, or of which none can be used here; without it the latter is an error. Else one only
/// where what is to be done could not be found out, or when it was cancelled.
Status follow_policies(Context& context, const std::optional<metadata::Identity>& only, Observer& observer,
                       const CancelFlag& cancel, const OnMove& on_move, const OnMove& on_wait = {});

}  // namespace steelyard::store
