#include "store/placement.h"

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

Status look_into_memory(Context& context, Placement& found, std::shared_ptr<tiers::Tier>& tier) {
  SY_ASSIGN_OR_RETURN(tier, context.hot->make());
  std::map<std::string, std::vector<metadata::HotReplica>> by_group;
  SY_ASSIGN_OR_RETURN(const tiers::TierUsage usage, tier->usage([&](const tiers::ObjectStat& object) {
    by_group[object.name.in.group].push_back({object.storage, object.bytes});
  }));
  SY_ASSIGN_OR_RETURN(found.memory.instance, tier->instance());
  found.memory.capacity_bytes = usage.capacity_bytes;
  found.memory.used_bytes = usage.bytes;
  for (PlacedRevision& placed : found.revisions) {
    const auto hot = by_group.find(attempt_of(placed.record).group);
    if (hot != by_group.end()) placed.hot = std::move(hot->second);
  }
  return {};
}

}  // namespace

Result<std::optional<Placement>> find_placement(Context& context, bool for_policies) {
  if (context.hot == nullptr) return std::optional<Placement>();
  Placement found;
  bool any_policy = false;
  std::optional<metadata::Identity> last;
  constexpr std::size_t kPage = 256;
  for (;;) {
    SY_ASSIGN_OR_RETURN(const auto uses, context.catalog.uses_after(last, kPage));
    for (const auto& use : uses) {
      last = use.record.identity;
      const bool published = use.record.availability == metadata::Availability::kReady ||
                             use.record.availability == metadata::Availability::kDegraded;
      if (!published) continue;
      any_policy = any_policy || has_policy(use.record);
      PlacedRevision placed;
      placed.record = use.record;
      placed.leased = use.live_leases > 0;
      placed.last_use = use.last_use;
      placed.cold_whole = use.record.availability == metadata::Availability::kReady;
      found.revisions.push_back(std::move(placed));
    }
    if (uses.size() < kPage) break;
  }
  if (for_policies && !any_policy) return std::optional<Placement>();
  found.memory.boot_id = context.runtime.epoch();
  found.memory.high_watermark_millionths = context.options.hot_high_watermark_millionths;
  found.memory.low_watermark_millionths = context.options.hot_low_watermark_millionths;
  std::shared_ptr<tiers::Tier> tier;
  Status looked = look_into_memory(context, found, tier);
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
