#include "tiers/memory/memory_tier.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <optional>
#include <utility>

#include "base/check.h"
#include "base/process.h"
#include "tiers/memory/memory_file.h"

namespace steelyard::tiers::memory {
namespace {

using directory::describe;

constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kStatBlock = 512;  ///< the unit of st_blocks

}  // namespace

/// What reserve() gives out.
class HeldReservation final : public Reservation {
 public:
  HeldReservation(MemoryTier& tier, std::string operation) : tier_(tier), operation_(std::move(operation)) {}
  HeldReservation(const HeldReservation&) = delete;
  HeldReservation& operator=(const HeldReservation&) = delete;
  ~HeldReservation() override { tier_.release(operation_); }

 private:
  MemoryTier& tier_;
  std::string operation_;
};

MemoryTier::MemoryTier(Runtime& runtime, std::string path, UniqueFd root, const MemoryOptions& options,
                       Instance instance)
    : DirectoryTier(runtime, std::move(path), std::move(root), options.read_only,
                    Traits{.name = "hot",
                           .medium = Medium::kMemory,
                           .mappable = true,
                           .listable = true,
                           .durable = false,
                           .per_operation = true,
                           .keeps_unused_content = false},
                    std::nullopt),
      instance_(std::move(instance)),
      account_(folder(), options.capacity, options.memory_limits, options.process_reserve_bytes) {}

Result<std::string> MemoryTier::instance() {
  int error = folder().runtime().point("tier.instance");
  struct stat opened {};
  struct stat found {};
  if (error == 0 && ::fstat(instance_.fd.get(), &opened) != 0) error = errno;
  if (error == 0 && ::stat(instance_.file.c_str(), &found) != 0) error = errno;
  if (error == 0 && opened.st_dev == found.st_dev && opened.st_ino == found.st_ino) return instance_.id;
  if (error != 0 && error != ENOENT && error != ENOTDIR) return errno_status(error, "stat", instance_.file);
  return Status(Code::kUnavailable,
                "the hot tier's instance " + instance_.id + " is no longer at " + folder().path() +
                    ": it was removed, or its tmpfs was unmounted or mounted anew",
                "run the same command again: it opens what is there now");
}

template <typename T>
Result<T> MemoryTier::known(Result<T> found) {
  if (!found.ok() && found.code() != Code::kNotFound) return found;
  SY_RETURN_IF_ERROR(instance().status());
  return found;
}

Result<ObjectStat> MemoryTier::stat(const ObjectName& name) { return known(DirectoryTier::stat(name)); }

Result<std::unique_ptr<PendingRead>> MemoryTier::start_read(const ObjectName& name, std::vector<ReadRange> ranges) {
  auto read = DirectoryTier::start_read(name, std::move(ranges));
  if (read.code() == Code::kNotFound) SY_RETURN_IF_ERROR(instance().status());
  return read;
}

Result<std::unique_ptr<HeldAttempt>> MemoryTier::hold_attempt(const AttemptName& attempt) {
  auto held = DirectoryTier::hold_attempt(attempt);
  if (held.code() == Code::kNotFound) SY_RETURN_IF_ERROR(instance().status());
  return held;
}

Result<std::vector<ObjectStat>> MemoryTier::list_attempt(const AttemptName& attempt,
                                                         std::vector<std::string>* foreign) {
  return known(DirectoryTier::list_attempt(attempt, foreign));
}

Result<GroupListing> MemoryTier::list_group(const std::string& group) {
  return known(DirectoryTier::list_group(group));
}

Result<std::vector<std::string>> MemoryTier::list_groups() { return known(DirectoryTier::list_groups()); }

Result<std::vector<ContentEntry>> MemoryTier::list_content(std::uint8_t first_byte) {
  return known(DirectoryTier::list_content(first_byte));
}

Result<ContentEntry> MemoryTier::stat_content(const Digest& sha256) {
  return known(DirectoryTier::stat_content(sha256));
}

Result<std::unique_ptr<PendingRead>> MemoryTier::start_read_content(const Digest& sha256,
                                                                    std::vector<ReadRange> ranges) {
  auto read = DirectoryTier::start_read_content(sha256, std::move(ranges));
  if (read.code() == Code::kNotFound) SY_RETURN_IF_ERROR(instance().status());
  return read;
}

Result<std::unique_ptr<Reservation>> MemoryTier::reserve(const std::string& operation, std::uint64_t bytes) {
  SY_RETURN_IF_ERROR(check(AttemptName{std::string(64, '0'), 0, operation}));
  SY_RETURN_IF_ERROR(folder().check_writable());
  const auto taken = [&] {
    return Status(Code::kInvalidArgument, "operation " + operation + " has a reservation in this process already");
  };
  {
    const std::lock_guard lock(mutex_);
    if (reservations_.contains(operation)) return taken();
  }
  SY_ASSIGN_OR_RETURN(auto claim, account_.claim(charged_bytes(bytes), operation));
  const std::lock_guard lock(mutex_);
  if (!reservations_.try_emplace(operation, std::move(claim)).second) return taken();
  return std::unique_ptr<Reservation>(std::make_unique<HeldReservation>(*this, operation));
}

/// A flock of the group's folder. A group without one has nothing to count.
class HeldGroup final : public GroupLock {
 public:
  explicit HeldGroup(UniqueFd fd) : fd_(std::move(fd)) {}

