// What really lies on the simulated disk for a published revision, read past every fault and cache.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "sim/checkers/model.h"
#include "sim/checkpoints.h"
#include "tiers/simulated.h"

namespace steelyard::sim {

struct DiskFindings {
  std::vector<std::string> damaged;  ///< keys of members that are missing or whose bytes are not the published ones
  std::vector<Member> objects;       ///< the manifest, then each payload object; empty when it cannot be read
};

/// Reads every member of the revision's committed attempt. Where nothing of it was damaged on purpose, a member that is
/// missing, short or other than published is a violation, and so is a manifest whose files are not the checkpoint's.
DiskFindings check_on_disk(Model& model, Runtime& machine, const std::shared_ptr<tiers::SimulatedDisk>& disk,
                           const Revision& revision);

/// Whether one payload object of a published revision lies there as it was published.
bool is_whole_on_disk(Runtime& machine, const std::shared_ptr<tiers::SimulatedDisk>& disk, const Revision& revision,
                      std::uint32_t object);

}  // namespace steelyard::sim
