// evict REF, rehydrate REF (warm)
#include "base/units.h"
#include "cli/documents.h"
#include "cli/progress.h"
#include "cli/signals.h"
#include "cli/verbs.h"
#include "cli/words.h"

namespace steelyard::cli {
namespace {

constexpr FlagSpec kRatio = {.name = "--ratio",
                             .placeholder = "R",
                             .help = "MIXED: the share of the bytes that is to be in memory, 0.000001 to 0.999999"};

constexpr FlagSpec kEvictFlags[] = {
    kRatio,
    {.name = "--no-wait", .placeholder = {}, .help = "start the operation and leave it to a later evict or reconcile"},
    kExpectGeneration,
};

constexpr FlagSpec kRehydrateFlags[] = {
    kRatio,
    {.name = "--make-room",
     .placeholder = {},
     .help = "where memory is short, evict idle revisions, the least recently used first"},
    {.name = "--no-wait",
     .placeholder = {},
     .help = "start the operation and leave it to a later rehydrate or reconcile"},
    kExpectGeneration,
};

Result<store::ResidencyRequest> request_of(Invocation& call) {
  store::ResidencyRequest request;
  SY_ASSIGN_OR_RETURN(request.target, call.selector(call.operands().front()));
  SY_ASSIGN_OR_RETURN(request.expected_generation, call.expected_generation());
  SY_ASSIGN_OR_RETURN(request.ratio_millionths, call.ratio("--ratio"));
  request.make_room = call.has("--make-room");
  request.wait = !call.has("--no-wait");
  return request;
}

/// "every object is in memory", "1 of 40 objects is in memory", "no object is in memory".
std::string what_is_hot(const metadata::RevisionRecord& record) {
  const std::uint64_t all = record.summary.payload_count;
  if (record.hot_members == 0) return "no object is in memory";
  if (record.hot_members == all) return "every object is in memory";
  return part_words(record.hot_members, all, "object") + (record.hot_members == 1 ? " is" : " are") + " in memory";
}

/// Where no operation was begun.
std::string what_is_there(const metadata::RevisionRecord& record) {
  return what_is_hot(record) + " already: " + ref_of(record) + " is " + residency_words(record) +
         ", and nothing had to be moved";
}

/// "moved 4 objects into memory, removed 13 objects from memory".
std::string what_moved(const store::ResidencyResult& result) {
  const std::uint64_t brought = result.moved_objects - result.removed_objects;
  const std::string removed = "removed " + counted(result.removed_objects, "object") + " from memory";
  if (brought == 0 && result.removed_objects > 0) return removed;
  const std::string moved = "moved " + counted(brought, "object") + " into memory";
  return result.removed_objects > 0 ? moved + ", " + removed : moved;
}

/// Without an operation: what was stray in the memory that is mounted here.
std::string what_went_here(const store::ResidencyResult& result) {
  const metadata::RevisionRecord& record = result.record;
  return "removed " + counted(result.removed_objects, "object") + " from the memory here, " +
         format_size(result.read_bytes) + " read from the cold tier: the revision is " +
         std::string(name_of(record.residency)) + " in memory instance " + record.hot_instance +
         ", which is not mounted here";
}

void print_human(Invocation& call, store::Store& store, bool wait, const store::ResidencyResult& result) {
  const std::string ref = ref_of(result.record);
  if (!call.quiet()) {
    for (const std::string& evicted : result.evicted) call.out().line("evicted " + evicted + " to make room");
    if (!result.operation && result.removed_objects > 0) {
      call.out().line(what_went_here(result));
    } else if (!result.operation) {
      call.out().line(result.record.summary.payload_count == 0 ? nothing_to_bring(result.record)
                                                               : what_is_there(result.record));
    } else if (!wait) {
      call.out().line(started_words(view_of_operation(store, result.record, *result.operation)));
    } else {
      call.out().line(what_moved(result) + ", " + format_size(result.read_bytes) +
                      " read from the cold tier: " + what_is_hot(result.record));
    }
  }
  call.out().line(ref);
}

using Move = Result<store::ResidencyResult> (store::Store::*)(const store::ResidencyRequest&, store::Observer&,
                                                              const store::CancelFlag&);

Status run(Invocation& call, Move move) {
  SY_ASSIGN_OR_RETURN(const store::ResidencyRequest request, request_of(call));
  SY_ASSIGN_OR_RETURN(const auto store, call.open_store(store::OpenMode::kWrite));
  const WatchSignals signals;
  ProgressPrinter printer(call.runtime(), call.settings());
  const Result<store::ResidencyResult> result = ((*store).*move)(request, printer, signals.flag());
  printer.clear();
  if (!result.ok()) return result.status();
  if (!call.json()) {
    print_human(call, *store, request.wait, *result);
    return {};
  }
  SY_ASSIGN_OR_RETURN(const std::uint64_t leases, store->active_leases(result->record.identity));
  Json json;
  begin_operation_document(json, result->operation).key("evicted").begin_array();
  for (const std::string& evicted : result->evicted) json.string(evicted);
  json.end_array();
  call.out().line(end_with_revision(json, result->record, leases));
  return {};
}

Status run_evict(Invocation& call) { return run(call, &store::Store::evict); }

Status run_rehydrate(Invocation& call) { return run(call, &store::Store::rehydrate); }

}  // namespace

constinit const VerbSpec kEvictVerb = {.name = "evict",
                                       .operands = "REF",
                                       .operands_min = 1,
                                       .operands_max = 1,
                                       .summary = "free a revision's memory",
                                       .prints = "the complete reference",
                                       .flags = kEvictFlags,
                                       .run = run_evict};

constinit const VerbSpec kRehydrateVerb = {.name = "rehydrate",
                                           .alias = "warm",
                                           .operands = "REF",
                                           .operands_min = 1,
                                           .operands_max = 1,
                                           .summary = "bring a revision into memory",
                                           .prints = "the complete reference",
                                           .flags = kRehydrateFlags,
                                           .run = run_rehydrate};

}  // namespace steelyard::cli
