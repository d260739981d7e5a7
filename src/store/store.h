// Store: the only place where catalog, formats and tiers meet. What the command line and the bindings use.
//
// Thread-safety: a Store may be used from any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/runtime.h"
#include "base/status.h"
#include "catalog/catalog.h"
#include "formats/checkpoint.h"
#include "formats/ref.h"
#include "formats/stored_manifest.h"
#include "metadata/types.h"
#include "tiers/tier.h"

namespace steelyard::store {

/// Values of the settings that the store acts on (src/cli/settings.cc has the table).
struct StoreOptions {
  std::string path;       ///< the store folder
  std::string cold_path;  ///< empty: inside the store
  tiers::Medium cold_medium = tiers::Medium::kDisk;
  std::optional<std::uint64_t> cold_reserve_free;
  std::string hot_path = "/dev/shm";                            ///< the tmpfs of the memory tier
  std::optional<std::uint64_t> hot_capacity;                    ///< absent: half of that filesystem
  std::uint32_t hot_high_watermark_millionths = 900'000;        ///< of the capacity: above it policies make room
  std::uint32_t hot_low_watermark_millionths = 800'000;         ///< down to here
  std::int64_t policy_cooldown_ms = limits::kPolicyCooldownMs;  ///< from a move to the next that AUTO makes
  std::uint64_t io_memory = limits::kIoMemoryDefault;           ///< lowered to what the cgroup allows
  unsigned jobs = 0;                                            ///< 0: number of cores
  std::uint64_t header_limit = limits::kHeaderBytesDefault;
  std::int64_t writer_ttl_ms = limits::kWriterTtlMs;
  std::int64_t lease_ttl_ms = limits::kLeaseTtlMs;
  std::int64_t abandon_after_ms = limits::kAbandonAfterMs;
  std::int64_t gc_grace_ms = limits::kGcGraceMs;
  std::uint64_t snapshot_every = 10'000;
  bool oplog_capability_confirmed = false;
};

enum class OpenMode {
  kRead,    ///< never creates anything; falls back to read-only mode without write permission
  kWrite,   ///< the store must exist and be writable
  kCreate,  ///< made where it is absent
};

/// Progress of a long verb. Totals never change within a phase, done never goes back, the last update of a phase is
/// complete. Called from worker threads, one call at a time.
struct Progress {
  std::string phase;  ///< scan import verify materialize rehydrate evict repair
  std::uint64_t bytes_done = 0;
  std::uint64_t bytes_total = 0;
  std::uint64_t files_done = 0;
  std::uint64_t files_total = 0;
  std::string ref{};  ///< of a call that works on several revisions: which; each has its phases to itself
};
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void progress(const Progress& progress) = 0;
  virtual void warning(const std::string& message) = 0;
};

/// Set from a signal handler; long verbs look at it between blocks and end with `cancelled()`.
using CancelFlag = std::atomic<bool>;

/// Which revision a verb means. `ref.weight_generation` absent: the newest READY one.
struct Selector {
  std::string tenant_id = "default";
  std::string namespace_id = "default";
  formats::Ref ref;
};

/// The label that an import gives by itself: the ref that points to a hub snapshot.
inline constexpr std::string_view kHubRefLabel = "hub_ref";

struct ImportRequest {
  std::string source;  ///< a folder or one weight file
  Selector target;     ///< resource and revision filled in; the generation optional
  formats::CheckpointOptions checkpoint;
  bool follow_links = false;
  metadata::Labels labels;            ///< the user's
  metadata::Labels automatic_labels;  ///< found in the source; an import that is resumed keeps those of its first begin
  std::optional<std::uint64_t> chunk_bytes;  ///< absent: the lineage's, else the default
  metadata::Policy policy;
  bool verify_after_write = false;
  std::int64_t wait_ms = 0;  ///< for another writer of the same identity
  bool into_memory = false;  ///< HOT before it ends. NO_SPACE before anything is copied where that is known first
};
struct ImportResult {
  metadata::RevisionRecord record;
  std::uint64_t active_leases = 0;
  std::uint64_t files = 0;
  std::uint64_t tensors = 0;
  std::uint64_t payload_objects = 0;
  std::uint64_t logical_bytes = 0;
  std::uint64_t written_bytes = 0;
  std::uint64_t reused_bytes = 0;
  std::uint64_t skipped = 0;  ///< files and folders of the source that were not taken (CheckpointPlan::skipped)
  std::uint64_t skipped_bytes = 0;
  bool already_there = false;  ///< by the writer that was waited for, or by this import before; nothing was written
  double seconds = 0;
};

