// gc: frees what no revision refers to. What lies in the tier is listed first, the catalog is asked after that: a group
// has its record before anything is put into it, so what has none then is garbage.
//
//   1. Groups. Of a live revision: other attempts than its own, which nobody reads any more, and temporary files. Of a
//      tombstone, or of no record: everything that a late write left. A revision that is being deleted is left to
//      delete and reconcile, which look at its leases. A `committed` attempt that no record names may be the only copy
//      of what an older catalog has forgotten: it stays, and is named.
//   2. Content that no object uses, once it is older than the grace. An import that would have linked it writes it.
//   3. Temporary files of markers and copies that nobody has written for as long as the grace. Folders with a
//      `deleting` marker, once every snapshot copy in the tier, of two at least, knows the tombstone, since one of them
//      may be damaged one day; a snapshot is made where markers wait for it.
//   4. Old tombstones become their lineage's watermark.
//
// Late steps of a gc that stood still do no harm: it removes attempts, and an attempt that was garbage once is never
// written or read by anybody else again (an import takes an attempt above every one that lies in its group).
#pragma once

#include "store/context.h"

namespace steelyard::store {

/// Steps 3 and 4 are not done in a dry run, and their failures (a full disk) are only logged.
Result<GcReport> run_gc(Context& context, bool dry_run, const CancelFlag& cancel);

}  // namespace steelyard::store
