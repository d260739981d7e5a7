// reconcile [REF] [--watch]
#include "base/units.h"
#include "base/utf8.h"
#include "cli/documents.h"
#include "cli/progress.h"
#include "cli/signals.h"
#include "cli/verbs.h"
#include "cli/words.h"

namespace steelyard::cli {
namespace {

using store::ReconcileReport;

constexpr FlagSpec kFlags[] = {
    {.name = "--watch", .placeholder = {}, .help = "go on as changes come, until it is interrupted"},
};

void write_left(Json& json, const char* key, const std::vector<ReconcileReport::Left>& left) {
  json.key(key).begin_array();
  for (const ReconcileReport::Left& one : left) {
    json.begin_object().key("ref").string(one.ref).key("what").string(one.why.message());
    json.key("code").string(code_name(one.why.code())).key("hint").string(one.why.hint()).end_object();
  }
  json.end_array();
}

void print_left(Invocation& call, const std::string& how, const std::vector<ReconcileReport::Left>& left) {
  for (const ReconcileReport::Left& one : left) {
    call.out().line(how + ": " + one.ref + ": " + status_words(one.why));
  }
}

void print_report(Invocation& call, const ReconcileReport& report) {
  if (call.json()) {
    Json json;
    begin_document(json).key("checked").integer(report.checked);
    json.key("changes").begin_array();
    for (const ReconcileReport::Change& change : report.changes) {
      json.begin_object().key("ref").string(change.ref).key("what").string(change.what).end_object();
    }
    json.end_array();
    write_left(json, "waiting", report.waiting);
    write_left(json, "failed", report.failed);
    json.end_object();
    call.out().line(json.text());
    return;
  }
  for (const auto& change : report.changes) call.out().line(change.ref + ": " + printable(change.what));
  if (call.quiet()) return;
  print_left(call, "waiting", report.waiting);
  print_left(call, "failed", report.failed);
}

std::string counts_of(const ReconcileReport& report) {
  return counted(report.checked, "revision") + " checked, " + counted(report.changes.size(), "change");
}

/// Lines as they come, after the first pass's.
Status run_and_watch(Invocation& call, store::Store& store, const std::optional<store::Selector>& selector) {
  const WatchSignals signals;
  ProgressPrinter printer(call.runtime(), call.settings());
  bool first = true;
  const auto tell = [&](const ReconcileReport& report) {
    printer.clear();
    print_report(call, report);
    if (first && !call.json() && !call.quiet()) call.out().line(counts_of(report) + "; watching");
    first = false;
    return call.out().flush();
  };
  const Status ended = store.keep_reconciled(selector, printer, tell, signals.flag());
  printer.clear();
  if (!store::is_cancelled(ended)) return ended;
  // Whatever it was about then.
  return store::cancelled("reconcile").with_hint("what was begun goes on with the next reconcile");
}

Status run_reconcile(Invocation& call) {
  std::optional<store::Selector> selector;
  if (!call.operands().empty()) {
    SY_ASSIGN_OR_RETURN(selector, call.selector(call.operands().front()));
  }
  SY_ASSIGN_OR_RETURN(const auto store, call.open_store(store::OpenMode::kWrite));
  if (call.has("--watch")) return run_and_watch(call, *store, selector);
  const WatchSignals signals;
  ProgressPrinter printer(call.runtime(), call.settings());
  const Result<ReconcileReport> report = store->reconcile(selector, printer, signals.flag());
  printer.clear();
  if (!report.ok()) return report.status();
  print_report(call, *report);
  if (!call.json() && !call.quiet()) call.out().line(counts_of(*report));
  if (report->failed.empty()) return {};
  const ReconcileReport::Left& first = report->failed.front();
  return {first.why.code(),
          counted(report->failed.size(), "revision") + " could not be reconciled, everything else was; " + first.ref +
              ": " + first.why.message(),
          first.why.hint().empty() ? "run it again once the reason is gone" : first.why.hint()};
}

}  // namespace

constinit const VerbSpec kReconcileVerb = {.name = "reconcile",
                                           .operands = "[REF]",
                                           .operands_max = 1,
                                           .summary = "recompute the observed truth and go on with interrupted work",
                                           .prints = "a line for each change",
                                           .flags = kFlags,
                                           .run = run_reconcile};

}  // namespace steelyard::cli
