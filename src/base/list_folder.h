// The entries of a folder, read without an exception.
#pragma once

#include <filesystem>
#include <system_error>
#include <vector>

namespace steelyard {

/// In any order. `error` says why there are none, or why there may be more: a loop over a directory_iterator would
/// throw where the folder cannot be read to its end.
std::vector<std::filesystem::path> list_folder(const std::filesystem::path& folder, std::error_code& error);

}  // namespace steelyard
