// What a SimulatedDisk that stands for a memory does: it vanishes, frees what nobody uses, takes reservations and
// locks, and is mapped.
#include <errno.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "base/checked.h"
#include "tiers/directory/layout.h"
#include "tiers/page.h"
#include "tiers/simulated/simulated_tier.h"

namespace steelyard::tiers {
namespace {

using directory::describe;
using State = SimulatedDisk::State;

}  // namespace

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

Status SimulatedTier::map(const ObjectName& name, std::uint64_t bytes, const AddressRange& range, std::size_t offset) {
  if (!traits_.mappable) return Tier::map(name, bytes, range, offset);
  SY_RETURN_IF_ERROR(check(name));
  if (offset % kPageBytes != 0 || offset > range.size() || bytes > range.size() - offset) {
    return {Code::kInvalidArgument, "cannot map " + describe(name) + " there"};
  }
  SY_RETURN_IF_ERROR(fault("tier.map"));
  const std::lock_guard lock(state_->mutex);
  SY_RETURN_IF_ERROR(alive());
  const auto inode = state_->find(name);
  if (!inode) return not_found(describe(name));
  if (inode->bytes.size() != bytes) {
    return {Code::kCorrupt,
            describe(name) + " has " + std::to_string(inode->bytes.size()) + " bytes, wanted " + std::to_string(bytes)};
  }
  // A copy stands for the mapping: what is mapped never changes.
  std::byte* at = range.data() + offset;
  const std::size_t pages = (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
  if (pages == 0) return {};
  if (::mprotect(at, pages, PROT_READ | PROT_WRITE) != 0) return errno_status(errno, "mprotect", describe(name));
  std::memcpy(at, inode->bytes.data(), bytes);
  std::memset(at + bytes, 0, pages - bytes);
  if (::mprotect(at, pages, PROT_READ) != 0) return errno_status(errno, "mprotect", describe(name));
  return {};
}

/// Space that a tier holds for an operation.
class SimulatedReservation final : public Reservation {
 public:
  SimulatedReservation(std::shared_ptr<State> state, State::ReservationName name)
      : state_(std::move(state)), name_(std::move(name)) {}
  SimulatedReservation(const SimulatedReservation&) = delete;
  SimulatedReservation& operator=(const SimulatedReservation&) = delete;
  ~SimulatedReservation() override {
    const std::lock_guard lock(state_->mutex);
    state_->reservations.erase(name_);
  }

 private:
  std::shared_ptr<State> state_;
  State::ReservationName name_;
};

Result<std::unique_ptr<Reservation>> SimulatedTier::reserve(const std::string& operation, std::uint64_t bytes) {
  if (!traits_.per_operation) return Tier::reserve(operation, bytes);
  SY_RETURN_IF_ERROR(check(AttemptName{std::string(64, '0'), 0, operation}));
  SY_RETURN_IF_ERROR(fault("tier.claim"));
  const std::lock_guard lock(state_->mutex);
  SY_RETURN_IF_ERROR(alive());
  const State::ReservationName name{this, operation};
  SY_RETURN_IF_ERROR(state_->reserve(name, bytes));
  return std::unique_ptr<Reservation>(std::make_unique<SimulatedReservation>(state_, name));
}

class SimulatedGroupLock final : public GroupLock {
 public:
  SimulatedGroupLock(std::shared_ptr<State> state, std::string group, bool exclusive)
      : state_(std::move(state)), boot_(state_->boot), group_(std::move(group)), exclusive_(exclusive) {}
  SimulatedGroupLock(const SimulatedGroupLock&) = delete;
  SimulatedGroupLock& operator=(const SimulatedGroupLock&) = delete;
  ~SimulatedGroupLock() override {
    const std::lock_guard lock(state_->mutex);
    const auto held = state_->locks.find(group_);
    if (state_->boot != boot_ || held == state_->locks.end()) return;
    if (exclusive_) {
      held->second.exclusive = false;
    } else {
      --held->second.shared;
    }
    if (!held->second.exclusive && held->second.shared == 0) state_->locks.erase(held);
  }

 private:
  std::shared_ptr<State> state_;
  const std::uint64_t boot_;
  const std::string group_;
  const bool exclusive_;
};

Result<std::unique_ptr<GroupLock>> SimulatedTier::try_lock_group(const std::string& group, bool exclusive) {
  if (!traits_.per_operation) return Tier::try_lock_group(group, exclusive);
  SY_RETURN_IF_ERROR(check(AttemptName{group, 1, {}}));
  SY_RETURN_IF_ERROR(fault("tier.lock_group"));
  const std::lock_guard lock(state_->mutex);
  SY_RETURN_IF_ERROR(alive());
  State::Locks& held = state_->locks[group];
  if (held.exclusive || (exclusive && held.shared > 0)) return std::unique_ptr<GroupLock>();
  held.exclusive = exclusive;
  held.shared += exclusive ? 0 : 1;
  return std::unique_ptr<GroupLock>(std::make_unique<SimulatedGroupLock>(state_, group, exclusive));
}

}  // namespace steelyard::tiers
