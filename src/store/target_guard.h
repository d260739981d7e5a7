// What `--force` may replace: a folder of the user's, never one that a slip of the keyboard names.
#pragma once

#include <string>

#include "base/status.h"

namespace steelyard::store {

/// INVALID_ARGUMENT, saying why, for a folder that is not replaced whatever the flags say: one of the system's own, the
/// user's home or the current folder or what holds them, and one in which something else is mounted, whose files would
/// go with it. `path` is absolute, without links. `home` may be empty.
Status check_replaceable(const std::string& path, const std::string& home);

/// Whether `path` is the folder in which this process, and the shell that started it, stand.
bool is_current_folder(const std::string& path);

}  // namespace steelyard::store
