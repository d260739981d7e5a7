// Making the names in a folder durable.
#pragma once

#include <string>

#include "base/status.h"

namespace steelyard {

/// OK on a filesystem that has no fsync for folders (EINVAL). Errors name `path`.
Status sync_folder(const std::string& path);

/// The same for an open folder; `shown` names it in the error.
Status sync_open_folder(int fd, const std::string& shown);

}  // namespace steelyard
