// The lock on a store's folder: shared by every process that has the store open, exclusive to a recovery, which
// replaces the catalog. A process that ends gives it back, however it ends.
#pragma once

#include <string>

#include "base/runtime.h"
#include "base/status.h"
#include "base/unique_fd.h"

namespace steelyard::store {

/// For as long as the store is open. Waits up to 3 seconds for a recovery, then BUSY, naming it. Invalid where the
/// folder is not there, and where its filesystem has no locks. Where the lock cannot be had for any other reason, that
/// is an error for who may write: a recovery would not see him. A reader goes on, with an invalid one.
Result<UniqueFd> share_store(Runtime& runtime, const std::string& folder, bool may_write);

/// For a recovery. BUSY, naming the processes that have the store open as far as they can be seen from here; this
/// process may be one of them.
Result<UniqueFd> own_store(const std::string& folder);

}  // namespace steelyard::store
