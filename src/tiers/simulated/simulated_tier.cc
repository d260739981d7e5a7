// The simulated tier follows the directory tier's protocol step by step (directory/put.cc), over SimulatedDisk.
#include <errno.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/checked.h"
#include "hash/sha256.h"
#include "tiers/directory/layout.h"
#include "tiers/open.h"
#include "tiers/simulated/disk_access.h"

namespace steelyard::tiers {
namespace {

using directory::describe;
using State = SimulatedDisk::State;

constexpr std::uint64_t kSmallBytes = 1024 * 1024;
constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kEndlessBytes = std::uint64_t{1} << 50;

std::uint64_t storage_of(const State::Inode& inode) { return reinterpret_cast<std::uintptr_t>(&inode); }

class HeldMaking final : public HeldAttempt {
 public:
  HeldMaking(AttemptName name, std::uint64_t made) : HeldAttempt(std::move(name)), made_(made) {}
  std::uint64_t made() const { return made_; }

 private:
  std::uint64_t made_;
};

}  // namespace

class SimulatedTier;

/// A put under way, whole or in pieces: the bytes gathered, and the temporary file that stands for them.
class SimulatedPut final : public PendingPut, public PutStream {
 public:
  SimulatedPut(SimulatedTier& tier, ObjectName name, const Digest& sha256, std::uint64_t bytes, bool replace)
      : tier_(tier), name_(std::move(name)), sha256_(sha256), bytes_(bytes), replace_(replace) {}
  SimulatedPut(const SimulatedPut&) = delete;
  SimulatedPut& operator=(const SimulatedPut&) = delete;
  ~SimulatedPut() override;

  Status begin();
  void ended(PutOutcome outcome) { outcome_ = outcome; }
  /// The caller's memory, read at finish().
  void borrow(ByteView data) { borrowed_ = data; }
  Status append(ByteView bytes) override;
  Result<PutOutcome> finish() override;

 private:
  SimulatedTier& tier_;
  ObjectName name_;
  Digest sha256_;
  std::uint64_t bytes_;
  bool replace_;
  std::optional<PutOutcome> outcome_;
  ByteView borrowed_;
  std::vector<std::byte> gathered_;
  Status refused_;
  std::uint64_t temporary_ = 0;
};

namespace {

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

class SimulatedTier final : public Tier, public DiskAccess {
 public:
  /// With the disk's mutex held.
  SimulatedTier(Runtime& runtime, std::shared_ptr<State> state)
      : DiskAccess(runtime, std::move(state)), traits_(traits_of(state_->medium)) {}

  const Traits& traits() const override { return traits_; }

  Result<std::string> instance() override {
    const std::lock_guard lock(state_->mutex);
    SY_RETURN_IF_ERROR(alive());
    return state_->instance;
  }

  Status map(const ObjectName& name, std::uint64_t bytes, const AddressRange& range, std::size_t offset) override {
    if (!traits_.mappable) return Tier::map(name, bytes, range, offset);
    SY_RETURN_IF_ERROR(check(name));
    if (offset % kPage != 0 || offset > range.size() || bytes > range.size() - offset) {
      return {Code::kInvalidArgument, "cannot map " + describe(name) + " there"};
    }
    SY_RETURN_IF_ERROR(fault("tier.map"));
    const std::lock_guard lock(state_->mutex);
    SY_RETURN_IF_ERROR(alive());
    const auto inode = state_->find(name);
    if (!inode) return not_found(describe(name));
    if (inode->bytes.size() != bytes) {
      return {Code::kCorrupt, describe(name) + " has " + std::to_string(inode->bytes.size()) + " bytes, wanted " +
                                  std::to_string(bytes)};
    }
    // A copy stands for the mapping: what is mapped never changes.
    std::byte* at = range.data() + offset;
    const std::size_t pages = (bytes + kPage - 1) / kPage * kPage;
    if (pages == 0) return {};
    if (::mprotect(at, pages, PROT_READ | PROT_WRITE) != 0) return errno_status(errno, "mprotect", describe(name));
    std::memcpy(at, inode->bytes.data(), bytes);
    std::memset(at + bytes, 0, pages - bytes);
    if (::mprotect(at, pages, PROT_READ) != 0) return errno_status(errno, "mprotect", describe(name));
    return {};
  }

