#include "store/watch.h"

#include <utility>

namespace steelyard::store {
namespace {

/// A batch with something in it is told although it was cancelled meanwhile.
template <typename Batch>
Result<Batch> unless_cancelled(Result<Batch> batch, bool empty, const CancelFlag& cancel) {
  if (batch.ok() && empty && cancel.load()) return cancelled("the watch");
  return batch;
}

}  // namespace

Result<catalog::WatchBatch> run_watch(Context& context, catalog::WatchQuery query, const CancelFlag& cancel) {
  if (cancel.load()) return cancelled("the watch");
  query.cancel = &cancel;
  auto batch = context.catalog.watch_weight_revisions(query);
  const bool empty = batch.ok() && batch->changes.empty() && !batch->resnapshot;
  return unless_cancelled(std::move(batch), empty, cancel);
}

Result<catalog::StoreChanges> watch_store(Context& context, std::uint64_t after, std::int64_t deadline_mono_ms,
                                          const CancelFlag& cancel) {
  if (cancel.load()) return cancelled("the watch");
  auto batch = context.catalog.watch_store(after, deadline_mono_ms, &cancel);
  const bool empty = batch.ok() && batch->changes.empty() && batch->leases_ended.empty() &&
                     batch->leases_taken.empty() && !batch->resnapshot;
  return unless_cancelled(std::move(batch), empty, cancel);
}

}  // namespace steelyard::store
