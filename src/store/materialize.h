// Materialise: a revision's files as plain files, byte for byte, visible only when complete.
#pragma once

#include "store/context.h"

namespace steelyard::store {

Result<MaterializeResult> run_materialize(Context& context, const MaterializeRequest& request, Observer& observer,
                                          const CancelFlag& cancel);

}  // namespace steelyard::store