 private:
  UniqueFd fd_;
};

Result<std::unique_ptr<GroupLock>> MemoryTier::try_lock_group(const std::string& group, bool exclusive) {
  SY_RETURN_IF_ERROR(check(AttemptName{group, 1, {}}));
  SY_RETURN_IF_ERROR(instance().status());
  const std::string path = directory::group_path(group);
  for (;;) {
    const int opened = folder().open("tier.lock_group", path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    if (opened == -ENOENT && exclusive) {
      // Who removes keeps others from bringing something meanwhile.
      SY_RETURN_IF_ERROR(folder().make_folders(path));
      continue;
    }
    if (opened == -ENOENT) return std::unique_ptr<GroupLock>(std::make_unique<HeldGroup>(UniqueFd()));
    if (opened < 0) return folder().read_failure(-opened, "open", path);
    UniqueFd fd(opened);
    const int is_locked = folder().lock(fd.get(), exclusive);
    if (is_locked == -EWOULDBLOCK) return std::unique_ptr<GroupLock>();
    if (is_locked < 0) return folder().read_failure(-is_locked, "lock", path);
    struct stat locked {};
    struct stat there {};
    if (::fstat(fd.get(), &locked) != 0) return folder().read_failure(errno, "fstat", path);
    const int result = folder().stat(path, &there);
    if (result < 0 && result != -ENOENT) return folder().read_failure(-result, "stat", path);
    // It was emptied and removed, and perhaps made again, before it was locked.
    if (result == 0 && locked.st_ino == there.st_ino) {
      return std::unique_ptr<GroupLock>(std::make_unique<HeldGroup>(std::move(fd)));
    }
  }
}

std::vector<std::string> MemoryTier::lock_holders(const std::string& group) {
  struct stat there {};
  if (folder().stat(directory::group_path(group), &there) != 0) return {};
  std::vector<std::string> holders;
  for (const process::LockHolder& holder : process::flock_holders(there.st_dev, there.st_ino)) {
    holders.push_back("process " + std::to_string(holder.pid) + (holder.stopped ? ", which is stopped" : ""));
  }
  return holders;
}

void MemoryTier::release(const std::string& operation) {
  std::shared_ptr<Claim> claim;
  {
    const std::lock_guard lock(mutex_);
    claim = std::move(reservations_.extract(operation).mapped());
  }
  // Puts under way keep what they took.
  claim->close();
}

/// Space for one put: of its operation's reservation, or claimed for it alone.
Result<std::shared_ptr<Claim>> MemoryTier::claim_for(const std::string& operation, std::uint64_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    const auto found = reservations_.find(operation);
    if (found != reservations_.end() && found->second->take(bytes)) return found->second;
  }
  SY_ASSIGN_OR_RETURN(auto claim, account_.claim(bytes));
  SY_CHECK(claim->take(bytes), "a claim has what was claimed");
  return claim;
}

Result<std::unique_ptr<directory::ObjectWriter>> MemoryTier::new_file(const std::string& /*relative*/,
                                                                      std::uint64_t bytes,
                                                                      const std::vector<std::string>& /*make_parents*/,
                                                                      const std::string& operation) {
  SY_ASSIGN_OR_RETURN(auto claim, claim_for(operation, charged_bytes(bytes)));
  SY_ASSIGN_OR_RETURN(auto writer, MemoryWriter::create(folder(), ".", bytes, std::move(claim)));
  return std::unique_ptr<directory::ObjectWriter>(std::move(writer));
}

Result<std::unique_ptr<directory::ObjectReader>> MemoryTier::open_reader(const std::string& relative,
                                                                         std::string what) {
  SY_ASSIGN_OR_RETURN(auto reader, MemoryReader::open(folder(), relative, std::move(what)));
  return std::unique_ptr<directory::ObjectReader>(std::move(reader));
}

Status MemoryTier::sync_all(const std::vector<SyncTarget>& /*targets*/) { return {}; }

Status MemoryTier::flush(const AttemptName& attempt) { return check(attempt); }

Status MemoryTier::refuse_durable(const std::string& what) const {
  return {Code::kInvalidArgument, what + " must outlive the machine's memory, and the hot tier does not"};
}

Status MemoryTier::put_committed(const AttemptName& attempt, std::string_view /*bytes*/) {
  SY_RETURN_IF_ERROR(check(attempt));
  return refuse_durable("the `committed` marker of " + describe(attempt));
}

Status MemoryTier::replace_committed(const AttemptName& attempt, std::string_view bytes) {
  return put_committed(attempt, bytes);
}

Status MemoryTier::put_deleting(const std::string& group, std::string_view /*bytes*/) {
  SY_RETURN_IF_ERROR(check(AttemptName{group, 0}));
  return refuse_durable("the `deleting` marker of group " + group);
}

Status MemoryTier::put_catalog_copy(std::uint64_t sequence, std::string_view /*bytes*/) {
  return refuse_durable("the catalog copy of sequence " + std::to_string(sequence));
}

Status MemoryTier::map(const ObjectName& name, std::uint64_t bytes, const AddressRange& range, std::size_t offset) {
  SY_RETURN_IF_ERROR(check(name));
  if (offset % kPage != 0 || offset > range.size() || charged_bytes(bytes) > range.size() - offset) {
    return {Code::kInvalidArgument, "cannot map " + std::to_string(bytes) + " bytes of " + describe(name) +
                                        " at offset " + std::to_string(offset) + " of an address range of " +
                                        std::to_string(range.size()) + " bytes: wanted a multiple of 4096 inside it"};
  }
  const std::string path = directory::object_path(name);
  const int opened = folder().open_regular("tier.open_map", path, O_RDONLY);
  if (opened == -ENOENT || opened == -ENOTDIR) {
    SY_RETURN_IF_ERROR(instance().status());
    return {Code::kNotFound, describe(name) + " is not in the tier (" + folder().full(path) + ")"};
  }
  if (opened == -ENXIO || opened == -ELOOP) return {Code::kCorrupt, folder().full(path) + " is not a regular file"};
  if (opened < 0) return folder().read_failure(-opened, "open", path);
  const UniqueFd fd(opened);
  struct stat there {};
  if (::fstat(fd.get(), &there) != 0) return folder().read_failure(errno, "stat", path);
  if (static_cast<std::uint64_t>(there.st_size) != bytes) {
    return {Code::kCorrupt, describe(name) + " has " + std::to_string(there.st_size) + " bytes, wanted " +
                                std::to_string(bytes) + " (" + folder().full(path) + ")"};
  }
  // A page that is not there would be allocated by whoever touches it, who gets a signal where it cannot be.
  if (static_cast<std::uint64_t>(there.st_blocks) * kStatBlock < bytes) {
    return {Code::kCorrupt, describe(name) + " has holes: " + std::to_string(there.st_blocks) + " blocks of 512 for " +
                                std::to_string(bytes) + " bytes (" + folder().full(path) + ")"};
  }
  if (bytes == 0) return {};
  std::byte* at = range.data() + offset;
  int error = folder().runtime().point("tier.map");
  if (error == 0 && ::mmap(at, bytes, PROT_READ, MAP_SHARED | MAP_FIXED, fd.get(), 0) == MAP_FAILED) {
    error = errno;
    // What was mapped there may be gone; nobody else may get these addresses.
    static_cast<void>(
        ::mmap(at, charged_bytes(bytes), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0));
  }
  if (error == 0) return {};
  Status failure = folder().read_failure(error, "map", path);
  if (error != ENOMEM) return failure;
  return std::move(failure).with_hint(
      "raise vm.max_map_count, or the limit of this process's address space (ulimit -v)");
}

/// Whether the index is worth reading for one object that was not seen in it: that takes as long as the index is, so
/// only after a number of removals in proportion. What is not freed for that goes with the next look at the account.
bool MemoryTier::is_look_due() {
  constexpr std::uint64_t kEntriesPerRemoval = 64;
  const std::lock_guard lock(mutex_);
  if (++unseen_ * kEntriesPerRemoval < content_of_.size()) return false;
  unseen_ = 0;
  return true;
}

/// Frees what of these storages only the content index holds still. What somebody links meanwhile stays his.
Status MemoryTier::forget_unused(const std::vector<std::uint64_t>& storages) {
  bool looked = false;
  for (const std::uint64_t storage : storages) {
    for (;;) {
      std::optional<Digest> digest;
      {
        const std::lock_guard lock(mutex_);
        if (const auto found = content_of_.find(storage); found != content_of_.end()) digest = found->second;
      }
      if (digest) {
        const auto entry = stat_content(*digest);
        if (entry.ok() && entry->storage == storage) {
          if (entry->links > 1) break;
          SY_RETURN_IF_ERROR(remove_content(*digest));
          const std::lock_guard lock(mutex_);
          content_of_.erase(storage);
          break;
        }
      }
      if (looked || (storages.size() == 1 && !is_look_due())) break;
      looked = true;
      SY_ASSIGN_OR_RETURN(const auto content, Tier::list_content());
      const std::lock_guard lock(mutex_);
      content_of_.clear();
      for (const ContentEntry& one : content) content_of_[one.storage] = one.sha256;
    }
  }
  return {};
}

Status MemoryTier::remove(const ObjectName& name) {
  const auto there = DirectoryTier::stat(name);
  SY_RETURN_IF_ERROR(DirectoryTier::remove(name));
  // The last name of its bytes: the index has none of them.
  if (!there.ok() || there->links == 1) return {};
  return forget_unused({there->storage});
}

/// Where another attempt has its name by now, its objects are in use and stay; what the held one leaves in the content
/// index goes with the next look at the account.
Status MemoryTier::remove_held(const HeldAttempt& attempt) {
  SY_ASSIGN_OR_RETURN(const auto objects, DirectoryTier::list_attempt(attempt.name(), nullptr));
  Status removed = DirectoryTier::remove_held(attempt);
  std::vector<std::uint64_t> storages;
  for (const ObjectStat& object : objects) {
    if (object.links > 1) storages.push_back(object.storage);
  }
  Status forgotten = forget_unused(storages);
  return removed.ok() ? std::move(forgotten) : std::move(removed);
}

Result<TierUsage> MemoryTier::usage(const std::function<void(const ObjectStat&)>& each) {
  SY_ASSIGN_OR_RETURN(TierUsage usage, DirectoryTier::usage(each));
  SY_ASSIGN_OR_RETURN(usage.capacity_bytes, account_.capacity_bytes());
  SY_ASSIGN_OR_RETURN(const Room room, account_.room());
  usage.free_bytes = room.bytes;
  usage.over_bytes = room.over_bytes;
  SY_ASSIGN_OR_RETURN(usage.claimed_bytes, account_.claimed_bytes());
  return usage;
}

}  // namespace steelyard::tiers::memory
