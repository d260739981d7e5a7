// N-dimensional boxes: which elements of a tensor a piece holds. Pure values; thread-compatible.
//
// A box is an offset and an extent per dimension. Rank 0 is a scalar: its only box holds one element. A box with a zero
// extent holds nothing. Elements are numbered row-major: the last dimension is the fastest.
//
// Every function that combines two things wants them of one rank; anything else is a programmer's error. Numbers from
// outside go through make_box or check_box first; then nothing below overflows: a box that passed has ends and a volume
// that fit into 63 bits.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/status.h"

namespace steelyard::geometry {

using Shape = std::vector<std::int64_t>;

struct Box {
  std::vector<std::int64_t> offset;
  std::vector<std::int64_t> extent;

  std::size_t rank() const { return extent.size(); }
  bool operator==(const Box&) const = default;
};

/// Number of elements. INVALID_ARGUMENT, naming the dimension, for a negative size, or a product beyond 63 bits (of the
/// sizes that are not 0, so that strides exist too).
Result<std::int64_t> checked_volume(std::span<const std::int64_t> shape);

/// INVALID_ARGUMENT, naming what is wrong, when the ranks differ, a number is negative, or an end or the volume does
/// not fit into 63 bits.
Result<Box> make_box(std::vector<std::int64_t> offset, std::vector<std::int64_t> extent);
/// As make_box, and also when the box is not inside of a tensor of `shape`.
Status check_box(const Box& box, std::span<const std::int64_t> shape);
/// The box of a whole tensor.
Box whole(std::span<const std::int64_t> shape);

/// Number of elements of a checked box.
std::int64_t volume(const Box& box);
bool is_empty(const Box& box);

/// What both hold; absent when that is nothing.
std::optional<Box> intersection(const Box& a, const Box& b);
/// Every element of `inner` is in `outer`; an empty box is in every box.
bool contains(const Box& outer, const Box& inner);

/// Row-major strides, in elements. A dimension of size 0 counts as 1, so that strides never collapse.
std::vector<std::int64_t> row_major_strides(std::span<const std::int64_t> shape);
/// Row-major number of an element of a tensor of `shape`.
std::int64_t element_number(std::span<const std::int64_t> shape, std::span<const std::int64_t> position);
/// The reverse, for a number below the volume.
std::vector<std::int64_t> element_position(std::span<const std::int64_t> shape, std::int64_t number);

/// The part of `target` that `boxes` leave out, as disjoint boxes in row-major order of their first elements. Boxes may
/// overlap each other and reach beyond the target.
std::vector<Box> missing(const Box& target, std::span<const Box> boxes);

/// Two boxes of one list that share an element, the smaller index first: of all pairs that with the smallest second
/// index, and of those the smallest first. Absent when all are disjoint. Empty boxes share nothing. The boxes are swept
/// along the dimension in which they begin at the most places: n of them, at most k of which meet there, cost n * k
/// comparisons.
std::optional<std::pair<std::size_t, std::size_t>> find_overlap(std::span<const Box> boxes);

/// How a set of boxes fails to be an exact cover of a target.
struct CoverProblem {
  enum class Kind : std::uint8_t {
    kMissing,  ///< `box` is in no box: the first of `missing`
    kOverlap,  ///< `box` is in two: those of the two indexes
    kOutside,  ///< the box of the first index reaches out of the target; `box` is that box
  };
  Kind kind = Kind::kMissing;
  Box box;
  std::size_t first = 0;
  std::size_t second = 0;
  bool operator==(const CoverProblem&) const = default;
};

/// Absent when every element of `target` is in exactly one of `boxes` and none reaches beyond it. Otherwise the first
/// problem: outside before overlap before missing. Empty boxes are ignored.
std::optional<CoverProblem> check_exact_cover(const Box& target, std::span<const Box> boxes);

/// The elements [start, stop) of a tensor of `shape` as the fewest boxes of which each is a run of consecutive
/// elements, in ascending order: at most 2 * rank - 1. 0 <= start <= stop <= volume. (Boxes that skip elements could be
/// fewer for some ranges, but a flat buffer would not hold each of them in one piece.)
std::vector<Box> boxes_of_flat_range(std::span<const std::int64_t> shape, std::int64_t start, std::int64_t stop);

/// How a box lies in the row-major memory of a tensor: `count` runs of `elements` consecutive elements each, as long as
/// possible when all are of one length.
struct ContiguousRuns {
  std::int64_t elements = 0;
  std::int64_t count = 0;
  /// Dimensions before this one are stepped through from run to run; those from it on are inside a run.
  std::size_t outer_rank = 0;
  bool operator==(const ContiguousRuns&) const = default;
};

/// For a box inside of `shape`. An empty box has no run.
ContiguousRuns contiguous_runs(std::span<const std::int64_t> shape, const Box& box);
/// Row-major number, in the tensor, of the first element of run `index`; runs are numbered in ascending order.
std::int64_t run_start(std::span<const std::int64_t> shape, const Box& box, const ContiguousRuns& runs,
                       std::int64_t index);

}  // namespace steelyard::geometry
