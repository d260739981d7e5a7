// Replacement on the simulated disk, in the steps of directory/replace.cc: between the temporary name beside an object
// and its renaming other processes have their turn.
#include <algorithm>

#include "tiers/directory/layout.h"
#include "tiers/simulated/disk_access.h"

namespace steelyard::tiers {
namespace {

using directory::describe;

constexpr int kRoundsMax = 5;

}  // namespace

Status DiskAccess::check_room(std::uint64_t bytes, const ObjectName& name) const {
  if (!state_->capacity_bytes.has_value()) return {};
  const auto reserved = state_->reservations.find({this, name.in.operation});
  const std::uint64_t own = reserved == state_->reservations.end() ? 0 : std::min(reserved->second, bytes);
  const std::uint64_t used = state_->used_bytes() + state_->reserved_bytes() - own;
  if (used + bytes <= *state_->capacity_bytes) return {};
  const std::uint64_t free_bytes = *state_->capacity_bytes - std::min(used, *state_->capacity_bytes);
  return {Code::kNoSpace, "write " + describe(name) + ": wanted " + std::to_string(bytes) + " bytes; " +
                              std::to_string(free_bytes) + " bytes are free"};
}

void DiskAccess::spend(std::uint64_t bytes, const AttemptName& attempt) {
  const auto reserved = state_->reservations.find({this, attempt.operation});
  if (reserved != state_->reservations.end()) reserved->second -= std::min(reserved->second, bytes);
}

std::uint64_t DiskAccess::make_temporary(const AttemptName& attempt) {
  const std::uint64_t number = state_->next_temporary++;
  state_->make(attempt).temporaries.emplace(number, runtime_.wall_ms());
  live_temporaries_.insert(number);
  return number;
}

void DiskAccess::end_temporary(const AttemptName& attempt, std::uint64_t number) {
  live_temporaries_.erase(number);
  if (alive().ok()) state_->attempts[attempt].temporaries.erase(number);
}

void DiskAccess::add_content(const Digest& sha256, const std::shared_ptr<State::Inode>& inode, bool replace) {
  const auto found = state_->content.find(sha256);
  if (found != state_->content.end() && !replace && found->second.inode->bytes.size() == inode->bytes.size()) return;
  state_->content[sha256] = {inode, false, runtime_.wall_ms()};
}

Result<bool> DiskAccess::give_content(const std::vector<ObjectName>& names, const Digest& sha256, std::uint64_t bytes) {
  SY_RETURN_IF_ERROR(fault("tier.replace"));
  {
    const std::lock_guard lock(state_->mutex);
    SY_RETURN_IF_ERROR(alive());
    const auto found = state_->content.find(sha256);
    if (found == state_->content.end() || found->second.inode->bytes.size() != bytes) return false;
  }
  for (const ObjectName& name : names) SY_RETURN_IF_ERROR(give_one(name, sha256, bytes, &name == &names.back()));
  return true;
}

/// Every name is durable when the call returns.
Status DiskAccess::give_one(const ObjectName& name, const Digest& sha256, std::uint64_t bytes, bool may_be_absent) {
  for (int round = 0; round < kRoundsMax; ++round) {
    std::shared_ptr<State::Inode> inode;
    std::uint64_t temporary = 0;
    {
      const std::lock_guard lock(state_->mutex);
      SY_RETURN_IF_ERROR(alive());
      const auto there = state_->find(name);
      if (!there && !may_be_absent) return {};
      const auto entry = state_->content.find(sha256);
      if (entry == state_->content.end() || entry->second.inode->bytes.size() != bytes) {
        return {Code::kUnavailable, "the content entry of the new bytes went away"};
      }
      inode = entry->second.inode;
      if (there == inode) return {};
      temporary = make_temporary(name.in);
    }
    SY_POINT(runtime_, "replace.after_link");
    const std::lock_guard lock(state_->mutex);
    SY_RETURN_IF_ERROR(alive());
    State::Attempt& attempt = state_->attempts[name.in];
    const bool still_there = attempt.temporaries.contains(temporary);
    if (still_there && (may_be_absent || state_->find(name))) {
      inode->durable = true;
      attempt.objects[name] = {inode, true};
      attempt.removed.erase(name);
    }
    end_temporary(name.in, temporary);
    if (still_there) return {};
  }
  return {Code::kUnavailable, "the temporary name beside " + describe(name) + " is removed again and again"};
}

/// A replacement under way: the bytes gathered.
class SimulatedReplacement final : public PutStream {
 public:
  SimulatedReplacement(DiskAccess& disk, std::vector<ObjectName> names, std::uint64_t bytes, const Digest& sha256)
      : disk_(disk), names_(std::move(names)), bytes_(bytes), sha256_(sha256) {}
  Status append(ByteView bytes) override {
    if (bytes.size() > bytes_ - gathered_.size()) {
      return {Code::kCorrupt, "more bytes were given than promised for " + describe(names_.back())};
    }
    gathered_.insert(gathered_.end(), bytes.begin(), bytes.end());
    return {};
  }
  Result<PutOutcome> finish() override {
    if (gathered_.size() != bytes_) {
      return Status(Code::kCorrupt, std::to_string(gathered_.size()) + " bytes were given for " +
                                        describe(names_.back()) + ", " + std::to_string(bytes_) + " were promised");
    }
    for (const char* point : {"tier.write", "tier.sync"}) SY_RETURN_IF_ERROR(disk_.fault(point));
    DiskAccess::State& state = *disk_.state_;
    const auto inode = std::make_shared<DiskAccess::State::Inode>();
    {
      const std::lock_guard lock(state.mutex);
      SY_RETURN_IF_ERROR(disk_.alive());
      SY_RETURN_IF_ERROR(disk_.check_room(bytes_, names_.back()));
      inode->bytes = std::move(gathered_);
      inode->durable = true;
      inode->being_named = true;
      state.written_bytes += bytes_;
      disk_.spend(bytes_, names_.back().in);
      disk_.add_content(sha256_, inode, true);
    }
    const auto given = disk_.give_content(names_, sha256_, bytes_);
    {
      const std::lock_guard lock(state.mutex);
      inode->being_named = false;
      state.drop_unused_content();
    }
    SY_RETURN_IF_ERROR(given.status());
    if (!*given) return Status(Code::kUnavailable, "the content entry of the new bytes went away");
    return PutOutcome::kWritten;
  }

 private:
  DiskAccess& disk_;
  std::vector<ObjectName> names_;
  std::uint64_t bytes_;
  Digest sha256_;
  std::vector<std::byte> gathered_;
};

Result<std::unique_ptr<PutStream>> DiskAccess::start_replacement(std::vector<ObjectName> names, std::uint64_t bytes,
                                                                 const Digest& sha256) {
  SY_RETURN_IF_ERROR(fault("tier.open_tmp"));
  return std::unique_ptr<PutStream>(std::make_unique<SimulatedReplacement>(*this, std::move(names), bytes, sha256));
}

}  // namespace steelyard::tiers
