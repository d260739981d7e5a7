// Evict: removes a revision, or what is outside the set that a ratio gives, from memory, as an EVICTING operation
// (residency_run.h). In batches:
//
//   1. The cold objects of the batch are read back, every block checked. A bad one ends the operation as FAILED.
//   2. Under the group's lock in memory the log is asked for the permission to remove so many members. A live lease
//      refuses it: the operation is paused until there is none (decision 13). What the log says of damage by then, or
//      cold objects that others replaced since they were read, end it too.
//   3. The replicas of the batch are removed, whoever brought them.
//
// What is stray (hot_tier.h) goes in the same batches, without an operation: instead of a permission the record is read
// again under the lock, and is as it was (decision 18).
#pragma once

#include "store/context.h"
#include "store/residency.h"

namespace steelyard::store {

/// One operation, or none where what lies here is stray. CORRUPT for a damaged cold object: the operation has FAILED,
/// and the damage is recorded; its hot replica stays. Any other error leaves the operation RUNNING without a runner.
Result<ResidencyResult> evict_only(Context& context, const ResidencyRequest& request, Observer& observer,
                                   const CancelFlag& cancel, Begin begin = Begin::kWhereNoneRuns);

}  // namespace steelyard::store
