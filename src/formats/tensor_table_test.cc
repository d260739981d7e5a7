#include "formats/tensor_table.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

namespace steelyard::formats {
namespace {

TensorRow plain(std::string_view name, std::span<const std::int64_t> shape = {}) {
  TensorRow row;
  row.tensor_id = name;
  row.dtype = "F32";
  row.shape = shape;
  row.layout_fingerprint = "row-major";
  return row;
}

TEST(TensorTable, GivesBackEveryFactOfARow) {
  const std::array<std::int64_t, 3> shape = {2, 0, 7};
  TensorRow row = plain("model.layers.0.weight", shape);
  row.dtype = "BF16";
  row.layout_fingerprint = "tiles-16";
  row.place = TensorPlace{3, 1ULL << 40, 5};
  row.layer_id = -1;
  row.expert_id = INT64_MAX;
  row.aliases = {"a", "b"};
  TensorTable table;
  table.add(plain("first"));
  table.add(row);
  table.add(plain("third"));
  ASSERT_EQ(table.size(), 3U);
  const TensorRow back = table.row(1);
  EXPECT_EQ(back.tensor_id, row.tensor_id);
  EXPECT_EQ(back.dtype, "BF16");
  EXPECT_TRUE(std::ranges::equal(back.shape, shape));
  EXPECT_EQ(back.layout_fingerprint, "tiles-16");
  EXPECT_EQ(back.place, row.place);
  EXPECT_EQ(back.layer_id, -1);
  EXPECT_EQ(back.expert_id, INT64_MAX);
  EXPECT_EQ(back.aliases, row.aliases);
  for (const std::size_t other : {0U, 2U}) {
    EXPECT_FALSE(table.row(other).place.has_value());
    EXPECT_FALSE(table.row(other).layer_id.has_value());
    EXPECT_FALSE(table.row(other).expert_id.has_value());
    EXPECT_TRUE(table.row(other).aliases.empty());
    EXPECT_TRUE(table.row(other).shape.empty());
    EXPECT_EQ(table.row(other).dtype, "F32");
  }
}

TEST(TensorTable, SortIsStableByByteOrderAndKeepsRareFacts) {
  TensorTable table;
  const std::vector<std::string> names = {"b", "a", "", "\xF0\x9F\x98\x80", "a", "Z", "aa"};
  for (std::size_t i = 0; i < names.size(); ++i) {
    TensorRow row = plain(names[i]);
    row.layer_id = static_cast<std::int64_t>(i);
    if (i % 2 == 0) row.aliases = {names[i]};
    table.add(row);
  }
  table.sort();
  std::vector<std::int64_t> order;
  for (std::size_t i = 0; i < table.size(); ++i) {
    const TensorRow row = table.row(i);
    order.push_back(*row.layer_id);
    EXPECT_EQ(row.tensor_id, names[static_cast<std::size_t>(*row.layer_id)]);
    EXPECT_EQ(row.aliases.size(), *row.layer_id % 2 == 0 ? 1U : 0U);
  }
  EXPECT_EQ(order, (std::vector<std::int64_t>{2, 5, 1, 4, 6, 0, 3}));
}

TEST(TensorTable, FindsEveryNameAndNoOther) {
  TensorTable table;
  for (int i = 500; i-- > 0;) table.add(plain("t" + std::to_string(i)));
  table.sort();
  for (int i = 0; i < 500; ++i) {
    const auto found = table.find("t" + std::to_string(i));
    ASSERT_TRUE(found.has_value()) << i;
    EXPECT_EQ(table.tensor_id(*found), "t" + std::to_string(i));
  }
  for (const std::string_view absent : {"", "t", "t500", "u", "t0 "}) EXPECT_FALSE(table.find(absent).has_value());
  EXPECT_FALSE(TensorTable().find("t0").has_value());
}

TEST(TensorTable, EqualityIsByContentNotByTheWayItWasBuilt) {
  TensorTable a;
  TensorTable b;
  TensorRow half = plain("x");
  half.dtype = "F16";
  a.add(half);
  a.add(plain("y"));
  b.add(plain("y"));
  b.add(half);
  EXPECT_FALSE(a == b);
  b.sort();
  EXPECT_TRUE(a == b);
  EXPECT_FALSE(a == TensorTable());
}

TEST(TensorTable, EqualitySeesEveryFact) {
  const std::array<std::int64_t, 1> one = {1};
  const TensorRow base = plain("x", one);
  TensorTable reference;
  reference.add(base);
  std::vector<TensorRow> others(8, base);
  others[0].tensor_id = "z";
  others[1].dtype = "F16";
  others[2].shape = {};
  others[3].layout_fingerprint = "other";
  others[4].place = TensorPlace{};
  others[5].layer_id = 0;
  others[6].expert_id = 0;
  others[7].aliases = {"q"};
  for (std::size_t i = 0; i < others.size(); ++i) {
    TensorTable other;
    other.add(others[i]);
    EXPECT_FALSE(reference == other) << i;
  }
}

RC_GTEST_PROP(TensorTable, SortAgreesWithSortedStrings, (const std::string& prefix)) {
  const auto names = *rc::gen::container<std::vector<std::string>>(
      rc::gen::container<std::string>(rc::gen::elementOf(std::string("ab\0\xFF.", 5))));
  TensorTable table;
  std::vector<std::string> wanted;
  for (const std::string& name : names) {
    wanted.push_back(prefix + name);
    table.add(plain(wanted.back()));
  }
  table.sort();
  std::ranges::sort(wanted);
  RC_ASSERT(table.size() == wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) RC_ASSERT(table.tensor_id(i) == wanted[i]);
}

TEST(TensorTableDeathTest, FindInAnUnsortedTableIsAProgrammersError) {
  TensorTable table;
  table.add(plain("b"));
  table.add(plain("a"));
  EXPECT_DEATH(static_cast<void>(table.find("a")), "sorted");
}

}  // namespace
}  // namespace steelyard::formats