/// What a revision holds now: record, manifest (absent where there is none to read), replicas, leases.
struct Inspection {
  metadata::RevisionRecord record;
  std::uint64_t active_leases = 0;
  std::optional<formats::StoredManifest> manifest;
  std::optional<metadata::Writer> writer;            ///< while IMPORTING
  std::optional<metadata::OperationView> operation;  ///< the running one, with its runner and how far that is
  std::vector<catalog::Catalog::LeaseRow> leases;
  std::uint64_t cold_objects = 0;  ///< counts the manifest
  std::uint64_t cold_bytes = 0;
  std::uint64_t hot_objects = 0;  ///< payload objects in the memory that is mounted here
  std::uint64_t hot_bytes = 0;
  std::string hot_instance;    ///< of the memory that is mounted here; empty: none is
  bool hot_elsewhere = false;  ///< the record names a memory that is not mounted here
  bool hot_stray = false;      ///< nobody reads what lies in the memory that is, and an eviction frees it
  Status hot_unknown;          ///< an error: why nothing is known of the memory that is mounted here
  bool read_only = false;
};

enum class ProblemKind { kMissingObject, kObjectSize, kObjectChecksum, kFileSha256, kManifest };
struct Problem {
  ProblemKind kind = ProblemKind::kMissingObject;
  std::string file;
  std::vector<std::string> tensors;     ///< all whose bytes touch the bad block
  std::string object;                   ///< key
  std::string tier = "cold";            ///< whose replica it is
  std::optional<std::uint64_t> offset;  ///< first bad block in the object
  std::string expected;
  std::string actual;
  bool unread = false;  ///< it could not be read now, which proves nothing about its bytes
};
struct VerifyReport {
  metadata::RevisionRecord record;
  std::uint64_t checked_files = 0;
  std::uint64_t checked_objects = 0;  ///< counts the manifest
  std::uint64_t checked_bytes = 0;
  std::uint64_t hot_objects = 0;  ///< replicas in memory, which were checked beside those
  std::uint64_t hot_bytes = 0;
  std::string hot_instance;       ///< of the memory that was read; empty: none is mounted here
  std::string recorded_instance;  ///< the one that the record named as the reading began; empty: none
  Status hot_unknown;             ///< an error: why the memory that is mounted here was not read
  bool recorded = false;          ///< `record` is as it is after what was found; else as it was before
  std::vector<Problem> problems;
};

struct MaterializeRequest {
  Selector source;
  std::string target;
  bool force = false;
  bool allow_degraded = false;  ///< also: leave damaged files out instead of failing
  std::string home;             ///< the user's home folder, which is not replaced; may be empty
};
struct MaterializeResult {
  metadata::RevisionRecord record;
  std::string path;
  std::uint64_t files = 0;  ///< that were written
  std::uint64_t bytes = 0;
  std::vector<std::string> notes;  ///< "not atomic: ... is a mount point"
  struct Missing {
    std::string file;
    Status why;  ///< CORRUPT, or the error of a read that proves nothing
  };
  std::vector<Missing> missing;  ///< only with allow_degraded; by path
};

/// Payload bytes of a revision in the tiers; bytes that several objects of it share count once.
struct RevisionUsage {
  metadata::RevisionRecord record;
  std::uint64_t exclusive_bytes = 0;  ///< in no other revision's objects: what deleting it would free
  std::uint64_t shared_bytes = 0;     ///< also in others, of any tenant and namespace
};
struct UsageReport {
  std::vector<std::pair<std::string, tiers::TierUsage>> tiers;  ///< by name, the whole store
  std::vector<RevisionUsage> revisions;                         ///< of one namespace; tombstones have none
};

struct CatRequest {
  Selector source;
  std::string path;
  std::optional<std::uint64_t> first;  ///< inclusive, as in HTTP
  std::optional<std::uint64_t> last;
  bool allow_degraded = false;
};

/// How a lease is held that is renewed by itself (store/lease_guard.h).
struct LeaseTerms {
  std::string holder{};                  ///< for people; empty: this process
  std::optional<std::int64_t> ttl_ms{};  ///< absent: the option's
  bool allow_degraded = false;
  bool required = false;  ///< no lease is an error, whatever keeps the catalog from writing it
};

