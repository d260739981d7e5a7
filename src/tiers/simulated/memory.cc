// What a SimulatedDisk that stands for a memory does: it vanishes, frees what nobody uses, and takes reservations.
#include <algorithm>

#include "base/checked.h"
#include "tiers/simulated/disk_state.h"

namespace steelyard::tiers {

void SimulatedDisk::State::wipe() {
  instance.clear();
  attempts.clear();
  content.clear();
  reservations.clear();
  locks.clear();
  unnamed.clear();
}

void SimulatedDisk::State::drop_unused_content() {
  if (!in_memory()) return;
  std::set<const Inode*> used;
  for (const auto& [name, attempt] : attempts) {
    for (const auto& [object, there] : attempt.objects) used.insert(there.inode.get());
  }
  std::erase_if(content, [&](const auto& entry) {
    const Inode* inode = entry.second.inode.get();
    return !inode->being_named && !used.contains(inode);
  });
}

std::uint64_t SimulatedDisk::State::reserved_bytes() const {
  std::uint64_t bytes = 0;
  for (const auto& [name, left] : reservations) bytes += left;
  return bytes;
}

Status SimulatedDisk::State::reserve(const ReservationName& own, std::uint64_t bytes) {
  if (reservations.contains(own)) {
    return {Code::kInvalidArgument, "operation " + own.second + " has a reservation in this process already"};
  }
  const std::uint64_t taken = used_bytes() + reserved_bytes();
  const auto wanted = checked_add(taken, bytes);
  if (capacity_bytes && (!wanted || *wanted > *capacity_bytes)) {
    return {Code::kNoSpace,
            "the hot tier cannot take " + std::to_string(bytes) + " bytes: hot.capacity is " +
                std::to_string(*capacity_bytes) + " bytes, of which " + std::to_string(taken) + " are used or reserved",
            "evict what is not needed, or raise hot.capacity"};
  }
  reservations[own] = bytes;
  return {};
}

void SimulatedDisk::vanish() {
  const std::lock_guard lock(state_->mutex);
  ++state_->boot;
  state_->wipe();
}

}  // namespace steelyard::tiers
