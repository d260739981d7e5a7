// What one history plays with: a world, a disk, a log, and the checkers that watch them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "oplog/fault_injecting.h"
#include "oplog/op_log.h"
#include "sim/checkers/disk_check.h"
#include "sim/checkers/memory_check.h"
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
  std::int64_t gc_grace_ms = 0;
  std::int64_t pause_ms_max = 0;  ///< between the calls of a client
  std::uint64_t clients = 0;
  std::uint64_t calls_per_client = 0;
  std::uint64_t troubles = 0;  ///< kills, crashes, stops and the like
  bool damages = false;        ///< bits rot on the disk
  bool followed = false;       ///< a process watches the records
  bool kept = false;           ///< another keeps them reconciled
  std::uint64_t memories = 0;  ///< containers with a hot tier of their own; 0: there is none
  tiers::FaultPlan hot;        ///< as `tier`
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
  Memories memories;  ///< of the hot tier, one for each container
  std::unique_ptr<oplog::OpLog> log;
  bool calm = false;                              ///< clients started from now on meet no faults
  std::uint64_t late_step_at = 0;                 ///< the log's sequence when a dead process' write landed last
  std::uint64_t short_of_room_at = 0;             ///< the same when the disk or a memory got its room back
  std::set<const tiers::SimulatedDisk*> limited;  ///< of the disk and the memories, those that have an end now

  /// Looks at a revision's bytes past every fault, and remembers its objects.
  DiskFindings look_at(const metadata::Identity& identity);
  /// Gives the disk or a memory so much room, or room without end.
  void set_capacity(tiers::SimulatedDisk& of, std::optional<std::uint64_t> bytes);
  /// Something could be full while the call lasted.
  bool is_short_of_room(const Operation& operation) const;
  /// The log implies the state that it serves.
  void check_log();
  /// A record has changed just now: what it says of the tiers is true.
  void see_change(const metadata::Identity& identity);
  /// Of every revision that can be read, and of those whose removal has to wait for a lease.
  void look_at_all();
  /// Of every revision that says that it is in memory, or of those of one group.
  void look_at_memories(const std::string& group = {});
  /// A replica of that key was damaged in some memory.
  bool may_be_rotten_in_memory(const metadata::Identity& identity, const std::string& key);
  /// A process has removed something from the memory `instance`, which `before` lay there.
  void removed_from_memory(Process& process, const std::string& instance, const std::vector<tiers::ObjectStat>& before);
  /// From the disk.
  void removed_from_disk(const std::vector<tiers::ObjectStat>& before);
  bool is_rotten_in_memory(const Digest& sha256);
  /// After a gc in peace: nothing lies on the disk, nor in the memory of that container, that no revision needs.
  void look_for_garbage(std::size_t container);
  /// Every revision is deleted: nothing is left.
  void look_for_anything();
};

}  // namespace steelyard::sim
