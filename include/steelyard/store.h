// The embedded store: revisions of model weights in a folder, shared by any number of threads and processes.
//
// A Store, an OpenRevision, a File and a HeldLease are handles: copying one copies a pointer, and what it stands for
// ends with its last copy. Each keeps the store open. Every call blocks until it is done, and so does the end of a last
// copy: it gives a lease back, or closes the store, and may wait for the catalog. Sizes and offsets count bytes, names
// ending in _ms milliseconds.
//
// Errors are a Status whose message names the thing, what was found and what was wanted, and whose hint is the next
// step. Codes that several calls share: NOT_FOUND (no such revision), NOT_READY (not in a state for this), BUSY
// (somebody holds it or works on it now), UNAUTHORIZED (no write permission, or opened for reading), NO_SPACE, CORRUPT
// (bytes that are not what was imported), UNAVAILABLE (the disk or the catalog cannot be reached now; also a call that
// was cancelled), INVALID_ARGUMENT (an option or a name against the rules). Only std::bad_alloc is ever thrown.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "steelyard/reshard.h"
#include "steelyard/revision.h"
#include "steelyard/status.h"

namespace steelyard {

/// What the store's cold tier lies on.
enum class ColdMedium : unsigned char { kDisk, kDfs, kNof };

/// A relative path is one of the working folder at the call that takes the options.
struct StoreOptions {
  std::string path = {};       ///< the store's folder, on a local disk
  std::string cold_path = {};  ///< where the payload lies, may be a mounted shared volume; empty: inside the store
  ColdMedium cold_medium = ColdMedium::kDisk;
  std::string tenant_id = "default";
  std::string namespace_id = "default";
  /// The I/O buffers of one import, verify, materialize or repair, 16 MiB to 1 TiB; lowered to what the cgroup allows.
  /// Calls beside each other have as much each. All open revisions share as much once more.
  std::uint64_t io_memory = std::uint64_t{256} << 20;
  unsigned jobs = 0;  ///< worker threads of one call, at most 256; 0: the number of cores
  /// Free space of the cold tier's filesystem that an import leaves alone; absent: the larger of 5 % and 10 GiB, never
  /// more than half of it.
  std::optional<std::uint64_t> cold_reserve_free = {};
  std::string hot_path = "/dev/shm";  ///< the tmpfs of the memory tier
  std::optional<std::uint64_t> hot_capacity =
      {};  ///< bytes that it may hold, at least 1 MiB; absent: half of the tmpfs
  /// Shares of that: above the first one policies make room, down to the second. 1 to 999,999.
  std::uint32_t hot_high_watermark_millionths = 900'000;
  std::uint32_t hot_low_watermark_millionths = 800'000;
  std::int64_t policy_cooldown_ms =
      300'000;                           ///< from a move to the next one that an AUTO policy makes; at most 30 days
  std::int64_t lease_ttl_ms = 30'000;    ///< of leases that the library renews; 1 second to 24 hours
  std::int64_t gc_grace_ms = 3'600'000;  ///< how long bytes that no revision has are kept, in case they come again
};

enum class OpenMode : unsigned char {
  /// Never creates anything, and refuses (UNAUTHORIZED) what changes revisions. Leases and damage that is met are
  /// written where there is permission; without it nothing is, and reading works all the same.
  kRead,
  kWrite,   ///< the store must exist and be writable
  kCreate,  ///< made where it is absent
};

/// How far a call is. Within a phase the totals are constant and what is done never goes back; a phase that succeeds
/// ends with a report of everything done.
struct Progress {
  std::string_view phase = {};  ///< scan import verify materialize rehydrate evict repair; valid during the callback
  /// Of a call that works on several revisions: which; each has its phases to itself. As valid as the phase.
  std::string_view ref = {};
  std::uint64_t bytes_done = 0;
  std::uint64_t bytes_total = 0;
  std::uint64_t files_done = 0;
  std::uint64_t files_total = 0;
};

/// Ends calls early. Thread-safe; cancel() also from a signal handler. Once set it stays set. It must outlive the calls
/// it is given to.
class Cancellation {
 public:
  void cancel() noexcept { flag_.store(true); }
  bool cancelled() const noexcept { return flag_.load(); }

