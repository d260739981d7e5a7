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
#include "tiers/simulated/disk_state.h"

namespace steelyard::tiers {
namespace {

using directory::describe;
using State = SimulatedDisk::State;

constexpr std::uint64_t kSmallBytes = 1024 * 1024;
constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kEndlessBytes = std::uint64_t{1} << 50;

ObjectStat stat_of(const ObjectName& name, const State::Inode& inode) {
  return {name, inode.bytes.size(), reinterpret_cast<std::uintptr_t>(&inode)};
}

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

class SimulatedTier final : public Tier {
 public:
  /// With the disk's mutex held.
  SimulatedTier(Runtime& runtime, std::shared_ptr<State> state)
      : runtime_(runtime), state_(std::move(state)), boot_(state_->boot), traits_(traits_of(state_->medium)) {}

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
    for (const auto& [name, attempt] : state_->attempts) groups.insert(name.group);
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

  Status remove_attempt(const AttemptName& attempt) override {
    SY_RETURN_IF_ERROR(check(attempt));
    SY_RETURN_IF_ERROR(fault("tier.remove"));
    const std::lock_guard lock(state_->mutex);
    SY_RETURN_IF_ERROR(alive());
    waiting_content_.erase(attempt);
    const auto found = state_->attempts.find(attempt);
    if (found == state_->attempts.end()) return {};
    State::Attempt& there = found->second;
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

  Status remove_temporaries(const AttemptName& attempt) override {
    SY_RETURN_IF_ERROR(check(attempt));
    SY_RETURN_IF_ERROR(fault("tier.remove"));
    const std::lock_guard lock(state_->mutex);
    SY_RETURN_IF_ERROR(alive());
    const auto found = state_->attempts.find(attempt);
    if (found == state_->attempts.end()) return {};
    std::erase_if(found->second.temporaries, [&](std::uint64_t number) { return !live_temporaries_.contains(number); });
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

  Result<std::vector<ContentEntry>> list_content() override {
    const std::lock_guard lock(state_->mutex);
    SY_RETURN_IF_ERROR(alive());
    std::map<const State::Inode*, std::uint64_t> links;
    for (const auto& [attempt_name, attempt] : state_->attempts) {
      for (const auto& [name, object] : attempt.objects) ++links[object.inode.get()];
    }
    std::vector<ContentEntry> entries;
    for (const auto& [digest, entry] : state_->content) {
      entries.push_back({digest, entry.inode->bytes.size(), 1 + links[entry.inode.get()], entry.changed_at_ms,
                         stat_of({}, *entry.inode).storage});
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
    if (found == state_->attempts.end() || !is_there(found->second)) return not_found(describe(attempt));
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

  Status put_deleting(const std::string& group, std::string_view bytes) override {
    SY_RETURN_IF_ERROR(check(AttemptName{group, 0}));
    SY_RETURN_IF_ERROR(check_durable("a `deleting` marker"));
    SY_RETURN_IF_ERROR(fault("tier.marker"));
    const std::lock_guard lock(state_->mutex);
    SY_RETURN_IF_ERROR(alive());
    state_->deleting.emplace(group, bytes);
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

  Result<ContentEntry> stat_content(const Digest& sha256) override {
    const std::lock_guard lock(state_->mutex);
    SY_RETURN_IF_ERROR(alive());
    const auto found = state_->content.find(sha256);
    if (found == state_->content.end()) return not_found("content " + sha256.hex());
    ContentEntry entry;
    entry.sha256 = sha256;
    entry.bytes = found->second.inode->bytes.size();
    entry.links = 1;
    for (const auto& [attempt_name, attempt] : state_->attempts) {
      for (const auto& [name, object] : attempt.objects) entry.links += object.inode == found->second.inode ? 1 : 0;
    }
    entry.changed_at_ms = found->second.changed_at_ms;
    entry.storage = stat_of({}, *found->second.inode).storage;
    return entry;
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
    SY_RETURN_IF_ERROR(fault("tier.replace"));
    const std::lock_guard lock(state_->mutex);
    SY_RETURN_IF_ERROR(alive());
    const auto found = state_->content.find(sha256);
    if (found == state_->content.end() || found->second.inode->bytes.size() != bytes) return false;
    give(names, found->second.inode);
    return true;
  }

  Result<std::unique_ptr<PutStream>> open_replacement(std::vector<ObjectName> names, std::uint64_t bytes,
                                                      const Digest& sha256) override;

  Result<TierUsage> usage() override {
    const std::lock_guard lock(state_->mutex);
    SY_RETURN_IF_ERROR(alive());
    TierUsage usage;
    usage.bytes = state_->used_bytes();
    usage.capacity_bytes = state_->capacity_bytes.value_or(kEndlessBytes);
    usage.free_bytes = usage.capacity_bytes - std::min(usage.capacity_bytes, usage.bytes + state_->reserved_bytes());
    return usage;
  }
  Result<std::uint64_t> available_bytes() override {
    SY_ASSIGN_OR_RETURN(const TierUsage now, usage());
    return now.free_bytes;
  }

 private:
  friend class SimulatedPut;
  friend class SimulatedReplacement;

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
  /// Every step of a replacement is durable when the call returns.
  void give(const std::vector<ObjectName>& names, const std::shared_ptr<State::Inode>& inode) {
    inode->durable = true;
    for (const ObjectName& name : names) {
      const bool last = &name == &names.back();
      if (!state_->find(name) && !last) continue;
      State::Attempt& attempt = state_->attempts[name.in];
      attempt.objects[name] = {inode, true};
      attempt.removed.erase(name);
    }
  }

  static Status not_found(const std::string& what) { return {Code::kNotFound, what + " is not in the tier"}; }
  Status alive() const {
    if (state_->boot == boot_) return {};
    if (state_->in_memory()) return {Code::kUnavailable, "the instance of this tier is gone"};
    return {Code::kUnavailable, "the machine of this tier has crashed"};
  }
  Status fault(const char* point) {
    const int error = runtime_.point(point);
    return error == 0 ? Status() : errno_status(error, point, "simulated disk");
  }
  static bool is_there(const State::Attempt& attempt) {
    return !attempt.objects.empty() || !attempt.temporaries.empty() || !attempt.foreign.empty() ||
           attempt.committed.has_value();
  }
  GroupListing listing_of(const std::string& group) const {
    GroupListing listing;
    listing.deleting = state_->deleting.contains(group);
    for (auto at = state_->attempts.lower_bound({group, 0}); at != state_->attempts.end() && at->first.group == group;
         ++at) {
      if (!is_there(at->second)) continue;
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
  void add_content(const Digest& sha256, const std::shared_ptr<State::Inode>& inode, bool replace) {
    const auto found = state_->content.find(sha256);
    if (found != state_->content.end() && !replace && found->second.inode->bytes.size() == inode->bytes.size()) return;
    state_->content[sha256] = {inode, false, runtime_.wall_ms()};
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
    state_->attempts[name.in].objects[name] = {entry->second.inode, false};
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

  Runtime& runtime_;
  std::shared_ptr<State> state_;
  std::uint64_t boot_;
  Traits traits_;
  // Guarded by the disk's mutex:
  std::map<AttemptName, std::vector<State::WaitingContent>> waiting_content_;
  std::set<std::uint64_t> live_temporaries_;
};

Status SimulatedPut::begin() {
  if (outcome_.has_value()) return {};
  SY_RETURN_IF_ERROR(tier_.fault("tier.open_tmp"));
  const std::lock_guard lock(tier_.state_->mutex);
  temporary_ = tier_.state_->next_temporary++;
  tier_.state_->attempts[name_.in].temporaries.insert(temporary_);
  tier_.live_temporaries_.insert(temporary_);
  return {};
}

SimulatedPut::~SimulatedPut() {
  if (temporary_ == 0) return;
  const std::lock_guard lock(tier_.state_->mutex);
  tier_.live_temporaries_.erase(temporary_);
  if (!tier_.alive().ok()) return;
  tier_.state_->attempts[name_.in].temporaries.erase(temporary_);
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
  State::Attempt& attempt = state.attempts[name_.in];
  if (!attempt.temporaries.contains(temporary_)) {
    return Status(Code::kUnavailable, "the temporary file of " + describe(name_) + " was removed by another process");
  }
  // Others' reservations are as good as used; its own serves it.
  const auto reserved = state.reservations.find({&tier_, name_.in.operation});
  const std::uint64_t own = reserved == state.reservations.end() ? 0 : std::min(reserved->second, bytes_);
  const std::uint64_t used = state.used_bytes() + state.reserved_bytes() - own;
  if (state.capacity_bytes.has_value() && used + bytes_ > *state.capacity_bytes) {
    const std::uint64_t free_bytes = *state.capacity_bytes - std::min(used, *state.capacity_bytes);
    return Status(Code::kNoSpace, "write " + describe(name_) + ": wanted " + std::to_string(bytes_) + " bytes; " +
                                      std::to_string(free_bytes) + " bytes are free");
  }
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
  if (own > 0) reserved->second -= own;
  if (name_.kind == ObjectKind::kPayload) {
    if (inode->durable) {
      tier_.add_content(sha256_, inode, replace_);
    } else {
      tier_.waiting_content_[name_.in].push_back({name_, sha256_, replace_});
    }
  }
  return PutOutcome::kWritten;
}

/// A replacement under way: the bytes gathered.
class SimulatedReplacement final : public PutStream {
 public:
  SimulatedReplacement(SimulatedTier& tier, std::vector<ObjectName> names, std::uint64_t bytes, const Digest& sha256)
      : tier_(tier), names_(std::move(names)), bytes_(bytes), sha256_(sha256) {}
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
    for (const char* point : {"tier.write", "tier.sync", "tier.replace"}) SY_RETURN_IF_ERROR(tier_.fault(point));
    State& state = *tier_.state_;
    const std::lock_guard lock(state.mutex);
    SY_RETURN_IF_ERROR(tier_.alive());
    const std::uint64_t used = state.used_bytes();
    if (state.capacity_bytes.has_value() && used + bytes_ > *state.capacity_bytes) {
      return Status(Code::kNoSpace, "write " + describe(names_.back()) + ": wanted " + std::to_string(bytes_) +
                                        " bytes; the disk is full");
    }
    auto inode = std::make_shared<State::Inode>();
    inode->bytes = std::move(gathered_);
    state.written_bytes += bytes_;
    tier_.add_content(sha256_, inode, true);
    tier_.give(names_, inode);
    return PutOutcome::kWritten;
  }

 private:
  SimulatedTier& tier_;
  std::vector<ObjectName> names_;
  std::uint64_t bytes_;
  Digest sha256_;
  std::vector<std::byte> gathered_;
};

Result<std::unique_ptr<PutStream>> SimulatedTier::open_replacement(std::vector<ObjectName> names, std::uint64_t bytes,
                                                                   const Digest& sha256) {
  SY_RETURN_IF_ERROR(check_payloads(names));
  SY_RETURN_IF_ERROR(fault("tier.open_tmp"));
  return std::unique_ptr<PutStream>(std::make_unique<SimulatedReplacement>(*this, std::move(names), bytes, sha256));
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

}  // namespace

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
