// Whether memory has room for an import that is to end there, before anything of it is copied.
#pragma once

#include "store/context.h"
#include "store/import_layout.h"
#include "store/source.h"
#include "store/stop_signal.h"

namespace steelyard::store {

/// NO_SPACE, or BUSY where leases alone are in the way, as a rehydration would be refused now, with what `--make-room`
/// could free. What memory holds of the content needs no room; where that decides it, the source is read through. Else
/// no two objects are taken for equal, as only reading tells: an import that would fit because some are is refused.
Status check_memory_for_import(Context& context, const ImportRequest& request, Source& source,
                               const formats::CheckpointPlan& plan, const ImportLayout& layout, Observer& observer,
                               StopSignal& stop);

}  // namespace steelyard::store