 private:
  friend struct ApiInternals;
  std::atomic<bool> flag_{false};
};

/// How a long call is watched and ended.
///
/// The callbacks run on the library's worker threads, or on the caller's, one at a time per call, at most some ten
/// times a second. The work waits for them, so they must return soon; they must not throw, and must not use the store.
/// They may call Cancellation::cancel.
///
/// A call that is cancelled ends within the time of a few blocks, as UNAVAILABLE "... was interrupted", with nothing
/// half visible. The same call again goes on: an import gives its writer token back, so that it need not be waited for,
/// and links what is stored already.
struct Hooks {
  std::function<void(const Progress&)> progress = {};
  std::function<void(std::string_view)> warning = {};  ///< what the user should know although all goes well
  const Cancellation* cancel = nullptr;
};

struct ImportRequest {
  std::string source = {};  ///< a checkpoint folder, a snapshot of a hub cache, or one weight file
  /// Absent: named after the source, as on the command line.
  std::optional<Ref> target = {};
  std::vector<std::string> include = {};          ///< globs over relative paths; with one, nothing else is taken
  std::vector<std::string> exclude = {};          ///< wins over include
  Labels labels = {};                             ///< in any order
  bool follow_links = false;                      ///< those that leave the source
  bool ignore_index = false;                      ///< do not trust a safetensors index
  bool allow_empty = false;                       ///< no weight file is no error
  bool verify_after_write = false;                ///< read everything back before publishing
  std::optional<std::uint64_t> chunk_bytes = {};  ///< a multiple of 1 MiB up to 4 GiB; absent: the lineage's, or 64 MiB
  std::int64_t wait_ms = 0;                       ///< for another writer of the same identity; at most 24 hours
  Policy policy = {};                             ///< recorded with the revision; moves nothing now
  /// kHot: in memory before the call ends; NO_SPACE before anything is copied where that is known. kCold, or absent: it
  /// is not brought there. POLICY_UNSATISFIABLE where the policy pins it elsewhere.
  std::optional<Residency> residency = {};
};
struct ImportReport {
  Revision revision = {};
  std::uint64_t files = 0;
  std::uint64_t tensors = 0;
  std::uint64_t written_bytes = 0;
  std::uint64_t reused_bytes = 0;   ///< that were stored already
  std::uint64_t skipped_files = 0;  ///< of the source, not taken
  std::uint64_t skipped_bytes = 0;
  bool already_there = false;  ///< published before, by the writer that was waited for or by this import, interrupted
};

struct ListQuery {
  std::optional<std::string> resource_id = {};
  std::vector<Availability> states = {};  ///< empty: READY and DEGRADED
  Labels labels = {};                     ///< all must be there
  bool newest = false;                    ///< only the newest of each resource
  std::size_t limit = 100;                ///< 1..1000 revisions a page
  std::string page_token = {};            ///< the page before's next_page_token, with everything else unchanged
};
struct ListPage {
  std::vector<Revision> revisions = {};  ///< in the order in which they were published
  std::string next_page_token = {};      ///< empty: this was the last page
};

/// What of a revision lies in memory. A memory instance is what all processes share that mount the same hot_path.
struct MemoryReplicas {
  std::uint64_t objects = 0;  ///< payload objects in the memory that is mounted here
  std::uint64_t bytes = 0;
  std::string instance = {};           ///< of that memory; empty: there is none, or it could not be read
  std::string recorded_instance = {};  ///< the one whose replicas the residency counts; empty: it counts none
  Status unknown = {};                 ///< an error: why the memory that is mounted here could not be read
  /// The residency speaks of a memory that is not mounted here: another container may have it. False where what is
  /// mounted here is not known.
  bool recorded_elsewhere() const {
    return unknown.ok() && !recorded_instance.empty() && recorded_instance != instance;
  }
};

struct Inspection {
  Revision revision = {};  ///< its operation with how far it is
  std::vector<LeaseInfo> leases = {};
  std::uint64_t cold_objects = 0;  ///< that lie in the cold tier now, the manifest too
  std::uint64_t cold_bytes = 0;
  MemoryReplicas memory = {};
  bool has_manifest = false;         ///< false: there is none (yet, or any more), or it is damaged; then no files
  std::vector<FileInfo> files = {};  ///< by path
  std::uint64_t tensors = 0;
  Labels source = {};  ///< facts of where it came from
};

struct ReadOptions {
  bool allow_degraded = false;  ///< read what is intact of a damaged revision
  std::string holder = {};      ///< who reads, for people; empty: host and process
};
struct LeaseOptions {
  std::string holder = {};                  ///< for people; empty: host and process
  std::optional<std::int64_t> ttl_ms = {};  ///< 1 second to 24 hours; absent: the store's lease_ttl_ms
  bool allow_degraded = false;
};

struct VerifyReport {
  Revision revision = {};  ///< as it is after what was found
  std::uint64_t checked_files = 0;
  std::uint64_t checked_objects = 0;
  std::uint64_t checked_bytes = 0;
  MemoryReplicas memory = {};  ///< which were read beside those
  /// None: every byte is as it was imported, in memory too, and all is there that the residency counts. Those of the
  /// tier "hot" alone leave every byte readable from the cold tier.
  std::vector<Problem> problems = {};
};

struct MaterializeOptions {
  bool force = false;           ///< replace a folder that is not empty
  bool allow_degraded = false;  ///< leave damaged files out instead of failing
};
struct MaterializeReport {
  Revision revision = {};
  std::string path = {};  ///< absolute
  std::uint64_t files = 0;
  std::uint64_t bytes = 0;
  std::vector<std::string> notes = {};                       ///< for people: what was not atomic, and why
  std::vector<std::pair<std::string, Status>> missing = {};  ///< files left out, and why; only with allow_degraded
};

struct DeleteOptions {
  std::optional<std::uint64_t> expected_generation = {};  ///< of the record; absent: whatever it has
  /// Absent: BUSY, and nothing changed, under a live lease. Given: new leases are refused at once, and the live ones
  /// waited for this long, at most 24 hours; then BUSY, and the revision stays DELETING for a later call.
  std::optional<std::int64_t> wait_ms = {};
};
struct DeleteReport {
  Identity identity = {};
  bool already_deleted = false;  ///< there was nothing left to do; an older revision may still be there
};
struct AbortOptions {
  std::optional<std::uint64_t> expected_generation = {};
  bool force = false;  ///< whoever writes it
};

struct RepairOptions {
  std::string source = {};    ///< a folder or file with good bytes, under any names; empty: only what the store holds
  bool follow_links = false;  ///< those that leave the source
  std::optional<std::uint64_t> expected_generation = {};
  /// False: the operation is only started, and left to a later repair or a reconcile; not with a source.
  bool wait = true;
};
struct RepairReport {
  Revision revision = {};
  std::optional<Operation> operation = {};  ///< absent: there was nothing to repair
  std::uint64_t restored_objects = 0;
  std::uint64_t restored_bytes = 0;
};

/// Of rehydrate and evict.
struct ResidencyOptions {
  std::optional<std::uint64_t> expected_generation = {};  ///< of the record; absent: whatever it has
  /// The share of the bytes that is to be in memory, in millionths; the nearest to it that whole objects allow. Absent:
  /// all of them, or none.
  std::optional<std::uint32_t> ratio_millionths = {};
  /// For rehydrate, where memory is short: evicts idle revisions, the least recently used first. Where that is not
  /// enough, nothing is evicted; BUSY if leases hold what would do.
  bool make_room = false;
  /// False: the operation is only started, and left to the same call without this, or a reconcile.
  bool wait = true;
};
struct ResidencyReport {
  Revision revision = {};
  std::optional<Operation> operation = {};  ///< the last one; absent: there was nothing to move
  std::uint64_t moved_objects = 0;          ///< into memory, or out of it
  std::uint64_t removed_objects = 0;        ///< of those, the ones that went out of it
  std::uint64_t read_bytes = 0;             ///< from the cold tier
  std::vector<Ref> evicted = {};            ///< to make room, in order
};

/// What following a policy came to.
struct FollowReport {
  bool moved = false;             ///< the revision; false: there was nothing to do, or no room for it
  std::vector<Ref> evicted = {};  ///< to make room, in order
  Status stays = {};              ///< an error: why it is not in memory although its policy wants it there now
};

/// A change of a policy: what is absent stays as it is, but that a ratio goes when the preference is not kMixed.
struct PolicyChange {
  std::optional<Residency> prefer = {};
  std::optional<std::uint32_t> ratio_millionths = {};
  std::optional<PolicyMode> mode = {};
  std::optional<std::uint64_t> expected_generation = {};  ///< of the record; absent: whatever it has
};

/// What is watched: one generation, every generation of a revision, every revision of a resource, or the namespace.
struct WatchQuery {
  std::optional<std::string> resource_id = {};
  std::optional<std::string> revision = {};            ///< with a resource; absent: all of its revisions
  std::optional<std::int64_t> weight_generation = {};  ///< with a revision
  /// WatchBatch::next of the batch before. Absent: the records as they stand, at once.
  std::optional<std::uint64_t> after = {};
  std::int64_t wait_ms = 0;  ///< for something to tell; 0 only looks
};
struct RevisionChange {
  std::uint64_t sequence = 0;  ///< in the catalog's log
  Revision revision = {};      ///< as this change left it
};
struct WatchBatch {
  std::vector<RevisionChange> changes = {};  ///< in order; empty when wait_ms were over
  std::uint64_t next = 0;
  /// `changes` are the records as they stand, not single changes: this is the first batch, or the log does not hold
  /// what came after `after` any more. A revision that is not among them is not there.
  bool resnapshot = false;
  /// With resnapshot, of one generation: it was deleted, and nothing but its number is remembered.
  bool compacted = false;
};

/// What a reconciliation did, could not do now, or failed at.
struct ReconcileReport {
  using Change = std::pair<std::string, std::string>;  ///< a reference, and what became of it
  using Left = std::pair<std::string, Status>;         ///< a reference, and why it could not be done now
  std::uint64_t checked = 0;
  std::vector<Change> changes = {};
  std::vector<Left> waiting = {};  ///< for live leases, another process at work, or a repair's source
  std::vector<Left> failed = {};   ///< the rest was reconciled all the same
};

struct GcReport {
  std::uint64_t objects = 0;
  std::uint64_t bytes = 0;
  std::uint64_t tombstones = 0;        ///< compacted
  std::vector<std::string> kept = {};  ///< what could not be judged, or not be removed, a sentence each
};

struct UsageReport {
  struct Tier {
    std::string name = {};         ///< "cold", always; "hot", where something of the store is in memory here
    std::uint64_t bytes = 0;       ///< of the whole store, shared ones once
    std::uint64_t free_bytes = 0;  ///< of its filesystem
    std::uint64_t capacity_bytes = 0;
    std::uint64_t claimed_bytes = 0;   ///< reserved by operations under way
    std::uint64_t private_copies = 0;  ///< objects that could not share the bytes of an equal one
  };
  struct Row {
    Revision revision = {};
    std::uint64_t exclusive_bytes = 0;  ///< in no other revision: what deleting it would free
    std::uint64_t shared_bytes = 0;
  };
  std::vector<Tier> tiers = {};
  std::vector<Row> revisions = {};  ///< of the store's namespace
};

/// One file of an open revision.
///
/// Thread-safe: reads of several threads run beside each other.
class File {
 public:
  const FileInfo& info() const;
  std::uint64_t size() const { return info().bytes; }
  /// Fills `into` from `offset`. INVALID_ARGUMENT for a range that leaves the file. Otherwise as
  /// OpenRevision::read_tensor.
  Status read(std::uint64_t offset, std::span<std::byte> into) const;

