// Shares of a revision's bytes as integer millionths.
#pragma once

#include <algorithm>
#include <cstdint>

namespace steelyard::metadata {

inline constexpr std::uint32_t kMillion = 1'000'000;
__extension__ using Wide = unsigned __int128;

/// `share` millionths of `bytes`, rounded down.
constexpr std::uint64_t bytes_of_share(std::uint32_t share, std::uint64_t bytes) {
  return static_cast<std::uint64_t>(Wide{bytes} * share / kMillion);
}

/// The millionths of `whole` that `part` is, rounded down, of 1 to 999,999: the share of what is MIXED.
constexpr std::uint32_t share_of(std::uint64_t part, std::uint64_t whole) {
  const std::uint64_t share = whole == 0 ? 0 : static_cast<std::uint64_t>(Wide{part} * kMillion / whole);
  return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(share, 1, kMillion - 1));
}

}  // namespace steelyard::metadata
