// Repair: restores missing and damaged objects of a revision, as a REPAIRING operation.
//
//   1. What is damaged: what the record names, and what a listing of the tier shows to be missing or of the wrong size.
//   2. The operation is started with its totals and its runner, in one append.
//   3. Object by object: its own good blocks, then good blocks from a source folder, the content index and every other
//      object of the tier, make new bytes of the right SHA-256, which take the place of the damaged ones under every
//      name that shared them (tiers/tier.h, "what repair needs").
//   4. What became whole is recorded: first of other revisions, then of this one.
//   5. The operation ends.
//
// Killed anywhere, the operation stays RUNNING, and the same command, or a reconcile, takes it over and does again
// what is not recorded: a whole object is only read.
#pragma once

#include "store/context.h"
#include "store/source.h"

namespace steelyard::store {

/// `source` may be null. A running repair whose runner is not live is taken over; a live one is BUSY. CORRUPT, naming
/// what is missing, when an object could not be restored; then the operation has FAILED, and what could be restored is.
/// Any other error leaves the operation RUNNING without a runner.
Result<RepairResult> run_repair(Context& context, const RepairRequest& request, Source* source, Observer& observer,
                                const CancelFlag& cancel);

}  // namespace steelyard::store
