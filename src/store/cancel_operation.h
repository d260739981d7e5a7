// Cancelling an operation, whoever carries it out, or nobody.
#pragma once

#include <string>

#include "store/context.h"
#include "store/stop_signal.h"

namespace steelyard::store {

/// Ends it, if it runs. Where a move was cancelled, now or before, and no other one runs, what lies in memory is
/// counted again: nobody may be left who would. `cancel` leaves that to a reconcile.
Result<metadata::OperationView> run_cancel(Context& context, const std::string& operation_id, const CancelFlag& cancel);

/// What a move did before it was cancelled stays, and is made known. A failure is left to a reconcile.
void record_what_stays(Context& context, const metadata::RevisionRecord& record, const StopSignal& stop);

}  // namespace steelyard::store
