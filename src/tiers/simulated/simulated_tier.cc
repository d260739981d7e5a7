#include "tiers/simulated/simulated_tier.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "base/check.h"
#include "base/checked.h"
#include "tiers/directory/layout.h"
#include "tiers/open.h"

namespace steelyard::tiers {
namespace {

using directory::describe;
using State = SimulatedDisk::State;

constexpr std::uint64_t kEndlessBytes = std::uint64_t{1} << 50;

std::uint64_t storage_of(const State::Inode& inode) { return reinterpret_cast<std::uintptr_t>(&inode); }

class EndedRead final : public PendingRead {
 public:
  explicit EndedRead(Status status) : status_(std::move(status)) {}
  Status finish() override { return status_; }

 private:
  Status status_;
};

Traits traits_of(SimulatedMedium medium) {
  if (medium == SimulatedMedium::kDisk) {
    return {.name = "cold", .medium = Medium::kDisk, .listable = true, .durable = true};
  }
  return {.name = "hot",
          .medium = Medium::kMemory,
          .mappable = true,
          .listable = true,
          .durable = false,
          .per_operation = true,
          .keeps_unused_content = false};
}

}  // namespace

SimulatedTier::SimulatedTier(Runtime& runtime, std::shared_ptr<State> state)
    : DiskAccess(runtime, std::move(state)), traits_(traits_of(state_->medium)) {}

Result<std::string> SimulatedTier::instance() {
  const std::lock_guard lock(state_->mutex);
  SY_RETURN_IF_ERROR(alive());
  return state_->instance;
}

Result<ObjectStat> SimulatedTier::stat(const ObjectName& name) {
  SY_RETURN_IF_ERROR(check(name));
  const std::lock_guard lock(state_->mutex);
  SY_RETURN_IF_ERROR(alive());
  const auto inode = state_->find(name);
  if (!inode) return not_found(describe(name));
  return stat_of(name, *inode);
}

Result<std::unique_ptr<PendingRead>> SimulatedTier::start_read(const ObjectName& name, std::vector<ReadRange> ranges) {
  SY_RETURN_IF_ERROR(check(name));
  Status status = fault("tier.read");
  const std::lock_guard lock(state_->mutex);
  SY_RETURN_IF_ERROR(alive());
  const auto inode = state_->find(name);
  if (!inode) return not_found(describe(name));
  if (status.ok()) status = fill(inode->bytes, describe(name), ranges);
  return std::unique_ptr<PendingRead>(std::make_unique<EndedRead>(std::move(status)));
}

Result<std::vector<ObjectStat>> SimulatedTier::list_attempt(const AttemptName& attempt,
                                                            std::vector<std::string>* foreign) {
  SY_RETURN_IF_ERROR(check(attempt));
  const std::lock_guard lock(state_->mutex);
  SY_RETURN_IF_ERROR(alive());
  std::vector<ObjectStat> objects;
  const auto found = state_->attempts.find(attempt);
  if (found == state_->attempts.end()) return objects;
  for (const auto& [name, object] : found->second.objects) objects.push_back(stat_of(name, *object.inode));
  if (foreign != nullptr) {
    foreign->insert(foreign->end(), found->second.foreign.begin(), found->second.foreign.end());
  }
  return objects;
}

Result<GroupListing> SimulatedTier::list_group(const std::string& group) {
  SY_RETURN_IF_ERROR(check(AttemptName{group, 0}));
  const std::lock_guard lock(state_->mutex);
  SY_RETURN_IF_ERROR(alive());
  return listing_of(group);
}

Result<std::vector<std::string>> SimulatedTier::list_groups() {
  const std::lock_guard lock(state_->mutex);
  SY_RETURN_IF_ERROR(alive());
  std::set<std::string> groups;
  for (const auto& [group, marker] : state_->deleting) groups.insert(group);
  for (const auto& [name, attempt] : state_->attempts) {
    if (attempt.is_there()) groups.insert(name.group);
  }
  return std::vector<std::string>(groups.begin(), groups.end());
}

Result<std::vector<ContentEntry>> SimulatedTier::list_content(std::uint8_t first_byte) {
  const std::lock_guard lock(state_->mutex);
  SY_RETURN_IF_ERROR(alive());
  std::vector<ContentEntry> entries;
  for (const auto& [digest, entry] : state_->content) {
    if (digest.bytes.front() == std::byte{first_byte}) entries.push_back(entry_of(digest, entry));
  }
  return entries;
}

Result<ContentEntry> SimulatedTier::stat_content(const Digest& sha256) {
  const std::lock_guard lock(state_->mutex);
  SY_RETURN_IF_ERROR(alive());
  const auto found = state_->content.find(sha256);
  if (found == state_->content.end()) return not_found("content " + sha256.hex());
  return entry_of(sha256, found->second);
}

Result<std::unique_ptr<PendingRead>> SimulatedTier::start_read_content(const Digest& sha256,
                                                                       std::vector<ReadRange> ranges) {
  Status status = fault("tier.read");
  const std::lock_guard lock(state_->mutex);
  SY_RETURN_IF_ERROR(alive());
  const auto found = state_->content.find(sha256);
  if (found == state_->content.end()) return not_found("content " + sha256.hex());
  if (status.ok()) status = fill(found->second.inode->bytes, "content " + sha256.hex(), ranges);
  return std::unique_ptr<PendingRead>(std::make_unique<EndedRead>(std::move(status)));
}

Result<bool> SimulatedTier::relink(const std::vector<ObjectName>& names, const Digest& sha256, std::uint64_t bytes) {
  SY_RETURN_IF_ERROR(check_payloads(names));
  auto given = give_content(names, sha256, bytes);
  const std::lock_guard lock(state_->mutex);
  state_->drop_unused_content();
  return given;
}

Result<std::unique_ptr<PutStream>> SimulatedTier::open_replacement(std::vector<ObjectName> names, std::uint64_t bytes,
                                                                   const Digest& sha256) {
  SY_RETURN_IF_ERROR(check_payloads(names));
  return start_replacement(std::move(names), bytes, sha256);
}

Result<TierUsage> SimulatedTier::usage(const std::function<void(const ObjectStat&)>& each) {
  const std::lock_guard lock(state_->mutex);
  SY_RETURN_IF_ERROR(alive());
  for (const auto& [attempt_name, attempt] : state_->attempts) {
    for (const auto& [name, object] : attempt.objects) {
      if (each && name.kind == ObjectKind::kPayload) each(stat_of(name, *object.inode));
    }
  }
  TierUsage usage;
  usage.bytes = state_->used_bytes();
  usage.capacity_bytes = state_->capacity_bytes.value_or(kEndlessBytes);
  const std::uint64_t taken = usage.bytes + state_->reserved_bytes();
  usage.free_bytes = usage.capacity_bytes - std::min(usage.capacity_bytes, taken);
  usage.over_bytes = taken - std::min(usage.capacity_bytes, taken);
  return usage;
}

Result<Room> SimulatedTier::room() {
  SY_ASSIGN_OR_RETURN(const TierUsage now, usage({}));
  return Room{now.free_bytes, "the simulated tier", "it has " + std::to_string(now.capacity_bytes) + " bytes",
              "make it larger", now.over_bytes};
}

ObjectStat SimulatedTier::stat_of(const ObjectName& name, const State::Inode& inode) const {
  return {name, inode.bytes.size(), storage_of(inode), state_->links(inode)};
}

ContentEntry SimulatedTier::entry_of(const Digest& sha256, const State::Entry& entry) const {
  return {sha256, entry.inode->bytes.size(), state_->links(*entry.inode), entry.changed_at_ms,
          storage_of(*entry.inode)};
}

Status SimulatedTier::check(const AttemptName& attempt) const {
  SY_RETURN_IF_ERROR(directory::check_attempt(attempt));
  if (attempt.operation.empty() || traits_.per_operation) return {};
  return {Code::kInvalidArgument, "this tier keeps no objects by operation (" + describe(attempt) + ")"};
}

Status SimulatedTier::check(const ObjectName& name) const {
  SY_RETURN_IF_ERROR(directory::check_name(name));
  return check(name.in);
}

Status SimulatedTier::check_payloads(const std::vector<ObjectName>& names) const {
  if (names.empty()) return {Code::kInvalidArgument, "a replacement without a name"};
  for (const ObjectName& name : names) {
    SY_RETURN_IF_ERROR(check(name));
    if (name.kind != ObjectKind::kPayload) return {Code::kInvalidArgument, describe(name) + " is no payload object"};
  }
  return {};
}

Status SimulatedTier::fill(const std::vector<std::byte>& bytes, const std::string& what,
                           const std::vector<ReadRange>& ranges) {
  for (const ReadRange& range : ranges) {
    if (range.into.empty()) continue;
    const auto end = checked_add(range.offset, static_cast<std::uint64_t>(range.into.size()));
    if (!end.has_value() || *end > bytes.size()) {
      return {Code::kCorrupt, what + " ends early: wanted " + std::to_string(range.into.size()) + " bytes at offset " +
                                  std::to_string(range.offset) + "; it has " + std::to_string(bytes.size())};
    }
    std::memcpy(range.into.data(), bytes.data() + range.offset, range.into.size());
  }
  return {};
}

GroupListing SimulatedTier::listing_of(const std::string& group) const {
  GroupListing listing;
  listing.deleting = state_->deleting.contains(group);
  for (auto at = state_->attempts.lower_bound({group, 0}); at != state_->attempts.end() && at->first.group == group;
       ++at) {
    if (!at->second.is_there()) continue;
    if (!at->first.operation.empty()) {
      listing.by_operation.push_back(at->first);
      continue;
    }
    listing.attempts.push_back(at->first.attempt);
    if (at->second.committed.has_value()) listing.committed_attempts.push_back(at->first.attempt);
  }
  return listing;
}

Result<std::unique_ptr<Tier>> open_simulated(Runtime& runtime, std::shared_ptr<SimulatedDisk> disk, bool create) {
  SY_CHECK(disk != nullptr, "a simulated tier needs a disk");
  State& state = *disk->state_;
  const std::lock_guard lock(state.mutex);
  if (state.in_memory() && state.instance.empty()) {
    if (!create) return Status(Code::kNotFound, "there is no instance of the hot tier");
    state.instance = new_instance_id(runtime, state.place);
  }
  return std::unique_ptr<Tier>(std::make_unique<SimulatedTier>(runtime, disk->state_));
}

}  // namespace steelyard::tiers
