// Folders that lie in one another: the store must never be its own source or target.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "store/store.h"

namespace steelyard::store {

/// Absolute, without a trailing slash, links followed as far as the path exists: so that `..` behind a link means what
/// it means to the system. Where that cannot be told, the path as it was given.
std::string resolved_path(const std::string& path);

/// The path of `inner` relative to `outer` where it is that folder (then empty) or lies in it, by the filesystem's own
/// account: links and other spellings do not hide it. Either may be absent yet.
std::optional<std::string> path_within(const std::string& outer, const std::string& inner);

/// INVALID_ARGUMENT when a revision written to `target` would replace the store or its cold tier, or lie in them.
Status check_target_apart(const StoreOptions& options, const std::string& target);

/// INVALID_ARGUMENT when one of `files` (paths relative to `source`) belongs to the store or its cold tier.
Status check_source_apart(const StoreOptions& options, const std::string& source,
                          const std::vector<std::string>& files);

}  // namespace steelyard::store