 private:
  friend class OpenRevision;
  struct Impl;
  explicit File(std::shared_ptr<const Impl> impl);
  std::shared_ptr<const Impl> impl_;
};

/// A revision that is read. Holds a lease, which is renewed, until its last copy and its last File are gone; a delete
/// waits for it or says who reads. A store without write permission has no leases; where the catalog cannot be written
/// now, it is read without one, and a warning says so (log.h).
///
/// Thread-safe: reads of several threads run beside each other, and take turns where the store's io_memory is used up.
class OpenRevision {
 public:
  /// The record as it was when the lease was taken.
  const Revision& revision() const;

  /// Files by path, tensors by id. An index that does not exist is a programmer's error.
  std::size_t file_count() const;
  const FileInfo& file(std::size_t index) const;
  std::size_t tensor_count() const;
  TensorInfo tensor(std::size_t index) const;
  std::optional<std::size_t> find_tensor(std::string_view tensor_id) const;

  /// NOT_FOUND naming the path.
  Result<File> open_file(std::string_view path) const;

  /// Fills `into` with the tensor's bytes from `offset`. INVALID_ARGUMENT for a range that leaves the tensor, and for a
  /// tensor that is stored in fragments. Every 1 MiB block that is touched is read whole and checked before any byte of
  /// it is given out, so large reads are cheaper than many small ones. CORRUPT names the file, the object and the
  /// block, and the damage is recorded; LEASE_EXPIRED when this process stood still, or could not write to the
  /// catalog, for longer than its lease; NOT_READY when it reads without a lease and the revision was deleted. `into`
  /// has no meaning after an error.
  Status read_tensor(std::size_t index, std::uint64_t offset, std::span<std::byte> into) const;

