#include "reshard/segments.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "reshard/test_models.h"
#include "reshard/transfer_plan.h"

namespace steelyard::reshard {
namespace {

using testing::TestFragment;
using testing::TestModel;

struct Columns {
  explicit Columns(std::size_t count) : region(count), source(count), target(count), bytes(count) {}
  SegmentColumns spans() { return {region, source, target, bytes}; }
  bool operator==(const Columns&) const = default;

  std::vector<std::uint32_t> region;
  std::vector<std::uint64_t> source;
  std::vector<std::uint64_t> target;
  std::vector<std::uint64_t> bytes;
};

/// (300, 700, 2) from one piece into quarters: each has 300 x 350 segments of one element, in two loops; and a second
/// tensor of one run between them in the order.
TransferPlan many_segments() {
  TestModel source{.tensors = {{"w", {300, 700, 2}}, {"x", {5}}},
                   .fragments = {{"s", "w", {0, 0, 0}, {300, 700, 2}, {}}, {"y", "x", {0}, {5}, {}}}};
  TestModel target{.tensors = source.tensors, .fragments = {{"d2", "x", {0}, {5}, {}}}};
  for (const auto& [id, row, column] : {std::tuple{"d0", 0, 0}, {"d1", 350, 0}, {"d3", 0, 1}, {"d4", 350, 1}}) {
    target.fragments.push_back({id, "w", {0, row, column}, {300, 350, 1}, {}});
  }
  return *plan_transfer(*source.build(), *target.build());
}

/// By one cursor, segment for segment.
Columns walked(const RegionTable& regions, std::size_t begin, std::size_t end) {
  Columns all(count_segments(regions, begin, end));
  SegmentCursor cursor(regions, begin, end);
  for (std::size_t i = 0; i < all.region.size(); ++i) {
    Columns one(1);
    EXPECT_EQ(cursor.fill(one.spans(), 1), 1U);
    all.region[i] = one.region[0];
    all.source[i] = one.source[0];
    all.target[i] = one.target[0];
    all.bytes[i] = one.bytes[0];
  }
  Columns none(1);
  EXPECT_EQ(cursor.fill(none.spans(), 1), 0U);
  return all;
}

TEST(Segments, ManyThreadsWriteWhatOneCursorWalks) {
  const TransferPlan plan = many_segments();
  const RegionTable& regions = plan.regions();
  ASSERT_EQ(regions.size(), 5U);
  EXPECT_EQ(count_segments(regions, 0, 5), 4 * 300 * 350 + 1);
  for (std::size_t begin = 0; begin <= regions.size(); ++begin) {
    const Columns wanted = walked(regions, begin, regions.size());
    for (const std::size_t threads : {1, 3}) {
      Columns found(wanted.region.size());
      fill_segments(regions, begin, regions.size(), found.spans(), threads);
      EXPECT_EQ(found, wanted) << "from region " << begin << " with " << threads << " threads";
    }
  }
  // A column that is not wanted is left out.
  const Columns wanted = walked(regions, 0, 5);
  std::vector<std::uint64_t> target(wanted.region.size());
  fill_segments(regions, 0, 5, {.region = {}, .source_offset = {}, .target_offset = target, .bytes = {}}, 2);
  EXPECT_EQ(target, wanted.target);
}

TEST(Segments, ACursorSkipsToAnySegment) {
  const TransferPlan plan = many_segments();
  const Columns wanted = walked(plan.regions(), 0, plan.regions().size());
  const std::uint64_t all = wanted.region.size();
  std::mt19937 random(1);
  for (int turn = 0; turn < 200; ++turn) {
    const std::uint64_t first = random() % (all + 1);
    const std::uint64_t then = random() % 1000;
    SegmentCursor cursor(plan.regions(), 0, plan.regions().size());
    cursor.skip(first);
    Columns some(3);
    const std::size_t found = cursor.fill(some.spans(), 3);
    ASSERT_EQ(found, std::min<std::uint64_t>(3, all - first));
    for (std::size_t i = 0; i < found; ++i) ASSERT_EQ(some.source[i], wanted.source[first + i]);
    cursor.skip(then);
    const std::uint64_t at = first + found + then;
    ASSERT_EQ(cursor.fill(some.spans(), 1), at < all ? 1U : 0U);
    if (at < all) {
      ASSERT_EQ(some.target[0], wanted.target[at]);
      ASSERT_EQ(some.region[0], wanted.region[at]);
    }
  }
}

}  // namespace
}  // namespace steelyard::reshard
