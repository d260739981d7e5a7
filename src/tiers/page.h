// The page: the unit of O_DIRECT, of mappings, and of what a tmpfs charges.
#pragma once

#include <cstdint>

namespace steelyard::tiers {

inline constexpr std::uint64_t kPageBytes = 4096;

}  // namespace steelyard::tiers
