// One random history: clients, troubles, and at the end a calm audit of everything that was acknowledged.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/checkers/tally.h"
#include "sim/workload/canaries.h"

namespace steelyard::sim {

struct History {
  std::uint64_t seed = 0;
  std::vector<std::string> violations;
  std::string trace;
  std::uint64_t appends = 0;
  std::uint64_t published = 0;
  std::uint64_t deleted = 0;  ///< aborted ones too
  std::uint64_t takeovers = 0;
  std::uint64_t leases = 0;
  std::uint64_t kills = 0;
  std::uint64_t reboots = 0;
  std::uint64_t damages = 0;
  std::uint64_t switches = 0;
  std::uint64_t late_puts = 0;     ///< that landed after their process had died
  std::uint64_t late_streams = 0;  ///< the same of what is given in pieces
  std::uint64_t watched = 0;       ///< changes that a watch told of
  std::uint64_t anew = 0;          ///< times that it began anew after a trim
  Tally moves;
};

/// The same seed gives the same history, byte for byte.
History run_history(std::uint64_t seed, Canary canary = Canary::kNone);

/// The command that plays the history of this seed again.
std::string replay_command(std::uint64_t seed);

}  // namespace steelyard::sim
