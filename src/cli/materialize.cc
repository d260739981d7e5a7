// materialize REF DIR
#include "base/units.h"
#include "base/utf8.h"
#include "cli/documents.h"
#include "cli/progress.h"
#include "cli/signals.h"
#include "cli/verbs.h"

namespace steelyard::cli {
namespace {

constexpr FlagSpec kFlags[] = {
    {.name = "--force", .placeholder = {}, .help = "replace a target that is not empty, as a whole"},
    kAllowDegraded,
};

Status run_materialize(Invocation& call) {
  store::MaterializeRequest request;
  SY_ASSIGN_OR_RETURN(request.source, call.selector(call.operands()[0]));
  request.target = call.operands()[1];
  if (request.target.empty()) return {Code::kInvalidArgument, "DIR is empty; wanted the path of a folder"};
  request.force = call.has("--force");
  request.allow_degraded = call.has("--allow-degraded");
  SY_ASSIGN_OR_RETURN(const auto store, call.open_store(store::OpenMode::kRead));
  const WatchSignals signals;
  ProgressPrinter printer(call.runtime(), call.settings());
  Result<store::MaterializeResult> result = store->materialize(request, printer, signals.flag());
  printer.clear();
  if (!result.ok()) return result.status();
  for (const std::string& note : result->notes) printer.warning(note);
  if (call.json()) {
    Json json;
    begin_document(json).key("ref").string(ref_of(result->record)).key("path").string(result->path);
    json.key("files").integer(result->files).key("bytes").integer(result->bytes).end_object();
    call.out().line(json.text());
    return {};
  }
  if (!call.quiet()) {
    call.out().line("wrote " + std::to_string(result->files) + " files, " + format_size(result->bytes) + " of " +
                    ref_of(result->record));
  }
  call.out().line(result->path);
  return {};
}

}  // namespace

constinit const VerbSpec kMaterializeVerb = {.name = "materialize",
                                             .operands = "REF DIR",
                                             .operands_min = 2,
                                             .operands_max = 2,
                                             .summary = "write a revision as plain files, every block verified",
                                             .prints = "the path as its last line",
                                             .flags = kFlags,
                                             .run = run_materialize};

}  // namespace steelyard::cli
