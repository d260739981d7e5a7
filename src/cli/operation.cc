// operation show ID, operation cancel ID
#include "base/units.h"
#include "base/utf8.h"
#include "cli/documents.h"
#include "cli/verbs.h"
#include "store/runner_keeper.h"

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
  row("state", std::string(name_of(operation.state)));
  row("done", std::to_string(operation.processed_members) + " of " + counted(operation.total_members, "object") + ", " +
                  format_size(operation.processed_bytes) + " of " + format_size(operation.total_bytes));
  if (!operation.message.empty()) row("message", printable(operation.message));
  row("started", format_rfc3339(operation.started_at_ms));
  if (operation.ended_at_ms != 0) row("ended", format_rfc3339(operation.ended_at_ms));
  if (operation.state != metadata::OperationState::kRunning) return;
  const bool run = found.runner && !found.runner->token.empty();
  const std::string source = found.runner ? found.runner->source : "";
  if (!source.empty()) row("source", printable(source));
  const std::string command = "steelyard " + std::string(store::verb_of(operation.kind)) + " " + ref_of(found.record);
  row("runner", run              ? printable(found.runner->holder)
                : source.empty() ? "none; `" + command + "` or a reconcile goes on with it"
                                 : "none; `" + command + " --source " + shell_word(source) + "` goes on with it");
}

Status print(Invocation& call, store::Store& store, const metadata::OperationView& found) {
  if (!call.json()) {
    print_human(call, found);
    return {};
  }
  SY_ASSIGN_OR_RETURN(const std::uint64_t leases, store.active_leases(found.record.identity));
  Json json;
  begin_document(json).key("operation");
  write_operation(json, found.operation);
  json.key("revision");
  write_revision(json, found.record, leases);
  json.end_object();
  call.out().line(json.text());
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
  SY_ASSIGN_OR_RETURN(const auto found, store->cancel_operation(call.operands().front()));
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
