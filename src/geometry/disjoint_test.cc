#include "geometry/disjoint.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

namespace steelyard::geometry {
namespace {

struct FlatBoxes {
  std::size_t rank = 0;
  std::size_t count = 0;
  std::vector<std::int64_t> begins;
  std::vector<std::int64_t> ends;

  void add(std::span<const std::int64_t> begin, std::span<const std::int64_t> extent) {
    for (std::size_t d = 0; d < rank; ++d) {
      begins.push_back(begin[d]);
      ends.push_back(begin[d] + extent[d]);
    }
    ++count;
  }
  bool overlap(std::size_t a, std::size_t b) const {
    for (std::size_t d = 0; d < rank; ++d) {
      if (begins[a * rank + d] >= ends[b * rank + d] || begins[b * rank + d] >= ends[a * rank + d]) return false;
    }
    return true;
  }
  bool any_overlap() const {
    for (std::size_t a = 0; a < count; ++a) {
      for (std::size_t b = a + 1; b < count; ++b) {
        if (overlap(a, b)) return true;
      }
    }
    return false;
  }
  auto find() const { return find_overlapping_pair(rank, begins, ends, count); }
};

/// side^rank boxes of 3 elements a side, in random order.
FlatBoxes grid(std::size_t rank, std::int64_t side) {
  FlatBoxes boxes;
  boxes.rank = rank;
  std::size_t cells = 1;
  for (std::size_t d = 0; d < rank; ++d) cells *= static_cast<std::size_t>(side);
  std::vector<std::size_t> order(cells);
  std::iota(order.begin(), order.end(), 0U);
  std::mt19937 random(7);
  std::ranges::shuffle(order, random);
  for (std::size_t cell : order) {
    std::vector<std::int64_t> begin(rank);
    for (std::size_t d = 0; d < rank; ++d) {
      begin[d] = 3 * static_cast<std::int64_t>(cell % static_cast<std::size_t>(side));
      cell /= static_cast<std::size_t>(side);
    }
    boxes.add(begin, std::vector<std::int64_t>(rank, 3));
  }
  return boxes;
}

TEST(FindOverlappingPair, OneBoxAndNone) {
  EXPECT_EQ(find_overlapping_pair(2, {}, {}, 0), std::nullopt);
  EXPECT_EQ(grid(2, 1).find(), std::nullopt);
}

TEST(FindOverlappingPair, TwoScalarsAreTheSameElement) {
  EXPECT_EQ(find_overlapping_pair(0, {}, {}, 2), std::pair(std::size_t{0}, std::size_t{1}));
  EXPECT_EQ(find_overlapping_pair(0, {}, {}, 1), std::nullopt);
}

TEST(FindOverlappingPair, ALargeGridOfEveryRankIsDisjoint) {
  for (const auto& [rank, side] : {std::pair(1U, 100'000), std::pair(2U, 317), std::pair(3U, 47), std::pair(5U, 10)}) {
    EXPECT_EQ(grid(rank, side).find(), std::nullopt) << rank;
  }
}

TEST(FindOverlappingPair, OneStrayBoxInALargeGridIsFound) {
  for (const auto& [rank, side] : {std::pair(1U, 100'000), std::pair(2U, 317), std::pair(3U, 47)}) {
    FlatBoxes boxes = grid(rank, side);
    // One element reaches over into a neighbour.
    const std::vector<std::int64_t> inner(rank, 3 * (side / 2));
    for (std::size_t i = 0; i < boxes.count; ++i) {
      if (std::equal(inner.begin(), inner.end(), boxes.begins.begin() + static_cast<std::ptrdiff_t>(i * rank))) {
        --boxes.begins[i * rank];
      }
    }
    const auto pair = boxes.find();
    ASSERT_TRUE(pair.has_value()) << rank;
    EXPECT_LT(pair->first, pair->second);
    EXPECT_TRUE(boxes.overlap(pair->first, pair->second));
  }
}

TEST(FindOverlappingPair, SticksThatCrossWithoutTouching) {
  // Bundles along each axis: no plane separates them without cutting many.
  FlatBoxes boxes;
  boxes.rank = 3;
  constexpr std::int64_t kSide = 20;
  for (std::int64_t i = 0; i < kSide; ++i) {
    for (std::int64_t j = 0; j < kSide; ++j) {
      boxes.add(std::vector<std::int64_t>{0, 2 * i, 2 * j}, std::vector<std::int64_t>{2 * kSide, 1, 1});
      boxes.add(std::vector<std::int64_t>{2 * i, 0, 2 * j + 1}, std::vector<std::int64_t>{1, 2 * kSide, 1});
      boxes.add(std::vector<std::int64_t>{2 * i + 1, 2 * j + 1, 0}, std::vector<std::int64_t>{1, 1, 2 * kSide});
    }
  }
  EXPECT_EQ(boxes.find(), std::nullopt);
  boxes.add(std::vector<std::int64_t>{7, 7, 7}, std::vector<std::int64_t>{1, 1, 2});
  EXPECT_EQ(boxes.find().has_value(), boxes.any_overlap());
  EXPECT_TRUE(boxes.find().has_value());
}

TEST(FindOverlappingPair, TheEdgeOfTheNumbers) {
  constexpr std::int64_t kMax = INT64_MAX;
  FlatBoxes boxes;
  boxes.rank = 1;
  for (const std::int64_t begin : {std::int64_t{0}, kMax / 2, kMax - 1}) {
    boxes.add(std::vector{begin}, std::vector<std::int64_t>{1});
  }
  EXPECT_EQ(boxes.find(), std::nullopt);
  boxes.add(std::vector<std::int64_t>{1}, std::vector{kMax - 1});
  EXPECT_TRUE(boxes.find().has_value());
}

RC_GTEST_PROP(FindOverlappingPair, AgreesWithComparingAll, ()) {
  FlatBoxes boxes;
  boxes.rank = *rc::gen::inRange<std::size_t>(1, 5);
  const auto count = *rc::gen::inRange<std::size_t>(0, 200);
  const auto space = *rc::gen::elementOf(std::vector<std::int64_t>{4, 40, 4000});
  const auto extents = *rc::gen::elementOf(std::vector<std::int64_t>{1, 3, 12});
  for (std::size_t i = 0; i < count; ++i) {
    std::vector<std::int64_t> begin(boxes.rank);
    std::vector<std::int64_t> extent(boxes.rank);
    for (std::size_t d = 0; d < boxes.rank; ++d) {
      begin[d] = *rc::gen::inRange<std::int64_t>(0, space);
      extent[d] = *rc::gen::inRange<std::int64_t>(1, extents + 1);
    }
    boxes.add(begin, extent);
  }
  const auto pair = boxes.find();
  RC_ASSERT(pair.has_value() == boxes.any_overlap());
  if (pair) {
    RC_ASSERT(pair->first < pair->second);
    RC_ASSERT(boxes.overlap(pair->first, pair->second));
  }
}

// Any disjoint layout, made by cutting; then one box grown.
RC_GTEST_PROP(FindOverlappingPair, CutsOfATensorAreDisjointUntilOneGrows, ()) {
  const auto rank = *rc::gen::inRange<std::size_t>(1, 5);
  std::vector<std::vector<std::int64_t>> begins = {std::vector<std::int64_t>(rank, 0)};
  std::vector<std::vector<std::int64_t>> extents = {std::vector<std::int64_t>(rank, 64)};
  const auto cuts = *rc::gen::inRange(0, 150);
  for (int i = 0; i < cuts; ++i) {
    const auto box = *rc::gen::inRange<std::size_t>(0, begins.size());
    const auto d = *rc::gen::inRange<std::size_t>(0, rank);
    if (extents[box][d] < 2) continue;
    const auto at = *rc::gen::inRange<std::int64_t>(1, extents[box][d]);
    begins.push_back(begins[box]);
    extents.push_back(extents[box]);
    begins.back()[d] += at;
    extents.back()[d] -= at;
    extents[box][d] = at;
  }
  FlatBoxes boxes;
  boxes.rank = rank;
  for (std::size_t i = 0; i < begins.size(); ++i) boxes.add(begins[i], extents[i]);
  RC_ASSERT(boxes.find() == std::nullopt);
  const auto grown = *rc::gen::inRange<std::size_t>(0, boxes.count);
  const auto d = *rc::gen::inRange<std::size_t>(0, rank);
  if (boxes.begins[grown * rank + d] == 0) return;
  --boxes.begins[grown * rank + d];
  const auto pair = boxes.find();
  RC_ASSERT(pair.has_value());
  RC_ASSERT(pair->first == grown || pair->second == grown);
}

}  // namespace
}  // namespace steelyard::geometry
