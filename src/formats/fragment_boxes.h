// Do the fragments of a tensor overlap?
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <utility>

#include "formats/stored_manifest.h"

namespace steelyard::formats {

/// Two fragments that share an element, the smaller index first; absent when all are disjoint. All fragments have the
/// same rank, no negative offset, and ends that fit 63 bits.
///
/// Sweeps along the dimension with the most distinct offsets and compares only fragments that meet there: n fragments
/// of which at most k meet cost n * k comparisons.
std::optional<std::pair<std::size_t, std::size_t>> find_overlap(std::span<const FragmentEntry> fragments);

}  // namespace steelyard::formats
