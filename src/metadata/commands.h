// The lifecycle's commands and answers (docs/lifecycle.md has the table of fences).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "metadata/types.h"

namespace steelyard::metadata {

struct BeginWeightImport {
  Lineage lineage;
  std::optional<std::int64_t> weight_generation;  ///< absent: continue the newest if IMPORTING, else 1 + highest used
  std::string token;                              ///< the writer's, 32 hex digits
  std::string holder;
  ProcessIdentity process;
  std::int64_t ttl_ms = 0;
  bool current_writer_gone = false;  ///< the caller has proved that the process of `gone_process` is gone
  ProcessIdentity gone_process;
  GroupSummary expected;  ///< a hint for progress only
  Labels labels;
  Policy policy;
  std::uint32_t least_attempt = 1;  ///< lower ones are of another history; an own live import goes on with a higher one
};
struct RenewWeightImport {
  Identity identity;
  std::string token;
  std::uint32_t import_attempt = 0;
};
/// Ends the token without ending the import, so that a retry need not wait.
struct ReleaseWeightImport {
  Identity identity;
  std::string token;
  std::uint32_t import_attempt = 0;
};
struct CommitWeightImport {
  Identity identity;
  std::string token;
  std::uint32_t import_attempt = 0;
  std::uint64_t expected_metadata_generation = 0;
  GroupSummary summary;
};
struct AbortWeightImport {
  Identity identity;
  std::string token;  ///< with the attempt; or empty, then BUSY for a live writer unless forced
  std::uint32_t import_attempt = 0;
  std::uint64_t expected_metadata_generation = 0;
  bool force = false;
  std::optional<std::int64_t> only_if_idle_ms = {};  ///< abandonment: the last renewal is at least that long ago
  bool current_writer_gone = false;                  ///< the caller has proved that `gone_process` is gone
  ProcessIdentity gone_process = {};
};
struct AcquireLease {
  Identity identity;
  std::string holder;
  std::string nonce;
  std::int64_t ttl_ms = 0;
  bool allow_degraded = false;
  ProcessIdentity process;
};
struct RenewLease {
  std::string lease_id;
  std::int64_t ttl_ms = 0;
};
struct ReleaseLease {
  std::string lease_id;
};
/// What somebody saw of a revision in both tiers.
struct Observation {
  DamageReport damage;            ///< members that no tier can serve; empty: every one is readable and whole
  bool cold_readable = true;      ///< the cold tier can serve at least one member
  std::string boot_id;            ///< the observer's boot; empty: it knows nothing about memory
  std::string hot_instance;       ///< the memory instance that it has mounted; empty: none
  std::uint64_t hot_members = 0;  ///< payload members with a readable replica there
  std::uint64_t hot_bytes = 0;    ///< of those members
};
/// The record's availability and residency follow what was seen. HOT: every payload member is in memory; MIXED: some,
/// with their share of the logical bytes; COLD: none; ABSENT: nothing is readable anywhere.
///
/// Nothing is published, and the record comes back as it is, by who cannot see the memory instance that the record
/// names: one of another boot is gone, but one of this boot may be whole where others mount it. But that nothing is
/// damaged is true whatever lies there, and published. Only where at least as
/// many bytes are hot in the observer's own does the record name that one from then on. While removals of an EVICTING
/// operation are permitted, an observation may find a revision colder than its record says, never hotter.
struct ReconcileRevision {
  Identity identity;
  std::uint64_t observed_generation = 0;  ///< the record's generation when the observation began: STALE if it moved
  Observation seen;
};
/// Removes expired leases of one revision (reconciliation; Acquire does it by itself).
struct ReapLeases {
  Identity identity;
};

enum class DeleteMode : std::uint8_t { kRefuse, kDrain };
/// REFUSE: a live lease gives BUSY. DRAIN: DELETING at once, no new leases, bytes go when the last lease has ended.
struct DeleteWeightRevision {
  Identity identity;
  std::uint64_t expected_metadata_generation = 0;
  DeleteMode mode = DeleteMode::kRefuse;
};
/// DELETING -> DELETED, once the caller has proved that every replica is gone. BUSY while a lease lives.
struct FinishDelete {
  Identity identity;
  std::uint64_t expected_metadata_generation = 0;
};
/// Takes tombstones out of the state: those of the lineage at or below the generation, which becomes the watermark if
/// it is higher than the one there is. Other records below it stay. CONFLICT while one below it is IMPORTING.
struct CompactTombstones {
  Lineage lineage;
  std::int64_t weight_generation = 0;
};
struct UpdateWeightPolicy {
  Identity identity;
  std::uint64_t expected_metadata_generation = 0;
  Policy policy;
};
/// Who is to run an operation.
struct RunnerGrant {
  std::string token;  ///< 32 hex digits
  std::string holder;
  ProcessIdentity process;
  std::int64_t ttl_ms = 0;
  std::string
      source;  ///< the path that it takes bytes from, beside the store; empty: none, the one before it stays known
};
/// Starts an operation of a published revision that has none. Its totals and plan are fixed with it.
struct StartOperation {
  Identity identity;
  std::uint64_t expected_metadata_generation = 0;
  std::string operation_id;  ///< 32 hex digits; a retry repeats it
  OperationKind kind = OperationKind::kNone;
  Residency target = Residency::kCold;
  std::optional<std::uint32_t> ratio_millionths;
  std::string plan_digest;
  std::uint64_t total_members = 0;
  std::uint64_t total_bytes = 0;
  std::string message;
  std::optional<RunnerGrant> runner;  ///< absent: nobody runs it yet
  std::string hot_instance;           ///< EVICTING, REHYDRATING: the memory instance that the caller has mounted
  std::string hot_boot_id;            ///< the boot that made it
};
/// Makes the caller the runner of the active operation. BUSY while another one lives; UNAVAILABLE when an eviction
/// works in another memory instance of this boot. One whose instance is of another boot, and a rehydration in another
/// instance, may be taken to be ended.
struct TakeOperation {
  Identity identity;
  std::string operation_id;
  RunnerGrant runner;
  bool current_runner_gone = false;  ///< the caller has proved that the process of `gone_process` is gone
  ProcessIdentity gone_process;
  std::string hot_instance;  ///< the memory instance that the caller has mounted; empty: none
  std::string hot_boot_id;   ///< the caller's boot
};
struct RunnerToken {
  std::string operation_id;
  std::string token;
  std::uint32_t run_attempt = 0;
};
/// Renews the runner's token and tells how far it is, which never goes back; or gives the token back, so that another
/// need not wait.
struct ReportOperation {
  Identity identity;
  RunnerToken token;
  std::uint64_t processed_members = 0;
  std::uint64_t processed_bytes = 0;
  std::string message;
  bool give_back = false;
};
/// Asks, before they are removed, for the hot replicas of the plan's first `members` members (in the order of their
/// numbers), all of which have a cold replica that was read back and matched. BUSY while a lease lives, with count,
/// holders and nearest expiry: nothing more may be removed until a later one is OK. The first permission lowers the
/// record's residency to what is left when everything that the operation may remove is gone, so that it is true
/// whatever happens then. Renews the token and tells how far the runner is, as a report does.
struct PermitRemoval {
  Identity identity;
  RunnerToken token;
  std::uint64_t members = 0;
  std::uint64_t processed_members = 0;
  std::uint64_t processed_bytes = 0;
};
/// DONE has processed its totals, FAILED what its end or a report says. DONE of EVICTING and REHYDRATING comes with an
/// observation that shows the target reached, of EVICTING in the memory instance in which it works (NOT_READY
/// otherwise); it is published in the same entry. The others may bring one. Of these two kinds it counts for what it
/// says of memory: damage stays what is recorded.
struct EndOperation {
  Identity identity;
  RunnerToken token;
  OperationState state = OperationState::kDone;  ///< DONE or FAILED
  std::uint64_t processed_members = 0;
  std::uint64_t processed_bytes = 0;
  std::string message;
  std::optional<Observation> seen{};
  std::string failed_with{};  ///< of FAILED: Operation::failed_with
};
/// Ends a running operation, with the progress that was reported last; of one that has ended nothing changes.
struct CancelOperation {
  std::string operation_id;
};
/// Appends EPOCH_BEGUN when the clock's epoch is not the state's; nothing otherwise.
struct BeginEpoch {};

using Command = std::variant<BeginWeightImport, RenewWeightImport, ReleaseWeightImport, CommitWeightImport,
                             AbortWeightImport, AcquireLease, RenewLease, ReleaseLease, ReconcileRevision, ReapLeases,
                             DeleteWeightRevision, FinishDelete, CompactTombstones, UpdateWeightPolicy, StartOperation,
                             TakeOperation, ReportOperation, PermitRemoval, EndOperation, CancelOperation, BeginEpoch>;

/// The answer to a command; which parts are filled depends on the command.
struct Answer {
  std::optional<RevisionRecord> record;  ///< absent for a delete whose tombstone was compacted, and for lease ids
  std::optional<Writer> writer;
  std::optional<Lease> lease;
  std::optional<Runner> runner;
};

}  // namespace steelyard::metadata
