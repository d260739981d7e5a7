// How fast the rules' room loads a snapshot and replays a log, in process.
//
//   metadata_bench [REVISIONS [save|load|load-state|decode|replay]]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "base/limits.h"
#include "base/runtime.h"
#include "metadata/codec.h"
#include "metadata/memory_state.h"
#include "metadata/rules.h"
#include "metadata/state.h"

namespace steelyard::metadata {
namespace {

constexpr int kRounds = 5;

std::string hex_of(std::uint64_t number) {
  char text[33];
  std::snprintf(text, sizeof text, "%032llx", static_cast<unsigned long long>(number));
  return text;
}

/// What a store of many published revisions went through: begin and commit of each.
struct History {
  MemoryState state;
  std::vector<std::vector<Entry>> appends;

  Answer run(const Command& command) {
    const Now now{"bench", 1'000 + static_cast<std::int64_t>(appends.size()), 1'700'000'000'000};
    auto prepared = WeightMetadataStore::prepare(state, command, now);
    SY_CHECK(prepared.ok(), prepared.status().to_string());
    if (!prepared->entries.empty()) {
      SY_CHECK(state.apply(appends.size() + 1, prepared->entries).ok(), "a prepared append applies");
      appends.push_back(std::move(prepared->entries));
    }
    return std::move(prepared->answer);
  }

  void publish(std::uint64_t number) {
    BeginWeightImport begin;
    begin.lineage = {"default", "production", "org/model-" + std::to_string(number % 1000),
                     "step-" + std::to_string(number)};
    begin.token = hex_of(number);
    begin.holder = "bench (pid 1)";
    begin.process = real_runtime().self();
    begin.ttl_ms = limits::kWriterTtlMs;
    begin.labels = {{"model_id", "llama"}};
    const RevisionRecord record = *run(begin).record;
    CommitWeightImport commit;
    commit.identity = record.identity;
    commit.token = begin.token;
    commit.import_attempt = record.import_attempt;
    commit.expected_metadata_generation = record.metadata_generation;
    commit.summary = {40, 2'000'000'000, std::string(64, 'a'), std::string(64, 'b')};
    run(commit);
  }
};

template <typename Body>
double best_seconds(Body body) {
  double best = 1e9;
  for (int round = 0; round < kRounds; ++round) {
    const std::int64_t begun = real_runtime().mono_ns();
    const auto kept = body();  // whoever loads keeps what was loaded
    best = std::min(best, static_cast<double>(real_runtime().mono_ns() - begun) / 1e9);
  }
  return best;
}

int run(int argc, char** argv) {
  const std::uint64_t revisions = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 100'000;
  History history;
  history.run(BeginEpoch{});
  for (std::uint64_t i = 0; i < revisions; ++i) history.publish(i);
  std::size_t entries = 0;
  for (const auto& append : history.appends) entries += append.size();

  const std::string section = save_section(history.state).value();
  const std::uint64_t sequence = history.state.sequence();
  std::printf("%llu revisions, %zu bytes in the section each\n", static_cast<unsigned long long>(revisions),
              section.size() / revisions);
  const auto measure = [&](std::string_view what, std::size_t count, std::string_view unit, auto body) {
    if (argc > 2 && what != argv[2]) return;
    const double each = best_seconds(body) * 1e6 / static_cast<double>(count);
    std::printf("%s: %.2f us %s\n", std::string(what).c_str(), each, std::string(unit).c_str());
  };
  measure("save", revisions, "a revision", [&] { return save_section(history.state); });
  measure("load", revisions, "a revision", [&] { return load_section(section, sequence); });
  measure("load-state", revisions, "a revision", [&] {
    MemoryState state;
    state.reset(sequence, load_section(section, sequence).value());
    return state;
  });
  measure("decode", revisions, "a record", [&] {
    return history.state.scan("r", "s", false, [](auto, auto value) { return decode_record(value).ok(); });
  });
  measure("replay", entries, "an entry", [&] {
    MemoryState state;
    for (std::size_t i = 0; i < history.appends.size(); ++i) {
      auto changes = check_entries(state, i + 1, history.appends[i]);
      SY_CHECK(changes.ok(), changes.status().to_string());
      state.apply_changes(i + 1, *std::move(changes));
    }
    return state;
  });
  return 0;
}

}  // namespace
}  // namespace steelyard::metadata

int main(int argc, char** argv) { return steelyard::metadata::run(argc, argv); }
