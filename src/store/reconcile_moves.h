// Reconcile's moves between the tiers: it goes on with what was begun, and makes those that the policies ask for.
#pragma once

#include <cstdint>
#include <functional>

#include "metadata/placement_policy.h"
#include "store/context.h"
#include "store/placement.h"

namespace steelyard::store {

/// Goes on with a move that nobody carries out. One that a lease pauses, that somebody carries out, or that works in a
/// memory of this boot that is not mounted here, waits; `report` says so.
Status go_on_with_move(Context& context, const metadata::RevisionRecord& record, Observer& observer,
                       const CancelFlag& cancel, ReconcileReport& report);

/// Of memory that is not mounted here nothing is known, and nothing published; people should know that.
void tell_where_memory_is(Context& context, const metadata::RevisionRecord& record, ReconcileReport& report);

/// What the policies ask for; `tell` gets what each move came to, as it comes. For the two others see PolicyHooks.
struct PolicyReports {
  std::function<void(const metadata::Identity&, ReconcileReport)> tell;
  std::function<Status(const metadata::Move& move)> may_try = {};
  std::function<void(std::int64_t at_mono_ms)> on_again = {};
  bool of_stays = false;  ///< tells also why AUTO ones that somebody reads stay where they are; who watches tells moves
};
Status report_policies(Context& context, const Asked& asked, Observer& observer, const CancelFlag& cancel,
                       const PolicyReports& reports);

}  // namespace steelyard::store
