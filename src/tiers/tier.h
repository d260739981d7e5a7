// Tier: where replicas of immutable objects lie. The seam between the store and a disk, a memory or a remote engine.
//
// Thread-safety: a Tier may be used from any thread. Every step may be executed again, late, by a dead process, without
// harm: objects are named by (group, attempt), Put is create-only, names never carry user text.
//
// Blocking duties, per call: start_put and start_read return without waiting for the device; everything else may block.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"

namespace steelyard::tiers {

/// The objects of one import attempt of one revision; in a memory tier those of them that one operation brought there.
struct AttemptName {
  std::string group;  ///< 64 hex digits: the payload group digest
  std::uint32_t attempt = 0;
  /// 32 hex digits: the operation that made the replicas, only where Traits::per_operation. What a dead runner of an
  /// older operation puts or removes late has that operation's name, so nobody else's replicas are touched.
  std::string operation = {};
  auto operator<=>(const AttemptName&) const = default;
};

enum class ObjectKind : std::uint8_t { kManifest, kPayload };

struct ObjectName {
  AttemptName in;
  ObjectKind kind = ObjectKind::kPayload;
  std::uint32_t index = 0;  ///< of a payload object; 0 for the manifest
  auto operator<=>(const ObjectName&) const = default;
};

struct ObjectStat {
  ObjectName name;
  std::uint64_t bytes = 0;
  std::uint64_t storage = 0;  ///< equal for names of one tier that share their bytes, as long as one of them is there
  std::uint64_t links = 0;    ///< names of the bytes, the content index's entry and temporary ones included
};

enum class Medium : std::uint8_t { kMemory, kDisk, kDfs, kNof, kRemote };

struct Traits {
  std::string name;  ///< "cold", "hot"
  Medium medium = Medium::kDisk;
  bool mappable = false;
  bool listable = false;
  bool durable = false;
  bool per_operation = false;        ///< AttemptName::operation, and reserve()
  bool keeps_unused_content = true;  ///< content that no object uses stays until it is removed; else its memory is free
};

/// How an object came to be there.
enum class PutOutcome : std::uint8_t {
  kWritten,  ///< its bytes were written
  kLinked,   ///< equal content was there: a name was added, no payload byte written
  kExisted,  ///< the name was there with equal bytes
};

/// A put under way. Destroying it unfinished abandons the put and frees what it wrote.
class PendingPut {
 public:
  virtual ~PendingPut() = default;
  /// Waits for the device, checks that every byte was written, makes the object visible under its name and (payload
  /// only) under its content. After it the caller's bytes are no longer used. Call once.
  virtual Result<PutOutcome> finish() = 0;
};

/// The memory that a PutStream holds at most.
inline constexpr std::uint64_t kPutStreamBytesMax = 8 * 1024 * 1024;

/// A put in pieces, for an object too large to be held in memory.
class PutStream {
 public:
  virtual ~PutStream() = default;
  /// Appends bytes, which are free again when it returns.
  virtual Status append(ByteView bytes) = 0;
  /// As PendingPut::finish; CORRUPT if the appended bytes are not as many as promised.
  virtual Result<PutOutcome> finish() = 0;
};

/// A range to read into the caller's memory.
struct ReadRange {
  std::uint64_t offset = 0;
  ByteSpan into;
};

class PendingRead {
 public:
  virtual ~PendingRead() = default;  ///< waits for the device
  /// Waits until every range is filled. CORRUPT with object, offset, found and wanted when the object ends early.
  virtual Status finish() = 0;
};

struct TierUsage {
  std::uint64_t bytes = 0;  ///< of objects, shared ones once
  std::uint64_t free_bytes = 0;
  std::uint64_t over_bytes = 0;  ///< Room::over_bytes
  std::uint64_t capacity_bytes = 0;
  std::uint64_t claimed_bytes = 0;   ///< reserved by operations under way, and no object's yet
  std::uint64_t private_copies = 0;  ///< objects that could not be shared (EMLINK, EPERM, ENOTSUP, EXDEV)
};

/// How much may be put now, and what is in the way of more.
struct Room {
  std::uint64_t bytes = 0;
  std::string where{};           ///< "the hot tier /dev/shm/..."
  std::string limit{};           ///< the one limit that leaves the least, with its figures; for messages
  std::string hint{};            ///< what moves that limit
  std::uint64_t over_bytes = 0;  ///< that limit is exceeded by: so much has to go before anything fits
  /// NO_SPACE for so many bytes, or OK where they fit.
  Status check(std::uint64_t wanted_bytes) const;
};

/// What lies in the group folder beside objects.
struct GroupListing {
  bool deleting = false;
  std::vector<std::uint32_t> attempts;            ///< ascending; those that no operation made
  std::vector<AttemptName> by_operation;          ///< ascending; the others
  std::vector<std::uint32_t> committed_attempts;  ///< those with a `committed` marker
};

/// An attempt as it lay in the tier when it was held. What is made under its name after it went is another one.
class HeldAttempt {
 public:
  explicit HeldAttempt(AttemptName name) : name_(std::move(name)) {}
  HeldAttempt(const HeldAttempt&) = delete;
  HeldAttempt& operator=(const HeldAttempt&) = delete;
  virtual ~HeldAttempt() = default;
  const AttemptName& name() const { return name_; }

