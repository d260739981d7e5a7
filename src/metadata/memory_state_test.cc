#include "metadata/memory_state.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace steelyard::metadata {
namespace {

using Rows = std::map<std::string, std::string>;

std::shared_ptr<const SortedRows> sorted(const Rows& rows) {
  SortedRows::Builder builder;
  for (const auto& [key, value] : rows) builder.add(builder.keep(key), builder.keep(value));
  return std::make_shared<const SortedRows>(std::move(builder).finish().value());
}

std::vector<std::pair<std::string, std::string>> scanned(const MemoryState& state, std::string_view from,
                                                         std::string_view to, bool descending, std::size_t most) {
  std::vector<std::pair<std::string, std::string>> out;
  EXPECT_TRUE(state
                  .scan(from, to, descending,
                        [&](std::string_view key, std::string_view value) {
                          out.emplace_back(key, value);
                          return out.size() < most;
                        })
                  .ok());
  return out;
}

std::vector<std::pair<std::string, std::string>> expected(const Rows& rows, const std::string& from,
                                                          const std::string& to, bool descending, std::size_t most) {
  std::vector<std::pair<std::string, std::string>> out;
  for (const auto& row : rows) {
    if (row.first >= from && (to.empty() || row.first < to)) out.emplace_back(row);
  }
  if (descending) out = {out.rbegin(), out.rend()};
  if (out.size() > most) out.resize(most);
  return out;
}

TEST(MemoryState, IsAMapWhateverWasLoadedAndChanged) {
  std::mt19937 random(7);
  const auto pick = [&random](unsigned below) { return static_cast<unsigned>(random() % below); };
  const auto some_key = [&] {
    std::string key(1, "ab\xff"[pick(3)]);
    for (unsigned i = pick(3); i > 0; --i) key.push_back("\0q\xff"[pick(3)]);
    return key;
  };
  for (int history = 0; history < 200; ++history) {
    Rows model;
    for (unsigned i = pick(12); i > 0; --i) model[some_key()] = std::to_string(pick(100));
    MemoryState state;
    state.reset(5, history % 4 == 0 && model.empty() ? nullptr : sorted(model));
    for (std::uint64_t sequence = 6; sequence < 20; ++sequence) {
      const MemoryState before = state;
      const Rows model_before = model;
      std::vector<RowChange> changes;
      for (unsigned i = pick(4); i > 0; --i) {
        const std::string key = some_key();
        if (pick(3) == 0) {
          model.erase(key);
          changes.push_back({key, std::nullopt});
        } else {
          model[key] = std::to_string(pick(100));
          changes.push_back({key, model[key]});
        }
      }
      state.apply_changes(sequence, std::move(changes));
      EXPECT_EQ(state.sequence(), sequence);
      const std::string key = some_key();
      const auto there = model.find(key);
      EXPECT_EQ(state.get(key).value(), there == model.end() ? std::nullopt : std::optional(there->second));
      const std::string from = pick(3) == 0 ? "" : some_key();
      const std::string to = pick(3) == 0 ? "" : some_key();
      const std::size_t most = 1 + pick(8);
      for (const bool descending : {false, true}) {
        EXPECT_EQ(scanned(state, from, to, descending, most), expected(model, from, to, descending, most));
      }
      EXPECT_EQ(scanned(before, "", "", false, 100), expected(model_before, "", "", false, 100)) << "a copy changed";
    }
  }
}

TEST(SortedRows, StandInTheOrderOfTheirKeysWhateverTheOrderTheyCameIn) {
  SortedRows::Builder builder;
  const std::string long_value(1U << 20, 'v');
  for (const char* key : {"b2", "a", "b1 and a long tail 2", "b1 and a long tail 1", "b"}) {
    builder.add(builder.keep(key), builder.keep(long_value));
  }
  builder.add(builder.keep(""), builder.keep(""));
  const SortedRows rows = std::move(builder).finish().value();
  std::vector<std::string> keys;
  for (const auto& [key, value] : rows.rows()) keys.emplace_back(key);
  EXPECT_EQ(keys, (std::vector<std::string>{"", "a", "b", "b1 and a long tail 1", "b1 and a long tail 2", "b2"}));
  EXPECT_EQ(rows.rank("b1"), 3U);
  ASSERT_NE(rows.find("b2"), nullptr);
  EXPECT_EQ(rows.find("b2")->value, long_value);
  EXPECT_EQ(rows.find("b3"), nullptr);
}

TEST(SortedRows, RefusesTwoRowsOfOneKey) {
  SortedRows::Builder builder;
  for (const char* key : {"k", "a", "k"}) builder.add(builder.keep(key), builder.keep("v"));
  EXPECT_FALSE(std::move(builder).finish().has_value());
}

}  // namespace
}  // namespace steelyard::metadata
