#include "store/make_room.h"

#include <fmt/format.h>

#include <set>
#include <utility>

#include "base/log.h"
#include "base/units.h"
#include "formats/ref.h"
#include "store/evict.h"
#include "store/placement.h"
#include "store/progress_meter.h"
#include "store/resolve.h"

namespace steelyard::store {
namespace {

Status evict_for(Context& context, const metadata::Move& move, Observer& observer, const CancelFlag& cancel) {
  ResidencyRequest request;
  request.target = selector_of(move.identity);
  request.expected_generation = move.expected_metadata_generation;
  request.wait_for_others = false;
  request.only_if_idle = true;
  PhaseOfRevision phase(observer, formats::format_ref(move.identity));
  return evict_only(context, request, phase, cancel).status();
}

}  // namespace

Status make_room(Context& context, const metadata::Identity& for_whom, std::uint64_t wanted_bytes, Observer& observer,
                 const CancelFlag& cancel, std::vector<std::string>& evicted) {
  constexpr int kRoundsMax = 5;
  std::uint64_t freed = 0;
  std::set<metadata::Identity> passed_over;
  for (int round = 0; round < kRoundsMax && freed < wanted_bytes; ++round) {
    SY_ASSIGN_OR_RETURN(auto placement, find_placement(context, false));
    if (!placement) return {Code::kUnavailable, "this store has no memory tier"};
    for (metadata::PlacedRevision& placed : placement->revisions) {
      if (passed_over.contains(placed.record.identity)) placed.cold_whole = false;
    }
    const metadata::RoomPlan plan =
        metadata::make_room(placement->revisions, placement->memory, for_whom, wanted_bytes - freed);
    if (!plan.enough) {
      const bool leases = plan.possible_bytes + plan.held_by_leases_bytes >= wanted_bytes - freed;
      return {
          leases ? Code::kBusy : Code::kNoSpace,
          fmt::format("{} more are needed in memory for {}; evicting every idle revision would free {}, and what is "
                      "being read holds {}",
                      format_size(wanted_bytes - freed), formats::format_ref(for_whom),
                      format_size(plan.possible_bytes), format_size(plan.held_by_leases_bytes)),
          leases ? "wait for the leases (steelyard lease list), or raise hot.capacity" : "raise hot.capacity"};
    }
    for (const metadata::Move& move : plan.evictions) {
      Status moved = evict_for(context, move, observer, cancel);
      if (is_overtaken(moved)) continue;
      if (moved.code() == Code::kCorrupt || moved.code() == Code::kUnavailable) {
        log_warning("{} is not evicted to make room: {}", formats::format_ref(move.identity), moved.to_string());
        passed_over.insert(move.identity);
        continue;
      }
      SY_RETURN_IF_ERROR(std::move(moved).annotate("making room by evicting", formats::format_ref(move.identity)));
      evicted.push_back(formats::format_ref(move.identity));
      freed += move.bytes;
    }
  }
  return {};
}

}  // namespace steelyard::store
