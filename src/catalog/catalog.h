// Catalog: the interface of the lifecycle over a log and a GroupObserver. Durable before visible.
//
// Thread-safety: a Catalog may be used from any thread. Later it has a remote twin with the same names.
#pragma once

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
  Result<metadata::RevisionRecord> abort_weight_import(const metadata::AbortWeightImport& command);

  /// NOT_FOUND, saying "compacted" where a watermark covers it.
  Result<metadata::RevisionRecord> get_weight_revision(const metadata::Identity& identity);
  Result<metadata::ListPage> list_weight_revisions(const metadata::ListQuery& query);
  /// All records of one lineage, by generation.
  Result<std::vector<metadata::RevisionRecord>> list_lineage(const metadata::Lineage& lineage);
  /// The writer of an IMPORTING revision, with whether it is live.
  Result<std::optional<metadata::Writer>> get_writer(const metadata::Identity& identity);

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

  Result<metadata::RevisionRecord> reconcile_weight_revision(const metadata::ReconcileRevision& command);

  oplog::Capabilities capabilities() const { return log_.capabilities(); }

 private:
  Runtime& runtime_;
  oplog::OpLog& log_;
  GroupObserver& observer_;
  CatalogOptions options_;
};

/// The `committed` marker's bytes for a record as logged, and back (CORRUPT when the checksum disagrees).
std::string encode_committed(const metadata::RevisionRecord& record);
Result<metadata::RevisionRecord> decode_committed(std::string_view bytes);

}  // namespace steelyard::catalog
