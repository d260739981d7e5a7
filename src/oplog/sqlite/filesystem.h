// Which filesystems may hold a log: local ones, on which locks, shared memory maps and fsync mean what SQLite needs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace steelyard::oplog::sqlite {

/// The name of a filesystem type (statfs f_type) that must not hold a log: network, FUSE and virtual ones.
std::optional<std::string_view> find_refused_filesystem(std::uint64_t magic);

/// UNAVAILABLE when the folder lies on a refused filesystem.
Status check_filesystem(const std::string& folder);

/// The folder lies on a mount that nobody can write through (ST_RDONLY).
Result<bool> is_read_only_mount(const std::string& folder);

}  // namespace steelyard::oplog::sqlite
