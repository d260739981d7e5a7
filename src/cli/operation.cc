// operation show ID, operation cancel ID
#include "base/units.h"
#include "base/utf8.h"
#include "cli/documents.h"
#include "cli/signals.h"
#include "cli/verbs.h"
#include "cli/words.h"

namespace steelyard::cli {
namespace {

using metadata::Operation;

void print_human(Invocation& call, const metadata::OperationView& found) {
  const Operation& operation = found.operation;
  if (call.quiet()) {
    call.out().line(operation.operation_id);
    return;
  }
  const auto row = [&call](std::string_view name, const std::string& value) {
    std::string line(name);
    line.append(14 - name.size(), ' ');
    call.out().line(line + value);
  };
  row("operation", operation.operation_id);
  row("ref", ref_of(found.record));
  row("kind", std::string(name_of(operation.kind)));
  if (operation.ratio_millionths) row("ratio", format_ratio(*operation.ratio_millionths));
  row("state", std::string(name_of(operation.state)));
  row("done", part_words(operation.processed_members, operation.total_members, "object") + ", " +
                  format_size(operation.processed_bytes) + " of " + format_size(operation.total_bytes));
  if (!operation.message.empty()) row("message", printable(operation.message));
  row("started", format_rfc3339(operation.started_at_ms));
  if (operation.ended_at_ms != 0) row("ended", format_rfc3339(operation.ended_at_ms));
  if (operation.state != metadata::OperationState::kRunning) return;
  if (found.runner && !found.runner->source.empty()) row("source", printable(found.runner->source));
  row("runner", runner_words(found));
}

Status print(Invocation& call, store::Store& store, const metadata::OperationView& found) {
  if (!call.json()) {
    print_human(call, found);
    return {};
  }
  SY_ASSIGN_OR_RETURN(const std::uint64_t leases, store.active_leases(found.record.identity));
  Json json;
  begin_operation_document(json, found.operation);
  write_runner(json, found);
  call.out().line(end_with_revision(json, found.record, leases));
  return {};
}

Status run_show(Invocation& call) {
  SY_ASSIGN_OR_RETURN(const auto store, call.open_store(store::OpenMode::kRead));
  SY_ASSIGN_OR_RETURN(const auto found, store->operation(call.operands().front()));
  return print(call, *store, found);
}

Status run_cancel(Invocation& call) {
  SY_ASSIGN_OR_RETURN(const auto store, call.open_store(store::OpenMode::kWrite));
  SY_ASSIGN_OR_RETURN(const auto before, store->operation(call.operands().front()));
  const WatchSignals signals;
  SY_ASSIGN_OR_RETURN(const auto found, store->cancel_operation(call.operands().front(), signals.flag()));
  // One that others cancel between the two looks is told as cancelled here, which is what was wanted.
  const bool had_ended = before.operation.state != metadata::OperationState::kRunning ||
                         found.operation.state != metadata::OperationState::kCancelled;
  if (had_ended && !call.quiet() && !call.json()) {
    call.out().line("there is nothing to cancel: the operation had ended " +
                    std::string(name_of(found.operation.state)));
  }
  return print(call, *store, found);
}

}  // namespace

constinit const VerbSpec kOperationShowVerb = {.name = "operation",
                                               .sub = "show",
                                               .operands = "ID",
                                               .operands_min = 1,
                                               .operands_max = 1,
                                               .summary = "show a running or ended operation",
                                               .prints = "text",
                                               .run = run_show};
constinit const VerbSpec kOperationCancelVerb = {.name = "operation",
                                                 .sub = "cancel",
                                                 .operands = "ID",
                                                 .operands_min = 1,
                                                 .operands_max = 1,
                                                 .summary = "end a running operation; what it did stays",
                                                 .prints = "text",
                                                 .run = run_cancel};

}  // namespace steelyard::cli
