// rehydrate REF (warm)
#include "base/units.h"
#include "cli/documents.h"
#include "cli/progress.h"
#include "cli/signals.h"
#include "cli/verbs.h"

namespace steelyard::cli {
namespace {

constexpr FlagSpec kFlags[] = {
    {.name = "--no-wait",
     .placeholder = {},
     .help = "start the operation and leave it to a later rehydrate or reconcile"},
    kExpectGeneration,
};

void print_human(Invocation& call, bool wait, const store::ResidencyResult& result) {
  const std::string ref = ref_of(result.record);
  if (!call.quiet()) {
    if (!result.operation) {
      call.out().line("every object is in memory already");
    } else if (!wait) {
      call.out().line("operation " + result.operation->operation_id + " is started; `steelyard rehydrate " + ref +
                      "` or a reconcile carries it out");
    } else {
      call.out().line("brought " + counted(result.moved_objects, "object") + " into memory, " +
                      format_size(result.read_bytes) + " read");
    }
  }
  call.out().line(ref);
}

Status run_rehydrate(Invocation& call) {
  store::ResidencyRequest request;
  SY_ASSIGN_OR_RETURN(request.target, call.selector(call.operands().front()));
  SY_ASSIGN_OR_RETURN(request.expected_generation, call.expected_generation());
  request.wait = !call.has("--no-wait");
  SY_ASSIGN_OR_RETURN(const auto store, call.open_store(store::OpenMode::kWrite));
  const WatchSignals signals;
  ProgressPrinter printer(call.runtime(), call.settings());
  const Result<store::ResidencyResult> result = store->rehydrate(request, printer, signals.flag());
  printer.clear();
  if (!result.ok()) return result.status();
  if (!call.json()) {
    print_human(call, request.wait, *result);
    return {};
  }
  SY_ASSIGN_OR_RETURN(const std::uint64_t leases, store->active_leases(result->record.identity));
  Json json;
  begin_document(json).key("operation");
  write_operation(json, result->operation);
  json.key("revision");
  write_revision(json, result->record, leases);
  json.end_object();
  call.out().line(json.text());
  return {};
}

}  // namespace

constinit const VerbSpec kRehydrateVerb = {.name = "rehydrate",
                                           .alias = "warm",
                                           .operands = "REF",
                                           .operands_min = 1,
                                           .operands_max = 1,
                                           .summary = "bring a revision into memory",
                                           .prints = "the complete reference",
                                           .flags = kFlags,
                                           .run = run_rehydrate};

}  // namespace steelyard::cli
