// policy show REF, policy set REF
#include "base/units.h"
#include "cli/documents.h"
#include "cli/verbs.h"
#include "cli/words.h"
#include "metadata/mixed_plan.h"
#include "store/resolve.h"

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

std::optional<Residency> preference_of(const Invocation& call) {
  const auto text = call.find("--prefer");
  if (!text) return std::nullopt;
  return *text == "hot" ? Residency::kHot : *text == "cold" ? Residency::kCold : Residency::kMixed;
}

std::optional<PolicyMode> mode_of(const Invocation& call) {
  const auto text = call.find("--mode");
  if (!text) return std::nullopt;
  return *text == "pinned" ? PolicyMode::kPinned : *text == "manual" ? PolicyMode::kManual : PolicyMode::kAuto;
}

/// Whether it is where its policy wants it: of MIXED, what is in memory is the set that the ratio gives.
bool is_as_wanted(store::Store& store, const RevisionRecord& record) {
  if (record.residency != record.policy.prefer) return false;
  if (!record.policy.ratio_millionths) return true;
  const auto seen = store.inspect(store::selector_of(record.identity));
  if (!seen.ok() || !seen->manifest) return false;
  std::vector<std::uint64_t> sizes;
  for (const formats::ObjectEntry& object : seen->manifest->objects) sizes.push_back(object.bytes);
  const auto plan = metadata::plan_mixed(sizes, *record.policy.ratio_millionths);
  return plan.ok() && record.hot_millionths == plan->hot_millionths;
}

/// What follows from the policy, and when: nothing is moved by setting it.
std::string what_follows(const RevisionRecord& record, bool is_met) {
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
  if (is_met) return "it is there, and stays " + where;
  return "a reconcile keeps it " + where + (policy.prefer == Residency::kHot ? "" : ", once nobody reads it") +
         "; requests for anything else are refused";
}

Status print(Invocation& call, store::Store& store, const RevisionRecord& record) {
  if (call.json()) {
    SY_ASSIGN_OR_RETURN(const std::uint64_t leases, store.active_leases(record.identity));
    Json json;
    begin_document(json).key("policy");
    write_policy(json, record.policy);
    write_waiting(json, store.why_it_waits(record));
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
  std::string now = residency_words(record);
  if (record.operation) now += ", " + std::string(name_of(record.operation->kind));
  row("now", now);
  row("follows", what_follows(record, is_as_wanted(store, record)));
  if (const Status waiting = store.why_it_waits(record); !waiting.ok()) row("waiting", status_words(waiting));
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
  request.prefer = preference_of(call);
  request.mode = mode_of(call);
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
