// materialize REF DIR
#include <algorithm>

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

/// With --allow-degraded: everything else is there.
Status incomplete(const store::MaterializeResult& result) {
  constexpr std::size_t kNamedMax = 8;
  const std::size_t count = result.missing.size();
  std::string message = ref_of(result.record) + ": " + std::to_string(count) + " of " +
                        counted(result.files + count, "file") + " " + (count == 1 ? "is" : "are") +
                        " damaged and not in " + printable(result.path) + ":";
  for (std::size_t i = 0; i < count && i < kNamedMax; ++i) {
    message += (i > 0 ? ", " : " ") + printable(result.missing[i].file);
  }
  if (count > kNamedMax) message += " and " + std::to_string(count - kNamedMax) + " more";
  message += "; the first: " + result.missing.front().why.message();
  const bool proved =
      std::ranges::any_of(result.missing, [](const auto& one) { return one.why.code() == Code::kCorrupt; });
  return {proved ? Code::kCorrupt : result.missing.front().why.code(), std::move(message),
          proved
              ? "what is there is intact; `steelyard repair " + ref_of(result.record) + " --source DIR` mends the rest"
              : "what is there is intact; the rest could not be read now: check the disk, then try again"};
}

Status run_materialize(Invocation& call) {
  store::MaterializeRequest request;
  SY_ASSIGN_OR_RETURN(request.source, call.selector(call.operands()[0]));
  request.target = call.operands()[1];
  if (request.target.empty()) return {Code::kInvalidArgument, "DIR is empty; wanted the path of a folder"};
  request.force = call.has("--force");
  request.allow_degraded = call.has("--allow-degraded");
  request.home = environment("HOME").value_or("");
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
    json.key("files").integer(result->files).key("bytes").integer(result->bytes).key("missing").begin_array();
    for (const auto& one : result->missing) {
      json.begin_object().key("file").string(one.file).key("reason").string(one.why.message()).end_object();
    }
    json.end_array().end_object();
    call.out().line(json.text());
    return result->missing.empty() ? Status() : incomplete(*result);
  }
  if (!call.quiet()) {
    call.out().line("wrote " + counted(result->files, "file") + ", " + format_size(result->bytes) + " of " +
                    ref_of(result->record));
  }
  call.out().line(result->path);
  return result->missing.empty() ? Status() : incomplete(*result);
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
