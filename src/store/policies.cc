#include "store/policies.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/units.h"
#include "base/utf8.h"
#include "formats/ref.h"
#include "store/open_store.h"
#include "store/operation_text.h"
#include "store/placement.h"
#include "store/progress_meter.h"
#include "store/residency.h"
#include "tiers/open.h"

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
  const auto size = format_sizes_apart({move.bytes, placement.memory.used_bytes, placement.memory.capacity_bytes});
  std::string message = fmt::format(
      "{} is {} {} and needs {} more in memory, where {} of {} are used and hot.high_watermark is {}; what "
      "could go is not enough. {}",
      ref, pinned ? "pinned to" : "read now, would be", name_of(move.target), size[0], size[1], size[2], share,
      room.limit);
  const std::string next = pinned ? "evict what is not needed, or pin less"
                                  : fmt::format("`steelyard rehydrate {} --make-room` may go above the mark", ref);
  return {Code::kNoSpace, std::move(message), room.hint.empty() ? next : fmt::format("{}; or {}", next, room.hint)};
}

std::string brings_at_once(const std::string& ref) {
  return fmt::format("`steelyard rehydrate {}` brings it at once, with --make-room where there is no room", ref);
}

Status cools(const Move& move, std::int64_t cooldown_ms) {
  const std::string ref = formats::format_ref(move.identity);
  return {Code::kBusy,
          fmt::format("{} is read now, would be {}, and was moved less than {} ago (policy.cooldown)", ref,
                      name_of(move.target), format_duration(cooldown_ms)),
          brings_at_once(ref)};
}

/// Of one that the plan does not speak of.
Status waits_for_readers(const metadata::RevisionRecord& record, bool leased) {
  using metadata::Residency;
  const std::string ref = formats::format_ref(record.identity);
  const Residency is = record.residency;
  const Residency wanted = record.policy.prefer;
  const bool pinned = record.policy.mode == metadata::PolicyMode::kPinned;
  const bool is_warmer =
      (is == Residency::kHot && wanted != Residency::kHot) || (is == Residency::kMixed && wanted == Residency::kCold);
  if (pinned && is_warmer && leased) {
    return {Code::kBusy,
            fmt::format("{} is pinned to {} and {}, and somebody reads it", ref, name_of(wanted), name_of(is)),
            fmt::format("the next reconcile after that moves it; `steelyard lease list {}` shows who reads it", ref)};
  }
  const bool is_colder = is == Residency::kCold && wanted != Residency::kCold;
  if (!pinned && is_colder && !leased) {
    return {Code::kBusy,
            fmt::format("{} is {}, and nobody reads it; its policy makes it {} while somebody does", ref, name_of(is),
                        name_of(wanted)),
            brings_at_once(ref)};
  }
  return {};
}

/// Of one that has an operation: nothing else moves it meanwhile, but for that itself.
Status waits_for_operation(Context& context, const metadata::RevisionRecord& record) {
  const metadata::Operation& operation = *record.operation;
  const std::string ref = formats::format_ref(record.identity);
  const auto found = context.catalog.query_operation(operation.operation_id);
  if (!found.ok() && found.code() != Code::kNotFound) return found.status();
  const bool runs = found.ok() && found->is_being_run();
  const bool leads_there = metadata::moves_replicas(operation.kind) && operation.target == record.policy.prefer &&
                           operation.ratio_millionths == record.policy.ratio_millionths;
  if (leads_there && runs) return {};
  const std::string source = found.ok() && found->runner ? found->runner->source : "";
  return {Code::kBusy,
          fmt::format("{} has the {} operation {}, which {}", ref, name_of(operation.kind), operation.operation_id,
                      runs ? printable(found->runner->holder) + " carries out" : "nobody carries out"),
          runs ? fmt::format("`steelyard operation show {}` says how far it is", operation.operation_id)
               : fmt::format("`{}` goes on with it", command_of(operation, ref, source))};
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

Status why_it_waits(Context& context, const metadata::RevisionRecord& record) {
  const bool moves = record.policy.mode != metadata::PolicyMode::kManual && is_published(record.availability) &&
                     record.summary.payload_count > 0;
  if (!moves || context.hot == nullptr) return {};
  const metadata::Identity& identity = record.identity;
  // Of a share the plan tells.
  if (record.residency == record.policy.prefer && !record.policy.ratio_millionths) return {};
  if (record.operation) return waits_for_operation(context, record);
  if (record.availability == metadata::Availability::kDegraded) {
    const std::string ref = formats::format_ref(identity);
    return {Code::kNotReady, fmt::format("{} is DEGRADED, and no policy moves it before it is whole again", ref),
            fmt::format("`steelyard repair {}`, with --source the folder it was imported from, restores it", ref)};
  }
  if (record.policy.prefer != metadata::Residency::kCold) {
    SY_RETURN_IF_ERROR(tiers::look_at_memory_place(memory_options(context.options)).status());
  }
  SY_ASSIGN_OR_RETURN(const metadata::LastUse now, context.catalog.use_now());
  SY_ASSIGN_OR_RETURN(const auto placement, find_placement_for(context, Asked({identity}), now, MemoryFor::kLook));
  SY_ASSIGN_OR_RETURN(const auto leases, context.catalog.list_leases(identity));
  if (!placement) return waits_for_readers(record, !leases.empty());
  const std::int64_t cooldown_ms = context.options.policy_cooldown_ms;
  const metadata::PolicyPlan plan = metadata::moves_of(placement->revisions, placement->memory, now, cooldown_ms);
  const auto find_in = [&identity](const std::vector<Move>& moves_there) -> const Move* {
    const auto found = std::ranges::find(moves_there, identity, &Move::identity);
    return found == moves_there.end() ? nullptr : &*found;
  };
  if (find_in(plan.moves) != nullptr) return {};
  for (const bool pinned : {true, false}) {
    const Move* move = find_in(pinned ? plan.without_room : plan.stay_cold);
    if (move == nullptr) continue;
    return placement->no_memory.ok() ? no_room(*move, *placement, pinned) : placement->no_memory;
  }
  if (const Move* move = find_in(plan.cooling)) return cools(*move, cooldown_ms);
  return waits_for_readers(record, !leases.empty());
}

}  // namespace steelyard::store
