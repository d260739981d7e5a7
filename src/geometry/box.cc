#include "geometry/box.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/checked.h"

namespace steelyard::geometry {
namespace {

void check_ranks(std::size_t a, std::size_t b) { SY_CHECK(a == b, "boxes and shapes of different ranks"); }

std::string at_dimension(std::size_t dimension) { return " in dimension " + std::to_string(dimension); }

Status check_numbers(const Box& box) {
  if (box.offset.size() != box.extent.size()) {
    return Status(Code::kInvalidArgument, "a box has " + std::to_string(box.offset.size()) + " offsets and " +
                                              std::to_string(box.extent.size()) + " extents; they must be as many");
  }
  for (std::size_t d = 0; d < box.rank(); ++d) {
    if (box.offset[d] < 0) {
      return Status(Code::kInvalidArgument,
                    "offset " + std::to_string(box.offset[d]) + at_dimension(d) + " is negative");
    }
  }
  SY_RETURN_IF_ERROR(checked_volume(box.extent).status());
  for (std::size_t d = 0; d < box.rank(); ++d) {
    if (!checked_add(box.offset[d], box.extent[d])) {
      return Status(Code::kInvalidArgument, "offset " + std::to_string(box.offset[d]) + " and extent " +
                                                std::to_string(box.extent[d]) + at_dimension(d) +
                                                " end beyond 63 bits");
    }
  }
  return {};
}

/// Appends the parts of `from` that are not in `hole`, which lies inside of it.
void append_difference(Box from, const Box& hole, std::vector<Box>& out) {
  for (std::size_t d = 0; d < from.rank(); ++d) {
    const std::int64_t before = hole.offset[d] - from.offset[d];
    if (before > 0) {
      out.push_back(from);
      out.back().extent[d] = before;
    }
    const std::int64_t hole_end = hole.offset[d] + hole.extent[d];
    const std::int64_t after = from.offset[d] + from.extent[d] - hole_end;
    if (after > 0) {
      out.push_back(from);
      out.back().offset[d] = hole_end;
      out.back().extent[d] = after;
    }
    from.offset[d] = hole.offset[d];
    from.extent[d] = hole.extent[d];
  }
}

/// The dimension in which the boxes begin at the most places: the best one to sweep along.
std::size_t sweep_dimension(std::size_t rank, std::span<const Box> boxes) {
  std::size_t best = 0;
  std::size_t best_places = 0;
  std::vector<std::int64_t> begins(boxes.size());
  for (std::size_t d = 0; d < rank; ++d) {
    std::transform(boxes.begin(), boxes.end(), begins.begin(), [d](const Box& box) { return box.offset[d]; });
    std::sort(begins.begin(), begins.end());
    const auto places = static_cast<std::size_t>(std::unique(begins.begin(), begins.end()) - begins.begin());
    if (places > best_places) best = d, best_places = places;
  }
  return best;
}

bool share_an_element(const Box& a, const Box& b) {
  for (std::size_t d = 0; d < a.rank(); ++d) {
    if (a.offset[d] >= b.offset[d] + b.extent[d] || b.offset[d] >= a.offset[d] + a.extent[d]) return false;
  }
  return true;
}

}  // namespace

Result<std::int64_t> checked_volume(std::span<const std::int64_t> shape) {
  std::int64_t product = 1;
  bool empty = false;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] < 0) {
      return Status(Code::kInvalidArgument, "size " + std::to_string(shape[d]) + at_dimension(d) + " is negative");
    }
    if (shape[d] == 0) {
      empty = true;
      continue;
    }
    const auto next = checked_mul(product, shape[d]);
    if (!next) {
      return Status(Code::kInvalidArgument,
                    "size " + std::to_string(shape[d]) + at_dimension(d) + " makes more elements than 63 bits count");
    }
    product = *next;
  }
  return empty ? 0 : product;
}

Result<Box> make_box(std::vector<std::int64_t> offset, std::vector<std::int64_t> extent) {
  Box box{std::move(offset), std::move(extent)};
  SY_RETURN_IF_ERROR(check_numbers(box));
  return box;
}

