#include "formats/fragment_boxes.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <set>
#include <vector>

namespace steelyard::formats {
namespace {

FragmentEntry box(std::vector<std::int64_t> offset, std::vector<std::int64_t> shape) {
  return {"t", std::move(offset), std::move(shape), {}};
}

TEST(FragmentBoxes, NeighboursDoNotOverlap) {
  EXPECT_FALSE(find_overlap({}).has_value());
  const std::vector<FragmentEntry> grid = {box({0, 0}, {2, 3}), box({0, 3}, {2, 1}), box({2, 0}, {5, 4})};
  EXPECT_FALSE(find_overlap(grid).has_value());
}

TEST(FragmentBoxes, ScalarsAlwaysOverlap) {
  const std::vector<FragmentEntry> twice = {box({}, {}), box({}, {})};
  EXPECT_TRUE(find_overlap(twice).has_value());
}

TEST(FragmentBoxes, ALargeGridIsSweptAlongItsLongSide) {
  std::vector<FragmentEntry> grid;
  for (std::int64_t i = 0; i < 4; ++i) {
    for (std::int64_t k = 0; k < 20'000; ++k) grid.push_back(box({i, k}, {1, 1}));
  }
  EXPECT_FALSE(find_overlap(grid).has_value());
  grid.back().local_shape[0] = 1;
  grid.back().global_offset[1] -= 1;
  const auto found = find_overlap(grid);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(*found, (std::pair<std::size_t, std::size_t>(79'998, 79'999)));
}

RC_GTEST_PROP(FragmentBoxes, AgreesWithCountingElements, ()) {
  const auto rank = *rc::gen::inRange<std::size_t>(1, 4);
  const auto number = *rc::gen::inRange<std::size_t>(0, 6);
  std::vector<FragmentEntry> boxes;
  std::multiset<std::vector<std::int64_t>> elements;
  for (std::size_t i = 0; i < number; ++i) {
    std::vector<std::int64_t> offset;
    std::vector<std::int64_t> shape;
    for (std::size_t k = 0; k < rank; ++k) {
      offset.push_back(*rc::gen::inRange<std::int64_t>(0, 6));
      shape.push_back(*rc::gen::inRange<std::int64_t>(1, 4));
    }
    boxes.push_back(box(offset, shape));
    std::vector<std::int64_t> at = offset;
    for (bool more = true; more;) {
      elements.insert(at);
      more = false;
      for (std::size_t k = 0; k < rank && !more; ++k) {
        more = ++at[k] < offset[k] + shape[k];
        if (!more) at[k] = offset[k];
      }
    }
  }
  bool repeated = false;
  for (auto it = elements.begin(); it != elements.end(); it = elements.upper_bound(*it)) {
    repeated = repeated || elements.count(*it) > 1;
  }
  const auto found = find_overlap(boxes);
  RC_ASSERT(found.has_value() == repeated);
  if (found) RC_ASSERT(found->first < found->second);
}

}  // namespace
}  // namespace steelyard::formats
