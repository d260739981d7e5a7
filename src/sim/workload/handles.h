// The handles through which a simulated process reaches the world: its tier and its log.
//
// A handle of a dead process refuses every call and changes nothing (runtime/world.h). What its process had under way
// when it died is kept in the Graveyard, as a kernel keeps what was handed to it: temporary files stay, and a write may
// still complete later.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <vector>

#include "oplog/op_log.h"
#include "sim/random.h"
#include "sim/runtime/world.h"
#include "sim/workload/canaries.h"
#include "tiers/simulated.h"
#include "tiers/tier.h"

namespace steelyard::sim {

/// A put under way, with bytes of its own.
struct BuriedPut {
  std::shared_ptr<tiers::Tier> tier;  ///< keeps what the put refers to
  std::vector<std::byte> bytes;
  std::unique_ptr<tiers::PendingPut> put;
  std::unique_ptr<tiers::PutStream> stream;
};

/// Puts that dead processes had under way, and what a broken tier does not give back.
class Graveyard {
 public:
  struct LateStep {
    bool streamed = false;  ///< by a rehydration or a repair
    Status status;
  };

  void bury(BuriedPut put) { puts_.push_back(std::move(put)); }
  /// One of them comes to its end after all, chosen by `random`: what was given only in part is refused. Absent when
  /// there is none.
  std::optional<LateStep> complete_one(Random& random);
  bool empty() const { return puts_.empty(); }
  /// Until the machine starts again.
  void keep(std::unique_ptr<tiers::Reservation> reservation) { reservations_.push_back(std::move(reservation)); }

 private:
  std::list<BuriedPut> puts_;
  std::list<std::unique_ptr<tiers::Reservation>> reservations_;
};

/// Told of the objects that a process has just removed.
using RemovalWitness = std::function<void(Process& process, const std::vector<tiers::ObjectStat>& objects)>;

/// The tier as `process` has it. `graveyard` must outlive it and everything made by it.
std::unique_ptr<tiers::Tier> make_process_tier(Process& process, std::shared_ptr<tiers::Tier> inner,
                                               Graveyard& graveyard, Canary canary, RemovalWitness witness = {});

/// Told of every append that a process made, before the process knows of it.
using AppendWitness = std::function<void(Process& process, const oplog::Append& append)>;

/// The log as `process` has it; `inner` must outlive it. A snapshot hides what was wrong before it.
std::unique_ptr<oplog::OpLog> make_process_log(Process& process, oplog::OpLog& inner, AppendWitness witness,
                                               std::function<void()> before_snapshot, Canary canary,
                                               std::uint64_t seed);

}  // namespace steelyard::sim
