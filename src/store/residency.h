// Residency: brings a revision into memory, as a REHYDRATING operation.
//
//   1. The instance of the memory tier, made where there is none; what of the revision lies there already.
//   2. The operation is started with its totals, its instance and its runner, in one append; its runner, and nobody
//      else, reserves the space for the rest.
//   3. Object by object: read from the cold tier, every block checked, and put under the operation's name. What memory
//      holds of equal content is linked, and nothing is read for it.
//   4. What lies there is listed again, and the operation ends with that: DONE when every object is there.
//
// Killed anywhere, the operation stays RUNNING, and the same command, or a reconcile, takes it over and brings what is
// missing. Of several processes that ask at once one is the runner, and the others wait for it, so each cold byte is
// read once.
#pragma once

#include "store/context.h"

namespace steelyard::store {

/// A running rehydration whose runner is not live is taken over; a live one is waited for. NO_SPACE, naming the limit
/// in the way, where memory has not enough room, and CORRUPT for a damaged cold object: an operation that is under way
/// has FAILED then, and what it brought is removed. Any other error leaves the operation RUNNING without a runner.
Result<ResidencyResult> run_rehydrate(Context& context, const ResidencyRequest& request, Observer& observer,
                                      const CancelFlag& cancel);

}  // namespace steelyard::store