class OpenRevision;
class HeldRevision;

struct RepairRequest {
  Selector target;
  std::string source;  ///< a folder or file that holds good bytes; empty: only what the store holds
  bool follow_links = false;
  std::optional<std::uint64_t> expected_generation;  ///< absent: whatever the record has
  bool wait = true;                                  ///< false: the operation is started and left for others to run
};
struct RepairResult {
  metadata::RevisionRecord record;
  std::optional<metadata::Operation> operation;  ///< absent: there was nothing to repair
  std::uint64_t restored_objects = 0;
  std::uint64_t restored_bytes = 0;  ///< of whole objects
};

struct ResidencyRequest {
  Selector target;
  std::optional<std::uint64_t> expected_generation;  ///< absent: whatever the record has
  std::optional<std::uint32_t> ratio_millionths;     ///< MIXED, with that share of the bytes hot; absent: all or none
  /// For leases that pause an eviction, for who counts what is in memory, and for another process that carries out the
  /// same operation. False: BUSY, and what was begun stays RUNNING.
  bool wait_for_others = true;
  bool only_if_idle = false;  ///< an operation that is begun here ends FAILED where somebody comes to read the revision
  bool make_room = false;     ///< a rehydration: evicts idle revisions where memory is short
  bool wait = true;           ///< false: the operation is started and left for others to run
};
struct ResidencyResult {
  metadata::RevisionRecord record;
  std::optional<metadata::Operation> operation;  ///< the last one; absent: there was nothing to move
  std::uint64_t moved_objects = 0;               ///< into memory, or out of it
  std::uint64_t removed_objects = 0;             ///< of those, the ones that went out of it
  std::uint64_t read_bytes = 0;                  ///< from the cold tier
  std::vector<std::string> evicted;              ///< to make room: their refs, in order
};

/// What following a revision's policy came to.
struct FollowResult {
  bool moved = false;                ///< false: there was nothing to do, or no room for it
  std::vector<std::string> evicted;  ///< to make room: their refs, in order
  Status no_room;                    ///< an error: why it stays where it is although its policy wants it in memory now
};

/// A change of a revision's policy: what is absent stays as it is, but that a ratio goes with MIXED alone.
struct PolicyRequest {
  Selector target;
  std::optional<metadata::Residency> prefer;
  std::optional<std::uint32_t> ratio_millionths;
  std::optional<metadata::PolicyMode> mode;
  std::optional<std::uint64_t> expected_generation;  ///< absent: whatever the record has
};

struct DeleteRequest {
  Selector target;                                   ///< without a generation: find_deletable's
  std::optional<std::uint64_t> expected_generation;  ///< absent: whatever the record has
  std::optional<std::int64_t> wait_ms;               ///< drains: new leases are refused, the live ones waited for
};
struct AbortRequest {
  Selector target;
  std::optional<std::uint64_t> expected_generation;
  bool force = false;  ///< whoever writes
};
struct RemovalResult {
  metadata::Identity identity;
  std::optional<metadata::RevisionRecord> record;  ///< absent: the tombstone was compacted into a watermark
  bool before = false;                             ///< a delete: there was nothing left to do
};

/// What a reconciliation did, or found that it could not do now.
struct ReconcileReport {
  struct Change {
    std::string ref;
    std::string what;
  };
  struct Left {
    std::string ref;
    Status why;
  };
  std::uint64_t checked = 0;
  std::vector<Change> changes;
  std::vector<Left> waiting;  ///< for live leases, another process at work (BUSY), or a repair's source (CORRUPT)
  std::vector<Left> failed;   ///< other errors; the rest was reconciled all the same
  std::map<metadata::Identity, std::uint64_t> left_at;  ///< the generations of the records that it moved itself
};

struct GcReport {
  std::uint64_t objects = 0;      ///< stored objects freed, those that several names share once
  std::uint64_t bytes = 0;        ///< theirs
  std::uint64_t tombstones = 0;   ///< compacted into watermarks
  std::vector<std::string> kept;  ///< what no record names and is no garbage either, with the next step
};

class Store {
 public:
  virtual ~Store() = default;

  /// NOT_FOUND naming the path when there is no store and the mode does not create one; UNAVAILABLE with hint `recover`
  /// for a store with objects but no catalog.
  static Result<std::unique_ptr<Store>> open(Runtime& runtime, const StoreOptions& options, OpenMode mode);

