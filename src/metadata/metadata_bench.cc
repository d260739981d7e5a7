// How fast the rules' room loads a snapshot and replays a log, in process.
//
//   metadata_bench [REVISIONS [save|load|load-state|decode|replay]]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "base/runtime.h"
#include "metadata/codec.h"
#include "metadata/made_history.h"
#include "metadata/memory_state.h"
#include "metadata/state.h"

namespace steelyard::metadata {
namespace {

constexpr int kRounds = 5;

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
  MadeHistory history;
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
