// DiskAccess: how the tier of one process reaches a SimulatedDisk, and the replacement of objects over it.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/runtime.h"
#include "tiers/simulated/disk_state.h"

namespace steelyard::tiers {

class DiskAccess {
 public:
  using State = SimulatedDisk::State;

  DiskAccess(Runtime& runtime, std::shared_ptr<State> state)
      : runtime_(runtime), state_(std::move(state)), boot_(state_->boot) {}

  // --- without the disk's mutex ---

  Status fault(const char* point) {
    const int error = runtime_.point(point);
    return error == 0 ? Status() : errno_status(error, point, "simulated disk");
  }
  /// As Tier::relink and Tier::open_replacement, for names that were checked.
  Result<bool> give_content(const std::vector<ObjectName>& names, const Digest& sha256, std::uint64_t bytes);
  Result<std::unique_ptr<PutStream>> start_replacement(std::vector<ObjectName> names, std::uint64_t bytes,
                                                       const Digest& sha256);

  // --- under the disk's mutex ---

  Status alive() const {
    if (state_->boot == boot_) return {};
    if (state_->in_memory()) return {Code::kUnavailable, "the instance of this tier is gone"};
    return {Code::kUnavailable, "the machine of this tier has crashed"};
  }
  /// Others' reservations are as good as used; the operation's own serves it.
  Status check_room(std::uint64_t bytes, const ObjectName& name) const;
  /// They were written: less of the reservation is left.
  void spend(std::uint64_t bytes, const AttemptName& attempt);
  std::uint64_t make_temporary(const AttemptName& attempt);
  void end_temporary(const AttemptName& attempt, std::uint64_t number);
  void add_content(const Digest& sha256, const std::shared_ptr<State::Inode>& inode, bool replace);

 protected:
  friend class SimulatedPut;
  friend class SimulatedReplacement;

  Runtime& runtime_;
  std::shared_ptr<State> state_;
  std::uint64_t boot_;
  std::set<std::uint64_t> live_temporaries_;  ///< guarded by the disk's mutex

 private:
  Status give_one(const ObjectName& name, const Digest& sha256, std::uint64_t bytes, bool may_be_absent);
};

}  // namespace steelyard::tiers
