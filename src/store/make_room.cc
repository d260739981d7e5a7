#include "store/make_room.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "base/log.h"
#include "base/units.h"
#include "base/utf8.h"
#include "formats/ref.h"
#include "store/evict.h"
#include "store/placement.h"
#include "store/progress_meter.h"

namespace steelyard::store {
namespace {

constexpr std::size_t kNamedMax = 3;

Status evict_for(Context& context, const metadata::Move& move, Observer& observer, const CancelFlag& cancel) {
  PhaseOfRevision phase(observer, formats::format_ref(move.identity));
  return evict_only(context, request_of(move), phase, cancel).status();
}

/// What has to go, so that so many bytes fit; of what is above the limit all of it first.
std::uint64_t missing_of(const tiers::Room& room, std::uint64_t wanted_bytes) {
  return room.bytes >= wanted_bytes ? 0 : wanted_bytes - room.bytes + room.over_bytes;
}

/// "a, b, c and 2 more".
std::string some_of(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size() && i < kNamedMax; ++i) text += (i > 0 ? ", " : "") + names[i];
  return names.size() <= kNamedMax ? text : fmt::format("{} and {} more", text, names.size() - kNamedMax);
}

/// Why the plan is not carried out, or cannot be: told after what `full` says of the limit in the way.
class Refusal {
 public:
  Refusal(Context& context, const metadata::Identity& for_whom, const Status& full, std::string hint)
      : context_(context), for_whom_(for_whom), full_(full.message()), hint_(std::move(hint)) {}

  Status of(const metadata::RoomPlan& plan, std::uint64_t missing_bytes) const {
    if (plan.enough) return could_be_made(plan);
    if (plan.possible_bytes + plan.held_by_leases_bytes >= missing_bytes) return is_held(plan);
    std::string why = fmt::format("; evicting every idle revision would free {}", format_size(plan.possible_bytes));
    if (plan.held_by_leases_bytes > 0) {
      why += fmt::format(", and what is being read holds {}", format_size(plan.held_by_leases_bytes));
    }
    return told(Code::kNoSpace, why, {});
  }

 private:
  Status told(Code code, const std::string& why, const std::string& next) const {
    const bool both = !next.empty() && !hint_.empty();
    return {code, full_ + why, next + (both ? "; or " : "") + hint_};
  }

  Status could_be_made(const metadata::RoomPlan& plan) const {
    std::vector<std::string> refs;
    for (const metadata::Move& move : plan.evictions) refs.push_back(formats::format_ref(move.identity));
    return told(
        Code::kNoSpace,
        fmt::format("; evicting {} would free {} ({})", counted(refs.size(), "idle revision"),
                    format_size(plan.freed_bytes), some_of(refs)),
        fmt::format("`steelyard rehydrate {} --make-room` evicts what is idle", formats::format_ref(for_whom_)));
  }

  Status is_held(const metadata::RoomPlan& plan) const {
    std::vector<std::string> refs;
    std::set<std::string> holders;
    std::size_t leases = 0;
    std::optional<std::int64_t> nearest;
    for (const metadata::Identity& identity : plan.held_by_leases) {
      refs.push_back(formats::format_ref(identity));
      const auto live = context_.catalog.list_leases(identity);
      if (!live.ok()) continue;
      for (const auto& row : *live) {
        ++leases;
        holders.insert(printable(row.lease.holder));
        nearest = std::min(nearest.value_or(row.left_ms), row.left_ms);
      }
    }
    const std::string why =
        fmt::format("; evicting what is idle would free {}, and {} more are being read: {} of {} on {}{}",
                    format_size(plan.possible_bytes), format_size(plan.held_by_leases_bytes), counted(leases, "lease"),
                    some_of({holders.begin(), holders.end()}), some_of(refs),
                    nearest ? ", the nearest expiry in " + format_age(*nearest) : "");
    Status busy = told(Code::kBusy, why, fmt::format("wait for them: steelyard lease list {}", refs.front()));
    for (std::size_t i = 0; i < plan.held_by_leases.size() && i < kNamedMax; ++i) {
      busy = context_.catalog.name_gone_readers(plan.held_by_leases[i], std::move(busy));
    }
    return busy;
  }

  Context& context_;
  const metadata::Identity& for_whom_;
  const std::string full_;
  const std::string hint_;  ///< how to move the limit
};

}  // namespace

Status make_room(Context& context, const metadata::Identity& for_whom, std::uint64_t wanted_bytes, Observer& observer,
                 const CancelFlag& cancel, std::vector<std::string>& evicted) {
  constexpr int kRoundsMax = 5;
  std::set<metadata::Identity> passed_over;
  for (int round = 0; round < kRoundsMax; ++round) {
    SY_ASSIGN_OR_RETURN(Placement placement, find_placement(context));
    SY_ASSIGN_OR_RETURN(const tiers::Room room, placement.tier->room());
    Status full = room.check(wanted_bytes);
    if (full.ok()) return {};
    for (metadata::PlacedRevision& placed : placement.revisions) {
      if (passed_over.contains(placed.record.identity)) placed.cold_whole = false;
    }
    const std::uint64_t missing_bytes = missing_of(room, wanted_bytes);
    const metadata::RoomPlan plan = metadata::make_room(placement.revisions, placement.memory, for_whom, missing_bytes);
    if (!plan.enough) return Refusal(context, for_whom, full, room.hint).of(plan, missing_bytes);
    for (const metadata::Move& move : plan.evictions) {
      Status moved = evict_for(context, move, observer, cancel);
      if (is_overtaken(moved)) continue;
      if (moved.code() == Code::kCorrupt || moved.code() == Code::kUnavailable) {
        if (is_cancelled(moved)) return moved;
        log_warning("{} is not evicted to make room: {}", formats::format_ref(move.identity), moved.to_string());
        passed_over.insert(move.identity);
        continue;
      }
      SY_RETURN_IF_ERROR(std::move(moved).annotate("making room by evicting", formats::format_ref(move.identity)));
      evicted.push_back(formats::format_ref(move.identity));
    }
  }
  return {};
}

Status refuse_for_room(Context& context, const metadata::Identity& for_whom, std::uint64_t wanted_bytes, Status full) {
  const auto placement = find_placement(context);
  if (!placement.ok()) return full;
  const auto room = placement->tier->room();
  if (!room.ok()) return full;
  const std::uint64_t missing_bytes = missing_of(*room, wanted_bytes);
  // Somebody made room just now; it was refused all the same.
  if (missing_bytes == 0) return full;
  return Refusal(context, for_whom, full, room->hint)
      .of(metadata::make_room(placement->revisions, placement->memory, for_whom, missing_bytes), missing_bytes);
}

}  // namespace steelyard::store
