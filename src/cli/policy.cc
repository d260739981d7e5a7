// policy show REF, policy set REF
#include "base/units.h"
#include "cli/documents.h"
#include "cli/verbs.h"
#include "cli/words.h"

namespace steelyard::cli {
namespace {

using metadata::Policy;
using metadata::PolicyMode;
using metadata::Residency;
using metadata::RevisionRecord;

constexpr FlagSpec kSetFlags[] = {
    {.name = "--prefer",
     .placeholder = "WHERE",
     .help = "where the revision should be (default: as it is)",
     .choices = "hot|cold|mixed"},
    {.name = "--ratio", .placeholder = "R", .help = "the hot share of a revision that prefers mixed, such as 0.25"},
    {.name = "--mode",
     .placeholder = "MODE",
     .help = "pinned: kept there; manual: moved on request only; auto: moved by use (default: as it is)",
     .choices = "pinned|manual|auto"},
    kExpectGeneration,
};

Result<std::optional<Residency>> preference_of(const Invocation& call) {
  const auto text = call.find("--prefer");
  if (!text) return std::optional<Residency>();
  if (*text == "hot") return std::optional(Residency::kHot);
  if (*text == "cold") return std::optional(Residency::kCold);
  if (*text == "mixed") return std::optional(Residency::kMixed);
  return bad_flag("--prefer", *text, "hot, cold or mixed");
}

Result<std::optional<PolicyMode>> mode_of(const Invocation& call) {
  const auto text = call.find("--mode");
  if (!text) return std::optional<PolicyMode>();
  if (*text == "pinned") return std::optional(PolicyMode::kPinned);
  if (*text == "manual") return std::optional(PolicyMode::kManual);
  if (*text == "auto") return std::optional(PolicyMode::kAuto);
  return bad_flag("--mode", *text, "pinned, manual or auto");
}

/// What follows from the policy, and when: nothing is moved by setting it.
std::string what_follows(const RevisionRecord& record) {
  const Policy& policy = record.policy;
  const std::string where = place_words(policy);
  if (!is_published(record.availability)) return "nothing: it is " + std::string(name_of(record.availability));
  if (record.summary.payload_count == 0) return "nothing: it has no payload objects, and is always COLD";
  switch (policy.mode) {
    case PolicyMode::kManual:
      return "nothing moves by itself: `steelyard rehydrate` brings it into memory, `steelyard evict` takes it out";
    case PolicyMode::kAuto:
      if (policy.prefer == Residency::kCold)
        return "evicted when memory runs short and nobody reads it; never promoted";
      return "made " + where +
             " while a lease is held, where it fits, and evicted when memory runs short and nobody reads it";
    case PolicyMode::kPinned:
      break;
  }
  if (record.residency == policy.prefer && policy.prefer != Residency::kMixed) return "it stays " + where;
  return "a reconcile keeps it " + where + (policy.prefer == Residency::kHot ? "" : ", once nobody reads it") +
         "; requests for anything else are refused";
}

Status print(Invocation& call, store::Store& store, const RevisionRecord& record) {
  if (call.json()) {
    SY_ASSIGN_OR_RETURN(const std::uint64_t leases, store.active_leases(record.identity));
    Json json;
    begin_document(json).key("policy");
    write_policy(json, record.policy);
    json.key("revision");
    write_revision(json, record, leases);
    json.end_object();
    call.out().line(json.text());
    return {};
  }
  if (call.quiet()) {
    call.out().line(ref_of(record));
    return {};
  }
  const auto row = [&call](std::string_view name, const std::string& value) {
    std::string line(name);
    line.append(14 - name.size(), ' ');
    call.out().line(line + value);
  };
  row("ref", ref_of(record));
  row("prefer", lower_case(name_of(record.policy.prefer)));
  if (record.policy.ratio_millionths) row("ratio", format_ratio(*record.policy.ratio_millionths));
  row("mode", lower_case(name_of(record.policy.mode)));
  std::string now(name_of(record.residency));
  if (record.hot_millionths) now += " (" + format_ratio(*record.hot_millionths) + " hot)";
  if (record.operation) now += ", " + std::string(name_of(record.operation->kind));
  row("now", now);
  row("follows", what_follows(record));
  return {};
}

Status run_show(Invocation& call) {
  SY_ASSIGN_OR_RETURN(const store::Selector selector, call.selector(call.operands().front()));
  SY_ASSIGN_OR_RETURN(const auto store, call.open_store(store::OpenMode::kRead));
  SY_ASSIGN_OR_RETURN(const RevisionRecord record, store->find(selector));
  return print(call, *store, record);
}

Status run_set(Invocation& call) {
  store::PolicyRequest request;
  SY_ASSIGN_OR_RETURN(request.target, call.selector(call.operands().front()));
  SY_ASSIGN_OR_RETURN(request.prefer, preference_of(call));
  SY_ASSIGN_OR_RETURN(request.mode, mode_of(call));
  SY_ASSIGN_OR_RETURN(request.expected_generation, call.expected_generation());
  SY_ASSIGN_OR_RETURN(request.ratio_millionths, call.ratio("--ratio"));
  if (!request.prefer && !request.mode && !request.ratio_millionths) {
    return {Code::kInvalidArgument, "`policy set` wants at least one of --prefer, --ratio and --mode",
            "`steelyard policy show REF` shows the policy"};
  }
  SY_ASSIGN_OR_RETURN(const auto store, call.open_store(store::OpenMode::kWrite));
  SY_ASSIGN_OR_RETURN(const RevisionRecord record, store->update_policy(request));
  return print(call, *store, record);
}

}  // namespace

constinit const VerbSpec kPolicyShowVerb = {.name = "policy",
                                            .sub = "show",
                                            .operands = "REF",
                                            .operands_min = 1,
                                            .operands_max = 1,
                                            .summary = "show where a revision should be, and who may move it",
                                            .prints = "text",
                                            .run = run_show};
constinit const VerbSpec kPolicySetVerb = {.name = "policy",
                                           .sub = "set",
                                           .operands = "REF",
                                           .operands_min = 1,
                                           .operands_max = 1,
                                           .summary = "change a revision's policy; moves nothing by itself",
                                           .prints = "text",
                                           .flags = kSetFlags,
                                           .run = run_set};

}  // namespace steelyard::cli
