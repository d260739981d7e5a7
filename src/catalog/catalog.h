// Catalog: the interface of the lifecycle over a log and a GroupObserver. Durable before visible.
//
// Thread-safety: a Catalog may be used from any thread. Later it has a remote twin with the same names.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/runtime.h"
#include "base/status.h"
#include "metadata/rules.h"
#include "oplog/op_log.h"

namespace steelyard::catalog {

/// What lies in the tiers under (group, attempt), for Commit.
struct GroupObservation {
  std::uint64_t payload_count = 0;
  std::uint64_t logical_bytes = 0;
  std::string payload_keys_sha256;      ///< over the keys found
  std::uint64_t manifests = 0;          ///< METADATA objects at the canonical key
  std::string manifest_sha256;          ///< of the bytes read, hex
  std::vector<std::string> unexpected;  ///< names that are no member
  std::vector<std::string> unreadable;  ///< members that are missing, short or unreadable
  bool flushed = false;                 ///< durable since the last Put
};

/// Implemented by the store over its tiers.
class GroupObserver {
 public:
  virtual ~GroupObserver() = default;
  virtual Result<GroupObservation> observe(const metadata::Identity& identity, std::uint32_t import_attempt) = 0;
};

/// A record as an append left it.
struct RevisionChange {
  std::uint64_t sequence = 0;  ///< of the append
  metadata::RevisionRecord record;
};

/// What to watch: one generation, every generation of a revision, one resource, or a whole namespace.
struct WatchQuery {
  std::optional<metadata::Identity> identity;  ///< this generation; the next four are not used then
  std::string tenant_id;
  std::string namespace_id;
  std::optional<std::string> resource_id;
  std::optional<std::string> revision;  ///< of the resource
  /// WatchBatch::next of the batch before. Absent: the first batch holds the records as they stand.
  std::optional<std::uint64_t> after;
  std::int64_t deadline_mono_ms = 0;          ///< Runtime::mono_ms
  const std::atomic<bool>* cancel = nullptr;  ///< set: the deadline is now
};
struct WatchBatch {
  std::vector<RevisionChange> changes;  ///< in the order of the log; empty at the deadline
  std::uint64_t next = 0;               ///< where the next call goes on
  /// `changes` are the matching records as they stand at `next`, not single changes: the log does not hold those any
  /// more, or this is the first batch. What is not among them is not there.
  bool resnapshot = false;
  /// With resnapshot, of a query for one generation: it was deleted, and its tombstone compacted.
  bool compacted = false;
};

/// What happened in the whole store, every tenant and namespace.
struct StoreChanges {
  std::vector<RevisionChange> changes;           ///< in the order of the log
  std::vector<metadata::Identity> leases_taken;  ///< of these, or renewed; each once
  std::vector<metadata::Identity> leases_ended;  ///< of these; each once
  std::uint64_t next = 0;                        ///< where the next call goes on
  bool resnapshot = false;  ///< the log does not hold what came next any more: anything may have changed
};

struct CatalogOptions {
  /// weight_management_oplog_capability_confirmed
  bool oplog_capability_confirmed = false;
  /// A snapshot is saved, and the log trimmed, after this many appends; 0: never by itself.
  std::uint64_t snapshot_every = 10'000;
  /// Told of each saved snapshot (its sequence and encoded bytes), to copy it to the cold tier. Errors are logged.
  std::function<Status(std::uint64_t sequence, const std::string& bytes)> on_snapshot;
};

class Catalog {
 public:
  Catalog(Runtime& runtime, oplog::OpLog& log, GroupObserver& observer, CatalogOptions options);

  /// Proves itself that the current writer's process is gone (Runtime::provably_gone), where it is. BUSY for a live
  /// writer, with holder and age in the message, and the next step as hint.
  Result<metadata::Answer> begin_weight_import(metadata::BeginWeightImport command);
  Result<metadata::Writer> renew_weight_import(const metadata::RenewWeightImport& command);
  Status release_weight_import(const metadata::ReleaseWeightImport& command);
  /// Observes the group first and refuses (CORRUPT, naming what differs) unless it is exactly the summary's.
  Result<metadata::RevisionRecord> commit_weight_import(const metadata::CommitWeightImport& command);
  Result<metadata::RevisionRecord> abort_weight_import(metadata::AbortWeightImport command);

