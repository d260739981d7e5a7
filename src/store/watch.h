// Watching: changes of records as the log has them, for as long as somebody wants them.
#pragma once

#include "store/context.h"

namespace steelyard::store {

/// One batch: at once where there is something to tell, at the deadline of the query where there is nothing. The log
/// wakes it; a cancel is heard within a moment.
Result<catalog::WatchBatch> run_watch(Context& context, catalog::WatchQuery query, const CancelFlag& cancel);

/// The same of everything that concerns a reconciler.
Result<catalog::StoreChanges> watch_store(Context& context, std::uint64_t after, std::int64_t deadline_mono_ms,
                                          const CancelFlag& cancel);

}  // namespace steelyard::store
