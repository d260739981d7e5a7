#include "store/make_room.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
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

/// Next steps of who has no room.
struct Steps {
  std::string make_room;  ///< where evicting what is idle would do
  std::string limit;      ///< what moves the limit; may be empty
  std::string instead;    ///< where evicting would not do; may be empty
};

Steps steps_of(const metadata::Identity& for_whom, const tiers::Room& room) {
  const std::string ref = formats::format_ref(for_whom);
  return {fmt::format("`steelyard rehydrate {} --make-room` evicts what is idle", ref), room.hint, {}};
}

Steps steps_of_import(const tiers::Room& room) {
  return {
      "import it with --residency cold, and `steelyard rehydrate REF --make-room` evicts what is idle for it",
      room.hint,
      "import it with --residency cold",
  };
}

/// Why the plan is not carried out, or cannot be: told after what `full` says of the limit in the way.
class Refusal {
 public:
  Refusal(Context& context, const Status& full, Steps steps)
      : context_(context), full_(full.message()), steps_(std::move(steps)) {}

  Status of(const metadata::RoomPlan& plan, std::uint64_t missing_bytes) const {
    if (plan.enough) return could_be_made(plan);
    if (plan.possible_bytes + plan.held_by_leases_bytes >= missing_bytes) return is_held(plan);
    std::string why;
    if (plan.possible_bytes + plan.held_by_leases_bytes > 0) {
      why = fmt::format("; evicting every idle revision would free {}", format_size(plan.possible_bytes));
    }
    if (plan.held_by_leases_bytes > 0) {
      why += fmt::format(", and what is being read holds {}", format_size(plan.held_by_leases_bytes));
    }
    return told(Code::kNoSpace, why, {steps_.limit, steps_.instead});
  }

 private:
  Status told(Code code, const std::string& why, const std::vector<std::string>& steps) const {
    std::string hint;
    for (const std::string& step : steps) hint += (hint.empty() || step.empty() ? "" : "; or ") + step;
    return {code, full_ + why, hint};
  }

  Status could_be_made(const metadata::RoomPlan& plan) const {
    std::vector<std::string> refs;
    for (const metadata::Move& move : plan.evictions) refs.push_back(formats::format_ref(move.identity));
    return told(Code::kNoSpace,
                fmt::format("; evicting {} would free {} ({})", counted(refs.size(), "idle revision"),
                            format_size(plan.freed_bytes), some_of(refs)),
                {steps_.make_room, steps_.limit});
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
    Status busy =
        told(Code::kBusy, why,
             {fmt::format("wait for them: steelyard lease list {}", refs.front()), steps_.limit, steps_.instead});
    for (std::size_t i = 0; i < plan.held_by_leases.size() && i < kNamedMax; ++i) {
      busy = context_.catalog.name_gone_readers(plan.held_by_leases[i], std::move(busy));
    }
    return busy;
  }

  Context& context_;
  const std::string full_;
  const Steps steps_;
};

/// `for_whom` may be nobody yet.
Status refuse(Context& context, const metadata::Identity& for_whom, std::uint64_t wanted_bytes, Status full,
              const std::function<Steps(const tiers::Room&)>& steps) {
  const auto placement = find_placement(context);
  if (!placement.ok()) return full;
  const auto room = placement->tier->room();
  if (!room.ok()) return full;
  const std::uint64_t missing_bytes = missing_of(*room, wanted_bytes);
  // Somebody made room just now; it was refused all the same.
  if (missing_bytes == 0) return full;
  return Refusal(context, full, steps(*room))
      .of(metadata::make_room(placement->revisions, placement->memory, for_whom, missing_bytes), missing_bytes);
}

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
    if (!plan.enough) return Refusal(context, full, steps_of(for_whom, room)).of(plan, missing_bytes);
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
  return refuse(context, for_whom, wanted_bytes, std::move(full),
                [&](const tiers::Room& room) { return steps_of(for_whom, room); });
}

Status refuse_import_for_room(Context& context, std::uint64_t wanted_bytes, Status full) {
  return refuse(context, {}, wanted_bytes, std::move(full), steps_of_import);
}

}  // namespace steelyard::store
