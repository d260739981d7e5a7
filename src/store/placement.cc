#include "store/placement.h"

#include <algorithm>
#include <functional>
#include <map>
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

/// What the set that the policy prefers would add to memory.
Status plan_promotion(Context& context, PlacedRevision& placed) {
  const RevisionRecord& record = placed.record;
  std::uint64_t hot_bytes = 0;
  for (const metadata::HotReplica& replica : placed.hot) hot_bytes += replica.bytes;
  if (record.policy.prefer == Residency::kHot) {
    placed.promotion_bytes = record.summary.logical_bytes - std::min(record.summary.logical_bytes, hot_bytes);
  }
  if (record.policy.prefer != Residency::kMixed || !record.policy.ratio_millionths) return {};
  SY_ASSIGN_OR_RETURN(const auto manifest, load_manifest(context.cold, record));
  SY_ASSIGN_OR_RETURN(const auto found, find_hot(context, record, manifest));
  std::vector<std::uint64_t> sizes;
  for (const formats::ObjectEntry& entry : manifest.objects) sizes.push_back(entry.bytes);
  const auto plan = metadata::plan_mixed(sizes, *record.policy.ratio_millionths);
  if (!plan.ok()) return plan.status();
  placed.plan_millionths = plan->hot_millionths;
  for (std::uint32_t object = 0; object < sizes.size(); ++object) {
    if (plan->hot[object] && !found.has(object)) placed.promotion_bytes += sizes[object];
  }
  return {};
}

/// Every published record, a page at a time, until `visit` says no.
Status for_each_use(Context& context, const std::function<bool(const catalog::Catalog::RevisionUse& use)>& visit) {
  constexpr std::size_t kPage = 256;
  std::optional<metadata::Identity> last;
  for (;;) {
    SY_ASSIGN_OR_RETURN(const auto uses, context.catalog.uses_after(last, kPage));
    for (const auto& use : uses) {
      last = use.record.identity;
      const bool published = use.record.availability == metadata::Availability::kReady ||
                             use.record.availability == metadata::Availability::kDegraded;
      if (published && !visit(use)) return {};
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
  SY_ASSIGN_OR_RETURN(const auto tier, context.hot->make());
  std::map<std::string, std::vector<metadata::HotReplica>> by_group;
  SY_ASSIGN_OR_RETURN(const tiers::TierUsage usage, tier->usage([&](const tiers::ObjectStat& object) {
    by_group[object.name.in.group].push_back({object.storage, object.bytes});
  }));
  SY_ASSIGN_OR_RETURN(found.memory.instance, tier->instance());
  found.memory.boot_id = context.runtime.epoch();
  found.memory.capacity_bytes = usage.capacity_bytes;
  found.memory.used_bytes = usage.bytes;
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
  for (PlacedRevision& placed : found.revisions) {
    if (!for_policies || !has_policy(placed.record)) continue;
    const Status planned = plan_promotion(context, placed);
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
