// Verify: re-reads every object and file of a revision and publishes what it saw.
#pragma once

#include "store/context.h"

namespace steelyard::store {

Result<VerifyReport> run_verify(Context& context, const Selector& selector, Observer& observer,
                                const CancelFlag& cancel);

}  // namespace steelyard::store