  virtual bool read_only() const = 0;
  virtual const std::string& store_id() const = 0;

  virtual Result<ImportResult> import(const ImportRequest& request, Observer& observer, const CancelFlag& cancel) = 0;

  virtual Result<metadata::ListPage> list(const metadata::ListQuery& query) = 0;
  /// The revision that a reading verb means (cli.md, "Reading what is not there to read").
  virtual Result<metadata::RevisionRecord> resolve(const Selector& selector, bool allow_degraded) = 0;
  /// For who only looks: an exact generation in any state, else the newest READY one, else the newest DEGRADED one.
  virtual Result<metadata::RevisionRecord> find(const Selector& selector) = 0;
  virtual Result<std::uint64_t> active_leases(const metadata::Identity& identity) = 0;
  virtual Result<Inspection> inspect(const Selector& selector) = 0;

  virtual Result<UsageReport> usage(const std::string& tenant_id, const std::string& namespace_id) = 0;

  /// Reads what lies in the cold tier and in the memory that is mounted here, where it also misses what the record
  /// counts there. Records what it saw (not when read-only). An error only where it could not be done; problems are in
  /// the report.
  virtual Result<VerifyReport> verify(const Selector& selector, Observer& observer, const CancelFlag& cancel) = 0;
  /// With allow_degraded the target holds every intact file and the result names the others; without an intact file,
  /// or without allow_degraded, damage is an error and there is no target.
  virtual Result<MaterializeResult> materialize(const MaterializeRequest& request, Observer& observer,
                                                const CancelFlag& cancel) = 0;
  /// Verified bytes, in order, in pieces; an error of `sink` ends it and comes back.
  virtual Status cat(const CatRequest& request, const std::function<Status(ByteView)>& sink,
                     const CancelFlag& cancel) = 0;
  /// A revision to read at any offset, by any number of threads (store/open_revision.h). The store must outlive it.
  virtual Result<std::unique_ptr<OpenRevision>> open_revision(const Selector& selector, const LeaseTerms& terms) = 0;

  /// Restores missing and damaged objects. CORRUPT, naming them, when nobody has their bytes; BUSY while another
  /// process repairs the revision.
  virtual Result<RepairResult> repair(const RepairRequest& request, Observer& observer, const CancelFlag& cancel) = 0;
  /// Removes the revision, or all but a part of it, from memory, once its cold objects were read back. BUSY under a
  /// live lease; one that is taken meanwhile pauses it. CORRUPT where a cold object is damaged: its hot replica stays.
  virtual Result<ResidencyResult> evict(const ResidencyRequest& request, Observer& observer,
                                        const CancelFlag& cancel) = 0;
  /// Brings the whole revision into memory, or a part of it. NO_SPACE, naming the limit in the way, where there is not
  /// enough room.
  virtual Result<ResidencyResult> rehydrate(const ResidencyRequest& request, Observer& observer,
                                            const CancelFlag& cancel) = 0;
  /// A running operation with its runner's progress, or an ended one that its record retains.
  virtual Result<metadata::OperationView> operation(const std::string& operation_id) = 0;
  /// Ends it, if it runs; the same answer as `operation` afterwards. `cancel` leaves what a move did to a reconcile.
  virtual Result<metadata::OperationView> cancel_operation(const std::string& operation_id,
                                                           const CancelFlag& cancel) = 0;

  /// Policies are promises for later: nothing is moved now. INVALID_ARGUMENT for one that cannot be, NOT_READY for a
  /// revision that is not published, BUSY while an operation runs that the new one would refuse.
  virtual Result<metadata::RevisionRecord> update_policy(const PolicyRequest& request) = 0;
  /// Changes of records, waited for until the query's deadline (store/watch.h).
  virtual Result<catalog::WatchBatch> watch(const catalog::WatchQuery& query, const CancelFlag& cancel) = 0;

