#include <algorithm>
#include <cstring>

#include "tiers/simulated/disk_state.h"

namespace steelyard::tiers {

/// splitmix64: every seed gives a full-period sequence.
std::uint64_t SimulatedDisk::State::next_random() {
  random_state += 0x9e3779b97f4a7c15ULL;
  std::uint64_t value = random_state;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ULL;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebULL;
  return value ^ (value >> 31);
}

std::uint64_t SimulatedDisk::State::used_bytes() const {
  std::set<const Inode*> seen;
  std::uint64_t bytes = 0;
  const auto count = [&](const std::shared_ptr<Inode>& inode) {
    if (seen.insert(inode.get()).second) bytes += inode->bytes.size();
  };
  for (const auto& [name, attempt] : attempts) {
    for (const auto& [object, entry] : attempt.objects) count(entry.inode);
  }
  for (const auto& [digest, entry] : content) count(entry.inode);
  return bytes;
}

std::shared_ptr<SimulatedDisk::State::Inode> SimulatedDisk::State::find(const ObjectName& name) const {
  const auto attempt = attempts.find(name.in);
  if (attempt == attempts.end()) return nullptr;
  const auto object = attempt->second.objects.find(name);
  return object == attempt->second.objects.end() ? nullptr : object->second.inode;
}

SimulatedDisk::State::Attempt& SimulatedDisk::State::make(const AttemptName& name) {
  Attempt& attempt = attempts[name];
  if (!attempt.is_there()) attempt.made = next_made++;
  return attempt;
}

std::uint64_t SimulatedDisk::State::links(const Inode& inode) const {
  std::uint64_t links = 0;
  for (const auto& [name, attempt] : attempts) {
    for (const auto& [object, entry] : attempt.objects) links += entry.inode.get() == &inode ? 1 : 0;
  }
  for (const auto& [digest, entry] : content) links += entry.inode.get() == &inode ? 1 : 0;
  return links;
}

SimulatedDisk::SimulatedDisk(std::uint64_t seed, SimulatedMedium medium) : state_(std::make_shared<State>()) {
  state_->random_state = seed;
  state_->medium = medium;
  state_->place = "simulated memory " + std::to_string(seed);
}
SimulatedDisk::~SimulatedDisk() = default;

void SimulatedDisk::set_capacity(std::optional<std::uint64_t> bytes) {
  const std::lock_guard lock(state_->mutex);
  state_->capacity_bytes = bytes;
}

void SimulatedDisk::crash() {
  State& state = *state_;
  const std::lock_guard lock(state.mutex);
  ++state.boot;
  if (state.in_memory()) {
    state.wipe();
    return;
  }
  const auto kept = [&] { return state.random_below(2) == 0; };
  for (auto& [attempt_name, attempt] : state.attempts) {
    for (auto& [object, name] : attempt.removed) {
      if (!kept() && !attempt.objects.contains(object)) attempt.objects.emplace(object, name);
    }
    attempt.removed.clear();
    for (auto name = attempt.objects.begin(); name != attempt.objects.end();) {
      name = name->second.durable || kept() ? std::next(name) : attempt.objects.erase(name);
    }
    for (auto temporary = attempt.temporaries.begin(); temporary != attempt.temporaries.end();) {
      temporary = kept() ? std::next(temporary) : attempt.temporaries.erase(temporary);
    }
  }
  std::erase_if(state.content, [&](const auto& entry) { return !entry.second.durable && !kept(); });
  for (auto& [digest, entry] : state.content) entry.durable = true;
  for (auto& [attempt_name, attempt] : state.attempts) {
    for (auto& [object, name] : attempt.objects) {
      name.durable = true;
      State::Inode& inode = *name.inode;
      if (inode.durable) continue;
      inode.durable = true;
      const std::uint64_t fate = state.random_below(3);
      if (fate == 1) inode.bytes.clear();
      if (fate == 2 && !inode.bytes.empty()) {
        const std::uint64_t keep = state.random_below(inode.bytes.size());
        std::fill(inode.bytes.begin() + static_cast<std::ptrdiff_t>(keep), inode.bytes.end(), std::byte{0});
      }
    }
  }
}

void SimulatedDisk::kill_pending_puts() {
  const std::lock_guard lock(state_->mutex);
  state_->unnamed.clear();
  // A put finds its temporary by number; a number it does not know stays until remove_temporaries.
  for (auto& [name, attempt] : state_->attempts) {
    std::map<std::uint64_t, std::int64_t> orphans;
    for (const auto& [number, made_at_ms] : attempt.temporaries) orphans.emplace(state_->next_temporary++, made_at_ms);
    attempt.temporaries = std::move(orphans);
  }
}

bool SimulatedDisk::rot(const ObjectName& name, std::uint64_t byte_offset) {
  const std::lock_guard lock(state_->mutex);
  const auto inode = state_->find(name);
  if (!inode || byte_offset >= inode->bytes.size()) return false;
  inode->bytes[static_cast<std::size_t>(byte_offset)] ^= std::byte{1};
  return true;
}

bool SimulatedDisk::truncate(const ObjectName& name, std::uint64_t bytes) {
  const std::lock_guard lock(state_->mutex);
  const auto inode = state_->find(name);
  if (!inode || bytes > inode->bytes.size()) return false;
  inode->bytes.resize(static_cast<std::size_t>(bytes));
  return true;
}

void SimulatedDisk::add_foreign(const AttemptName& attempt, const std::string& name) {
  const std::lock_guard lock(state_->mutex);
  state_->make(attempt).foreign.insert(name);
}

void SimulatedDisk::block_removal(const ObjectName& name, bool blocked) {
  const std::lock_guard lock(state_->mutex);
  if (blocked) {
    state_->blocked_removals.insert(name);
  } else {
    state_->blocked_removals.erase(name);
  }
}

std::uint64_t SimulatedDisk::temporaries() const {
  const std::lock_guard lock(state_->mutex);
  std::uint64_t count = 0;
  for (const auto& [name, attempt] : state_->attempts) count += attempt.temporaries.size();
  return count;
}

std::uint64_t SimulatedDisk::written_bytes() const {
  const std::lock_guard lock(state_->mutex);
  return state_->written_bytes;
}

}  // namespace steelyard::tiers
