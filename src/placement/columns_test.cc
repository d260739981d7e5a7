#include "placement/columns.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>

namespace steelyard::placement {
namespace {

StringColumn column(const std::vector<std::string>& texts) {
  StringColumn out;
  for (const std::string& text : texts) out.push_back(text);
  return out;
}

std::vector<std::uint32_t> plainly_sorted(const std::vector<std::string>& texts) {
  std::vector<std::uint32_t> order(texts.size());
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::stable_sort(order, [&](std::uint32_t a, std::uint32_t b) { return texts[a] < texts[b]; });
  return order;
}

TEST(SortedOrder, NothingAndOne) {
  EXPECT_TRUE(sorted_order({}).empty());
  EXPECT_EQ(sorted_order(column({"a"})), std::vector<std::uint32_t>{0});
}

TEST(SortedOrder, ZerosAtTheEndsOfTexts) {
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < 60; ++i) texts.push_back("prefix" + std::string(i * 7 % 20, '\0'));
  EXPECT_EQ(sorted_order(column(texts)), plainly_sorted(texts));
}

TEST(SortedOrder, OneTextIsThePrefixOfTheNext) {
  std::vector<std::string> texts;
  for (std::size_t i = 500; i-- > 0;) texts.emplace_back(i, 'a');
  EXPECT_EQ(sorted_order(column(texts)), plainly_sorted(texts));
}

RC_GTEST_PROP(SortedOrder, AgreesWithAStableSort, ()) {
  const auto count = *rc::gen::inRange<std::size_t>(0, 300);
  const std::string alphabet("ab\0\xFF", 4);
  const std::string common(*rc::gen::inRange<std::size_t>(0, 20), 'm');
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < count; ++i) {
    texts.push_back(common);
    const auto length = *rc::gen::inRange<std::size_t>(0, 12);
    for (std::size_t c = 0; c < length; ++c) texts.back() += *rc::gen::elementOf(alphabet);
  }
  const StringColumn texts_column = column(texts);
  const auto order = sorted_order(texts_column);
  RC_ASSERT(order == plainly_sorted(texts));
  const StringColumn sorted = in_order(texts_column, order);
  for (std::size_t i = 0; i < count; ++i) {
    const auto found = find_sorted(sorted, texts[i]);
    RC_ASSERT(found.has_value());
    RC_ASSERT(sorted.at(*found) == texts[i]);
  }
  RC_ASSERT(!find_sorted(sorted, "absent").has_value());
}

RC_GTEST_PROP(NamePool, NumbersNamesInTheOrderInWhichTheyCame, ()) {
  NamePool pool;
  std::map<std::string, std::uint32_t> wanted;
  for (const int n : *rc::gen::container<std::vector<int>>(rc::gen::inRange(0, 200))) {
    const std::string name = n == 0 ? "" : "name-" + std::to_string(n);
    RC_ASSERT(pool.find(name).has_value() == wanted.contains(name));
    const auto [entry, added] = wanted.try_emplace(name, static_cast<std::uint32_t>(wanted.size()));
    RC_ASSERT(pool.intern(name) == entry->second);
  }
  RC_ASSERT(pool.size() == wanted.size());
  for (const auto& [name, number] : wanted) {
    RC_ASSERT(pool.at(number) == name);
    RC_ASSERT(pool.find(name) == number);
  }
}

