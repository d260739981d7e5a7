// recover
#include "base/units.h"
#include "base/utf8.h"
#include "cli/confirm.h"
#include "cli/documents.h"
#include "cli/verbs.h"

namespace steelyard::cli {
namespace {

using store::RecoverReport;

constexpr FlagSpec kFlags[] = {
    {.name = "--dry-run", .placeholder = {}, .help = "show what would be recovered; nothing is changed"},
    {.name = "--force", .placeholder = {}, .help = "move a catalog that is there aside and rebuild it"},
};

void print_json(Invocation& call, const RecoverReport& report, bool dry_run) {
  Json json;
  begin_document(json).key("dry_run").boolean(dry_run).key("recovered").begin_array();
  for (const auto& record : report.recovered) json.string(ref_of(record));
  json.end_array().key("skipped").begin_array();
  for (const RecoverReport::Skipped& skipped : report.skipped) {
    json.begin_object().key("path").string(skipped.path).key("reason").string(skipped.reason).end_object();
  }
  json.end_array().key("moved_to").string_or_null(report.moved_to).end_object();
  call.out().line(json.text());
}

void print_text(Invocation& call, const RecoverReport& report, bool dry_run) {
  for (const RecoverReport::Skipped& skipped : report.skipped) {
    call.out().line("skipped " + printable(skipped.path) + ": " + printable(skipped.reason));
  }
  for (const auto& record : report.recovered) {
    const bool degraded = record.availability == metadata::Availability::kDegraded;
    call.out().line(ref_of(record) + (degraded ? " (DEGRADED)" : ""));
  }
  if (!report.moved_to.empty()) {
    call.out().line("the catalog that was there is now " + printable(report.moved_to));
  }
  call.out().line(counted(report.recovered.size(), "revision") + (dry_run ? " would be recovered" : " recovered"));
}

Status run_recover(Invocation& call) {
  store::RecoverRequest request;
  request.dry_run = call.has("--dry-run");
  request.force = call.has("--force");
  SY_ASSIGN_OR_RETURN(const store::StoreOptions options, call.store_options());
  if (request.force && !request.dry_run) {
    SY_RETURN_IF_ERROR(confirm(call, "Move the catalog of the store " + printable(options.path) +
                                         " aside, if there is one, and rebuild it from the cold tier?"));
  }
  SY_ASSIGN_OR_RETURN(const RecoverReport report, store::recover_store(call.runtime(), options, request));
  if (call.json()) {
    print_json(call, report, request.dry_run);
  } else if (call.quiet()) {
    for (const auto& record : report.recovered) call.out().line(ref_of(record));
  } else {
    print_text(call, report, request.dry_run);
  }
  return {};
}

}  // namespace

constinit const VerbSpec kRecoverVerb = {.name = "recover",
                                         .summary = "rebuild the catalog from the cold tier",
                                         .prints = "how many revisions were recovered",
                                         .flags = kFlags,
                                         .run = run_recover};

}  // namespace steelyard::cli