 private:
  AttemptName name_;
};

/// An entry of the content index.
struct ContentEntry {
  Digest sha256;
  std::uint64_t bytes = 0;
  std::uint64_t links = 0;         ///< names of the bytes, this one included; 1: no object uses them
  std::int64_t changed_at_ms = 0;  ///< wall time of the last added or removed name; for a grace, never for safety
  std::uint64_t storage = 0;       ///< as ObjectStat::storage
};

/// How a copy of a catalog begins.
struct CatalogCopyHead {
  std::string bytes;
  std::uint64_t total_bytes = 0;
};

/// Address space for mapped objects, nothing of it readable until one is mapped there. Move-only. Who owns it decides
/// how long its mappings live: names that are removed, an instance that is wiped and a tier that is closed leave them
/// as they are. Thread-compatible; objects may be mapped into one range from several threads at once.
class AddressRange {
 public:
  AddressRange() = default;
  /// Rounded up to whole pages. UNAVAILABLE naming the bytes when there is no address space.
  static Result<AddressRange> reserve(std::uint64_t bytes);
  AddressRange(AddressRange&& other) noexcept;
  AddressRange& operator=(AddressRange&& other) noexcept;
  ~AddressRange();
  std::byte* data() const { return data_; }
  std::size_t size() const { return bytes_; }
  /// `bytes` bytes at `offset`; readable where objects were mapped.
  ByteView view(std::size_t offset, std::size_t bytes) const;

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

/// Space that puts of one operation will take, set aside before the first. What is left of it is free again when it is
/// destroyed, or when its process ends, however that happens. It must not outlive its tier.
class Reservation {
 public:
  virtual ~Reservation() = default;
};

/// Held while it lives; a process that ends, however that happens, holds none.
class GroupLock {
 public:
  virtual ~GroupLock() = default;
};

class Tier {
 public:
  virtual ~Tier() = default;

  virtual const Traits& traits() const = 0;

  /// Which instance of a memory the replicas lie in: 32 hex digits, the same for every process that mounts it, and
  /// never given again. It is what the catalog records with hot residency. Ask again before anything is published from
  /// this tier's view: UNAVAILABLE when the instance that was opened is no longer the one found at its path (wiped,
  /// unmounted, mounted anew), and then nothing is known of any replica. Empty for a durable tier.
  virtual Result<std::string> instance() { return std::string(); }

  // --- objects -------------------------------------------------------------------------------------------------------

  /// Adds `name` for content that is already there under (digest, bytes); false when it is not. No data sync is needed
  /// for it. An existing name: true when it has equal content, CONFLICT otherwise.
  virtual Result<bool> link(const ObjectName& name, const Digest& sha256, std::uint64_t bytes) = 0;

  /// Create-only, all or nothing: the object is visible under its name whole, or not at all. `data` must stay alive and
  /// unchanged until finish(); memory from aligned_buffer() is written without a copy. Links like `link` when the
  /// content is there. The caller vouches for the digest. An existing name with other bytes: CONFLICT. Full: NO_SPACE,
  /// saying how much was wanted and is free.
  virtual Result<std::unique_ptr<PendingPut>> start_put(const ObjectName& name, ByteView data,
                                                        const Digest& sha256) = 0;
  virtual Result<std::unique_ptr<PutStream>> open_put(const ObjectName& name, std::uint64_t bytes,
                                                      const Digest& sha256) = 0;

  /// Everything put so far under the attempt is durable: data, folders, parents; one barrier, not one per file. Covers
  /// whatever lies in the attempt's folder, whichever process put it.
  virtual Status flush(const AttemptName& attempt) = 0;

