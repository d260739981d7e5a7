// Reconcile: recomputes what is observed of revisions, and goes on with what was interrupted.
//
//   IMPORTING        its writer gave no sign of life for import.abandon_after: aborted
//   DELETING         its bytes go, unless a lease lives
//   READY, DEGRADED  expired leases end; a missing `committed` marker is written; a repair without a runner goes on;
//                    members that are missing or have another size make it DEGRADED, recorded damage is read again,
//                    and so is what another revision has recorded of shared bytes
#pragma once

#include "store/context.h"

namespace steelyard::store {

/// One revision, or every one of the store. An error only where nothing could be done; what fails or waits for a single
/// revision is in the report.
Result<ReconcileReport> run_reconcile(Context& context, const std::optional<Selector>& selector, Observer& observer,
                                      const CancelFlag& cancel);

}  // namespace steelyard::store