  /// The revision as the source of a plan (reshard.h).
  StoredManifest manifest() const;

 private:
  friend struct ApiInternals;
  friend class File;
  struct Impl;
  explicit OpenRevision(std::shared_ptr<const Impl> impl);
  std::shared_ptr<const Impl> impl_;
};

/// A lease that is renewed until its last copy is gone, and then given back: for whoever reads a revision by other
/// means. Thread-safe.
class HeldLease {
 public:
  const std::string& lease_id() const;
  const Revision& revision() const;
  /// OK while the revision is protected; LEASE_EXPIRED once the lease's time is over by the clock, renewed too late or
  /// not at all.
  Status check() const;

 private:
  friend struct ApiInternals;
  struct Impl;
  explicit HeldLease(std::shared_ptr<const Impl> impl);
  std::shared_ptr<const Impl> impl_;
};

/// An open store. Thread-safe, and other processes may use the same store meanwhile.
class Store {
 public:
  /// NOT_FOUND, naming the path, when there is none and the mode does not create one; INVALID_ARGUMENT for a folder
  /// with other files; UNAUTHORIZED without write permission where the mode wants it.
  static Result<Store> open(const StoreOptions& options, OpenMode mode);

  const std::string& store_id() const;
  /// Whether it can only be read: by its mode, or without write permission.
  bool read_only() const;

