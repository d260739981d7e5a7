#include "store/placement.h"

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "base/log.h"
#include "formats/identity.h"
#include "formats/ref.h"
#include "metadata/mixed_plan.h"
#include "store/hot_tier.h"
#include "store/resolve.h"

namespace steelyard::store {
namespace {

using metadata::PlacedRevision;
using metadata::Residency;
using metadata::RevisionRecord;

bool has_policy(const RevisionRecord& record) { return record.policy.mode != metadata::PolicyMode::kManual; }

/// What the set that the policy prefers would add to memory.
Status plan_promotion(Context& context, tiers::Tier& tier, PlacedRevision& placed) {
  const RevisionRecord& record = placed.record;
  SY_ASSIGN_OR_RETURN(const auto list, context.hot->object_lists().get(context.cold, record));
  const formats::StoredManifest& manifest = *list;
  SY_ASSIGN_OR_RETURN(const auto found, find_hot(context, record, manifest));
  std::optional<metadata::MixedPlan> plan;
  if (record.policy.ratio_millionths) {
    std::vector<std::uint64_t> sizes;
    for (const formats::ObjectEntry& entry : manifest.objects) sizes.push_back(entry.bytes);
    SY_ASSIGN_OR_RETURN(plan, metadata::plan_mixed(sizes, *record.policy.ratio_millionths));
    placed.plan_millionths = plan->hot_millionths;
  }
  SY_ASSIGN_OR_RETURN(placed.promotion_bytes, room_for(tier, manifest, found, [&](std::uint32_t object) {
                        return !plan || plan->hot[object];
                      }));
  return {};
}

struct InMemory {
  std::uint32_t attempt = 0;
  std::uint32_t object = 0;
  metadata::HotReplica replica;
};
using HotByGroup = std::map<std::string, std::vector<InMemory>>;

/// Another limit than hot.capacity may leave less; and what is claimed is as good as used.
Status look_into_memory(Context& context, std::shared_ptr<tiers::Tier> tier, Placement& found, HotByGroup& by_group) {
  metadata::Memory& memory = found.memory;
  memory.boot_id = context.runtime.epoch();
  memory.high_watermark_millionths = context.options.hot_high_watermark_millionths;
  memory.low_watermark_millionths = context.options.hot_low_watermark_millionths;
  SY_ASSIGN_OR_RETURN(const tiers::TierUsage usage, tier->usage([&](const tiers::ObjectStat& object) {
    const tiers::ObjectName& name = object.name;
    by_group[name.in.group].push_back({name.in.attempt, name.index, {object.storage, object.bytes}});
  }));
  SY_ASSIGN_OR_RETURN(memory.instance, tier->instance());
  memory.used_bytes = usage.bytes + usage.claimed_bytes;
  const std::uint64_t most = memory.used_bytes + usage.free_bytes;
  memory.capacity_bytes = std::min(usage.capacity_bytes, most - std::min(most, usage.over_bytes));
  found.tier = std::move(tier);
  return {};
}

using Visit = std::function<bool(const catalog::Catalog::RevisionUse&)>;

/// Of all records; `visit` says whether to go on.
Status for_each_use(Context& context, const Visit& visit) {
  std::optional<metadata::Identity> last;
  constexpr std::size_t kPage = 256;
  for (;;) {
    SY_ASSIGN_OR_RETURN(const auto uses, context.catalog.uses_after(last, kPage));
    for (const auto& use : uses) {
      last = use.record.identity;
      if (!visit(use)) return {};
    }
    if (uses.size() < kPage) return {};
  }
}

/// Of those that keep something in memory, and of these.
Status for_each_use_of(Context& context, const HotByGroup& by_group, const std::set<metadata::Identity>& named,
                       const Visit& visit) {
  std::set<std::string> groups;
  for (const auto& [group, replicas] : by_group) groups.insert(group);
  for (const metadata::Identity& identity : named) groups.insert(formats::payload_group_digest(identity).hex());
  SY_ASSIGN_OR_RETURN(auto uses, context.catalog.uses_of_groups({groups.begin(), groups.end()}));
  std::ranges::sort(uses, {}, [](const auto& use) { return use.record.identity; });
  for (const auto& use : uses) visit(use);
  return {};
}

PlacedRevision placed_of(const catalog::Catalog::RevisionUse& use) {
  PlacedRevision placed;
  placed.record = use.record;
  placed.leased = use.live_leases > 0;
  placed.last_use = use.last_use;
  placed.cold_whole = use.record.availability == metadata::Availability::kReady;
  return placed;
}

void count_hot(const std::vector<InMemory>& there, std::uint32_t committed, PlacedRevision& placed) {
  std::set<std::uint32_t> counted;
  for (const InMemory& one : there) {
    placed.hot.push_back(one.replica);
    if (one.attempt != committed || !counted.insert(one.object).second) continue;
    ++placed.hot_members;
    placed.hot_bytes += one.replica.bytes;
  }
}

void place(const catalog::Catalog::RevisionUse& use, const HotByGroup& by_group, Placement& found) {
  if (!is_published(use.record.availability)) return;
  PlacedRevision placed = placed_of(use);
  const tiers::AttemptName committed = attempt_of(use.record);
  const auto there = by_group.find(committed.group);
  if (there != by_group.end()) count_hot(there->second, committed.attempt, placed);
  found.revisions.push_back(std::move(placed));
}

/// Those that are asked and have a policy, before anything is looked at but records.
Result<std::vector<PlacedRevision>> with_policies(Context& context, const Asked& asked) {
  std::vector<PlacedRevision> found;
  const Visit look = [&](const auto& use) {
    if (has_policy(use.record)) found.push_back(placed_of(use));
    return true;
  };
  SY_RETURN_IF_ERROR(asked ? for_each_use_of(context, {}, *asked, look) : for_each_use(context, look));
  return found;
}

}  // namespace

Result<Placement> find_placement(Context& context) {
  if (context.hot == nullptr) return Status(Code::kUnavailable, "this store has no memory tier");
  Placement found;
  HotByGroup by_group;
  SY_ASSIGN_OR_RETURN(auto tier, context.hot->make());
  SY_RETURN_IF_ERROR(look_into_memory(context, std::move(tier), found, by_group));
  SY_RETURN_IF_ERROR(for_each_use_of(context, by_group, {}, [&](const auto& use) {
    place(use, by_group, found);
    return true;
  }));
  return found;
}

Result<std::optional<Placement>> find_placement_for(Context& context, const Asked& asked, const metadata::LastUse& now,
                                                    MemoryFor what) {
  if (context.hot == nullptr) return std::optional<Placement>();
  SY_ASSIGN_OR_RETURN(const auto wishes, with_policies(context, asked));
  if (wishes.empty()) return std::optional<Placement>();
  Placement found;
  found.memory.instance = mounted_instance(context);
  found.memory.boot_id = context.runtime.epoch();
  // A memory is made only for what is to come into it.
  const bool to_bring = what == MemoryFor::kMoves && std::ranges::any_of(wishes, [&](const PlacedRevision& one) {
                          return may_be_brought(one, found.memory, now, context.options.policy_cooldown_ms);
                        });
  auto tier = to_bring ? context.hot->make() : context.hot->find();
  if (tier.ok() && *tier == nullptr) return std::optional<Placement>();
  HotByGroup by_group;
  found.no_memory = tier.status();
  if (tier.ok()) found.no_memory = look_into_memory(context, *std::move(tier), found, by_group);
  const Visit visit = [&](const auto& use) {
    // Most revisions of a large store are cold and stay so.
    const bool is_hot = by_group.contains(attempt_of(use.record).group);
    if (is_hot || has_policy(use.record)) place(use, by_group, found);
    return true;
  };
  SY_RETURN_IF_ERROR(asked ? for_each_use_of(context, by_group, *asked, visit) : for_each_use(context, visit));
  for (PlacedRevision& placed : found.revisions) {
    const bool is_asked = !asked || asked->contains(placed.record.identity);
    if (!is_asked || !may_be_brought(placed, found.memory, now, context.options.policy_cooldown_ms)) continue;
    placed.promotion_bytes = placed.record.summary.logical_bytes;
    const Status planned = found.no_memory.ok() ? plan_promotion(context, *found.tier, placed) : Status();
    if (planned.ok()) continue;
    // One that cannot be planned (damaged, or of a single object that is to be MIXED) stays where it is; the others
    // move.
    log_warning("the policy of {} moves nothing: {}", formats::format_ref(placed.record.identity), planned.to_string());
    placed.record.policy.mode = metadata::PolicyMode::kManual;
  }
  return std::optional(std::move(found));
}

ResidencyRequest request_of(const metadata::Move& move) {
  ResidencyRequest request;
  request.target = selector_of(move.identity);
  request.expected_generation = move.expected_metadata_generation;
  request.ratio_millionths = move.ratio_millionths;
  request.wait_for_others = false;
  request.only_if_idle = true;
  return request;
}

bool is_overtaken(const Status& status) {
  return status.code() == Code::kBusy || status.code() == Code::kStaleGeneration || status.code() == Code::kNotFound ||
         status.code() == Code::kNotReady;
}

}  // namespace steelyard::store