Status check_box(const Box& box, std::span<const std::int64_t> shape) {
  SY_RETURN_IF_ERROR(check_numbers(box));
  if (box.rank() != shape.size()) {
    return Status(Code::kInvalidArgument, "a box of rank " + std::to_string(box.rank()) + " in a tensor of rank " +
                                              std::to_string(shape.size()));
  }
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (box.offset[d] + box.extent[d] > shape[d]) {
      return Status(Code::kInvalidArgument, "a box ends at " + std::to_string(box.offset[d] + box.extent[d]) +
                                                at_dimension(d) + ", where the tensor's size is " +
                                                std::to_string(shape[d]));
    }
  }
  return {};
}

Box whole(std::span<const std::int64_t> shape) {
  return {std::vector<std::int64_t>(shape.size(), 0), std::vector<std::int64_t>(shape.begin(), shape.end())};
}

std::int64_t volume(const Box& box) {
  if (is_empty(box)) return 0;
  std::int64_t product = 1;
  for (const std::int64_t size : box.extent) {
    const auto next = checked_mul(product, size);
    SY_CHECK(next.has_value(), "the volume of a box that was not checked");
    product = *next;
  }
  return product;
}

bool is_empty(const Box& box) { return std::find(box.extent.begin(), box.extent.end(), 0) != box.extent.end(); }

std::optional<Box> intersection(const Box& a, const Box& b) {
  check_ranks(a.rank(), b.rank());
  Box both{std::vector<std::int64_t>(a.rank()), std::vector<std::int64_t>(a.rank())};
  for (std::size_t d = 0; d < a.rank(); ++d) {
    const std::int64_t begin = std::max(a.offset[d], b.offset[d]);
    const std::int64_t end = std::min(a.offset[d] + a.extent[d], b.offset[d] + b.extent[d]);
    if (begin >= end) return std::nullopt;
    both.offset[d] = begin;
    both.extent[d] = end - begin;
  }
  return both;
}

bool contains(const Box& outer, const Box& inner) {
  check_ranks(outer.rank(), inner.rank());
  if (is_empty(inner)) return true;
  for (std::size_t d = 0; d < outer.rank(); ++d) {
    if (inner.offset[d] < outer.offset[d]) return false;
    if (inner.offset[d] + inner.extent[d] > outer.offset[d] + outer.extent[d]) return false;
  }
  return true;
}

std::vector<std::int64_t> row_major_strides(std::span<const std::int64_t> shape) {
  std::vector<std::int64_t> strides(shape.size());
  std::int64_t stride = 1;
  for (std::size_t d = shape.size(); d-- > 0;) {
    strides[d] = stride;
    const auto next = checked_mul(stride, std::max<std::int64_t>(shape[d], 1));
    SY_CHECK(next.has_value(), "the strides of a shape that was not checked");
    stride = *next;
  }
  return strides;
}

std::int64_t element_number(std::span<const std::int64_t> shape, std::span<const std::int64_t> position) {
  check_ranks(shape.size(), position.size());
  std::int64_t number = 0;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    SY_CHECK(position[d] >= 0 && position[d] < shape[d], "a position outside of its tensor");
    number = number * shape[d] + position[d];
  }
  return number;
}

std::vector<std::int64_t> element_position(std::span<const std::int64_t> shape, std::int64_t number) {
  std::vector<std::int64_t> position(shape.size());
  for (std::size_t d = shape.size(); d-- > 0;) {
    SY_CHECK(shape[d] > 0, "an element of an empty tensor");
    position[d] = number % shape[d];
    number /= shape[d];
  }
  SY_CHECK(number == 0, "an element beyond its tensor");
  return position;
}

std::vector<Box> missing(const Box& target, std::span<const Box> boxes) {
  std::vector<Box> left;
  if (!is_empty(target)) left.push_back(target);
  std::vector<Box> next;
  for (const Box& box : boxes) {
    if (left.empty()) break;
    next.clear();
    for (Box& part : left) {
      if (const auto hole = intersection(part, box)) {
        append_difference(std::move(part), *hole, next);
      } else {
        next.push_back(std::move(part));
      }
    }
    left.swap(next);
  }
  // Disjoint boxes have different first elements, and those compare as their offsets do.
  std::sort(left.begin(), left.end(), [](const Box& a, const Box& b) { return a.offset < b.offset; });
  return left;
}

