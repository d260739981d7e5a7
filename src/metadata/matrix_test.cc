// Every command in every state, against the table that docs/lifecycle-table.md has, which is written by hand.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "metadata/matrix_commands.h"
#include "metadata/matrix_states.h"

namespace steelyard::metadata::matrix {
namespace {

using Words = std::vector<std::string>;

/// A block of the page: its rows, without empty lines.
using Block = std::vector<Words>;

/// The fenced blocks whose first word is `first`.
std::vector<Block> blocks_of_page(const std::string& first) {
  std::ifstream in(SY_SOURCE_DIR "/docs/lifecycle-table.md");
  std::vector<Block> blocks;
  Block block;
  bool inside = false;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("```")) {
      if (inside && !block.empty() && block.front().front() == first) blocks.push_back(block);
      block.clear();
      inside = !inside;
      continue;
    }
    std::istringstream words(line);
    Words row;
    for (std::string word; words >> word;) row.push_back(word);
    if (inside && !row.empty()) block.push_back(row);
  }
  return blocks;
}

/// What the page says a repeat of each command comes to, after a first call that appended.
std::map<std::string, std::string> repeats() {
  std::map<std::string, std::string> out;
  for (const Block& block : blocks_of_page("command")) {
    for (std::size_t i = 1; i < block.size(); ++i) out[block[i].at(0)] = block[i].at(1);
  }
  return out;
}

std::string code_of(Code code) {
  switch (code) {
    case Code::kNotFound:
      return "nf";
    case Code::kConflict:
      return "cf";
    case Code::kStaleGeneration:
      return "st";
    case Code::kNotReady:
      return "nr";
    case Code::kBusy:
      return "by";
    case Code::kLeaseExpired:
      return "le";
    case Code::kInvalidArgument:
      return "ia";
    case Code::kPolicyUnsatisfiable:
      return "ps";
    case Code::kUnavailable:
      return "un";
    default:
      return std::string(code_name(code));
  }
}

Identity next_generation() { return {kIdentity.lineage, kIdentity.weight_generation + 1}; }

/// A cell: the code, `=`, or the state that was appended; with `+` the one of a new generation.
std::string outcome(const TestBench& bench, const Result<Answer>& answer) {
  if (!answer.ok()) return code_of(answer.code());
  if (bench.last.empty()) return "=";
  if (find_revision(bench.state, next_generation()).value()) return "+" + text_of(bench, next_generation());
  return text_of(bench, kIdentity);
}

void expect_equal(const Answer& a, const Answer& b) {
  EXPECT_EQ(a.record, b.record);
  EXPECT_EQ(a.writer, b.writer);
  EXPECT_EQ(a.lease, b.lease);
  EXPECT_EQ(a.runner, b.runner);
}

/// The generation moves by one with anything else in the record, and with a policy, even the same one.
void expect_generation(const TestBench& before, const TestBench& after, const Command& command) {
  const auto old = find_revision(before.state, kIdentity).value();
  const auto now = find_revision(after.state, kIdentity).value();
  if (!old || !now) return;
  RevisionRecord same = *now;
  same.metadata_generation = old->metadata_generation;
  same.updated_at_ms = old->updated_at_ms;
  same.applied = old->applied;
  const bool moves = same != *old || (std::holds_alternative<UpdateWeightPolicy>(command) && !after.last.empty());
  EXPECT_EQ(now->metadata_generation, old->metadata_generation + (moves ? 1 : 0));
}

/// Answered as the first call was; `repeat` says whether it renews, or is refused.
void expect_repeat(TestBench& bench, const Command& command, const Answer& first, const std::string& repeat) {
  const std::string cell = text_of(bench, kIdentity);
  bench.advance(1);
  const Result<Answer> again = bench.run(command);
  if (!again.ok()) {
    EXPECT_EQ(code_of(again.code()), repeat) << again.status().to_string();
    return;
  }
  EXPECT_EQ(bench.last.empty() ? "=" : "^", repeat);
  if (repeat == "^") {
    EXPECT_EQ(text_of(bench, kIdentity), cell);
    EXPECT_EQ(again->record, first.record);
  } else {
    expect_equal(*again, first);
  }
}

