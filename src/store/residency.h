// Where the replicas of a revision lie: all in memory, none, or the set that a ratio gives. A ratio takes at most two
// operations, one that brings objects (rehydrate.h) and one that removes some (evict.h).
#pragma once

#include "store/context.h"

namespace steelyard::store {

/// Whether an operation may be started.
enum class Begin {
  kWhereNoneRuns,
  kNothing,  ///< goes on with the one that runs, or ends it and starts it anew where it cannot go on here; when others
             ///< have ended it, there is nothing to do
};

/// Brings what is missing first, then evicts what is outside the set.
Result<ResidencyResult> run_rehydrate(Context& context, const ResidencyRequest& request, Observer& observer,
                                      const CancelFlag& cancel, Begin begin = Begin::kWhereNoneRuns);

/// Evicts first, then brings what is missing of the set. What is COLD already needs no operation, with a ratio too.
Result<ResidencyResult> run_evict(Context& context, const ResidencyRequest& request, Observer& observer,
                                  const CancelFlag& cancel, Begin begin = Begin::kWhereNoneRuns);

}  // namespace steelyard::store