  // Import, and what there is.

  /// Makes a revision of a checkpoint: after this returns it is durable, complete and READY; before, nothing is
  /// visible. Killed or cancelled anywhere, the same call goes on.
  Result<ImportReport> import(const ImportRequest& request, const Hooks& hooks = {}) const;

  Result<ListPage> list(const ListQuery& query = {}) const;
  Result<Inspection> inspect(const Ref& ref) const;
  /// The record alone, with residency, policy and the running operation, and no look into the tiers: of an exact
  /// generation in any state; else of the newest READY one, or where there is none, the newest DEGRADED one.
  Result<Revision> find(const Ref& ref) const;

  /// Waits for changes and gives them in order, each at least once: who goes on with `next` misses none, whichever
  /// process makes them. Leases and progress are no changes. A cancel ends it as UNAVAILABLE, and so may the disk; the
  /// same call goes on. INVALID_ARGUMENT for a revision without its resource, or a generation without its revision.
  /// Works in a store that is opened for reading, too.
  Result<WatchBatch> watch(const WatchQuery& query = {}, const Cancellation* cancel = nullptr) const;

  // Reading. A lease protects what is read.

  Result<OpenRevision> open_revision(const Ref& ref, const ReadOptions& options = {}) const;
  /// Writes the revision's files as a folder, which appears whole or not at all.
  Result<MaterializeReport> materialize(const Ref& ref, const std::string& target,
                                        const MaterializeOptions& options = {}, const Hooks& hooks = {}) const;
  /// A lease of this process that is renewed by itself. UNAUTHORIZED in a store without write permission.
  Result<HeldLease> hold(const Ref& ref, const LeaseOptions& options = {}) const;
  /// Leases by their id, which may be handed to another process; the caller renews them. A repeat with the same holder
  /// and nonce is the same lease (an empty nonce: a new one). Renewing never shortens one; releasing one that is gone
  /// is success.
  Result<LeaseInfo> acquire_lease(const Ref& ref, const LeaseOptions& options = {},
                                  const std::string& nonce = {}) const;
  Result<LeaseInfo> renew_lease(const std::string& lease_id, std::int64_t ttl_ms) const;
  Status release_lease(const std::string& lease_id) const;
  /// The live leases of a revision, or of the store's namespace.
  Result<std::vector<LeaseInfo>> leases(const std::optional<Ref>& ref = std::nullopt) const;

  // Damage.

  /// Reads every byte again and records what it found. Damage is in the report; an error is a verify that could not be
  /// done.
  Result<VerifyReport> verify(const Ref& ref, const Hooks& hooks = {}) const;
  /// Restores missing and damaged objects. CORRUPT, naming them, when nobody has their bytes.
  Result<RepairReport> repair(const Ref& ref, const RepairOptions& options = {}, const Hooks& hooks = {}) const;

