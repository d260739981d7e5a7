// One search for overlapping boxes among very many, of any rank.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

namespace steelyard::geometry {

/// Two boxes that share an element, the smaller index first; absent when all are disjoint. Which of several pairs it is
/// depends on nothing but the boxes and their order.
///
/// Box i holds the elements from begins[i * rank + d] to ends[i * rank + d] - 1 in each dimension d; none is empty. Two
/// boxes of rank 0 always overlap.
///
/// n boxes of a grid, or of any layout that can be cut in two again and again without cutting many boxes, cost
/// n * log(n); n * n is the bound. Memory is a few bytes a box.
std::optional<std::pair<std::size_t, std::size_t>> find_overlapping_pair(std::size_t rank,
                                                                         std::span<const std::int64_t> begins,
                                                                         std::span<const std::int64_t> ends,
                                                                         std::size_t boxes);

}  // namespace steelyard::geometry
