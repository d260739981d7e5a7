// steelyard_sim: plays random histories and says which one went wrong (docs/simulation.md).
//
//   steelyard_sim [--seed S] [--histories N] [--verbose]
#include <fmt/format.h>

#include <charconv>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string_view>

#include "base/log.h"
#include "base/runtime.h"
#include "sim/workload/history.h"

namespace {

using steelyard::sim::History;

constexpr int kUsageError = 2;

struct Arguments {
  std::uint64_t seed = 1;
  std::uint64_t histories = 500;
  bool verbose = false;
};

bool parse_number(std::string_view text, std::uint64_t& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

std::optional<Arguments> parse(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string_view name = argv[i];
    if (name == "--verbose") {
      arguments.verbose = true;
      continue;
    }
    std::uint64_t* const number = name == "--seed"        ? &arguments.seed
                                  : name == "--histories" ? &arguments.histories
                                                          : nullptr;
    if (number == nullptr || i + 1 == argc || !parse_number(argv[i + 1], *number)) return std::nullopt;
    ++i;
  }
  return arguments;
}

void report(const History& history) {
  fmt::print("{}", history.trace);
  fmt::print("\nseed {} violates:\n", history.seed);
  for (const std::string& violation : history.violations) fmt::print("  {}\n", violation);
  fmt::print("replay it with:\n  {}\n", steelyard::sim::replay_command(history.seed));
}

}  // namespace

int main(int argc, char** argv) {
  const auto arguments = parse(argc, argv);
  if (!arguments) {
    fmt::print(stderr, "usage: steelyard_sim [--seed S] [--histories N] [--verbose]\n");
    return kUsageError;
  }
  // Faults are the point here; what the store says about them is in nobody's interest.
  steelyard::set_log_level(steelyard::LogLevel::kError);
  steelyard::Runtime& clock = steelyard::real_runtime();
  const std::int64_t begun_ns = clock.mono_ns();
  History sum;
  for (std::uint64_t i = 0; i < arguments->histories; ++i) {
    const History history = steelyard::sim::run_history(arguments->seed + i);
    if (!history.violations.empty()) {
      report(history);
      return 1;
    }
    if (arguments->verbose) fmt::print("{}", history.trace);
    sum.appends += history.appends;
    sum.published += history.published;
    sum.deleted += history.deleted;
    sum.takeovers += history.takeovers;
    sum.leases += history.leases;
    sum.kills += history.kills;
    sum.reboots += history.reboots;
    sum.damages += history.damages;
    sum.switches += history.switches;
    sum.late_puts += history.late_puts;
    sum.late_streams += history.late_streams;
    sum.watched += history.watched;
    sum.anew += history.anew;
    sum.moves += history.moves;
  }
  const double seconds = static_cast<double>(clock.mono_ns() - begun_ns) / 1e9;
  const steelyard::sim::Tally& moves = sum.moves;
  fmt::print(
      "{} evictions, {} rehydrations, {} repairs ({} mixed, {} resumed), {} cancelled, {} for room, {} by policies, {} "
      "paused by leases; {} late puts, {} late streams; {} changes watched, {} times anew\n",
      moves.evicted, moves.rehydrated, moves.repaired, moves.mixed, moves.resumed, moves.cancelled, moves.for_room,
      moves.by_policy, moves.paused, sum.late_puts, sum.late_streams, sum.watched, sum.anew);
  fmt::print(
      "{} histories from seed {}: {} appends, {} revisions published, {} deleted or aborted, {} takeovers, {} leases, "
      "{} kills, {} reboots, "
      "{} "
      "damages, {} switches; {:.0f} histories a second\n",
      arguments->histories, arguments->seed, sum.appends, sum.published, sum.deleted, sum.takeovers, sum.leases,
      sum.kills, sum.reboots, sum.damages, sum.switches, static_cast<double>(arguments->histories) / seconds);
  return 0;
}