  /// NOT_FOUND when the name is not there.
  virtual Result<ObjectStat> stat(const ObjectName& name) = 0;
  /// NOT_FOUND when the name is not there. Memory from aligned_buffer(), with offsets and sizes that are multiples of
  /// 4096 (the last may end with the object), is filled without a copy and past the page cache.
  virtual Result<std::unique_ptr<PendingRead>> start_read(const ObjectName& name, std::vector<ReadRange> ranges) = 0;
  Status read(const ObjectName& name, std::vector<ReadRange> ranges);
  /// Maps the whole object, read-only and shared with every process that does the same, at `offset` of `range`, instead
  /// of what was mapped there; nothing is read. `bytes` is the size that the manifest gives it. Offsets are multiples
  /// of 4096, so the objects of a run, mapped at their offsets in the run, lie at consecutive addresses. Its memory was
  /// there before it had a name, so no access ends in a signal. NOT_FOUND when the name is not there; CORRUPT when it
  /// has another size; INVALID_ARGUMENT unless Traits::mappable, and for a place outside the range.
  virtual Status map(const ObjectName& name, std::uint64_t bytes, const AddressRange& range, std::size_t offset);

  /// Objects of the attempt, manifest first, then payloads by index. `foreign` receives names that are no object's
  /// (temporary files excepted) when given.
  virtual Result<std::vector<ObjectStat>> list_attempt(const AttemptName& attempt,
                                                       std::vector<std::string>* foreign = nullptr) = 0;
  virtual Result<GroupListing> list_group(const std::string& group) = 0;

  /// Removing what is not there is OK. Without Traits::keeps_unused_content the last name takes the content with it.
  virtual Status remove(const ObjectName& name) = 0;
  /// For a removal that is decided after it, and may come late. NOT_FOUND when the attempt is not there.
  virtual Result<std::unique_ptr<HeldAttempt>> hold_attempt(const AttemptName& attempt) = 0;
  /// Removes all that lies in the attempt, temporary files too, going on past failures; the status is the first
  /// failure. Nothing of an attempt that has the same name and was made since is touched.
  virtual Status remove_held(const HeldAttempt& attempt) = 0;
  /// The same for what lies there under the name now. Removing what is not there is OK.
  Status remove_attempt(const AttemptName& attempt);
  /// Removes temporary files of the attempt that belong to no live put of this process and that nobody has written to
  /// for `idle_ms`, by the clock that stamps them, going on past failures. A writer whose file went finds out: it does
  /// the step again, or its call fails.
  virtual Status remove_temporaries(const AttemptName& attempt, std::int64_t idle_ms) = 0;

  // --- markers and catalog copies (small, whole, durable when the call returns)
  // -----------------------------------------

  /// The `committed` marker: the record's post-state as logged, with checksum (the caller encodes it). Create-only,
  /// equal bytes are OK.
  virtual Status put_committed(const AttemptName& attempt, std::string_view bytes) = 0;
  virtual Result<std::string> read_committed(const AttemptName& attempt) = 0;
  /// Puts the marker in the place of whatever has its name, in one step. NOT_FOUND when the attempt is not there.
  virtual Status replace_committed(const AttemptName& attempt, std::string_view bytes) = 0;
  /// The `deleting` marker of a group: the record whose removal begins (the caller encodes it). One that is there stays
  /// as it is, unless it is empty. What counts is that it is there: where there is no room for the bytes it is another
  /// name of a `committed` marker of the group, or empty.
  virtual Status put_deleting(const std::string& group, std::string_view bytes) = 0;
  virtual Result<std::string> read_deleting(const std::string& group) = 0;
  /// Takes back the marker of a group whose removal was never begun. What is not there is OK.
  virtual Status remove_deleting(const std::string& group) = 0;
  /// UNAUTHORIZED, naming the folder, when this process may not remove what lies in the group. A look, no promise.
  virtual Status check_removable(const std::string& group) = 0;

  virtual Status put_catalog_copy(std::uint64_t sequence, std::string_view bytes) = 0;
  virtual Result<std::vector<std::uint64_t>> list_catalog_copies() = 0;  ///< ascending
  virtual Result<std::string> read_catalog_copy(std::uint64_t sequence) = 0;
  /// Its first bytes, at most `bytes_max`, to judge it by before it is read whole.
  virtual Result<CatalogCopyHead> read_catalog_copy_head(std::uint64_t sequence, std::size_t bytes_max) = 0;
  virtual Status remove_catalog_copy(std::uint64_t sequence) = 0;
  /// Removes temporary files of `deleting` markers and copies that were written last before that wall time and belong
  /// to no live call of this process, going on past failures. A live call of another process writes again.
  virtual Status remove_catalog_temporaries(std::int64_t changed_before_ms) = 0;

  // --- what clean-up needs
  // ---------------------------------------------------------------------------------------------