TEST(BoxColumns, RanksAreNumberedInTheirOrder) {
  BoxColumns boxes;
  const std::vector<std::int64_t> zero = {0};
  const std::vector<std::int64_t> one = {1};
  std::vector<ParallelRank> said;
  for (std::int64_t i = 0; i < 200; ++i) {
    said.push_back({i * 7 % 5, i * 3 % 11, i % 2, i % 3});
    boxes.add(static_cast<std::uint32_t>(i % 4), zero, one, 1, said.back(), {});
  }
  boxes.sort_ranks();
  EXPECT_TRUE(std::ranges::is_sorted(boxes.ranks()));
  EXPECT_TRUE(std::ranges::adjacent_find(boxes.ranks()) == boxes.ranks().end());
  for (std::size_t i = 0; i < said.size(); ++i) {
    EXPECT_EQ(boxes.rank(i), said[i]);
    EXPECT_EQ(boxes.ranks()[boxes.rank_number(i)], said[i]);
  }
  boxes.add(0, zero, one, 1, {9, 9, 9, 9}, {});
  EXPECT_EQ(boxes.rank(200), (ParallelRank{9, 9, 9, 9}));
  boxes.add(0, zero, one, 1, said[3], {});
  EXPECT_EQ(boxes.rank_number(201), boxes.rank_number(3));
}

TEST(BoxColumns, AnotherOrderTakesEverythingAlong) {
  BoxColumns boxes;
  const std::vector<std::string_view> aliases = {"a", "b"};
  for (std::int64_t i = 0; i < 5; ++i) {
    const std::vector<std::int64_t> offset(static_cast<std::size_t>(i), i);
    const std::vector<std::int64_t> shape(static_cast<std::size_t>(i + 1), i + 1);
    boxes.add(static_cast<std::uint32_t>(i), offset, shape, static_cast<std::uint64_t>(i), {i, 0, 0, 0},
              i % 2 == 1 ? aliases : std::vector<std::string_view>());
  }
  const std::vector<std::uint32_t> order = {3, 0, 4, 1, 2};
  const BoxColumns moved = boxes.in_order(order);
  ASSERT_EQ(moved.size(), 5U);
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(moved.tensor(i), order[i]);
    EXPECT_EQ(moved.nbytes(i), order[i]);
    EXPECT_EQ(moved.rank(i).dp, order[i]);
    EXPECT_TRUE(std::ranges::equal(moved.offset(i), boxes.offset(order[i])));
    EXPECT_TRUE(std::ranges::equal(moved.shape(i), boxes.shape(order[i])));
    EXPECT_EQ(moved.aliases(i), boxes.aliases(order[i]));
  }
}

TEST(FragmentsOfTensors, ByRankThenByRow) {
  BoxColumns boxes;
  const std::vector<std::int64_t> zero = {0};
  const std::vector<std::int64_t> one = {1};
  for (const auto& [tensor, dp] : {std::pair(2U, 1), std::pair(0U, 0), std::pair(2U, 0), std::pair(2U, 1)}) {
    boxes.add(tensor, zero, one, 1, {dp, 0, 0, 0}, {});
  }
  boxes.sort_ranks();
  const FragmentsOfTensors by_tensor(4, boxes);
  EXPECT_TRUE(std::ranges::equal(by_tensor.of(0), std::vector<std::uint32_t>{1}));
  EXPECT_TRUE(by_tensor.of(1).empty());
  EXPECT_TRUE(std::ranges::equal(by_tensor.of(2), std::vector<std::uint32_t>{2, 0, 3}));
  EXPECT_TRUE(by_tensor.of(3).empty());
}

TEST(PlaceColumns, OwnersGoWithTheirRows) {
  PlaceColumns places;
  const auto owner = std::make_shared<int>(1);
  places.add({1, "w", "e", "d"}, nullptr);
  places.add({2, "w", "e2", "d"}, owner);
  places.add({3, "v", "e", "d"}, nullptr);
  EXPECT_EQ(places.space(0), places.space(1));
  EXPECT_NE(places.space(0), places.space(2));
  const std::vector<std::uint32_t> order = {1, 2, 0};
  const PlaceColumns moved = places.in_order(order);
  EXPECT_EQ(moved.owner(0), owner);
  EXPECT_EQ(moved.owner(1), nullptr);
  EXPECT_EQ(moved.address(0), 2U);
  EXPECT_EQ(moved.endpoint(0), "e2");
  EXPECT_EQ(moved.worker_id(1), "v");
}

}  // namespace
}  // namespace steelyard::placement
