#include "formats/name_index.h"

#include <gtest/gtest.h>

#include <bit>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace steelyard::formats {
namespace {

std::uint64_t same_for_all(ByteView) { return 7; }
std::uint64_t by_length(ByteView bytes) { return bytes.size(); }

using Repeat = std::optional<std::pair<std::size_t, std::size_t>>;

TEST(NameIndex, AgreesWithAPlainMapWhateverTheHash) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    std::vector<std::string> names(random() % 12);
    for (std::string& name : names) name = std::string(random() % 3, 'a') + static_cast<char>('a' + random() % 4);
    std::map<std::string, std::size_t> lowest;
    Repeat wanted;
    for (std::size_t i = 0; i < names.size(); ++i) {
      const auto [at, added] = lowest.emplace(names[i], i);
      if (!added && !wanted) wanted = {at->second, i};
    }
    const auto name_at = [&names](std::size_t i) { return std::string_view(names[i]); };
    for (const NameIndex::Hash hash : {&hash::xxh3, &same_for_all, &by_length}) {
      const NameIndex index(names.size(), name_at, hash);
      EXPECT_EQ(index.first_repeat(name_at), wanted);
      for (const char* name : {"a", "b", "c", "d", "aa", "ab", "aab", "aaa", "x", ""}) {
        const auto at = lowest.find(name);
        EXPECT_EQ(index.find(name, name_at), at == lowest.end() ? std::nullopt : std::optional(at->second)) << name;
      }
    }
  }
}

/// What a hostile header can reach at most: every name with the same hash.
TEST(NameIndex, EqualHashesCostNoMoreThanSorting) {
  constexpr std::size_t kNames = 20'000;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < kNames; ++i) names.push_back("tensor." + std::to_string((i * 7919) % kNames));
  std::size_t looks = 0;
  const auto name_at = [&](std::size_t i) {
    ++looks;
    return std::string_view(names[i]);
  };
  const std::size_t sorting = 8 * kNames * static_cast<std::size_t>(std::bit_width(kNames));
  const NameIndex index(kNames, name_at, &same_for_all);
  EXPECT_EQ(index.first_repeat(name_at), std::nullopt);
  EXPECT_LT(looks, sorting);
  looks = 0;
  for (std::size_t i = 0; i < kNames; ++i) EXPECT_EQ(index.find(names[i], name_at), i);
  EXPECT_EQ(index.find("absent", name_at), std::nullopt);
  EXPECT_LT(looks, sorting);
}

TEST(NameIndex, ManyCopiesOfOneNameCostNoMoreThanSorting) {
  constexpr std::size_t kNames = 20'000;
  std::size_t looks = 0;
  const auto name_at = [&looks](std::size_t) {
    ++looks;
    return std::string_view("the same");
  };
  const NameIndex index(kNames, name_at);
  EXPECT_EQ(index.first_repeat(name_at), Repeat({0, 1}));
  EXPECT_EQ(index.find("the same", name_at), 0U);
  EXPECT_LT(looks, 8 * kNames * static_cast<std::size_t>(std::bit_width(kNames)));
}

}  // namespace
}  // namespace steelyard::formats
