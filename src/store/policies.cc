#include "store/policies.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/units.h"
#include "formats/ref.h"
#include "store/placement.h"
#include "store/progress_meter.h"
#include "store/residency.h"
#include "store/resolve.h"

namespace steelyard::store {
namespace {

using metadata::Move;
using metadata::OperationKind;

Status make_move(Context& context, const Move& move, Observer& observer, const CancelFlag& cancel) {
  ResidencyRequest request;
  request.target = selector_of(move.identity);
  request.expected_generation = move.expected_metadata_generation;
  request.ratio_millionths = move.ratio_millionths;
  request.wait_for_others = false;
  request.only_if_idle = true;
  PhaseOfRevision phase(observer, formats::format_ref(move.identity));
  const auto run = move.kind == OperationKind::kEvicting ? run_evict : run_rehydrate;
  return run(context, request, phase, cancel, Begin::kWhereNoneRuns).status();
}

Status no_room(const Move& move, const metadata::Memory& memory) {
  const double share = memory.high_watermark_millionths / 1e6;
  return {Code::kNoSpace,
          fmt::format("{} is pinned to {} and needs {} more in memory, where {} of {} are used and hot.high_watermark "
                      "is {}; what could go is not enough",
                      formats::format_ref(move.identity), name_of(move.target), format_size(move.bytes),
                      format_size(memory.used_bytes), format_size(memory.capacity_bytes), share),
          "raise hot.capacity, evict what is not needed, or pin less"};
}

}  // namespace

Status follow_policies(Context& context, const std::optional<metadata::Identity>& only, Observer& observer,
                       const CancelFlag& cancel, const OnMove& on_move, const OnMove& on_wait) {
  if (only) {
    const auto record = context.catalog.get_weight_revision(*only);
    if (record.code() == Code::kNotFound) return {};
    SY_RETURN_IF_ERROR(record.status());
    if (record->policy.mode == metadata::PolicyMode::kManual) return {};
  }
  SY_ASSIGN_OR_RETURN(const auto placement, find_placement(context, true));
  if (!placement) return {};
  SY_ASSIGN_OR_RETURN(const metadata::LastUse now, context.catalog.use_now());
  metadata::PolicyPlan plan =
      metadata::moves_of(placement->revisions, placement->memory, now, context.options.policy_cooldown_ms);
  if (!on_wait) SY_RETURN_IF_ERROR(placement->no_memory);
  for (const Move& move : plan.without_room) {
    if (!on_wait || (only && move.identity != *only)) continue;
    on_wait(move, placement->no_memory.ok() ? no_room(move, placement->memory) : placement->no_memory);
  }
  std::vector<Move>& moves = plan.moves;
  if (only) {
    const auto own = std::ranges::find(moves, *only, &Move::identity);
    if (own == moves.end()) return {};
    const bool alone = own->kind == OperationKind::kEvicting;
    moves.erase(own + 1, moves.end());
    std::erase_if(moves, [&](const Move& move) {
      return move.identity != *only && (alone || move.kind != OperationKind::kEvicting);
    });
  }
  for (const Move& move : moves) {
    if (cancel.load()) return cancelled("following the policies");
    const Status moved = make_move(context, move, observer, cancel);
    if (is_cancelled(moved)) return moved;
    if (!is_overtaken(moved)) on_move(move, moved);
  }
  return {};
}

}  // namespace steelyard::store