  Result<std::unique_ptr<Reservation>> reserve(const std::string& operation, std::uint64_t bytes) override;
  Result<std::unique_ptr<GroupLock>> try_lock_group(const std::string& group, bool exclusive) override;

  Result<bool> link(const ObjectName& name, const Digest& sha256, std::uint64_t bytes) override {
    SY_RETURN_IF_ERROR(check(name));
    const std::lock_guard lock(state_->mutex);
    SY_RETURN_IF_ERROR(alive());
    SY_ASSIGN_OR_RETURN(const auto outcome, try_link(name, sha256, bytes));
    return outcome.has_value();
  }

  Result<std::unique_ptr<PendingPut>> start_put(const ObjectName& name, ByteView data, const Digest& sha256) override {
    SY_ASSIGN_OR_RETURN(auto put, make_put(name, data.size(), sha256));
    put->borrow(data);
    return std::unique_ptr<PendingPut>(std::move(put));
  }
  Result<std::unique_ptr<PutStream>> open_put(const ObjectName& name, std::uint64_t bytes,
                                              const Digest& sha256) override {
    SY_ASSIGN_OR_RETURN(auto put, make_put(name, bytes, sha256));
    return std::unique_ptr<PutStream>(std::move(put));
  }

  Status flush(const AttemptName& attempt) override {
    SY_RETURN_IF_ERROR(check(attempt));
    SY_RETURN_IF_ERROR(fault("tier.flush"));
    const std::lock_guard lock(state_->mutex);
    SY_RETURN_IF_ERROR(alive());
    const auto found = state_->attempts.find(attempt);
    if (found == state_->attempts.end()) return {};
    found->second.removed.clear();
    for (auto& [name, object] : found->second.objects) object.durable = object.inode->durable = true;
    const auto waiting = waiting_content_.extract(attempt);
    if (waiting.empty()) return {};
    for (const auto& content : waiting.mapped()) {
      if (const auto inode = state_->find(content.name)) add_content(content.sha256, inode, content.replace);
    }
    return {};
  }

  Result<ObjectStat> stat(const ObjectName& name) override {
    SY_RETURN_IF_ERROR(check(name));
    const std::lock_guard lock(state_->mutex);
    SY_RETURN_IF_ERROR(alive());
    const auto inode = state_->find(name);
    if (!inode) return not_found(describe(name));
    return stat_of(name, *inode);
  }

  Result<std::unique_ptr<PendingRead>> start_read(const ObjectName& name, std::vector<ReadRange> ranges) override {
    SY_RETURN_IF_ERROR(check(name));
    Status status = fault("tier.read");
    const std::lock_guard lock(state_->mutex);
    SY_RETURN_IF_ERROR(alive());
    const auto inode = state_->find(name);
    if (!inode) return not_found(describe(name));
    if (status.ok()) status = fill(inode->bytes, describe(name), ranges);
    return std::unique_ptr<PendingRead>(std::make_unique<EndedRead>(std::move(status)));
  }