  /// NOT_FOUND, saying "compacted" where a watermark covers it.
  Result<metadata::RevisionRecord> get_weight_revision(const metadata::Identity& identity);
  Result<metadata::ListPage> list_weight_revisions(const metadata::ListQuery& query);
  /// All records of one lineage, by generation.
  Result<std::vector<metadata::RevisionRecord>> list_lineage(const metadata::Lineage& lineage);
  /// The writer of an IMPORTING revision; the second also with whether it is live.
  Result<std::optional<metadata::Writer>> get_writer(const metadata::Identity& identity);
  struct WriterRow {
    metadata::Writer writer;
    bool live = false;
    std::int64_t left_ms = 0;
    std::int64_t idle_ms = 0;  ///< since its last renewal
  };
  Result<std::optional<WriterRow>> get_writer_row(const metadata::Identity& identity);

  Result<metadata::Answer> acquire_lease(const metadata::AcquireLease& command);
  Result<metadata::Lease> renew_lease(const metadata::RenewLease& command);
  Status release_lease(const metadata::ReleaseLease& command);
  struct LeaseRow {
    metadata::Lease lease;
    std::int64_t left_ms = 0;
  };
  /// Live leases of a revision, or of the whole tenant and namespace.
  Result<std::vector<LeaseRow>> list_leases(const metadata::Identity& identity);
  Result<std::vector<LeaseRow>> list_leases(const std::string& tenant_id, const std::string& namespace_id);

  /// A BUSY for the revision's leases, with how to end those whose process is provably gone.
  Status name_gone_readers(const metadata::Identity& identity, Status busy);
  /// A BUSY for the revision's operation, with another next step where the process that carries it out is provably
  /// gone.
  Status name_gone_runner(const metadata::Identity& identity, Status busy);

  /// What was seen already is answered without a turn in the log.
  Result<metadata::RevisionRecord> reconcile_weight_revision(const metadata::ReconcileRevision& command);
  /// Removes the expired leases of a revision; without a turn in the log where there are none. What is left in the log,
  /// also of those that end in this moment (left_ms 0): without one, no later clock can bring a lease back.
  Result<std::vector<LeaseRow>> reap_leases(const metadata::Identity& identity);
  /// Begins this boot's epoch in the log, where that has not happened, so that idle time counts from now on.
  Status begin_epoch();

  /// The record; absent when the tombstone was compacted, which is success too.
  Result<std::optional<metadata::RevisionRecord>> delete_weight_revision(const metadata::DeleteWeightRevision& command);
  /// DELETING -> DELETED, for a caller that has proved that every replica is gone.
  /// Absent: its tombstone was compacted, so it is done.
  Result<std::optional<metadata::RevisionRecord>> finish_delete(const metadata::FinishDelete& command);
  /// Tombstones of the lineage at or below the generation become its watermark.
  Status compact_tombstones(const metadata::CompactTombstones& command);
  Result<metadata::RevisionRecord> update_weight_policy(const metadata::UpdateWeightPolicy& command);

  /// Operations. The answer's record, and the runner where the command asked for one.
  Result<metadata::Answer> start_operation(const metadata::StartOperation& command);
  /// Proves itself that the current runner's process is gone, where it is. BUSY for a live one.
  Result<metadata::Answer> take_operation(metadata::TakeOperation command);
  Result<metadata::Runner> report_operation(const metadata::ReportOperation& command);
  /// Why these would be refused now; nothing is written, and no turn in the log is waited for.
  Status check_start(const metadata::StartOperation& command);
  Status check_take(metadata::TakeOperation command);
  Status check_removal(const metadata::PermitRemoval& command);
  /// Asked before hot replicas are removed; BUSY pauses. What is OK was durable before any later lease.
  Result<metadata::Answer> permit_removal(const metadata::PermitRemoval& command);
  Result<metadata::RevisionRecord> end_operation(const metadata::EndOperation& command);
  Result<metadata::RevisionRecord> cancel_operation(const metadata::CancelOperation& command);
  /// A running one with its runner's progress and whether that lives. NOT_FOUND when no record retains
  /// it.
  Result<metadata::OperationView> query_operation(const std::string& operation_id);

