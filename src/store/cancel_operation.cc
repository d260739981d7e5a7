#include "store/cancel_operation.h"

#include "base/log.h"
#include "formats/ref.h"
#include "store/damage_record.h"

namespace steelyard::store {

Result<metadata::OperationView> run_cancel(Context& context, const std::string& operation_id,
                                           const CancelFlag& cancel) {
  SY_RETURN_IF_ERROR(context.catalog.cancel_operation({.operation_id = operation_id}).status());
  SY_POINT(context.runtime, "operation.after_cancel");
  SY_ASSIGN_OR_RETURN(metadata::OperationView found, context.catalog.query_operation(operation_id));
  const bool moved = metadata::moves_replicas(found.operation.kind);
  const bool was_cancelled = found.operation.state == metadata::OperationState::kCancelled;
  // What another one moves since, that one counts.
  if (!moved || !was_cancelled || found.record.operation) return found;
  record_what_stays(context, found.record, StopSignal(cancel));
  // It is cancelled, whatever keeps the record from being read once more.
  auto now = context.catalog.query_operation(operation_id);
  return now.ok() ? std::move(now) : found;
}

void record_what_stays(Context& context, const metadata::RevisionRecord& record, const StopSignal& stop) {
  // Beside the move no repair could be begun.
  const ObjectFindings in_doubt{.damaged = record.damage.objects, .whole = {}, .is_last_look = true};
  const Status recorded = record_findings(context, record, in_doubt, stop).status();
  if (recorded.ok()) return;
  log_info("what of {} lies in memory is left to a reconcile: {}", formats::format_ref(record.identity),
           recorded.to_string());
}

}  // namespace steelyard::store
