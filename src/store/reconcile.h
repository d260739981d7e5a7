// Reconcile: recomputes what is observed of revisions, and goes on with what was interrupted.
//
//   IMPORTING        its writer gave no sign of life for import.abandon_after: aborted
//   DELETING         its bytes go, unless a lease lives
//   READY, DEGRADED  expired leases end; a missing `committed` marker is written; a repair without a runner goes on;
//                    members that are missing or have another size make it DEGRADED, recorded damage is read again,
//                    and so is what another revision has recorded of shared bytes
#pragma once

#include <functional>
#include <optional>
#include <set>

#include "store/context.h"
#include "store/placement.h"

namespace steelyard::store {

/// One revision, or every one of the store. An error only where nothing could be done; what fails or waits for a single
/// revision is in the report.
Result<ReconcileReport> run_reconcile(Context& context, const std::optional<Selector>& selector, Observer& observer,
                                      const CancelFlag& cancel);

/// Its two parts, for who keeps a store reconciled (keep_reconciled.h).
struct Looked {
  ReconcileReport report;
  std::set<metadata::Identity> whose;  ///< of a selector: the one revision that it means
};
/// All but the policies. Revisions with an operation are only put into `later`, where that is given.
Result<Looked> look_at_revisions(Context& context, const std::optional<Selector>& selector, Observer& observer,
                                 const CancelFlag& cancel, std::set<metadata::Identity>* later);
/// What the policies ask for; `tell` gets what each move came to, as it comes.
Status report_policies(Context& context, const Asked& asked, Observer& observer, const CancelFlag& cancel,
                       const std::function<void(const metadata::Identity&, ReconcileReport)>& tell);

}  // namespace steelyard::store
