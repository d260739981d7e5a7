// Keeping a store reconciled: a pass over it, then whatever comes, until it is cancelled.
//
//   a change of a record, or the end of a lease     that revision is looked at at once; the log wakes it
//   a lease that is taken or ends, a move or        the policies are followed, all of them and once for a batch, as the
//   a removal that ended, a cool-down that is over  room that one leaves may be another's
//   expired leases, writers and runners             every 10 seconds, by the rows that they have
//   what changes without the log (a lost object,    a pass every 5 minutes, and never more than a twentieth of the
//   memory that went away), and after a trim        time
//
// What takes long, operations that were begun and what the policies move, is done in a task of its own (long_work.h),
// one after another, and nothing else waits for it.
//
// What could not be done is tried again after 10 seconds, then after twice as long each time, up to a pass. A move is
// tried at once where its policy changed, or a lease of it came or ended; what it changed itself shortens no pause.
#pragma once

#include <functional>

#include "store/context.h"

namespace steelyard::store {

/// Ends with cancelled(), an error of `tell`, or one that waiting does not mend; others are warnings. `tell` gets the
/// first pass whatever it found, later only changes, and what waits or failed when that is news; one call at a time,
/// also while a later pass goes on.
Status run_keep_reconciled(Context& context, const std::optional<Selector>& selector, Observer& observer,
                           const std::function<Status(const ReconcileReport&)>& tell, const CancelFlag& cancel);

}  // namespace steelyard::store
