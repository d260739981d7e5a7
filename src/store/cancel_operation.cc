#include "store/cancel_operation.h"

#include "base/log.h"
#include "formats/ref.h"
#include "store/damage_record.h"

namespace steelyard::store {

Result<metadata::OperationView> run_cancel(Context& context, const std::string& operation_id) {
  SY_RETURN_IF_ERROR(context.catalog.cancel_operation({.operation_id = operation_id}).status());
  SY_POINT(context.runtime, "operation.after_cancel");
  SY_ASSIGN_OR_RETURN(metadata::OperationView found, context.catalog.query_operation(operation_id));
  const bool moved = metadata::moves_replicas(found.operation.kind);
  if (!moved || found.operation.state != metadata::OperationState::kCancelled) return found;
  const CancelFlag never{false};
  record_what_stays(context, found.record, StopSignal(never));
  return context.catalog.query_operation(operation_id);
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
