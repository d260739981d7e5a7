// reconcile [REF]
#include "base/utf8.h"
#include "cli/documents.h"
#include "cli/progress.h"
#include "cli/signals.h"
#include "cli/verbs.h"

namespace steelyard::cli {
namespace {

using store::ReconcileReport;

void write_lines(Json& json, const char* key, const std::vector<ReconcileReport::Line>& lines) {
  json.key(key).begin_array();
  for (const ReconcileReport::Line& line : lines) {
    json.begin_object().key("ref").string(line.ref).key("what").string(line.what).end_object();
  }
  json.end_array();
}

Status run_reconcile(Invocation& call) {
  std::optional<store::Selector> selector;
  if (!call.operands().empty()) {
    SY_ASSIGN_OR_RETURN(selector, call.selector(call.operands().front()));
  }
  SY_ASSIGN_OR_RETURN(const auto store, call.open_store(store::OpenMode::kWrite));
  const WatchSignals signals;
  ProgressPrinter printer(call.runtime(), call.settings());
  const Result<ReconcileReport> report = store->reconcile(selector, printer, signals.flag());
  printer.clear();
  if (!report.ok()) return report.status();
  if (call.json()) {
    Json json;
    begin_document(json).key("checked").integer(report->checked);
    write_lines(json, "changes", report->changes);
    write_lines(json, "waiting", report->waiting);
    write_lines(json, "failed", report->failed);
    json.end_object();
    call.out().line(json.text());
  } else {
    for (const auto& line : report->changes) call.out().line(line.ref + ": " + printable(line.what));
    if (!call.quiet()) {
      for (const auto& line : report->waiting) call.out().line("waiting: " + printable(line.what));
      call.out().line(counted(report->checked, "revision") + " checked, " + counted(report->changes.size(), "change"));
    }
  }
  if (report->failed.empty()) return {};
  const auto& first = report->failed.front();
  return {Code::kUnavailable,
          counted(report->failed.size(), "revision") + " could not be reconciled; " + first.ref + ": " + first.what,
          "everything else was; run it again once the reason is gone"};
}

}  // namespace

constinit const VerbSpec kReconcileVerb = {.name = "reconcile",
                                           .operands = "[REF]",
                                           .operands_max = 1,
                                           .summary = "recompute the observed truth and go on with interrupted work",
                                           .prints = "a line for each change",
                                           .run = run_reconcile};

}  // namespace steelyard::cli
