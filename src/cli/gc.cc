// gc
#include "base/log.h"
#include "base/units.h"
#include "cli/confirm.h"
#include "cli/documents.h"
#include "cli/signals.h"
#include "cli/verbs.h"

namespace steelyard::cli {
namespace {

constexpr FlagSpec kFlags[] = {
    {.name = "--dry-run", .placeholder = {}, .help = "only say what would be freed"},
};

Status run_gc(Invocation& call) {
  const bool dry_run = call.has("--dry-run");
  SY_ASSIGN_OR_RETURN(const auto store, call.open_store(dry_run ? store::OpenMode::kRead : store::OpenMode::kWrite));
  if (!dry_run) SY_RETURN_IF_ERROR(confirm(call, "Free what no revision of the store refers to?"));
  const WatchSignals signals;
  SY_ASSIGN_OR_RETURN(const store::GcReport report, store->gc(dry_run, signals.flag()));
  for (const std::string& kept : report.kept) {
    log_warning("kept: {}", kept);
  }
  if (call.json()) {
    Json json;
    begin_document(json).key("dry_run").boolean(dry_run).key("objects").integer(report.objects);
    json.key("bytes").integer(report.bytes).end_object();
    call.out().line(json.text());
    return {};
  }
  if (call.quiet()) {
    call.out().line(std::to_string(report.bytes));
    return {};
  }
  call.out().line((dry_run ? "would free " : "freed ") + counted(report.objects, "object") + ", " +
                  format_size(report.bytes));
  return {};
}

}  // namespace

constinit const VerbSpec kGcVerb = {.name = "gc",
                                    .summary = "free what no revision refers to",
                                    .prints = "what was freed",
                                    .flags = kFlags,
                                    .run = run_gc};

}  // namespace steelyard::cli