  // Between memory and the cold tier.

  /// Brings the revision into memory, where it stays after this process, and readers of every process take it from
  /// there. Of several callers one works, and the others wait for it; killed or cancelled, the same call goes on.
  /// NO_SPACE, naming the limit in the way; CORRUPT for damaged cold bytes; POLICY_UNSATISFIABLE where the revision is
  /// pinned elsewhere; BUSY while another kind of operation runs.
  Result<ResidencyReport> rehydrate(const Ref& ref, const ResidencyOptions& options = {},
                                    const Hooks& hooks = {}) const;
  /// Takes it out of memory, once its cold bytes were read back; with a ratio, what is outside that share. BUSY under a
  /// live lease; one that is taken meanwhile pauses it. Other errors as rehydrate.
  Result<ResidencyReport> evict(const Ref& ref, const ResidencyOptions& options = {}, const Hooks& hooks = {}) const;
  /// An operation with its progress, while it runs or is one of the last 16 of its revision; NOT_FOUND otherwise.
  Result<Operation> operation(const std::string& operation_id) const;
  /// Ends it where it runs, whoever runs it; what it did stays. One that has ended stays as it is.
  Result<Operation> cancel_operation(const std::string& operation_id) const;
  /// Changes the policy of a published revision (find has it). Nothing is moved now. INVALID_ARGUMENT for one that
  /// cannot be, such as a ratio without kMixed; STALE_GENERATION for another record than the expected one; BUSY while
  /// an operation runs that the new policy would refuse.
  Result<Revision> update_policy(const Ref& ref, const PolicyChange& change) const;
  /// Moves the revision as its policy asks for now: an AUTO one that somebody has a lease of comes into memory, if
  /// there is room or room can be made. Call it after acquiring a lease, or leave it to a reconcile. No room is no
  /// error, and FollowReport::stays says so. NOT_FOUND, UNAUTHORIZED; as rehydrate and evict where a move fails, and
  /// then the hint names what was evicted for it: CORRUPT for damaged cold bytes, BUSY while somebody reads or moves
  /// what is to leave, UNAVAILABLE.
  Result<FollowReport> follow_policy(const Ref& ref, const Hooks& hooks = {}) const;

  // Removal.

  /// The revision and its bytes go. What is deleted already is success.
  Result<DeleteReport> delete_revision(const Ref& ref, const DeleteOptions& options = {},
                                       const Cancellation* cancel = nullptr) const;
  /// Gives up an import under way. CONFLICT for what is published, BUSY for a live writer unless forced.
  Result<Identity> abort_import(const Ref& ref, const AbortOptions& options = {}) const;

  // Upkeep.

  /// Observes one revision, or every one of the store, and goes on with what was interrupted.
  Result<ReconcileReport> reconcile(const std::optional<Ref>& ref = std::nullopt, const Hooks& hooks = {}) const;
  /// The same again and again, as changes come, operations are left behind and times are over, whichever process does
  /// it: what keeps policies followed. One for each store is enough; more do no harm. `tell` gets what the first pass
  /// found, and after it whatever is news; an error of it ends the call and comes back. It is called between the
  /// passes, on the caller's thread, and may use the store. Otherwise the call ends when it is cancelled, as
  /// UNAVAILABLE, or with an error that keeps it from observing anything.
  Status keep_reconciled(const std::optional<Ref>& ref, const std::function<Status(const ReconcileReport&)>& tell,
                         const Hooks& hooks) const;
  /// Frees what no revision refers to; with dry_run only says what.
  Result<GcReport> gc(bool dry_run = false, const Cancellation* cancel = nullptr) const;
  Result<UsageReport> usage() const;

 private:
  friend struct ApiInternals;
  struct Impl;
  explicit Store(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

struct RecoverReport {
  std::vector<Revision> recovered = {};                           ///< READY and DEGRADED
  std::vector<std::pair<std::string, std::string>> skipped = {};  ///< path in the cold tier, and why
  std::string moved_to = {};  ///< where the catalog that was there lies now; empty: there was none
};
/// Rebuilds the catalog of a store from its cold tier. CONFLICT over a catalog with records unless `force`, which moves
/// it aside; BUSY while a process has the store open.
Result<RecoverReport> recover_store(const StoreOptions& options, bool force = false, bool dry_run = false);

}  // namespace steelyard
