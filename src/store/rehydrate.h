// Rehydrate: brings a revision, or the set that a ratio gives, into memory, as a REHYDRATING operation
// (residency_run.h). Its runner, and nobody else, reserves the space for what is missing. Object by object: read from
// the cold tier, every block checked, and put under the operation's name; what memory holds of equal content is linked,
// and nothing is read for it. Of several processes that ask at once one is the runner, and the others wait for it, so
// each cold byte is read once.
#pragma once

#include "store/context.h"
#include "store/residency.h"

namespace steelyard::store {

/// One operation. NO_SPACE, naming the limit in the way, where memory has not enough room, and CORRUPT for a damaged
/// cold object: an operation that is under way has FAILED then, and what it brought is removed. Any other error leaves
/// the operation RUNNING without a runner.
Result<ResidencyResult> rehydrate_only(Context& context, const ResidencyRequest& request, Observer& observer,
                                       const CancelFlag& cancel, Begin begin = Begin::kWhereNoneRuns);

}  // namespace steelyard::store
