// Ballast: a little room on the store's disk that only what frees room may spend. On a disk that is full to the last
// byte no append is possible, and so no delete; giving the ballast back makes room for the few appends that it takes.
#pragma once

#include <string>
#include <type_traits>

#include "base/status.h"

namespace steelyard::store {

/// Makes the file at `path` where it is missing and the filesystem has room to spare. Nothing depends on it: what goes
/// wrong leaves the store without.
void keep_ballast(const std::string& path);

/// Gives its room back. False where there is none, or no path.
bool spend_ballast(const std::string& path);

/// For work that frees room and can be done again: it may take the last of it.
template <typename Work>
std::invoke_result_t<Work> with_ballast(const std::string& path, const Work& work) {
  auto result = work();
  if (result.code() == Code::kNoSpace && spend_ballast(path)) result = work();
  return result;
}

}  // namespace steelyard::store
