// Reconcile: recomputes what is observed of revisions, and goes on with what was interrupted.
//
//   IMPORTING        its writer gave no sign of life for import.abandon_after: aborted
//   DELETING         its bytes go, unless a lease lives
//   READY, DEGRADED  expired leases end; a missing `committed` marker is written; an operation without a runner goes
//                    on (repair, eviction, rehydration); members that are missing or have another size make it
//                    DEGRADED, recorded damage is read again, and so is, in a look at the whole store, what another
//                    revision has recorded of shared bytes; what lies in memory here is counted
//   then             the policies move what is not where it should be (policies.h)
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>

#include "store/context.h"

namespace steelyard::store {

/// One revision, or every one of the store. An error only where nothing could be done; what fails or waits for a single
/// revision is in the report.
Result<ReconcileReport> run_reconcile(Context& context, const std::optional<Selector>& selector, Observer& observer,
                                      const CancelFlag& cancel);

/// Its first part, for who keeps a store reconciled (keep_reconciled.h); the second is report_policies
/// (reconcile_moves.h).
struct Looked {
  ReconcileReport report;
  std::set<metadata::Identity> whose;                            ///< of a selector: the one revision that it means
  std::map<metadata::Identity, metadata::Policy> policies = {};  ///< of what was looked at: those that move something
};
/// All but the policies. Revisions with an operation are only put into `later`, where that is given. `between` is
/// called before each revision, for who has something else to do meanwhile; its error ends the look.
Result<Looked> look_at_revisions(Context& context, const std::optional<Selector>& selector, Observer& observer,
                                 const CancelFlag& cancel, std::set<metadata::Identity>* later,
                                 const std::function<Status()>& between = {});

}  // namespace steelyard::store
