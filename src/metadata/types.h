// The records of the control plane. Plain values; their stored form is protobuf (metadata/codec.h,
// docs/formats/op-log.md), and metadata/validate.h says which values are legal.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/runtime.h"
#include "formats/identity.h"

namespace steelyard::metadata {

using formats::Identity;
using formats::Lineage;

enum class Availability : std::uint8_t { kImporting = 1, kReady = 2, kDegraded = 3, kDeleting = 4, kDeleted = 5 };
enum class Residency : std::uint8_t { kUnknown = 1, kHot = 2, kCold = 3, kMixed = 4, kAbsent = 5 };
enum class OperationKind : std::uint8_t { kNone = 0, kEvicting = 1, kRehydrating = 2, kRepairing = 3 };
enum class OperationState : std::uint8_t { kRunning = 1, kDone = 2, kCancelled = 3, kFailed = 4 };
enum class PolicyMode : std::uint8_t { kPinned = 1, kManual = 2, kAuto = 3 };

/// "READY", "COLD", "NONE", ... as in JSON output; policy modes and preferred residencies are lower case there.
std::string_view name_of(Availability value);
std::string_view name_of(Residency value);
std::string_view name_of(OperationKind value);
std::string_view name_of(OperationState value);
std::string_view name_of(PolicyMode value);
std::optional<Availability> availability_from_name(std::string_view name);

/// READY or DEGRADED: it was committed, and nobody has begun to delete it.
inline bool is_published(Availability value) {
  return value == Availability::kReady || value == Availability::kDegraded;
}

/// EVICTING and REHYDRATING move replicas between the tiers; REPAIRING makes them whole.
inline bool moves_replicas(OperationKind kind) {
  return kind == OperationKind::kEvicting || kind == OperationKind::kRehydrating;
}

/// The instant at which a command is judged. `mono_ms` compares only within `epoch`; `wall_ms` decides nothing.
struct Now {
  std::string epoch;
  std::int64_t mono_ms = 0;
  std::int64_t wall_ms = 0;
};

using Labels = std::vector<std::pair<std::string, std::string>>;  ///< sorted by key, unique

struct Policy {
  Residency prefer = Residency::kCold;            ///< HOT, COLD or MIXED
  std::optional<std::uint32_t> ratio_millionths;  ///< 1..999,999, only with MIXED
  PolicyMode mode = PolicyMode::kManual;
  bool operator==(const Policy&) const = default;
};

/// What Commit binds: the summary of the payload group.
struct GroupSummary {
  std::uint64_t payload_count = 0;
  std::uint64_t logical_bytes = 0;
  std::string payload_keys_sha256;  ///< hex
  std::string manifest_sha256;      ///< hex
  bool operator==(const GroupSummary&) const = default;
};

/// A fenced request that was carried out, so that its retry can be recognised.
enum class RequestKind : std::uint8_t { kCommit = 1, kAbort = 2, kDelete = 3, kPolicy = 4, kStart = 5 };
struct AppliedRequest {
  RequestKind kind = RequestKind::kCommit;
  std::uint64_t expected_generation = 0;
  std::string arguments_sha256;  ///< 32 raw bytes
  bool operator==(const AppliedRequest&) const = default;
};

/// A residency or repair operation. Progress and the runner are rows of their own, since they do not move generations.
struct Operation {
  std::string operation_id;  ///< 32 hex digits
  OperationKind kind = OperationKind::kNone;
  OperationState state = OperationState::kRunning;
  Residency target = Residency::kUnknown;
  std::optional<std::uint32_t> ratio_millionths;
  std::string plan_digest;  ///< hex, of the set that a MIXED operation moves
  std::uint64_t total_members = 0;
  std::uint64_t total_bytes = 0;
  std::uint64_t processed_members = 0;  ///< final values once it has ended
  std::uint64_t processed_bytes = 0;
  std::string message;
  AppliedRequest request;
  std::int64_t started_at_ms = 0;
  std::int64_t ended_at_ms = 0;  ///< 0 while RUNNING
  std::string hot_instance;      ///< of EVICTING and REHYDRATING: the memory instance in which it works
  std::string hot_boot_id;       ///< the boot that made the instance
  /// When it ended, by the clock of its epoch: wall times decide nothing. 0 while RUNNING.
  std::uint64_t ended_epoch_ordinal = 0;
  std::int64_t ended_mono_ms = 0;
  /// The token of the run that ended it. Empty while RUNNING, of CANCELLED, and of ends that an older version wrote.
  std::string ended_by;
  /// The symbolic name of the error ("CORRUPT") with which the run ended it as FAILED. Empty where nobody told it.
  std::string failed_with;
  bool operator==(const Operation&) const = default;
};

/// Members that were observed missing or damaged: at most 64 named, and the count of all.
struct DamageReport {
  std::vector<std::string> objects;  ///< object keys, sorted
  std::uint64_t count = 0;
  bool operator==(const DamageReport&) const = default;
};

/// The record of one revision: the authority on its lifecycle.
struct RevisionRecord {
  Identity identity;
  Availability availability = Availability::kImporting;
  Residency residency = Residency::kUnknown;
  std::optional<std::uint32_t> hot_millionths;  ///< hot bytes / logical bytes, only while MIXED
  std::uint64_t metadata_generation = 0;        ///< 1 at begin, +1 for every change of section "what moves it"
  std::uint32_t import_attempt = 0;             ///< raised by every takeover, fixed for ever by Commit
  std::string manifest_key;
  std::string payload_group_id;
  GroupSummary summary;             ///< the committed one; before Commit the hint of Begin, or zero
  std::uint64_t begin_seq = 0;      ///< log sequence of the first Begin
  std::uint64_t committed_seq = 0;  ///< log sequence of Commit, 0 before
  std::int64_t created_at_ms = 0;
  std::int64_t updated_at_ms = 0;  ///< never decreasing
  Labels labels;
  Policy policy;
  std::optional<Operation> operation;          ///< the active one
  std::vector<Operation> finished_operations;  ///< the last 16, oldest first
  std::vector<AppliedRequest> applied;         ///< newest of each kind commit, abort, delete, policy
  DamageReport damage;
  std::string hot_instance;       ///< id of the memory instance in which the hot members were observed; empty: none
  std::string hot_boot_id;        ///< the boot that made the instance: one of another boot is gone
  std::uint64_t hot_members = 0;  ///< how many were observed there; only with an instance
  bool drain = false;             ///< DELETING waits for leases
  std::int64_t availability_since_ms = 0;  ///< wall time of the last change of availability; for messages
  std::uint64_t deleted_seq = 0;           ///< log sequence that made it DELETED, 0 before
  bool operator==(const RevisionRecord&) const = default;
};

/// Who imports an IMPORTING revision. A row of its own: renewing it does not move the record's generation.
struct Writer {
  Identity identity;
  std::uint32_t import_attempt = 0;
  std::string token;   ///< 32 hex digits; empty once given back
  std::string holder;  ///< for people: "host (pid 12)"
  ProcessIdentity process;
  std::int64_t ttl_ms = 0;
  std::string epoch;                 ///< the clock that granted it
  std::int64_t granted_mono_ms = 0;  ///< last Begin or Renew
  std::int64_t granted_wall_ms = 0;  ///< for messages
  std::int64_t idle_before_ms = 0;   ///< time without renewal that older epochs counted
  bool operator==(const Writer&) const = default;
};

/// A protection of one revision against removal.
struct Lease {
  std::string lease_id;  ///< 32 hex digits, derived from (group id, holder, nonce)
  Identity identity;
  std::string holder;
  std::string nonce;
  std::int64_t ttl_ms = 0;
  std::string epoch;
  std::int64_t expires_mono_ms = 0;          ///< by the clock of `epoch`
  std::int64_t renewable_until_mono_ms = 0;  ///< set while a delete drains: no renewal goes past it; 0: no bound
  ProcessIdentity process;                   ///< for people and for `doctor`
  bool operator==(const Lease&) const = default;
};

/// The highest compacted tombstone of a lineage: every generation at or below it is used.
struct Watermark {
  Lineage lineage;
  std::int64_t weight_generation = 0;
  bool operator==(const Watermark&) const = default;
};

/// Who runs the active operation of a revision, and how far it is. A row of its own: progress moves no generation.
struct Runner {
  Identity identity;
  std::string operation_id;
  std::uint32_t run_attempt = 0;  ///< raised by every takeover
  std::string token;              ///< 32 hex digits; empty once given back
  std::string holder;
  ProcessIdentity process;
  std::int64_t ttl_ms = 0;
  std::string epoch;
  std::int64_t granted_mono_ms = 0;
  std::uint64_t processed_members = 0;
  std::uint64_t processed_bytes = 0;
  std::string message;
  /// Of EVICTING: the hot replicas of this many members, the first of the plan, may have been removed.
  std::uint64_t permitted_members = 0;
  std::string source;  ///< the newest path that a runner of the operation was given to take bytes from; may be empty
  bool operator==(const Runner&) const = default;
};

/// When a revision was last used, for policies: the last renewal of the last of its leases that ended.
struct Access {
  Identity identity;
  std::string epoch;
  std::int64_t mono_ms = 0;  ///< by the clock of `epoch`
  std::int64_t wall_ms = 0;  ///< when this was written; for people
  std::uint64_t epoch_ordinal = 0;
  bool operator==(const Access&) const = default;
};

/// The clock epoch that leases are judged by.
struct EpochState {
  std::string epoch;
  std::int64_t begun_mono_ms = 0;
  std::uint64_t ordinal = 0;      ///< 1 for the first, 0 before any
  std::int64_t last_mono_ms = 0;  ///< the last instant of the epoch that the log knows; a row of its own
  bool operator==(const EpochState&) const = default;
};

}  // namespace steelyard::metadata