  /// Digests of all groups that have a folder, ascending. Foreign names are left out.
  virtual Result<std::vector<std::string>> list_groups() = 0;
  /// Removes a group's `deleting` marker and its folder once no attempt is left in it; CONFLICT while one is. What is
  /// not there is OK.
  virtual Status remove_group(const std::string& group) = 0;
  /// Removes the folder of a group in which nothing is left. OK where something is, or it is not there.
  virtual Status remove_empty_group(const std::string& group) = 0;
  /// The part of the content index whose digests begin with that byte, ascending. Foreign names are left out. In parts,
  /// as the whole of it may be more than memory is meant for.
  virtual Result<std::vector<ContentEntry>> list_content(std::uint8_t first_byte) = 0;
  Result<std::vector<ContentEntry>> list_content();  ///< all of it
  /// Removes one entry of the index; objects that share its bytes keep them. What is not there is OK.
  virtual Status remove_content(const Digest& sha256) = 0;

  // --- what repair needs
  // ---------------------------------------------------------------------------------------------------

  /// One entry of the content index. NOT_FOUND when it is not there.
  virtual Result<ContentEntry> stat_content(const Digest& sha256) = 0;
  /// As start_read, of what the content index has under the digest. Nothing is promised about its bytes.
  virtual Result<std::unique_ptr<PendingRead>> start_read_content(const Digest& sha256,
                                                                  std::vector<ReadRange> ranges) = 0;
  /// Gives the bytes that the content index has under (digest, bytes) to each of `names` in turn, in one step each,
  /// whatever it stood for before: the only calls that replace an object. The last name may be absent, any other that
  /// is absent stays so. False, nothing changed, when the content is not there or may not be linked. Durable when the
  /// call returns. The caller has read the bytes and vouches for them.
  virtual Result<bool> relink(const std::vector<ObjectName>& names, const Digest& sha256, std::uint64_t bytes) = 0;
  /// A put whose bytes take the place of the content index's entry and then, as with `relink`, of what `names` stand
  /// for. A single name gets them also where nothing can be linked. Killed anywhere, each name has its old bytes or the
  /// new ones; failed, some names may have the new ones.
  virtual Result<std::unique_ptr<PutStream>> open_replacement(std::vector<ObjectName> names, std::uint64_t bytes,
                                                              const Digest& sha256) = 0;

  /// `each`, if given, sees every payload object on the way, those of a group one after the other.
  virtual Result<TierUsage> usage(const std::function<void(const ObjectStat&)>& each = {}) = 0;
  /// What may be put: in a directory before `cold.reserve_free` is touched, in memory before `hot.capacity`, the
  /// filesystem, a memory limit or the machine's memory is used up, less what others have reserved. A look: takes
  /// nothing, and promises nothing.
  virtual Result<Room> room() = 0;
  Result<std::uint64_t> available_bytes();
  /// Sets `bytes` aside for puts under the operation, in every process's count at once; puts without it are counted one
  /// by one. NO_SPACE, changing nothing, with what was wanted and is there, and the setting in the way: `hot.capacity`,
  /// the container's --shm-size, the memory limit of the cgroup. INVALID_ARGUMENT unless Traits::per_operation, and for
  /// an operation that has a reservation in this process.
  virtual Result<std::unique_ptr<Reservation>> reserve(const std::string& operation, std::uint64_t bytes);
  /// The NO_SPACE of a reserve() of so many bytes, were it made now.
  Status check_fits(std::uint64_t bytes);
  /// What an object of so many bytes takes of room().
  virtual std::uint64_t charged_bytes(std::uint64_t bytes) const { return bytes; }
  /// The lock of a group's replicas among the processes that use the instance: exclusive for who removes some, shared
  /// for who counts them. Never waits: null while another holds it in the way. INVALID_ARGUMENT unless
  /// Traits::per_operation. UNAVAILABLE where it cannot be had.
  virtual Result<std::unique_ptr<GroupLock>> try_lock_group(const std::string& group, bool exclusive);
  /// Who holds that lock now, a phrase each ("process 12, which is stopped"), as far as this process can see; for
  /// messages alone.
  virtual std::vector<std::string> lock_holders(const std::string& /*group*/) { return {}; }
  /// What this tier had to do without here (io_uring, direct I/O, shared copies), a sentence each; for `doctor`. Grows
  /// as the tier finds out.
  virtual std::vector<std::string> facts() { return {}; }
};

/// Page-aligned memory for I/O past the page cache. Move-only; empty when moved from.
class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  /// Rounded up to 4096. UNAVAILABLE naming the bytes when the system has no memory for it.
  static Result<AlignedBuffer> allocate(std::size_t bytes);
  AlignedBuffer(AlignedBuffer&& other) noexcept;
  AlignedBuffer& operator=(AlignedBuffer&& other) noexcept;
  ~AlignedBuffer();
  std::byte* data() const { return data_; }
  std::size_t size() const { return bytes_; }
  ByteSpan span() const { return {data_, bytes_}; }

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace steelyard::tiers
