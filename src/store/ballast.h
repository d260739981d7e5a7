// Ballast: a little room on the store's disk that only what frees room may spend. On a disk that is full to the last
// byte no append is possible, and so no delete; giving the ballast back makes room for the few appends that it takes.
#pragma once

#include <string>

namespace steelyard::store {

/// Makes the file at `path` where it is missing and the filesystem has room to spare. Nothing depends on it: what goes
/// wrong leaves the store without.
void keep_ballast(const std::string& path);

/// Gives its room back. False where there is none, or no path.
bool spend_ballast(const std::string& path);

}  // namespace steelyard::store
