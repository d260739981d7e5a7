// What really lies in the memories of the simulated machine, read past every fault, and whether the records say so.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sim/checkers/model.h"
#include "tiers/simulated.h"

namespace steelyard::sim {

using Memories = std::vector<std::shared_ptr<tiers::SimulatedDisk>>;

/// The instance that a memory has now; empty: none.
std::string instance_of(Runtime& machine, const std::shared_ptr<tiers::SimulatedDisk>& memory);

/// The payload objects of a revision's committed attempt in one memory.
struct MemoryFindings {
  std::string instance;       ///< empty: there is none
  std::vector<bool> there;    ///< by object number: one of the right size
  std::vector<bool> whole;    ///< one whose bytes are right, or rotted there on purpose
  std::uint64_t members = 0;  ///< there
  std::uint64_t bytes = 0;    ///< of those
};
MemoryFindings look_into(const Model& model, Runtime& machine, const std::shared_ptr<tiers::SimulatedDisk>& memory,
                         const Revision& revision);

/// A record that is HOT or MIXED names an instance that has at least so many members and bytes, whole, unless it is
/// gone.
void check_claim(Model& model, Runtime& machine, const Memories& memories, const Revision& revision);

/// An operation with a ratio is DONE: what it brought is in the memory where it worked, or what it took is not there.
/// `late`: a write of a dead process may have landed there since it began.
void check_set(Model& model, Runtime& machine, const Memories& memories, const Revision& revision,
               const metadata::Operation& ended, bool late);

/// After a reconciliation in peace by a process that has mounted `own`: the record says what lies in the memory it
/// names, neither more nor less. Not for one whose manifest is damaged: nobody knows its members then.
void check_exact(Model& model, Runtime& machine, const Memories& memories, std::size_t own, const Revision& revision);

}  // namespace steelyard::sim
