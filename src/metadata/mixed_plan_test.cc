// Plans of MIXED revisions against every subset, and their bound where there are too many.
#include "metadata/mixed_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "metadata/shares.h"

namespace steelyard::metadata {
namespace {

using Sizes = std::vector<std::uint64_t>;

std::uint64_t target_of(const Sizes& sizes, std::uint32_t ratio) {
  std::uint64_t bytes = 0;
  for (const std::uint64_t size : sizes) bytes += size;
  const auto rounded = static_cast<std::uint64_t>((Wide{bytes} * ratio + kMillion / 2) / kMillion);
  return std::clamp<std::uint64_t>(rounded, 1, bytes - 1);
}

std::uint64_t distance(std::uint64_t a, std::uint64_t b) { return a > b ? a - b : b - a; }

/// Checks what holds for every plan; gives its distance from the target.
std::uint64_t check(const Sizes& sizes, std::uint32_t ratio, const MixedPlan& plan) {
  EXPECT_EQ(plan.hot.size(), sizes.size());
  std::uint64_t members = 0;
  std::uint64_t hot_bytes = 0;
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    bytes += sizes[i];
    if (!plan.hot[i]) continue;
    ++members;
    hot_bytes += sizes[i];
  }
  EXPECT_EQ(plan.hot_members, members);
  EXPECT_EQ(plan.hot_bytes, hot_bytes);
  EXPECT_EQ(plan.bytes, bytes);
  EXPECT_GT(members, 0U);
  EXPECT_LT(members, sizes.size());
  EXPECT_EQ(plan.hot_millionths, share_of(hot_bytes, bytes));
  EXPECT_EQ(plan.digest.size(), 64U);
  return distance(hot_bytes, target_of(sizes, ratio));
}

std::uint64_t nearest_by_force(const Sizes& sizes, std::uint32_t ratio) {
  const std::uint64_t target = target_of(sizes, ratio);
  std::uint64_t best = UINT64_MAX;
  for (std::uint32_t set = 1; set + 1 < 1U << sizes.size(); ++set) {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < sizes.size(); ++i) sum += (set >> i & 1U) != 0 ? sizes[i] : 0;
    best = std::min(best, distance(sum, target));
  }
  return best;
}

TEST(MixedPlan, NearestOfEverySubset) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 3'000; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    Sizes sizes(2 + random() % 11);
    const std::uint64_t largest = 1 + random() % (round % 3 == 0 ? 4 : 5'000);
    for (std::uint64_t& size : sizes) size = random() % 3 == 0 ? largest : 1 + random() % largest;
    const auto ratio =
        static_cast<std::uint32_t>(round % 5 == 0 ? (round % 2 == 0 ? 1 : 999'999) : 1 + random() % (kMillion - 1));
    const auto plan = plan_mixed(sizes, ratio);
    ASSERT_TRUE(plan.ok()) << plan.status().to_string();
    ASSERT_EQ(check(sizes, ratio, *plan), nearest_by_force(sizes, ratio));
    EXPECT_EQ(plan_mixed(sizes, ratio)->digest, plan->digest);
  }
}

TEST(MixedPlan, WithinHalfAnObjectWhereManySizesDiffer) {
  std::mt19937_64 random(11);
  for (int round = 0; round < 200; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    Sizes sizes(18 + random() % 200);
    const std::uint64_t largest = 2 + random() % 1'000'000;
    for (std::uint64_t& size : sizes) size = 1 + random() % largest;
    if (round % 2 == 0) std::fill_n(sizes.begin(), sizes.size() / 4, 1 + random() % largest);
    const auto ratio = static_cast<std::uint32_t>(round % 8 == 0   ? 1 + random() % 4
                                                  : round % 8 == 1 ? kMillion - 1 - random() % 4
                                                                   : 1 + random() % (kMillion - 1));
    const auto plan = plan_mixed(sizes, ratio);
    ASSERT_TRUE(plan.ok());
    const std::uint64_t off = check(sizes, ratio, *plan);
    const std::uint64_t smallest = *std::ranges::min_element(sizes);
    const std::uint64_t target = target_of(sizes, ratio);
    if (target < smallest) {
      ASSERT_EQ(plan->hot_bytes, smallest);
    } else if (plan->bytes - target < smallest) {
      ASSERT_EQ(plan->hot_bytes, plan->bytes - smallest);
    } else {
      ASSERT_LE(2 * off, *std::ranges::max_element(sizes));
    }
  }
}

TEST(MixedPlan, AnEndIsOneObjectAway) {
  const Sizes sizes{100, 30, 40};
  EXPECT_EQ(plan_mixed(sizes, 1)->hot, (std::vector<bool>{false, true, false}));
  EXPECT_EQ(plan_mixed(sizes, 999'999)->hot, (std::vector<bool>{true, false, true}));
  Sizes many(40, 7);
  for (std::size_t i = 0; i < many.size(); ++i) many[i] = 100 + i;
  EXPECT_EQ(plan_mixed(many, 1)->hot_members, 1U);
  EXPECT_EQ(plan_mixed(many, 1)->hot_bytes, 100U);
  EXPECT_EQ(plan_mixed(many, 999'999)->hot_members, 39U);
}

TEST(MixedPlan, TheSetFollowsFromSizesAndRatio) {
  const Sizes sizes{64, 64, 64, 64, 10};
  const auto half = plan_mixed(sizes, 500'000);
  EXPECT_EQ(half->hot, (std::vector<bool>{true, true, false, false, false}));
  EXPECT_EQ(half->hot_bytes, 128U);
  EXPECT_EQ(half->hot_millionths, 481'203U);
  EXPECT_EQ(half->digest, "4f9227bae779f3286b05f6e3ba3336184a36e5a6d64dc305ba6e28a16d2edb62");
  const auto other = plan_mixed(sizes, 250'000);
  EXPECT_EQ(other->hot, (std::vector<bool>{true, false, false, false, false}));
  EXPECT_NE(other->digest, half->digest);
}

TEST(MixedPlan, AMillionObjects) {
  Sizes sizes(std::size_t{1} << 20, std::uint64_t{4} << 30);
  for (std::size_t i = 0; i < 40; ++i) sizes[i * 1'000] = 1'000 + i * i * 999'983;
  const auto plan = plan_mixed(sizes, 333'333);
  ASSERT_TRUE(plan.ok());
  EXPECT_LT(check(sizes, 333'333, *plan), std::uint64_t{1} << 20);
}

TEST(MixedPlan, WhatCannotBeMixed) {
  EXPECT_EQ(plan_mixed(Sizes{}, 500'000).code(), Code::kInvalidArgument);
  EXPECT_EQ(plan_mixed(Sizes{5}, 500'000).code(), Code::kInvalidArgument);
  EXPECT_EQ(plan_mixed(Sizes{5, 0}, 500'000).code(), Code::kInvalidArgument);
  EXPECT_EQ(plan_mixed(Sizes{UINT64_MAX, 1}, 500'000).code(), Code::kInvalidArgument);
  EXPECT_EQ(plan_mixed(Sizes{1, 1}, 0).code(), Code::kInvalidArgument);
  EXPECT_EQ(plan_mixed(Sizes{1, 1}, 1'000'000).code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace steelyard::metadata
