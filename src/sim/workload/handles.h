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
#include <vector>

#include "oplog/op_log.h"
#include "sim/random.h"
#include "sim/runtime/world.h"
#include "tiers/simulated.h"
#include "tiers/tier.h"

namespace steelyard::sim {

/// Ways in which the parts under the store may be broken on purpose, to prove that the checkers see it.
enum class Canary {
  kNone,
  kFlushLies,   ///< the tier says that it flushed and did not
  kAppendLies,  ///< the log sometimes acknowledges an append that it did not make
  kGoneLies,    ///< provably_gone says yes of living processes
  kRemoveLies,  ///< the tier says that it removed an attempt and did not: what delete and abort stand on
  kGcLies,      ///< the tier says that it freed content and did not
  kRepairLies,  ///< the tier says that it gave all names of an object a good inode and did not
  kMarkerLies,  ///< the tier says that it wrote a marker or a copy of the catalog and did not: recover's only sources
};

/// A put under way, with bytes of its own.
struct BuriedPut {
  std::shared_ptr<tiers::Tier> tier;  ///< keeps what the put refers to
  std::vector<std::byte> bytes;
  std::unique_ptr<tiers::PendingPut> put;
  std::unique_ptr<tiers::PutStream> stream;
};

/// Puts that dead processes had under way.
class Graveyard {
 public:
  void bury(BuriedPut put) { puts_.push_back(std::move(put)); }
  /// One of them completes after all, chosen by `random`; false when there is none.
  bool complete_one(Random& random);
  bool empty() const { return puts_.empty(); }

 private:
  std::list<BuriedPut> puts_;
};

/// The tier as `process` has it. `graveyard` must outlive it and everything made by it.
std::unique_ptr<tiers::Tier> make_process_tier(Process& process, std::shared_ptr<tiers::Tier> inner,
                                               Graveyard& graveyard, Canary canary);

/// Told of every append that a process made, before the process knows of it.
using AppendWitness = std::function<void(Process& process, const oplog::Append& append)>;

/// The log as `process` has it; `inner` must outlive it.
std::unique_ptr<oplog::OpLog> make_process_log(Process& process, oplog::OpLog& inner, AppendWitness witness,
                                               Canary canary, std::uint64_t seed);

}  // namespace steelyard::sim