  /// The revision that a removal without a generation means: the newest that was published and is not deleted (for an
  /// abort, the newest import under way), else one for which the removal says why it cannot be, else NOT_FOUND.
  virtual Result<metadata::RevisionRecord> find_deletable(const Selector& selector) = 0;
  virtual Result<metadata::RevisionRecord> find_abortable(const Selector& selector) = 0;
  /// Named so because `delete` is a word of the language. BUSY, and nothing changed, under a live lease; with wait_ms,
  /// BUSY once it is over, and DELETING. NOT_READY for an import under way. A tombstone is success.
  virtual Result<RemovalResult> erase(const DeleteRequest& request, const CancelFlag& cancel) = 0;
  /// CONFLICT for what is published, BUSY for a live writer unless forced. What was aborted before is success.
  virtual Result<RemovalResult> abort(const AbortRequest& request) = 0;
  /// Recomputes what is observed of one revision, or of every one of the store, and goes on with interrupted work.
  virtual Result<ReconcileReport> reconcile(const std::optional<Selector>& selector, Observer& observer,
                                            const CancelFlag& cancel) = 0;
  /// The same again and again as changes come, until it is cancelled (store/keep_reconciled.h). `tell` gets what each
  /// turn found that is news; its error ends it and comes back.
  virtual Status keep_reconciled(const std::optional<Selector>& selector, Observer& observer,
                                 const std::function<Status(const ReconcileReport&)>& tell,
                                 const CancelFlag& cancel) = 0;
  /// Frees what no revision refers to.
  virtual Result<GcReport> gc(bool dry_run, const CancelFlag& cancel) = 0;

  virtual Result<metadata::Lease> acquire_lease(const Selector& selector, const std::string& holder,
                                                const std::string& nonce, std::int64_t ttl_ms, bool allow_degraded) = 0;
  /// Moves the revision as its policy asks for now; an AUTO one that somebody reads comes into memory, if there is room
  /// or room can be made. Who acquires a lease calls it then. An error has what was evicted all the same in its hint.
  virtual Result<FollowResult> follow_policy(const metadata::Identity& identity, Observer& observer,
                                             const CancelFlag& cancel) = 0;
  /// Why a revision is not where its policy wants it, in the words of follow_policy; nothing is moved. OK where it is
  /// there, its policy moves nothing by itself, or nothing is in the way of the move. Where that could not be looked
  /// at, why not.
  virtual Status why_it_waits(const metadata::RevisionRecord& record) = 0;
  virtual Result<metadata::Lease> renew_lease(const std::string& lease_id, std::int64_t ttl_ms) = 0;
  /// A lease that is renewed while it is held (store/open_revision.h). The store must outlive it.
  virtual Result<std::unique_ptr<HeldRevision>> hold(const Selector& selector, const LeaseTerms& terms) = 0;
  virtual Status release_lease(const std::string& lease_id) = 0;
  virtual Result<std::vector<catalog::Catalog::LeaseRow>> list_leases(const std::optional<Selector>& selector,
                                                                      const std::string& tenant_id,
                                                                      const std::string& namespace_id) = 0;
};

/// Everything an import would do but for reading the bytes: scans, validates headers and indexes. Needs no store.
Result<formats::CheckpointPlan> preview_import(const ImportRequest& request, Observer& observer);

/// For an import that is asked to end `wanted`, which is HOT or COLD: POLICY_UNSATISFIABLE where `policy`, which the
/// revision would have, is pinned and forbids it.
Status check_import_residency(const metadata::Policy& policy, metadata::Residency wanted);

/// What the memory tier of a store can take now, be there a store or not.
Result<std::uint64_t> memory_room(Runtime& runtime, const StoreOptions& options);

struct RecoverRequest {
  bool dry_run = false;
  bool force = false;  ///< moves a catalog that has records, or cannot be read, aside
};
struct RecoverReport {
  struct Skipped {
    std::string path;  ///< in the cold tier
    std::string reason;
  };
  std::vector<metadata::RevisionRecord> recovered;  ///< READY and DEGRADED
  std::vector<Skipped> skipped;  ///< copies, groups and attempts that could not be used, or only in part
  std::string moved_to;          ///< where the catalog that was there lies now; empty: there was none
};
/// Rebuilds the catalog of a store from its cold tier. CONFLICT over a catalog with records unless forced, BUSY while a
/// process has the store open, this one too, and who opens it meanwhile is BUSY. Killed anywhere, the catalog is the
/// old one, none, or the new one, and the same call goes on; what was there is moved, never removed.
Result<RecoverReport> recover_store(Runtime& runtime, const StoreOptions& options, const RecoverRequest& request);

/// The status of a verb that was interrupted by `cancel`, with how to go on as its hint.
Status cancelled(std::string what);
bool is_cancelled(const Status& status);

}  // namespace steelyard::store