  Result<std::vector<ObjectStat>> list_attempt(const AttemptName& attempt, std::vector<std::string>* foreign) override {
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

  Result<GroupListing> list_group(const std::string& group) override {
    SY_RETURN_IF_ERROR(check(AttemptName{group, 0}));
    const std::lock_guard lock(state_->mutex);
    SY_RETURN_IF_ERROR(alive());
    return listing_of(group);
  }

  Result<std::vector<std::string>> list_groups() override {
    const std::lock_guard lock(state_->mutex);
    SY_RETURN_IF_ERROR(alive());
    std::set<std::string> groups;
    for (const auto& [group, marker] : state_->deleting) groups.insert(group);
    for (const auto& [name, attempt] : state_->attempts) {
      if (attempt.is_there()) groups.insert(name.group);
    }
    return std::vector<std::string>(groups.begin(), groups.end());
  }

  Status remove(const ObjectName& name) override {
    SY_RETURN_IF_ERROR(check(name));
    SY_RETURN_IF_ERROR(fault("tier.remove"));
    const std::lock_guard lock(state_->mutex);
    SY_RETURN_IF_ERROR(alive());
    const auto attempt = state_->attempts.find(name.in);
    Status status = attempt == state_->attempts.end() ? Status() : remove_object(attempt->second, name);
    state_->drop_unused_content();
    return status;
  }

  Result<std::unique_ptr<HeldAttempt>> hold_attempt(const AttemptName& attempt) override {
    SY_RETURN_IF_ERROR(check(attempt));
    const std::lock_guard lock(state_->mutex);
    SY_RETURN_IF_ERROR(alive());
    const auto found = state_->attempts.find(attempt);
    if (found == state_->attempts.end() || !found->second.is_there()) return not_found(describe(attempt));
    return std::unique_ptr<HeldAttempt>(std::make_unique<HeldMaking>(attempt, found->second.made));
  }

  Status remove_held(const HeldAttempt& attempt) override {
    SY_RETURN_IF_ERROR(fault("tier.remove"));
    const std::lock_guard lock(state_->mutex);
    SY_RETURN_IF_ERROR(alive());
    waiting_content_.erase(attempt.name());
    const auto found = state_->attempts.find(attempt.name());
    if (found == state_->attempts.end()) return {};
    State::Attempt& there = found->second;
    if (there.made != static_cast<const HeldMaking&>(attempt).made()) return {};
    there.committed.reset();
    there.temporaries.clear();
    std::vector<ObjectName> names;
    for (const auto& [name, object] : there.objects) names.push_back(name);
    Status first;
    for (const ObjectName& name : names) {
      Status status = remove_object(there, name);
      if (first.ok()) first = std::move(status);
    }
    state_->drop_unused_content();
    // Removals may still be undone by a crash; the emptied attempt stays in the disk's books, unlisted.
    return first;
  }

  Status remove_temporaries(const AttemptName& attempt, std::int64_t idle_ms) override {
    SY_RETURN_IF_ERROR(check(attempt));
    SY_RETURN_IF_ERROR(fault("tier.remove"));
    const std::lock_guard lock(state_->mutex);
    SY_RETURN_IF_ERROR(alive());
    const auto found = state_->attempts.find(attempt);
    if (found == state_->attempts.end()) return {};
    const std::int64_t now_ms = runtime_.wall_ms();
    std::erase_if(found->second.temporaries, [&](const auto& temporary) {
      return !live_temporaries_.contains(temporary.first) && now_ms - temporary.second >= idle_ms;
    });
    return {};
  }

  Status remove_group(const std::string& group) override {
    SY_RETURN_IF_ERROR(check(AttemptName{group, 0}));
    SY_RETURN_IF_ERROR(fault("tier.remove"));
    const std::lock_guard lock(state_->mutex);
    SY_RETURN_IF_ERROR(alive());
    const GroupListing listing = listing_of(group);
    if (!listing.attempts.empty() || !listing.by_operation.empty()) {
      const AttemptName held =
          listing.attempts.empty() ? listing.by_operation.front() : AttemptName{group, listing.attempts.front()};
      return {Code::kConflict, "there still is " + describe(held)};
    }
    state_->deleting.erase(group);
    return {};
  }

  Status remove_empty_group(const std::string& group) override {
    SY_RETURN_IF_ERROR(check(AttemptName{group, 0}));
    SY_RETURN_IF_ERROR(fault("tier.remove"));
    const std::lock_guard lock(state_->mutex);
    return alive();  // a group in which nothing is left has no folder here
  }

  Result<std::vector<ContentEntry>> list_content(std::uint8_t first_byte) override {
    const std::lock_guard lock(state_->mutex);
    SY_RETURN_IF_ERROR(alive());
    std::vector<ContentEntry> entries;
    for (const auto& [digest, entry] : state_->content) {
      if (digest.bytes.front() == std::byte{first_byte}) entries.push_back(entry_of(digest, entry));
    }
    return entries;
  }

  Status remove_content(const Digest& sha256) override {
    SY_RETURN_IF_ERROR(fault("tier.remove"));
    const std::lock_guard lock(state_->mutex);
    SY_RETURN_IF_ERROR(alive());
    state_->content.erase(sha256);
    return {};
  }

  Status put_committed(const AttemptName& attempt, std::string_view bytes) override {
    SY_RETURN_IF_ERROR(check(attempt));
    SY_RETURN_IF_ERROR(check_durable("a `committed` marker"));
    SY_RETURN_IF_ERROR(fault("tier.marker"));
    const std::lock_guard lock(state_->mutex);
    SY_RETURN_IF_ERROR(alive());
    const auto found = state_->attempts.find(attempt);
    if (found == state_->attempts.end() || !found->second.is_there()) return not_found(describe(attempt));
    auto& committed = found->second.committed;
    if (committed.has_value() && *committed != bytes) {
      return {Code::kConflict, describe(attempt) + " has another `committed` marker"};
    }
    committed = bytes;
    return {};
  }

  Result<std::string> read_committed(const AttemptName& attempt) override {
    SY_RETURN_IF_ERROR(check(attempt));
    const std::lock_guard lock(state_->mutex);
    SY_RETURN_IF_ERROR(alive());
    const auto found = state_->attempts.find(attempt);
    if (found == state_->attempts.end() || !found->second.committed.has_value()) {
      return not_found("the `committed` marker of " + describe(attempt));
    }
    return *found->second.committed;
  }

  Status replace_committed(const AttemptName& attempt, std::string_view bytes) override {
    SY_RETURN_IF_ERROR(check(attempt));
    SY_RETURN_IF_ERROR(check_durable("a `committed` marker"));
    SY_RETURN_IF_ERROR(fault("tier.marker"));
    const std::lock_guard lock(state_->mutex);
    SY_RETURN_IF_ERROR(alive());
    const auto found = state_->attempts.find(attempt);
    if (found == state_->attempts.end() || !found->second.is_there()) return not_found(describe(attempt));
    found->second.committed = bytes;
    return {};
  }

  Status remove_deleting(const std::string& group) override {
    SY_RETURN_IF_ERROR(check(AttemptName{group, 0}));
    SY_RETURN_IF_ERROR(fault("tier.remove"));
    const std::lock_guard lock(state_->mutex);
    SY_RETURN_IF_ERROR(alive());
    state_->deleting.erase(group);
    return {};
  }

  Status check_removable(const std::string& group) override { return check(AttemptName{group, 0}); }

  Status put_deleting(const std::string& group, std::string_view bytes) override {
    SY_RETURN_IF_ERROR(check(AttemptName{group, 0}));
    SY_RETURN_IF_ERROR(check_durable("a `deleting` marker"));
    SY_RETURN_IF_ERROR(fault("tier.marker"));
    const std::lock_guard lock(state_->mutex);
    SY_RETURN_IF_ERROR(alive());
    std::string& marker = state_->deleting[group];
    if (marker.empty()) marker = bytes;
    return {};
  }

  Result<std::string> read_deleting(const std::string& group) override {
    SY_RETURN_IF_ERROR(check(AttemptName{group, 0}));
    const std::lock_guard lock(state_->mutex);
    SY_RETURN_IF_ERROR(alive());
    const auto found = state_->deleting.find(group);
    if (found == state_->deleting.end()) return not_found("the `deleting` marker of group " + group);
    return found->second;
  }

  Status put_catalog_copy(std::uint64_t sequence, std::string_view bytes) override {
    SY_RETURN_IF_ERROR(check_durable("a catalog copy"));
    SY_RETURN_IF_ERROR(fault("tier.marker"));
    const std::lock_guard lock(state_->mutex);
    SY_RETURN_IF_ERROR(alive());
    state_->catalog[sequence] = bytes;
    return {};
  }
  Result<std::vector<std::uint64_t>> list_catalog_copies() override {
    const std::lock_guard lock(state_->mutex);
    SY_RETURN_IF_ERROR(alive());
    std::vector<std::uint64_t> sequences;
    for (const auto& [sequence, bytes] : state_->catalog) sequences.push_back(sequence);
    return sequences;
  }
  Result<CatalogCopyHead> read_catalog_copy_head(std::uint64_t sequence, std::size_t bytes_max) override {
    SY_ASSIGN_OR_RETURN(const std::string bytes, read_catalog_copy(sequence));
    return CatalogCopyHead{bytes.substr(0, bytes_max), bytes.size()};
  }
  Result<std::string> read_catalog_copy(std::uint64_t sequence) override {
    const std::lock_guard lock(state_->mutex);
    SY_RETURN_IF_ERROR(alive());
    const auto found = state_->catalog.find(sequence);
    if (found == state_->catalog.end()) return not_found("the catalog copy of sequence " + std::to_string(sequence));
    return found->second;
  }
  Status remove_catalog_copy(std::uint64_t sequence) override {
    SY_RETURN_IF_ERROR(fault("tier.remove"));
    const std::lock_guard lock(state_->mutex);
    SY_RETURN_IF_ERROR(alive());
    state_->catalog.erase(sequence);
    return {};
  }
  /// Its copies and markers appear whole, without a temporary.
  Status remove_catalog_temporaries(std::int64_t /*changed_before_ms*/) override {
    const std::lock_guard lock(state_->mutex);
    return alive();
  }

  Result<ContentEntry> stat_content(const Digest& sha256) override {
    const std::lock_guard lock(state_->mutex);
    SY_RETURN_IF_ERROR(alive());
    const auto found = state_->content.find(sha256);
    if (found == state_->content.end()) return not_found("content " + sha256.hex());
    return entry_of(sha256, found->second);
  }

  Result<std::unique_ptr<PendingRead>> start_read_content(const Digest& sha256,
                                                          std::vector<ReadRange> ranges) override {
    Status status = fault("tier.read");
    const std::lock_guard lock(state_->mutex);
    SY_RETURN_IF_ERROR(alive());
    const auto found = state_->content.find(sha256);
    if (found == state_->content.end()) return not_found("content " + sha256.hex());
    if (status.ok()) status = fill(found->second.inode->bytes, "content " + sha256.hex(), ranges);
    return std::unique_ptr<PendingRead>(std::make_unique<EndedRead>(std::move(status)));
  }

  Result<bool> relink(const std::vector<ObjectName>& names, const Digest& sha256, std::uint64_t bytes) override {
    SY_RETURN_IF_ERROR(check_payloads(names));
    auto given = give_content(names, sha256, bytes);
    const std::lock_guard lock(state_->mutex);
    state_->drop_unused_content();
    return given;
  }
  Result<std::unique_ptr<PutStream>> open_replacement(std::vector<ObjectName> names, std::uint64_t bytes,
                                                      const Digest& sha256) override {
    SY_RETURN_IF_ERROR(check_payloads(names));
    return start_replacement(std::move(names), bytes, sha256);
  }

  Result<TierUsage> usage(const std::function<void(const ObjectStat&)>& each) override {
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
    usage.free_bytes = usage.capacity_bytes - std::min(usage.capacity_bytes, usage.bytes + state_->reserved_bytes());
    return usage;
  }
  Result<Room> room() override {
    SY_ASSIGN_OR_RETURN(const TierUsage now, usage({}));
    return Room{now.free_bytes, "the simulated tier", "it has " + std::to_string(now.capacity_bytes) + " bytes",
                "make it larger"};
  }

 private:
  friend class SimulatedPut;

  ObjectStat stat_of(const ObjectName& name, const State::Inode& inode) const {
    return {name, inode.bytes.size(), storage_of(inode), state_->links(inode)};
  }
  ContentEntry entry_of(const Digest& sha256, const State::Entry& entry) const {
    return {sha256, entry.inode->bytes.size(), state_->links(*entry.inode), entry.changed_at_ms,
            storage_of(*entry.inode)};
  }
  Status check(const AttemptName& attempt) const {
    SY_RETURN_IF_ERROR(directory::check_attempt(attempt));
    if (attempt.operation.empty() || traits_.per_operation) return {};
    return {Code::kInvalidArgument, "this tier keeps no objects by operation (" + describe(attempt) + ")"};
  }
  Status check(const ObjectName& name) const {
    SY_RETURN_IF_ERROR(directory::check_name(name));
    return check(name.in);
  }
  Status check_durable(const std::string& what) const {
    if (traits_.durable) return {};
    return {Code::kInvalidArgument, what + " must outlive the machine's memory, and the hot tier does not"};
  }
  Status check_payloads(const std::vector<ObjectName>& names) const {
    if (names.empty()) return {Code::kInvalidArgument, "a replacement without a name"};
    for (const ObjectName& name : names) {
      SY_RETURN_IF_ERROR(check(name));
      if (name.kind != ObjectKind::kPayload) return {Code::kInvalidArgument, describe(name) + " is no payload object"};
    }
    return {};
  }
  static Status fill(const std::vector<std::byte>& bytes, const std::string& what,
                     const std::vector<ReadRange>& ranges) {
    for (const ReadRange& range : ranges) {
      if (range.into.empty()) continue;
      const auto end = checked_add(range.offset, static_cast<std::uint64_t>(range.into.size()));
      if (!end.has_value() || *end > bytes.size()) {
        return {Code::kCorrupt, what + " ends early: wanted " + std::to_string(range.into.size()) +
                                    " bytes at offset " + std::to_string(range.offset) + "; it has " +
                                    std::to_string(bytes.size())};
      }
      std::memcpy(range.into.data(), bytes.data() + range.offset, range.into.size());
    }
    return {};
  }
  static Status not_found(const std::string& what) { return {Code::kNotFound, what + " is not in the tier"}; }
  GroupListing listing_of(const std::string& group) const {
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
  Status remove_object(State::Attempt& attempt, const ObjectName& name) {
    if (state_->blocked_removals.contains(name)) return {Code::kUnavailable, "cannot remove " + describe(name)};
    const auto found = attempt.objects.find(name);
    if (found == attempt.objects.end()) return {};
    touch_content(found->second.inode);
    if (!state_->in_memory()) attempt.removed.insert_or_assign(name, found->second);
    attempt.objects.erase(found);
    return {};
  }
  void touch_content(const std::shared_ptr<State::Inode>& inode) {
    for (auto& [digest, entry] : state_->content) {
      if (entry.inode == inode) entry.changed_at_ms = runtime_.wall_ms();
    }
  }

  /// Steps 1 and 2: how the object got its name, or nothing when it has to be written.
  Result<std::optional<PutOutcome>> try_link(const ObjectName& name, const Digest& sha256, std::uint64_t bytes) {
    if (const auto inode = state_->find(name)) {
      if (inode->bytes.size() == bytes && hash::sha256(inode->bytes) == sha256) {
        return std::optional<PutOutcome>(PutOutcome::kExisted);
      }
      return Status(Code::kConflict, describe(name) + " is there with other bytes (" +
                                         std::to_string(inode->bytes.size()) + ", to put " + std::to_string(bytes) +
                                         ")");
    }
    const auto entry = state_->content.find(sha256);
    if (name.kind == ObjectKind::kManifest || entry == state_->content.end() ||
        entry->second.inode->bytes.size() != bytes) {
      return std::optional<PutOutcome>();
    }
    if (const int error = runtime_.point("tier.link_content"); error != 0) return std::optional<PutOutcome>();
    state_->make(name.in).objects[name] = {entry->second.inode, false};
    entry->second.changed_at_ms = runtime_.wall_ms();
    return std::optional<PutOutcome>(PutOutcome::kLinked);
  }

  Result<std::unique_ptr<SimulatedPut>> make_put(const ObjectName& name, std::uint64_t bytes, const Digest& sha256) {
    SY_RETURN_IF_ERROR(check(name));
    std::unique_ptr<SimulatedPut> put;
    {
      const std::lock_guard lock(state_->mutex);
      SY_RETURN_IF_ERROR(alive());
      SY_ASSIGN_OR_RETURN(const auto outcome, try_link(name, sha256, bytes));
      const auto entry = state_->content.find(sha256);
      const bool replace = entry != state_->content.end();
      put = std::make_unique<SimulatedPut>(*this, name, sha256, bytes, replace);
      if (outcome.has_value()) put->ended(*outcome);
    }
    SY_RETURN_IF_ERROR(put->begin());
    return put;
  }

  Traits traits_;
  std::map<AttemptName, std::vector<State::WaitingContent>> waiting_content_;  ///< guarded by the disk's mutex
};

Status SimulatedPut::begin() {
  if (outcome_.has_value()) return {};
  SY_RETURN_IF_ERROR(tier_.fault("tier.open_tmp"));
  State& state = *tier_.state_;
  const std::lock_guard lock(state.mutex);
  if (!state.in_memory()) {
    temporary_ = tier_.make_temporary(name_.in);
  } else {
    temporary_ = state.next_temporary++;
    state.unnamed.insert(temporary_);
  }
  return {};
}

SimulatedPut::~SimulatedPut() {
  if (temporary_ == 0) return;
  const std::lock_guard lock(tier_.state_->mutex);
  if (tier_.state_->unnamed.erase(temporary_) == 0) tier_.end_temporary(name_.in, temporary_);
}

Status SimulatedPut::append(ByteView bytes) {
  if (refused_.ok() && bytes.size() > bytes_ - gathered_.size()) {
    refused_ = Status(Code::kCorrupt, "more bytes were given than promised for " + describe(name_));
  }
  SY_RETURN_IF_ERROR(refused_);
  gathered_.insert(gathered_.end(), bytes.begin(), bytes.end());
  return {};
}

Result<PutOutcome> SimulatedPut::finish() {
  SY_RETURN_IF_ERROR(refused_);
  const ByteView data = borrowed_.empty() ? ByteView(gathered_) : borrowed_;
  if (data.size() != bytes_) {
    if (outcome_.has_value() && borrowed_.empty() && gathered_.empty()) return *outcome_;
    return Status(Code::kCorrupt, std::to_string(data.size()) + " bytes were given for " + describe(name_) + ", " +
                                      std::to_string(bytes_) + " were promised");
  }
  if (outcome_.has_value()) return *outcome_;
  for (const char* point : {"tier.write", "tier.sync", "tier.link"}) SY_RETURN_IF_ERROR(tier_.fault(point));
  State& state = *tier_.state_;
  const std::lock_guard lock(state.mutex);
  SY_RETURN_IF_ERROR(tier_.alive());
  State::Attempt& attempt = state.make(name_.in);
  if (!state.unnamed.contains(temporary_) && !attempt.temporaries.contains(temporary_)) {
    return Status(Code::kUnavailable, "the temporary file of " + describe(name_) + " was removed by another process");
  }
  SY_RETURN_IF_ERROR(tier_.check_room(bytes_, name_));
  if (state.find(name_)) {
    // Somebody put the name meanwhile.
    SY_ASSIGN_OR_RETURN(const auto outcome, tier_.try_link(name_, sha256_, bytes_));
    return *outcome;
  }
  auto inode = std::make_shared<State::Inode>();
  inode->bytes.assign(data.begin(), data.end());
  inode->durable = bytes_ >= kSmallBytes || state.in_memory();
  state.written_bytes += bytes_;
  attempt.objects[name_] = {inode, false};
  tier_.spend(bytes_, name_.in);
  if (name_.kind == ObjectKind::kPayload) {
    if (inode->durable) {
      tier_.add_content(sha256_, inode, replace_);
    } else {
      tier_.waiting_content_[name_.in].push_back({name_, sha256_, replace_});
    }
  }
  return PutOutcome::kWritten;
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

Result<std::unique_ptr<Tier>> open_simulated(Runtime& runtime, std::shared_ptr<SimulatedDisk> disk, bool create) {
  SY_CHECK(disk != nullptr, "a simulated tier needs a disk");
  State& state = *disk->state_;
  const std::lock_guard lock(state.mutex);
  if (state.in_memory() && state.instance.empty()) {
    if (!create) return Status(Code::kNotFound, "there is no instance of the hot tier");
    state.instance = new_instance_id(runtime);
  }
  return std::unique_ptr<Tier>(std::make_unique<SimulatedTier>(runtime, disk->state_));
}

}  // namespace steelyard::tiers