  /// Waits for changes of records and gives them in order, each at least once: who goes on with `next` misses none. The
  /// log wakes it. Leases, renewals and progress are no changes.
  Result<WatchBatch> watch_weight_revisions(const WatchQuery& query);
  /// The same of every revision, and of their leases, for a reconciler; nothing at the deadline.
  Result<StoreChanges> watch_store(std::uint64_t after, std::int64_t deadline_mono_ms,
                                   const std::atomic<bool>* cancel = nullptr);
  /// Revisions of which time alone has made something to do: with an expired lease, an import whose writer gave no sign
  /// of life for `abandon_after_ms`, or an operation whose runner gave up, or is gone. In order, each once.
  Result<std::vector<metadata::Identity>> find_overdue(std::int64_t abandon_after_ms);
  /// Whether the revision has an operation that a live process carries out.
  Result<bool> is_being_run(const metadata::Identity& identity);

  /// When revisions were used, for policies: the next records of the whole store as by records_after, with the rest.
  struct RevisionUse {
    metadata::RevisionRecord record;
    std::size_t live_leases = 0;
    metadata::LastUse last_use;
  };
  Result<std::vector<RevisionUse>> uses_after(const std::optional<metadata::Identity>& after, std::size_t limit);
  /// Of the records whose payload groups these are (64 hex digits); of others there is none.
  Result<std::vector<RevisionUse>> uses_of_groups(const std::vector<std::string>& group_digests_hex);
  /// Now, as a LastUse of the state; of an epoch that the state does not know yet, its next one.
  Result<metadata::LastUse> use_now();

  /// The record whose payload group has this digest (64 hex digits), if there is one.
  Result<std::optional<metadata::RevisionRecord>> find_by_group(const std::string& group_digest_hex);

  /// The next records of the whole store, every tenant and namespace, in the order of their keys.
  Result<std::vector<metadata::RevisionRecord>> records_after(const std::optional<metadata::Identity>& after,
                                                              std::size_t limit);
  /// The watermark of a lineage, 0 without one.
  Result<std::int64_t> get_watermark(const metadata::Lineage& lineage);

  /// Of the log's last append.
  Result<std::uint64_t> sequence();
  /// As OpLog::check_place.
  Status check_place() const { return log_.check_place(); }

  /// Saves a snapshot now, trims the log and hands the snapshot to on_snapshot, whose error comes back.
  Status save_snapshot();

  oplog::Capabilities capabilities() const { return log_.capabilities(); }

 private:
  metadata::Now now();
  Result<RevisionUse> use_of(const metadata::StateView& view, metadata::RevisionRecord record);
  /// UNAUTHORIZED for a read-only log, DURABILITY_FAILED while the operator has not confirmed its standbys.
  Status check_mutable() const;
  /// Judges the command in the log's turn; its answer is durable.
  Result<metadata::Answer> mutate(const metadata::Command& command);
  /// The writer in the way of a Begin, if there is one.
  Result<std::optional<metadata::Writer>> find_writer_of(const metadata::BeginWeightImport& command);
  /// Reads an operation, or only its runner, and judges the runner.
  Result<metadata::OperationView> judge_runner(
      const std::function<Result<metadata::OperationView>(const metadata::StateView&)>& read);
  /// Whether the process of the revision's runner is provably gone, which the command says then.
  Result<bool> prove_gone(metadata::TakeOperation& command);
  /// What the command would come to now, without appending anything.
  Result<metadata::Prepared> rehearse(const metadata::Command& command);
  Result<metadata::RevisionRecord> mutate_record(const metadata::Command& command);
  Result<std::vector<LeaseRow>> lease_rows(
      const std::function<Result<std::vector<metadata::Lease>>(const metadata::StateView&, const metadata::Now&)>&
          read);
  void maybe_snapshot(std::uint64_t sequence);

  /// The sequence from which the log's length is asked for again.
  std::atomic<std::uint64_t> snapshot_check_at_{0};
  Runtime& runtime_;
  oplog::OpLog& log_;
  GroupObserver& observer_;
  CatalogOptions options_;
};

/// The `committed` marker's bytes for a record as logged, and back (CORRUPT when the checksum disagrees).
std::string encode_committed(const metadata::RevisionRecord& record);
Result<metadata::RevisionRecord> decode_committed(std::string_view bytes);
/// The same of the `deleting` marker, for a DELETING record. An empty marker, of a disk that was full, is CORRUPT here:
/// whose group goes is not known then.
std::string encode_deleting(const metadata::RevisionRecord& record);
Result<metadata::RevisionRecord> decode_deleting(std::string_view bytes);

}  // namespace steelyard::catalog
