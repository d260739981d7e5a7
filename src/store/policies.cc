#include "store/policies.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/units.h"
#include "formats/ref.h"
#include "store/placement.h"
#include "store/progress_meter.h"
#include "store/residency.h"

namespace steelyard::store {
namespace {

using metadata::Move;
using metadata::OperationKind;

Status make_move(Context& context, const Move& move, Observer& observer, const CancelFlag& cancel) {
  PhaseOfRevision phase(observer, formats::format_ref(move.identity));
  const auto run = move.kind == OperationKind::kEvicting ? run_evict : run_rehydrate;
  return run(context, request_of(move), phase, cancel, Begin::kWhereNoneRuns).status();
}

/// Of those that the plan leaves where they are: which limit is in the way, of which memory may be filled up to a mark.
Status no_room(const Move& move, const Placement& placement, bool pinned) {
  const std::string ref = formats::format_ref(move.identity);
  SY_ASSIGN_OR_RETURN(const tiers::Room room, placement.tier->room());
  const double share = placement.memory.high_watermark_millionths / 1e6;
  std::string message = fmt::format(
      "{} is {} {} and needs {} more in memory, where {} of {} are used and hot.high_watermark is {}; what "
      "could go is not enough. {}",
      ref, pinned ? "pinned to" : "read now, would be", name_of(move.target), format_size(move.bytes),
      format_size(placement.memory.used_bytes), format_size(placement.memory.capacity_bytes), share, room.limit);
  const std::string next = pinned ? "evict what is not needed, or pin less"
                                  : fmt::format("`steelyard rehydrate {} --make-room` may go above the mark", ref);
  return {Code::kNoSpace, std::move(message), room.hint.empty() ? next : fmt::format("{}; or {}", next, room.hint)};
}

Status cools(const Move& move, std::int64_t cooldown_ms) {
  const std::string ref = formats::format_ref(move.identity);
  return {Code::kBusy,
          fmt::format("{} is read now, would be {}, and was moved less than {} ago (policy.cooldown)", ref,
                      name_of(move.target), format_duration(cooldown_ms)),
          fmt::format("`steelyard rehydrate {}` brings it at once", ref)};
}

/// The moves of those that are asked, and the evictions before them that make room for them.
void keep_asked(const std::set<metadata::Identity>& asked, std::vector<Move>& moves) {
  const auto is_asked = [&](const Move& move) { return asked.contains(move.identity); };
  const auto last_brought = std::find_if(moves.rbegin(), moves.rend(), [&](const Move& move) {
    return is_asked(move) && move.kind == OperationKind::kRehydrating;
  });
  auto for_others = moves.rend() - last_brought;  // so many moves may make room
  std::erase_if(moves, [&](const Move& move) {
    const bool makes_room = for_others-- > 0 && move.kind == OperationKind::kEvicting;
    return !is_asked(move) && !makes_room;
  });
}

/// What the plan's moves came to.
struct Moved {
  bool any = false;
  std::set<metadata::Identity> left;  ///< those that were not made: they are not tried twice
};

Status make_moves(Context& context, const std::vector<Move>& moves, Observer& observer, const CancelFlag& cancel,
                  const PolicyHooks& hooks, Moved& moved) {
  for (const Move& move : moves) {
    if (cancel.load()) return cancelled("following the policies");
    if (moved.left.contains(move.identity)) continue;
    Status made = hooks.may_try ? hooks.may_try(move) : Status();
    if (made.ok()) made = make_move(context, move, observer, cancel);
    if (is_cancelled(made)) return made;
    if (made.ok()) moved.any = true;
    if (!made.ok()) moved.left.insert(move.identity);
    if (made.code() == Code::kBusy || !is_overtaken(made)) hooks.on_move(move, made);
  }
  return {};
}

}  // namespace

Status follow_policies(Context& context, const Asked& asked, Observer& observer, const CancelFlag& cancel,
                       const PolicyHooks& hooks) {
  constexpr int kRoundsMax = 3;
  Moved moved;
  for (int round = 1;; ++round) {
    SY_ASSIGN_OR_RETURN(const metadata::LastUse now, context.catalog.use_now());
    SY_ASSIGN_OR_RETURN(const auto placement, find_placement_for(context, asked, now));
    if (!placement) return {};
    metadata::PolicyPlan plan =
        metadata::moves_of(placement->revisions, placement->memory, now, context.options.policy_cooldown_ms);
    if (!hooks.on_wait) SY_RETURN_IF_ERROR(placement->no_memory);
    if (asked) keep_asked(*asked, plan.moves);
    moved.any = false;
    SY_RETURN_IF_ERROR(make_moves(context, plan.moves, observer, cancel, hooks, moved));
    const bool some_stay = !plan.without_room.empty() || !plan.stay_cold.empty();
    if (moved.any && some_stay && round < kRoundsMax) continue;
    const auto tell = [&](const std::vector<Move>& moves, const OnMove& hook, bool pinned) {
      for (const Move& move : moves) {
        if (!hook) return;
        hook(move, placement->no_memory.ok() ? no_room(move, *placement, pinned) : placement->no_memory);
      }
    };
    tell(plan.without_room, hooks.on_wait, true);
    tell(plan.stay_cold, hooks.on_stay, false);
    for (const Move& move : plan.cooling) {
      if (hooks.on_stay) hooks.on_stay(move, cools(move, context.options.policy_cooldown_ms));
    }
    if (hooks.on_again && plan.again_at_mono_ms) hooks.on_again(*plan.again_at_mono_ms);
    return {};
  }
}

}  // namespace steelyard::store
