// Ways in which the parts under the store may be broken on purpose, to prove that the checkers see it.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "oplog/op_log.h"

namespace steelyard::sim {

enum class Canary : std::uint8_t {
  kNone,
  kFlushLies,   ///< the tier says that it flushed and did not
  kAppendLies,  ///< the log sometimes acknowledges an append that it did not make
  kGoneLies,    ///< provably_gone says yes of living processes
  kRemoveLies,  ///< the tier says that it removed an attempt and did not: what delete and abort stand on
  kGcLies,      ///< the tier says that it freed content and did not
  kRepairLies,  ///< the tier says that it gave all names of an object a good inode and did not
  kMarkerLies,  ///< the tier says that it wrote a marker or a copy of the catalog and did not: recover's only sources
  kHotPutLies,  ///< the memory puts other bytes than it was given
  kListLies,    ///< a tier says that it put objects and lists them, and does not have them
  kHotRemoveLies,     ///< the memory says that it removed replicas and did not
  kHotRemoveSpreads,  ///< what is removed from memory loses its bytes on the disk too
  kReservationLies,   ///< the memory reserves more than operations use, and keeps it
  kProgressLies,      ///< the log turns the progress of runners back
  kHistoryLies,       ///< the log forgets operations that ended
  kClaimLies,         ///< the log says HOT of what is MIXED
  kShareLies,         ///< the log has another share than the one that was observed
  kPermitLies,        ///< the log forgets what may be removed
  kReadyLies,         ///< the log says READY of some of what is DEGRADED
  kRunnerLies,        ///< the log says that an operation was ended that was cancelled
  kLeaseLies,         ///< the log does not show who holds leases
  kGenerationLies,    ///< the log gives some records the generation that they had before
  kRequestLies,       ///< the log forgets which requests it has answered
  kBoundLies,         ///< the log has a later bound of the leases that a delete waits for
  kPolicyLies,        ///< the log shows manual revisions as pinned to be cold
  kUseLies,           ///< the log shows last uses in the opposite order
  kRowLies,           ///< the log shows a record as no append left it
  kNameLies,          ///< the log shows records that name another memory than they do
  kCooldownLies,      ///< the store knows no cool-down
};

/// What a log broken in that way answers to who reads it.
Status view_broken(Canary canary, const std::function<Status(const oplog::StateView& view)>& read,
                   const oplog::StateView& view);

/// What a log broken in that way appends, after it has shown the state in its way.
Result<std::vector<oplog::Entry>> prepare_broken(Canary canary, const oplog::OpLog::Prepare& prepare,
                                                 const oplog::StateView& view, const oplog::Now& now);

}  // namespace steelyard::sim
