#include "store/watch.h"

#include <algorithm>

namespace steelyard::store {
namespace {

constexpr std::int64_t kSliceMs = 250;  ///< after which a wait asks whether it is cancelled

/// Waits in slices: `wait(deadline)` gives a batch, and leaves where to go on behind it.
template <typename Batch, typename Wait, typename IsEmpty>
Result<Batch> in_slices(Runtime& runtime, std::int64_t deadline_mono_ms, const CancelFlag& cancel, const Wait& wait,
                        const IsEmpty& is_empty) {
  while (true) {
    if (cancel.load()) return cancelled("the watch");
    const std::int64_t now = runtime.mono_ms();
    const std::int64_t left = std::max<std::int64_t>(deadline_mono_ms, now) - now;
    SY_ASSIGN_OR_RETURN(Batch batch, wait(now + std::min(left, kSliceMs)));
    if (!is_empty(batch) || left <= kSliceMs) return batch;
  }
}

}  // namespace

Result<catalog::WatchBatch> run_watch(Context& context, catalog::WatchQuery query, const CancelFlag& cancel) {
  return in_slices<catalog::WatchBatch>(
      context.runtime, query.deadline_mono_ms, cancel,
      [&](std::int64_t deadline_mono_ms) -> Result<catalog::WatchBatch> {
        query.deadline_mono_ms = deadline_mono_ms;
        SY_ASSIGN_OR_RETURN(catalog::WatchBatch batch, context.catalog.watch_weight_revisions(query));
        query.after = batch.next;
        return batch;
      },
      [](const catalog::WatchBatch& batch) { return batch.changes.empty() && !batch.resnapshot; });
}

Result<catalog::StoreChanges> watch_store(Context& context, std::uint64_t after, std::int64_t deadline_mono_ms,
                                          const CancelFlag& cancel) {
  return in_slices<catalog::StoreChanges>(
      context.runtime, deadline_mono_ms, cancel,
      [&](std::int64_t slice_mono_ms) -> Result<catalog::StoreChanges> {
        SY_ASSIGN_OR_RETURN(catalog::StoreChanges batch, context.catalog.watch_store(after, slice_mono_ms));
        after = batch.next;
        return batch;
      },
      [](const catalog::StoreChanges& batch) {
        return batch.changes.empty() && batch.leases_ended.empty() && !batch.resnapshot;
      });
}

}  // namespace steelyard::store
