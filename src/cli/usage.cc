// usage
#include "base/units.h"
#include "cli/documents.h"
#include "cli/verbs.h"

namespace steelyard::cli {
namespace {

using store::RevisionUsage;
using store::UsageReport;

void print_json(Invocation& call, const UsageReport& report) {
  Json json;
  begin_document(json).key("tiers").begin_object();
  for (const auto& [name, tier] : report.tiers) {
    json.key(name).begin_object().key("bytes").integer(tier.bytes).key("free_bytes").integer(tier.free_bytes);
    json.key("capacity_bytes").integer(tier.capacity_bytes).key("private_copies").integer(tier.private_copies);
    json.key("claimed_bytes").integer(tier.claimed_bytes);
    json.end_object();
  }
  json.end_object().key("revisions").begin_array();
  for (const RevisionUsage& usage : report.revisions) {
    json.begin_object().key("ref").string(ref_of(usage.record));
    json.key("availability").string(name_of(usage.record.availability));
    json.key("logical_bytes").integer(usage.record.summary.logical_bytes);
    json.key("exclusive_bytes").integer(usage.exclusive_bytes).key("shared_bytes").integer(usage.shared_bytes);
    json.end_object();
  }
  json.end_array().end_object();
  call.out().line(json.text());
}

void print_tables(Invocation& call, const UsageReport& report) {
  if (!report.revisions.empty()) {
    Table revisions({{"REF"}, {"STATE"}, {"SIZE", true}, {"EXCLUSIVE", true}, {"SHARED", true}});
    for (const RevisionUsage& usage : report.revisions) {
      revisions.add({ref_of(usage.record), std::string(name_of(usage.record.availability)),
                     format_size(usage.record.summary.logical_bytes), format_size(usage.exclusive_bytes),
                     format_size(usage.shared_bytes)});
    }
    call.out().write(revisions.render(terminal()));
    call.out().line("");
  }
  Table tiers(
      {{"TIER"}, {"USED", true}, {"FREE", true}, {"CAPACITY", true}, {"CLAIMED", true}, {"PRIVATE COPIES", true}});
  for (const auto& [name, tier] : report.tiers) {
    tiers.add({name, format_size(tier.bytes), format_size(tier.free_bytes), format_size(tier.capacity_bytes),
               format_size(tier.claimed_bytes), std::to_string(tier.private_copies)});
  }
  call.out().write(tiers.render(terminal()));
}

Status run_usage(Invocation& call) {
  SY_ASSIGN_OR_RETURN(const auto store, call.open_store(store::OpenMode::kRead));
  SY_ASSIGN_OR_RETURN(const UsageReport report,
                      store->usage(call.settings().text("tenant"), call.settings().text("namespace")));
  if (call.json()) {
    print_json(call, report);
  } else if (call.quiet()) {
    for (const RevisionUsage& usage : report.revisions) call.out().line(ref_of(usage.record));
  } else {
    print_tables(call, report);
  }
  return {};
}

}  // namespace

constinit const VerbSpec kUsageVerb = {.name = "usage",
                                       .summary = "bytes of each revision and tier, shared ones counted once",
                                       .prints = "a table of the revisions, and one of the tiers",
                                       .run = run_usage};

}  // namespace steelyard::cli