std::optional<std::pair<std::size_t, std::size_t>> find_overlap(std::span<const Box> boxes) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    check_ranks(boxes[i].rank(), boxes[0].rank());
    if (!is_empty(boxes[i])) order.push_back(i);
  }
  if (order.size() < 2) return std::nullopt;
  const std::size_t rank = boxes[0].rank();
  const std::size_t along = sweep_dimension(rank, boxes);
  const auto begin_of = [&](std::size_t i) { return rank == 0 ? 0 : boxes[i].offset[along]; };
  const auto end_of = [&](std::size_t i) { return rank == 0 ? 1 : begin_of(i) + boxes[i].extent[along]; };
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return std::pair(begin_of(a), a) < std::pair(begin_of(b), b); });

  std::optional<std::pair<std::size_t, std::size_t>> found;
  const auto comes_too_late = [&](std::size_t i) { return found && i > found->second; };
  std::vector<std::size_t> open;  // boxes that reach to where the sweep is, disjoint but for what comes too late
  for (const std::size_t next : order) {
    if (comes_too_late(next)) continue;
    std::erase_if(open, [&](std::size_t i) { return end_of(i) <= begin_of(next) || comes_too_late(i); });
    for (const std::size_t other : open) {
      const std::pair<std::size_t, std::size_t> pair = std::minmax(next, other);
      if (found && std::pair(found->second, found->first) < std::pair(pair.second, pair.first)) continue;
      if (share_an_element(boxes[next], boxes[other])) found = pair;
    }
    open.push_back(next);
  }
  return found;
}

std::optional<CoverProblem> check_exact_cover(const Box& target, std::span<const Box> boxes) {
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    if (!contains(target, boxes[i])) return CoverProblem{CoverProblem::Kind::kOutside, boxes[i], i, i};
  }
  if (const auto pair = find_overlap(boxes)) {
    return CoverProblem{CoverProblem::Kind::kOverlap, *intersection(boxes[pair->first], boxes[pair->second]),
                        pair->first, pair->second};
  }
  // Disjoint and inside: their volumes add up to no more than the target's.
  std::int64_t held = 0;
  for (const Box& box : boxes) held += volume(box);
  if (held == volume(target)) return std::nullopt;
  return CoverProblem{CoverProblem::Kind::kMissing, missing(target, boxes).front(), 0, 0};
}

std::vector<Box> boxes_of_flat_range(std::span<const std::int64_t> shape, std::int64_t start, std::int64_t stop) {
  SY_CHECK(0 <= start && start <= stop && stop <= volume(whole(shape)), "a flat range outside of its tensor");
  std::vector<Box> boxes;
  if (shape.empty()) {
    if (start < stop) boxes.emplace_back();
    return boxes;
  }
  const std::vector<std::int64_t> strides = row_major_strides(shape);
  while (start < stop) {
    // The outermost dimension of which a whole step begins here and fits; the last one always does.
    std::size_t along = 0;
    while (start % strides[along] != 0 || stop - start < strides[along]) ++along;
    Box box{element_position(shape, start), std::vector<std::int64_t>(shape.begin(), shape.end())};
    std::fill_n(box.extent.begin(), along, 1);
    box.extent[along] = std::min((stop - start) / strides[along], shape[along] - box.offset[along]);
    start += box.extent[along] * strides[along];
    boxes.push_back(std::move(box));
  }
  return boxes;
}

ContiguousRuns contiguous_runs(std::span<const std::int64_t> shape, const Box& box) {
  check_ranks(shape.size(), box.rank());
  SY_CHECK(contains(whole(shape), box), "a box outside of its tensor");
  ContiguousRuns runs;
  if (is_empty(box)) return runs;
  std::size_t first_inner = box.rank();
  runs.elements = 1;
  while (first_inner > 0) {
    --first_inner;
    runs.elements *= box.extent[first_inner];
    if (box.extent[first_inner] != shape[first_inner]) break;
  }
  runs.outer_rank = first_inner;
  runs.count = std::accumulate(box.extent.begin(), box.extent.begin() + static_cast<std::ptrdiff_t>(first_inner),
                               std::int64_t{1}, std::multiplies<>());
  return runs;
}

std::int64_t run_start(std::span<const std::int64_t> shape, const Box& box, const ContiguousRuns& runs,
                       std::int64_t index) {
  SY_CHECK(index >= 0 && index < runs.count, "a run that the box does not have");
  std::vector<std::int64_t> position = box.offset;
  for (std::size_t d = runs.outer_rank; d-- > 0;) {
    position[d] += index % box.extent[d];
    index /= box.extent[d];
  }
  return element_number(shape, position);
}

}  // namespace steelyard::geometry
