// Folders that lie in one another: the store must never be its own source or target.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "store/store.h"

namespace steelyard::store {

/// The path of `inner` relative to `outer` where it is that folder (then empty) or lies in it, by the filesystem's own
/// account: links and other spellings do not hide it. Either may be absent yet.
std::optional<std::string> path_within(const std::string& outer, const std::string& inner);

/// INVALID_ARGUMENT when a revision written to `target` would replace the store or its cold tier, or lie in them.
Status check_target_apart(const StoreOptions& options, const std::string& target);

/// INVALID_ARGUMENT when one of `files` (paths relative to `source`) belongs to the store or its cold tier.
Status check_source_apart(const StoreOptions& options, const std::string& source,
                          const std::vector<std::string>& files);

}  // namespace steelyard::store
