// delete REF
#include "base/log.h"
#include "base/units.h"
#include "cli/confirm.h"
#include "cli/documents.h"
#include "cli/signals.h"
#include "cli/verbs.h"
#include "formats/ref.h"

namespace steelyard::cli {
namespace {

constexpr std::int64_t kWaitMsMax = 24 * 3'600'000LL;

constexpr FlagSpec kFlags[] = {
    {.name = "--wait",
     .placeholder = "D",
     .help =
         "refuse new leases at once and wait up to D (0s to 1d) for the live ones; without it a live lease is BUSY"},
    kExpectGeneration,
};

/// Without a generation a tombstone was meant: who wanted the next one is told.
void warn_of_others(store::Store& store, const store::Selector& lineage, const metadata::RevisionRecord& tombstone) {
  const auto other = store.resolve(lineage, true);
  if (!other.ok()) return;
  log_warning("{} was deleted before; {} is still there: name it to delete it", formats::format_ref(tombstone.identity),
              formats::format_ref(other->identity));
}

Status run_delete(Invocation& call) {
  store::DeleteRequest request;
  SY_ASSIGN_OR_RETURN(request.target, call.selector(call.operands().front()));
  SY_ASSIGN_OR_RETURN(request.expected_generation, call.expected_generation());
  SY_ASSIGN_OR_RETURN(request.wait_ms, call.duration_ms("--wait", 0, kWaitMsMax));
  SY_ASSIGN_OR_RETURN(const auto store, call.open_store(store::OpenMode::kWrite));
  if (!request.target.ref.weight_generation) {
    SY_ASSIGN_OR_RETURN(const metadata::RevisionRecord record, store->find_deletable(request.target));
    if (record.availability == metadata::Availability::kDeleted) warn_of_others(*store, request.target, record);
    request.target.ref.weight_generation = record.identity.weight_generation;
  }
  SY_RETURN_IF_ERROR(confirm(call, "Delete " + ref_of(request.target) + "?"));
  const WatchSignals signals;
  SY_ASSIGN_OR_RETURN(const store::RemovalResult result, store->erase(request, signals.flag()));
  if (!call.json()) {
    const std::string ref = formats::format_ref(result.identity);
    if (!call.quiet() && !result.before && call.settings().number("gc.grace") > 0) {
      call.out().line("bytes that no other revision has are kept for another " +
                      format_duration(static_cast<std::int64_t>(call.settings().number("gc.grace"))) +
                      ", in case they are imported again; `steelyard gc --gc-grace 0s` frees them now");
    }
    call.out().line(ref);
    return {};
  }
  call.out().line(removal_document(result));
  return {};
}

}  // namespace

constinit const VerbSpec kDeleteVerb = {.name = "delete",
                                        .alias = "rm",
                                        .operands = "REF",
                                        .operands_min = 1,
                                        .operands_max = 1,
                                        .summary = "delete a revision that nobody reads",
                                        .prints = "the complete reference",
                                        .flags = kFlags,
                                        .run = run_delete};

}  // namespace steelyard::cli