void expect_cell(TestBench bench, const std::string& name, const std::string& cell, const std::string& repeat) {
  const TestBench before = bench;
  const Command command = commands().at(name)(bench);
  const Result<Answer> answer = bench.run(command);
  EXPECT_EQ(outcome(bench, answer), cell) << (answer.ok() ? "" : answer.status().to_string());
  if (!answer.ok()) {
    EXPECT_FALSE(answer.status().message().empty());
    EXPECT_EQ(export_canonical(bench.state).value(), export_canonical(before.state).value());
    return;
  }
  if (answer->record) {
    EXPECT_EQ(*answer->record, bench.record(answer->record->identity));
  }
  if (cell.starts_with('+')) {
    EXPECT_EQ(text_of(bench, kIdentity), text_of(before, kIdentity));
  }
  expect_generation(before, bench, command);
  expect_repeat(bench, command, *answer, cell == "=" ? "=" : repeat);
}

/// The rows of a table by command: `verb.*` stands for those of the verb that have no row of their own.
std::map<std::string, Words> rows_of(const Block& table) {
  std::map<std::string, Words> rows;
  for (std::size_t i = 2; i < table.size(); ++i) {
    const Words& row = table[i];
    const std::string& name = row.front();
    EXPECT_EQ(row.size(), table.front().size()) << name;
    EXPECT_TRUE(name.ends_with(".*") || commands().contains(name)) << name << " is not a command";
    EXPECT_TRUE(rows.emplace(name, Words(row.begin() + 1, row.end())).second) << name << " has two rows";
  }
  std::map<std::string, Words> out;
  std::set<std::string> used;
  for (const auto& [name, make] : commands()) {
    const std::string family = name.substr(0, name.find('.')) + ".*";
    const std::string& own = rows.contains(name) ? name : family;
    used.insert(own);
    if (rows.contains(own)) out[name] = rows.at(own);
  }
  EXPECT_EQ(used.size(), rows.size()) << "a row stands for no command";
  return out;
}

TEST(Matrix, EveryCommandInEveryState) {
  std::map<std::string, TestBench> state_of;
  for (const auto& [name, step] : states()) {
    Way way;
    step(way);
    way.advance(1);
    state_of.emplace(name, way);
  }
  const std::map<std::string, std::string> repeat = repeats();
  std::set<std::string> columns;
  for (const Block& table : blocks_of_page("column")) {
    const Words& heads = table.at(0);
    const Words& texts = table.at(1);
    ASSERT_EQ(texts.size(), heads.size());
    ASSERT_EQ(texts.front(), "state");
    const std::map<std::string, Words> rows = rows_of(table);
    for (std::size_t i = 1; i < heads.size(); ++i) {
      ASSERT_TRUE(state_of.contains(heads[i])) << heads[i];
      EXPECT_TRUE(columns.insert(heads[i]).second) << heads[i] << " has two columns";
      const TestBench& bench = state_of.at(heads[i]);
      EXPECT_EQ(text_of(bench, kIdentity), texts[i]) << heads[i];
      for (const auto& [name, make] : commands()) {
        SCOPED_TRACE(testing::Message() << name << " when " << heads[i]);
        ASSERT_TRUE(rows.contains(name) && repeat.contains(name));
        expect_cell(bench, name, rows.at(name).at(i - 1), repeat.at(name));
      }
    }
  }
  EXPECT_EQ(columns.size(), state_of.size());
  EXPECT_EQ(repeat.size(), commands().size());
}

TEST(Matrix, EveryKindOfCommandHasARow) {
  std::set<std::size_t> kinds;
  for (const auto& [name, make] : commands()) {
    Way way;
    kinds.insert(make(way).index());
  }
  EXPECT_EQ(kinds.size(), std::variant_size_v<Command>);
}

}  // namespace
}  // namespace steelyard::metadata::matrix
