#include "store/reconcile_moves.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "formats/ref.h"
#include "store/operation_text.h"
#include "store/policies.h"
#include "store/progress_meter.h"
#include "store/residency.h"
#include "store/residency_run.h"

namespace steelyard::store {

using metadata::InstanceView;
using metadata::RevisionRecord;

Status go_on_with_move(Context& context, const RevisionRecord& record, Observer& observer, const CancelFlag& cancel,
                       ReconcileReport& report) {
  if (!record.operation || !moves_replicas(record.operation->kind) || context.hot == nullptr) return {};
  const metadata::Operation& operation = *record.operation;
  const std::string ref = formats::format_ref(record.identity);
  const auto view = view_from_here(context, metadata::instance_of(operation));
  if (!view.ok()) {
    report.waiting.push_back(
        {ref, Status(view.code(),
                     fmt::format("{} has the {} operation {}, and what memory is mounted here cannot be read: {}", ref,
                                 metadata::name_of(operation.kind), operation.operation_id, view.status().message()),
                     view.status().hint())});
    return {};
  }
  if (*view == InstanceView::kElsewhere) {
    report.waiting.push_back(
        {ref, Status(Code::kBusy,
                     fmt::format("{} has the {} operation {} in memory instance {}, which is not mounted here", ref,
                                 metadata::name_of(operation.kind), operation.operation_id, operation.hot_instance),
                     fmt::format("it goes on where that is mounted; if nobody has it any more: steelyard operation "
                                 "cancel {}",
                                 operation.operation_id))});
    return {};
  }
  const bool evicts = operation.kind == metadata::OperationKind::kEvicting;
  ResidencyRequest request = request_of(record);
  request.wait_for_others = false;
  PhaseOfRevision phase(observer, ref);
  const auto moved = (evicts ? run_evict : run_rehydrate)(context, request, phase, cancel, Begin::kNothing);
  if (moved.code() == Code::kBusy) {
    report.waiting.push_back({ref, moved.status()});
    return {};
  }
  SY_RETURN_IF_ERROR(moved.status());
  if (!moved->operation && evicts && *view == InstanceView::kGone) {
    report.changes.push_back({ref, "the eviction that was begun is ended: the memory that it was to leave is gone"});
    return {};
  }
  if (!moved->operation) return {};  // others ended it
  report.changes.push_back(
      {ref, evicts ? "the eviction that was begun is done" : "the rehydration that was begun is done"});
  return {};
}

void tell_where_memory_is(Context& context, const RevisionRecord& record, ReconcileReport& report) {
  if (record.operation || record.hot_members == 0) return;
  // Where what is mounted cannot be read, it may be this very memory.
  const auto view = view_from_here(context, metadata::instance_of(record));
  if (!view.ok() || *view != InstanceView::kElsewhere) return;
  const std::string ref = formats::format_ref(record.identity);
  // A policy of a share refuses the whole.
  const std::string next = command_of(metadata::OperationKind::kRehydrating, record.policy.ratio_millionths, ref);
  report.waiting.push_back(
      {ref, Status(Code::kUnavailable,
                   fmt::format("{} is {} in memory instance {}, which is not mounted here", ref,
                               metadata::name_of(record.residency), record.hot_instance),
                   fmt::format("where nobody has that memory any more, `{}` brings it into the memory here", next))});
}

Status report_policies(Context& context, const Asked& asked, Observer& observer, const CancelFlag& cancel,
                       const PolicyReports& reports) {
  if (context.hot == nullptr) return {};
  const auto on_wait = [&](const metadata::Move& move, const Status& why) {
    ReconcileReport report;
    report.waiting.push_back({formats::format_ref(move.identity), why});
    reports.tell(move.identity, std::move(report));
  };
  const auto on_move = [&](const metadata::Move& move, const Status& moved) {
    if (moved.code() == Code::kNoSpace || moved.code() == Code::kBusy) return on_wait(move, moved);
    const std::string ref = formats::format_ref(move.identity);
    ReconcileReport report;
    if (moved.ok()) {
      report.changes.push_back({ref, fmt::format("{} by its policy: {}", name_of(move.target), move.why)});
    } else {
      report.failed.push_back({ref, moved});
    }
    reports.tell(move.identity, std::move(report));
  };
  return follow_policies(context, asked, observer, cancel,
                         {.on_move = on_move,
                          .on_wait = on_wait,
                          .on_stay = reports.of_stays ? on_wait : OnMove(),
                          .may_try = reports.may_try,
                          .on_again = reports.on_again});
}

}  // namespace steelyard::store
