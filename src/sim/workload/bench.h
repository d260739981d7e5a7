// What one history plays with: a world, a disk, a log, and the checkers that watch them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "oplog/fault_injecting.h"
#include "oplog/op_log.h"
#include "sim/checkers/disk_check.h"
#include "sim/checkers/model.h"
#include "sim/runtime/world.h"
#include "sim/workload/handles.h"
#include "tiers/fault_injecting.h"
#include "tiers/simulated.h"

namespace steelyard::sim {

/// How rough a history is. Drawn from its seed.
struct Profile {
  std::int64_t latency_ms_max = 0;
  tiers::FaultPlan tier;    ///< the seed and the latency are filled in per process
  oplog::LogFaultPlan log;  ///< likewise
  PointPlan points;
  std::int64_t writer_ttl_ms = 0;
  std::int64_t lease_ttl_ms = 0;
  std::uint64_t snapshot_every = 0;
  std::int64_t pause_ms_max = 0;  ///< between the calls of a client
  std::uint64_t clients = 0;
  std::uint64_t calls_per_client = 0;
  std::uint64_t troubles = 0;  ///< kills, crashes, stops and the like
  bool damages = false;        ///< bits rot on the disk
};
Profile draw_profile(Random& random);
/// No faults and no delays.
Profile quiet_profile();

struct Bench {
  Bench(std::uint64_t seed, Canary canary_in);

  World world;
  Verdict verdict;
  Model model;
  Random random;
  Graveyard graveyard;
  Canary canary;
  Profile profile;
  std::shared_ptr<tiers::SimulatedDisk> disk;
  std::unique_ptr<oplog::OpLog> log;
  bool calm = false;  ///< clients started from now on meet no faults

  /// Looks at a revision's bytes past every fault, and remembers its objects.
  DiskFindings look_at(const metadata::Identity& identity);
  /// Of every published revision.
  void look_at_all();
};

}  // namespace steelyard::sim
