#include "reshard/transfer_plan.h"

#include <algorithm>
#include <functional>
#include <optional>

#include "reshard/plan_inputs.h"
#include "reshard/plan_key.h"
#include "reshard/region_finder.h"

namespace steelyard::reshard {
namespace {

struct Parts {
  RegionTable regions;
  std::uint64_t segments = 0;
};

Status too_many(std::string_view what, std::uint64_t reached, std::uint64_t limit) {
  return Status(Code::kInvalidArgument,
                "the plan reached " + std::to_string(reached) + " " + std::string(what) + "; options.max_" +
                    std::string(what) + " is " + std::to_string(limit),
                "plan one rank or fragment at a time, or raise the limit");
}

/// After this many target fragments, and again after 16 times as many and so on, the table is made as large as all will
/// need if they are alike: columns that grow by doubling would be copied many times.
constexpr std::size_t kSampleFragments = 64;
constexpr double kSampleMargin = 1.1;

/// The regions of the wanted target fragments, none of which is at or beyond `end`.
Result<Parts> build(const PlanInputs& inputs, std::size_t end, const std::function<bool(std::size_t)>& wanted) {
  Parts parts;
  RegionFinder finder(inputs);
  std::size_t sample = kSampleFragments;
  for (std::size_t fragment = 0; fragment < end; ++fragment) {
    const bool keep = wanted(fragment);
    if (fragment == sample) {
      parts.regions.reserve_times(kSampleMargin * static_cast<double>(end) / static_cast<double>(sample));
      sample *= 16;
    }
    // A balanced choice depends on what was given to the ranks before.
    const bool look = inputs.has_choice && inputs.options.choice == Choice::kBalance;
    if (!keep && !look) continue;
    SY_RETURN_IF_ERROR(finder.find(fragment));
    if (!keep) continue;
    const std::uint64_t regions = parts.regions.size() + finder.found();
    if (regions > inputs.options.max_regions) return too_many("regions", regions, inputs.options.max_regions);
    parts.segments += finder.append_to(parts.regions);
    if (parts.segments > inputs.options.max_segments) {
      return too_many("segments", parts.segments, inputs.options.max_segments);
    }
  }
  return parts;
}

}  // namespace

std::pair<std::size_t, std::size_t> TransferPlan::regions_of(std::size_t target_fragment) const {
  const auto targets = built_->regions.targets();
  const auto number = static_cast<std::uint32_t>(target_fragment);
  const auto [first, last] = std::equal_range(targets.begin(), targets.end(), number);
  return {static_cast<std::size_t>(first - targets.begin()), static_cast<std::size_t>(last - targets.begin())};
}

const PlanOptions& TransferPlan::options() const { return inputs_->options; }
const PlanSide& TransferPlan::source() const { return *inputs_->source; }
const PlanSide& TransferPlan::target() const { return *inputs_->target; }
std::size_t TransferPlan::tensors() const { return inputs_->tensors.size(); }
std::string_view TransferPlan::tensor_id(std::uint32_t tensor) const { return inputs_->tensors.at(tensor).id; }
std::span<const std::int64_t> TransferPlan::tensor_shape(std::uint32_t tensor) const {
  return inputs_->tensors.at(tensor).shape;
}
std::int64_t TransferPlan::tensor_itemsize(std::uint32_t tensor) const { return inputs_->tensors.at(tensor).itemsize; }

Result<TransferPlanner> TransferPlanner::make(const placement::PlacementManifest& source,
                                              const placement::PlacementManifest& target, PlanOptions options) {
  auto inputs = std::make_shared<PlanInputs>();
  inputs->options = std::move(options);
  SY_ASSIGN_OR_RETURN(PlanSide side, PlanSide::of_placement(source, inputs->options.source_views, Side::kSource));
  inputs->source = std::move(side);
  SY_ASSIGN_OR_RETURN(side, PlanSide::of_placement(target, inputs->options.target_views, Side::kTarget));
  inputs->target = std::move(side);
  return finish(std::move(inputs));
}

Result<TransferPlanner> TransferPlanner::make(std::shared_ptr<const formats::StoredManifest> source,
                                              const placement::PlacementManifest& target, PlanOptions options) {
  auto inputs = std::make_shared<PlanInputs>();
  inputs->options = std::move(options);
  SY_ASSIGN_OR_RETURN(PlanSide side, PlanSide::of_stored(std::move(source), inputs->options.source_views));
  inputs->source = std::move(side);
  SY_ASSIGN_OR_RETURN(side, PlanSide::of_placement(target, inputs->options.target_views, Side::kTarget));
  inputs->target = std::move(side);
  return finish(std::move(inputs));
}

Result<TransferPlanner> TransferPlanner::finish(std::shared_ptr<PlanInputs> inputs) {
  SY_RETURN_IF_ERROR(match_sides(*inputs));
  SY_RETURN_IF_ERROR(check_co_plans(*inputs));
  return TransferPlanner(std::move(inputs));
}

Result<TransferPlan> TransferPlanner::plan() const {
  SY_ASSIGN_OR_RETURN(Parts parts, build(*inputs_, inputs_->target->fragments(), [](std::size_t) { return true; }));
  auto built = std::make_shared<TransferPlan::Built>();
  built->regions = std::move(parts.regions);
  built->segments = parts.segments;
  for (std::size_t i = 0; i < built->regions.size(); ++i) built->bytes += built->regions.row(i).bytes();
  built->key = plan_key(*inputs_);
  return TransferPlan(inputs_, std::move(built));
}

Result<RegionTable> TransferPlanner::plan_fragment(std::size_t target_fragment) const {
  if (target_fragment >= inputs_->target->fragments()) {
    return Status(Code::kInvalidArgument, "target fragment " + std::to_string(target_fragment) + " of " +
                                              std::to_string(inputs_->target->fragments()) + " does not exist");
  }
  SY_ASSIGN_OR_RETURN(Parts parts, build(*inputs_, target_fragment + 1,
                                         [&](std::size_t fragment) { return fragment == target_fragment; }));
  return std::move(parts.regions);
}

Result<RegionTable> TransferPlanner::plan_rank(const placement::ParallelRank& target_rank) const {
  const auto ranks = inputs_->target->ranks();
  const auto at = std::lower_bound(ranks.begin(), ranks.end(), target_rank);
  if (at == ranks.end() || *at != target_rank) {
    return Status(Code::kInvalidArgument, "the target has no fragment of rank dp " + std::to_string(target_rank.dp) +
                                              ", tp " + std::to_string(target_rank.tp) + ", pp " +
                                              std::to_string(target_rank.pp) + ", ep " +
                                              std::to_string(target_rank.ep));
  }
  const auto number = static_cast<std::uint32_t>(at - ranks.begin());
  SY_ASSIGN_OR_RETURN(Parts parts, build(*inputs_, inputs_->target->fragments(), [&](std::size_t fragment) {
                        return inputs_->target->rank_number(fragment) == number;
                      }));
  return std::move(parts.regions);
}

std::string TransferPlanner::key() const { return plan_key(*inputs_); }

Result<TransferPlan> plan_transfer(const placement::PlacementManifest& source,
                                   const placement::PlacementManifest& target, PlanOptions options) {
  SY_ASSIGN_OR_RETURN(const TransferPlanner planner, TransferPlanner::make(source, target, std::move(options)));
  return planner.plan();
}

Result<TransferPlan> plan_transfer(std::shared_ptr<const formats::StoredManifest> source,
                                   const placement::PlacementManifest& target, PlanOptions options) {
  SY_ASSIGN_OR_RETURN(const TransferPlanner planner,
                      TransferPlanner::make(std::move(source), target, std::move(options)));
  return planner.plan();
}

}  // namespace steelyard::reshard
