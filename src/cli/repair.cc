// repair REF
#include "base/units.h"
#include "cli/documents.h"
#include "cli/progress.h"
#include "cli/signals.h"
#include "cli/verbs.h"
#include "cli/words.h"

namespace steelyard::cli {
namespace {

constexpr FlagSpec kFlags[] = {
    {.name = "--source",
     .placeholder = "PATH",
     .help = "a folder or file with the original files, under these or other names"},
    {.name = "--follow-links", .placeholder = {}, .help = "follow links that leave the source"},
    {.name = "--no-wait", .placeholder = {}, .help = "start the operation and leave it to a later repair or reconcile"},
    kExpectGeneration,
};

Result<store::RepairRequest> request_of(Invocation& call) {
  store::RepairRequest request;
  SY_ASSIGN_OR_RETURN(request.target, call.selector(call.operands().front()));
  SY_ASSIGN_OR_RETURN(request.expected_generation, call.expected_generation());
  request.source = call.find("--source").value_or("");
  request.follow_links = call.has("--follow-links");
  request.wait = !call.has("--no-wait");
  if (!request.source.empty() && !request.wait) {
    return Status(Code::kInvalidArgument,
                  "--source and --no-wait do not go together: whoever goes on with the "
                  "operation would not know the source",
                  "leave --no-wait out, or the source");
  }
  if (request.follow_links && request.source.empty()) {
    return Status(Code::kInvalidArgument, "--follow-links is about a source, and there is no --source");
  }
  return request;
}

void print_human(Invocation& call, store::Store& store, const store::RepairRequest& request,
                 const store::RepairResult& result) {
  const std::string ref = ref_of(result.record);
  if (!call.quiet()) {
    if (!result.operation) {
      call.out().line("nothing to repair is known; `steelyard verify " + ref + "` reads everything");
    } else if (!request.wait) {
      call.out().line(started_words(view_of_operation(store, result.record, *result.operation)));
    } else {
      call.out().line("restored " + counted(result.restored_objects, "object") + ", " +
                      format_size(result.restored_bytes));
    }
  }
  call.out().line(ref);
}

Status run_repair(Invocation& call) {
  SY_ASSIGN_OR_RETURN(const store::RepairRequest request, request_of(call));
  SY_ASSIGN_OR_RETURN(const auto store, call.open_store(store::OpenMode::kWrite));
  const WatchSignals signals;
  ProgressPrinter printer(call.runtime(), call.settings());
  const Result<store::RepairResult> result = store->repair(request, printer, signals.flag());
  printer.clear();
  if (!result.ok()) return result.status();
  if (!call.json()) {
    print_human(call, *store, request, *result);
    return {};
  }
  SY_ASSIGN_OR_RETURN(const std::uint64_t leases, store->active_leases(result->record.identity));
  Json json;
  begin_operation_document(json, result->operation);
  call.out().line(end_with_revision(json, result->record, leases));
  return {};
}

}  // namespace

constinit const VerbSpec kRepairVerb = {.name = "repair",
                                        .operands = "REF",
                                        .operands_min = 1,
                                        .operands_max = 1,
                                        .summary = "restore missing or damaged objects",
                                        .prints = "the complete reference",
                                        .flags = kFlags,
                                        .run = run_repair};

}  // namespace steelyard::cli
