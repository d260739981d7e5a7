#include "geometry/box.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <map>
#include <set>

namespace steelyard::geometry {
namespace {

using testing::HasSubstr;

// The plain model: a box is the set of the row-major numbers of its elements in a tensor that holds all boxes.

std::set<std::int64_t> elements(const Shape& shape, const Box& box) {
  std::set<std::int64_t> numbers;
  const std::int64_t total = checked_volume(shape).value();
  for (std::int64_t n = 0; n < total; ++n) {
    const auto position = element_position(shape, n);
    bool inside = true;
    for (std::size_t d = 0; d < shape.size(); ++d) {
      inside = inside && position[d] >= box.offset[d] && position[d] < box.offset[d] + box.extent[d];
    }
    if (inside) numbers.insert(n);
  }
  return numbers;
}

/// Every number of the range is as likely: the generators of rapidcheck prefer small ones while a test is young.
template <typename T>
T pick(T first, T end) {
  return *rc::gen::resize(rc::kNominalSize, rc::gen::inRange(first, end));
}

/// Empty things are interesting, but two that are empty have nothing to do with each other.
bool seldom() { return pick(0, 16) == 0; }

Shape any_shape(std::int64_t smallest = 0) {
  const auto rank = pick<std::size_t>(0, 5);
  Shape shape(rank);
  for (auto& size : shape) size = smallest == 0 && seldom() ? 0 : pick<std::int64_t>(1, 5);
  return shape;
}

/// A box inside of the shape, seldom empty.
Box any_box(const Shape& shape) {
  Box box{Shape(shape.size()), Shape(shape.size())};
  for (std::size_t d = 0; d < shape.size(); ++d) {
    box.offset[d] = pick<std::int64_t>(0, std::max<std::int64_t>(shape[d], 1));
    const std::int64_t room = shape[d] - box.offset[d];
    box.extent[d] = room == 0 || seldom() ? 0 : pick<std::int64_t>(1, room + 1);
  }
  return box;
}

std::vector<Box> any_boxes(const Shape& shape) {
  std::vector<Box> boxes(pick<std::size_t>(0, 6));
  for (auto& box : boxes) box = any_box(shape);
  return boxes;
}

/// Cuts a box into disjoint parts at random, in random order.
std::vector<Box> any_cut(const Box& whole_box) {
  std::vector<Box> parts = {whole_box};
  for (auto cuts = pick(0, 8); cuts > 0; --cuts) {
    const auto which = pick<std::size_t>(0, parts.size());
    if (parts[which].rank() == 0) break;
    const auto d = pick<std::size_t>(0, parts[which].rank());
    const auto at = pick<std::int64_t>(0, parts[which].extent[d] + 1);
    Box right = parts[which];
    right.offset[d] += at;
    right.extent[d] -= at;
    parts[which].extent[d] = at;
    parts.push_back(right);
  }
  for (std::size_t i = parts.size(); i > 1; --i) std::swap(parts[i - 1], parts[pick<std::size_t>(0, i)]);
  return parts;
}

void expect_property(const std::function<void()>& property) { EXPECT_TRUE(rc::check(property)); }

TEST(CheckedVolume, EdgesAndRefusals) {
  const auto volume_of = [](Shape shape) { return checked_volume(shape); };
  EXPECT_EQ(volume_of({}).value(), 1);
  EXPECT_EQ(volume_of({3, 4}).value(), 12);
  EXPECT_EQ(volume_of({0}).value(), 0);
  EXPECT_EQ(volume_of({INT64_MAX}).value(), INT64_MAX);
  EXPECT_EQ(volume_of({INT64_MAX, 0}).value(), 0);
  EXPECT_THAT(volume_of({2, -1}).status().message(), HasSubstr("size -1 in dimension 1 is negative"));
  EXPECT_THAT(volume_of({1LL << 32, 1LL << 31}).status().message(), HasSubstr("dimension 1 makes more elements"));
  // Strides would not exist, although there is no element.
  EXPECT_EQ(volume_of({0, 1LL << 62, 4}).code(), Code::kInvalidArgument);
}

TEST(MakeBox, Refusals) {
  EXPECT_TRUE(make_box({}, {}).ok());
  EXPECT_TRUE(make_box({INT64_MAX}, {0}).ok());
  EXPECT_THAT(make_box({1}, {}).status().message(), HasSubstr("1 offsets and 0 extents"));
  EXPECT_THAT(make_box({0, -1}, {1, 1}).status().message(), HasSubstr("offset -1 in dimension 1"));
  EXPECT_THAT(make_box({0}, {-1}).status().message(), HasSubstr("negative"));
  EXPECT_THAT(make_box({INT64_MAX}, {1}).status().message(), HasSubstr("beyond 63 bits"));
  EXPECT_EQ(make_box({0, 0}, {1LL << 40, 1LL << 40}).code(), Code::kInvalidArgument);
}

TEST(CheckBox, AgainstAShape) {
  EXPECT_TRUE(check_box({{1, 0}, {2, 4}}, Shape{3, 4}).ok());
  EXPECT_TRUE(check_box({{3}, {0}}, Shape{3}).ok());
  EXPECT_THAT(check_box({{1}, {1}}, Shape{3, 4}).message(), HasSubstr("rank 1 in a tensor of rank 2"));
  EXPECT_THAT(check_box({{1, 1}, {2, 4}}, Shape{3, 4}).message(),
              HasSubstr("ends at 5 in dimension 1, where the tensor's size is 4"));
}

TEST(Volume, CountsElements) {
  expect_property([] {
    const auto shape = any_shape();
    const auto box = any_box(shape);
    RC_ASSERT(volume(box) == static_cast<std::int64_t>(elements(shape, box).size()));
    RC_ASSERT(is_empty(box) == elements(shape, box).empty());
    RC_ASSERT(check_box(box, shape).ok());
  });
}

TEST(Elements, NumbersAndPositionsAreInverse) {
  expect_property([] {
    const auto shape = any_shape(1);
    const auto strides = row_major_strides(shape);
    for (std::int64_t n = 0; n < volume(whole(shape)); ++n) {
      const auto position = element_position(shape, n);
      RC_ASSERT(element_number(shape, position) == n);
      std::int64_t by_strides = 0;
      for (std::size_t d = 0; d < shape.size(); ++d) by_strides += position[d] * strides[d];
      RC_ASSERT(by_strides == n);
    }
  });
  EXPECT_EQ(row_major_strides(Shape{2, 0, 3}), (Shape{3, 3, 1}));
}

TEST(Intersection, IsTheCommonElements) {
  expect_property([] {
    const auto shape = any_shape();
    const auto a = any_box(shape);
    const auto b = any_box(shape);
    const auto a_elements = elements(shape, a);
    const auto b_elements = elements(shape, b);
    std::set<std::int64_t> common;
    std::set_intersection(a_elements.begin(), a_elements.end(), b_elements.begin(), b_elements.end(),
                          std::inserter(common, common.begin()));
    const auto both = intersection(a, b);
    RC_ASSERT(both.has_value() == !common.empty());
    if (both) RC_ASSERT(elements(shape, *both) == common);
    RC_ASSERT(contains(a, b) ==
              std::includes(a_elements.begin(), a_elements.end(), b_elements.begin(), b_elements.end()));
  });
}

TEST(Missing, IsWhatNoBoxHolds) {
  expect_property([] {
    const auto shape = any_shape();
    const auto target = any_box(shape);
    const auto boxes = any_boxes(shape);
    auto left = elements(shape, target);
    for (const auto& box : boxes) {
      for (const auto n : elements(shape, box)) left.erase(n);
    }
    std::set<std::int64_t> seen;
    std::int64_t last_first = -1;
    for (const auto& box : missing(target, boxes)) {
      const auto numbers = elements(shape, box);
      RC_ASSERT(!numbers.empty());
      RC_ASSERT(*numbers.begin() > last_first);
      last_first = *numbers.begin();
      for (const auto n : numbers) RC_ASSERT(seen.insert(n).second);
    }
    RC_ASSERT(seen == left);
  });
}

TEST(Overlap, AgreesWithEveryPair) {
  expect_property([] {
    const auto shape = any_shape();
    const auto boxes = any_boxes(shape);
    std::optional<std::pair<std::size_t, std::size_t>> wanted;
    for (std::size_t second = 0; second < boxes.size() && !wanted; ++second) {
      for (std::size_t first = 0; first < second && !wanted; ++first) {
        if (intersection(boxes[first], boxes[second])) wanted = std::pair(first, second);
      }
    }
    RC_ASSERT(find_overlap(boxes) == wanted);
  });
}

TEST(Overlap, ALargeGridIsSweptAlongItsLongSide) {
  std::vector<Box> grid;
  for (std::int64_t i = 0; i < 4; ++i) {
    for (std::int64_t k = 0; k < 20'000; ++k) grid.push_back({{i, k}, {1, 1}});
  }
  EXPECT_FALSE(find_overlap(grid).has_value());
  grid.back().offset[1] -= 1;
  EXPECT_EQ(find_overlap(grid), (std::pair<std::size_t, std::size_t>(79'998, 79'999)));
}

TEST(Overlap, ManyThatAllOverlapAreNotComparedWithEachOther) {
  constexpr std::int64_t kBoxes = 200'000;
  std::vector<Box> boxes;
  for (std::int64_t i = 0; i < kBoxes; ++i) boxes.push_back({{i}, {kBoxes}});
  EXPECT_EQ(find_overlap(boxes), (std::pair<std::size_t, std::size_t>(0, 1)));
  std::reverse(boxes.begin(), boxes.end());
  EXPECT_EQ(find_overlap(boxes), (std::pair<std::size_t, std::size_t>(0, 1)));
}

TEST(ExactCover, CutsOfABoxCoverIt) {
  expect_property([] {
    const auto shape = any_shape();
    const auto target = any_box(shape);
    RC_ASSERT(!check_exact_cover(target, any_cut(target)).has_value());
  });
}

TEST(ExactCover, AgreesWithCountingEveryElement) {
  expect_property([] {
    const auto shape = any_shape(1);
    const auto target = any_box(shape);
    auto boxes = any_cut(target);
    // One change that may spoil it.
    if (*rc::gen::arbitrary<bool>()) boxes.push_back(any_box(shape));
    if (*rc::gen::arbitrary<bool>()) boxes.pop_back();

    const auto wanted = elements(shape, target);
    std::map<std::int64_t, std::vector<std::size_t>> holders;
    std::optional<std::size_t> outside;
    for (std::size_t i = 0; i < boxes.size(); ++i) {
      for (const auto n : elements(shape, boxes[i])) {
        holders[n].push_back(i);
        if (!wanted.contains(n) && !outside) outside = i;
      }
    }
    std::optional<std::pair<std::size_t, std::size_t>> overlap;  // second, first
    for (const auto& [n, who] : holders) {
      for (std::size_t i = 0; i + 1 < who.size(); ++i) {
        for (std::size_t j = i + 1; j < who.size(); ++j) {
          const auto pair = std::pair(who[j], who[i]);
          overlap = overlap ? std::min(*overlap, pair) : pair;
        }
      }
    }
    std::optional<std::int64_t> first_missing;
    for (const auto n : wanted) {
      if (!holders.contains(n) && !first_missing) first_missing = n;
    }

    const auto problem = check_exact_cover(target, boxes);
    if (outside) {
      RC_ASSERT(problem.has_value());
      RC_ASSERT(problem->kind == CoverProblem::Kind::kOutside);
      RC_ASSERT(problem->first == *outside);
    } else if (overlap) {
      RC_ASSERT(problem.has_value());
      RC_ASSERT(problem->kind == CoverProblem::Kind::kOverlap);
      RC_ASSERT(std::pair(problem->second, problem->first) == *overlap);
      RC_ASSERT(problem->box == *intersection(boxes[problem->first], boxes[problem->second]));
    } else if (first_missing) {
      RC_ASSERT(problem.has_value());
      RC_ASSERT(problem->kind == CoverProblem::Kind::kMissing);
      RC_ASSERT(element_number(shape, problem->box.offset) == *first_missing);
    } else {
      RC_ASSERT(!problem.has_value());
    }
  });
}

TEST(ExactCover, Scalars) {
  const Box scalar;
  EXPECT_FALSE(check_exact_cover(scalar, std::vector<Box>{scalar}).has_value());
  EXPECT_EQ(check_exact_cover(scalar, {})->kind, CoverProblem::Kind::kMissing);
  EXPECT_EQ(check_exact_cover(scalar, std::vector<Box>{scalar, scalar})->kind, CoverProblem::Kind::kOverlap);
}

TEST(FlatRange, HoldsExactlyTheRangeInOrder) {
  expect_property([] {
    const auto shape = any_shape();
    const std::int64_t total = volume(whole(shape));
    const auto start = pick<std::int64_t>(0, total + 1);
    const auto stop = pick<std::int64_t>(start, total + 1);
    const auto boxes = boxes_of_flat_range(shape, start, stop);
    std::int64_t next = start;
    for (const auto& box : boxes) {
      const auto runs = contiguous_runs(shape, box);
      RC_ASSERT(runs.count == 1);
      RC_ASSERT(run_start(shape, box, runs, 0) == next);
      next += runs.elements;
    }
    RC_ASSERT(next == stop);
    RC_ASSERT(boxes.size() <= std::max<std::size_t>(2 * shape.size(), 2) - 1);
  });
}

/// The fewest disjoint boxes that hold exactly the elements in `left`, by trying all.
std::size_t fewest(const std::vector<std::uint32_t>& all_boxes, std::uint32_t left,
                   std::map<std::uint32_t, std::size_t>& known) {
  if (left == 0) return 0;
  if (const auto found = known.find(left); found != known.end()) return found->second;
  std::size_t best = 32;
  const std::uint32_t lowest = left & (~left + 1);
  for (const std::uint32_t box : all_boxes) {
    if ((box & lowest) != 0 && (box & ~left) == 0) best = std::min(best, 1 + fewest(all_boxes, left & ~box, known));
  }
  return known[left] = best;
}

TEST(FlatRange, NoSmallerSetOfRunsExists) {
  for (const Shape& shape : {Shape{5}, Shape{3, 3}, Shape{2, 5}, Shape{2, 2, 2}, Shape{2, 3, 2}, Shape{3, 1, 3},
                             Shape{1, 6}, Shape{2, 1, 2, 2}}) {
    const std::int64_t total = volume(whole(shape));
    // Every box that is a run, as the set of its elements.
    std::vector<std::uint32_t> all_boxes;
    for (std::int64_t first = 0; first < total; ++first) {
      for (std::int64_t last = first; last < total; ++last) {
        const auto from = element_position(shape, first);
        const auto to = element_position(shape, last);
        Box box{from, Shape(shape.size())};
        bool real = true;
        for (std::size_t d = 0; d < shape.size(); ++d) {
          box.extent[d] = to[d] - from[d] + 1;
          real = real && box.extent[d] > 0;
        }
        if (!real) continue;
        std::uint32_t mask = 0;
        for (const auto n : elements(shape, box)) mask |= 1U << n;
        if (mask == ((2U << last) - 1) - ((1U << first) - 1)) all_boxes.push_back(mask);
      }
    }
    std::map<std::uint32_t, std::size_t> known;
    for (std::int64_t start = 0; start < total; ++start) {
      for (std::int64_t stop = start + 1; stop <= total; ++stop) {
        const std::uint32_t range = ((1U << stop) - 1) & ~((1U << start) - 1);
        EXPECT_EQ(boxes_of_flat_range(shape, start, stop).size(), fewest(all_boxes, range, known))
            << testing::PrintToString(shape) << " " << start << " " << stop;
      }
    }
  }
}

TEST(ContiguousRuns, AreTheLongestRuns) {
  expect_property([] {
    const auto shape = any_shape();
    const auto box = any_box(shape);
    const auto numbers = elements(shape, box);
    std::vector<std::pair<std::int64_t, std::int64_t>> plain;  // start, length
    for (const auto n : numbers) {
      if (!plain.empty() && plain.back().first + plain.back().second == n) {
        ++plain.back().second;
      } else {
        plain.emplace_back(n, 1);
      }
    }
    const auto runs = contiguous_runs(shape, box);
    RC_ASSERT(runs.count == static_cast<std::int64_t>(plain.size()));
    for (std::int64_t i = 0; i < runs.count; ++i) {
      RC_ASSERT(run_start(shape, box, runs, i) == plain[static_cast<std::size_t>(i)].first);
      RC_ASSERT(runs.elements == plain[static_cast<std::size_t>(i)].second);
    }
  });
}

TEST(ContiguousRuns, KnownCases) {
  EXPECT_EQ(contiguous_runs(Shape{}, Box{}), (ContiguousRuns{1, 1, 0}));
  EXPECT_EQ(contiguous_runs(Shape{4, 6}, {{1, 0}, {2, 6}}), (ContiguousRuns{12, 1, 0}));
  EXPECT_EQ(contiguous_runs(Shape{4, 6}, {{1, 2}, {2, 3}}), (ContiguousRuns{3, 2, 1}));
  EXPECT_EQ(contiguous_runs(Shape{4, 6, 2}, {{0, 2, 0}, {4, 3, 2}}), (ContiguousRuns{6, 4, 1}));
  EXPECT_EQ(contiguous_runs(Shape{4, 0}, {{0, 0}, {4, 0}}), (ContiguousRuns{0, 0, 0}));
}

TEST(BoxDeathTest, ProgrammersErrorsAreNotAnswered) {
  EXPECT_DEATH(static_cast<void>(intersection({{0}, {1}}, {{0, 0}, {1, 1}})), "ranks");
  EXPECT_DEATH(static_cast<void>(boxes_of_flat_range(Shape{2}, 0, 3)), "outside");
  EXPECT_DEATH(static_cast<void>(contiguous_runs(Shape{2}, {{1}, {2}})), "outside");
}

}  // namespace
}  // namespace steelyard::geometry
