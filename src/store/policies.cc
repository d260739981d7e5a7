#include "store/policies.h"

#include <algorithm>
#include <vector>

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

}  // namespace

Status follow_policies(Context& context, const std::optional<metadata::Identity>& only, Observer& observer,
                       const CancelFlag& cancel, const OnMove& on_move) {
  SY_ASSIGN_OR_RETURN(const auto placement, find_placement(context, true));
  if (!placement) return {};
  SY_ASSIGN_OR_RETURN(const metadata::LastUse now, context.catalog.use_now());
  std::vector<Move> moves =
      metadata::moves_of(placement->revisions, placement->memory, now, context.options.policy_cooldown_ms);
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
