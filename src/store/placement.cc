#include "store/placement.h"

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "base/log.h"
#include "formats/ref.h"
#include "metadata/mixed_plan.h"
#include "store/hot_tier.h"
#include "store/manifest_file.h"

namespace steelyard::store {
namespace {

using metadata::PlacedRevision;
using metadata::Residency;
using metadata::RevisionRecord;

bool has_policy(const RevisionRecord& record) { return record.policy.mode != metadata::PolicyMode::kManual; }

/// Whether the policies ask what its set would add: AUTO brings in only what is read.
bool may_be_brought(const PlacedRevision& placed, const metadata::Memory& memory) {
  const RevisionRecord& record = placed.record;
  const bool there = record.residency == Residency::kHot && record.hot_instance == memory.instance;
  if (record.policy.prefer == Residency::kCold || (record.policy.prefer == Residency::kHot && there)) return false;
  return record.policy.mode == metadata::PolicyMode::kPinned || placed.leased;
}

/// What the set that the policy prefers would add to memory.
Status plan_promotion(Context& context, tiers::Tier& tier, PlacedRevision& placed) {
  const RevisionRecord& record = placed.record;
  SY_ASSIGN_OR_RETURN(const auto manifest, load_manifest(context.cold, record));
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

using HotByGroup = std::map<std::string, std::vector<metadata::HotReplica>>;

Status look_into_memory(Context& context, metadata::Memory& memory, std::shared_ptr<tiers::Tier>& tier,
                        HotByGroup& by_group) {
  SY_ASSIGN_OR_RETURN(tier, context.hot->make());
  SY_ASSIGN_OR_RETURN(const tiers::TierUsage usage, tier->usage([&](const tiers::ObjectStat& object) {
    by_group[object.name.in.group].push_back({object.storage, object.bytes});
  }));
  SY_ASSIGN_OR_RETURN(memory.instance, tier->instance());
  memory.capacity_bytes = usage.capacity_bytes;
  memory.used_bytes = usage.bytes;
  return {};
}

/// Of the published records; `visit` says whether to go on.
Status for_each_use(Context& context, const std::function<bool(const catalog::Catalog::RevisionUse&)>& visit) {
  std::optional<metadata::Identity> last;
  constexpr std::size_t kPage = 256;
  for (;;) {
    SY_ASSIGN_OR_RETURN(const auto uses, context.catalog.uses_after(last, kPage));
    for (const auto& use : uses) {
      last = use.record.identity;
      if (is_published(use.record.availability) && !visit(use)) return {};
    }
    if (uses.size() < kPage) return {};
  }
}

}  // namespace

Result<std::optional<Placement>> find_placement(Context& context, bool for_policies) {
  if (context.hot == nullptr) return std::optional<Placement>();
  if (for_policies) {
    bool any_policy = false;
    SY_RETURN_IF_ERROR(for_each_use(context, [&](const auto& use) {
      any_policy = has_policy(use.record);
      return !any_policy;
    }));
    if (!any_policy) return std::optional<Placement>();
  }
  Placement found;
  std::shared_ptr<tiers::Tier> tier;
  HotByGroup by_group;
  Status looked = look_into_memory(context, found.memory, tier, by_group);
  found.memory.boot_id = context.runtime.epoch();
  found.memory.high_watermark_millionths = context.options.hot_high_watermark_millionths;
  found.memory.low_watermark_millionths = context.options.hot_low_watermark_millionths;
  // Most revisions of a large store are cold and stay so.
  SY_RETURN_IF_ERROR(for_each_use(context, [&](const auto& use) {
    const auto hot = by_group.find(attempt_of(use.record).group);
    const bool moves = for_policies && has_policy(use.record);
    if (hot == by_group.end() && !moves) return true;
    PlacedRevision placed;
    placed.record = use.record;
    placed.leased = use.live_leases > 0;
    placed.last_use = use.last_use;
    placed.cold_whole = use.record.availability == metadata::Availability::kReady;
    if (hot != by_group.end()) placed.hot = std::move(hot->second);
    found.revisions.push_back(std::move(placed));
    return true;
  }));
  if (!for_policies) {
    SY_RETURN_IF_ERROR(looked);
    return std::optional(std::move(found));
  }
  found.no_memory = std::move(looked);
  for (PlacedRevision& placed : found.revisions) {
    if (!has_policy(placed.record) || !may_be_brought(placed, found.memory)) continue;
    placed.promotion_bytes = placed.record.summary.logical_bytes;
    const Status planned = found.no_memory.ok() ? plan_promotion(context, *tier, placed) : Status();
    if (planned.ok()) continue;
    // One that cannot be planned (damaged, or of a single object that is to be MIXED) stays where it is; the others
    // move.
    log_warning("the policy of {} moves nothing: {}", formats::format_ref(placed.record.identity), planned.to_string());
    placed.record.policy.mode = metadata::PolicyMode::kManual;
  }
  return std::optional(std::move(found));
}

bool is_overtaken(const Status& status) {
  return status.code() == Code::kBusy || status.code() == Code::kStaleGeneration || status.code() == Code::kNotFound ||
         status.code() == Code::kNotReady;
}

}  // namespace steelyard::store
