// The nearest known name, for messages.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace steelyard::cli {

/// The known name with the fewest edits (insert, remove, replace, swap of neighbours) from `found`, if it is near
/// enough to be meant; else empty.
std::string nearest(std::string_view found, const std::vector<std::string_view>& known);

}  // namespace steelyard::cli
