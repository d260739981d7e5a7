// Delete and abort: the ends of a published revision and of an unpublished import.
#pragma once

#include "store/context.h"

namespace steelyard::store {

/// What a selector without a generation means to delete: the newest generation that was published, a tombstone too
/// (asked again, the same words mean the same), else the newest of any (which is not for delete: NOT_READY).
Result<metadata::RevisionRecord> find_deletable(catalog::Catalog& catalog, const Selector& selector);
/// And to abort: the newest import under way or aborted, else the newest of any.
Result<metadata::RevisionRecord> find_abortable(catalog::Catalog& catalog, const Selector& selector);

Result<RemovalResult> run_delete(Context& context, const DeleteRequest& request, const CancelFlag& cancel);
Result<RemovalResult> run_abort(Context& context, const AbortRequest& request);

}  // namespace steelyard::store
