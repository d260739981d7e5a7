// What the rules share: one command being judged.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hash/framed.h"
#include "metadata/codec.h"
#include "metadata/overlay.h"
#include "metadata/rules.h"

namespace steelyard::metadata {

/// State, instant and results of one prepare(). Thread-compatible.
struct Turn {
  Overlay view;  ///< the state, under the entries of a new epoch
  Now now;       ///< never before the last instant that the state knows
  EpochState epoch;
  std::uint64_t sequence = 0;  ///< of the append to come
  std::vector<DecodedEntry> entries;
  Answer answer;

  void put(EntryBody body) { entries.push_back({std::move(body), std::nullopt}); }
};

/// Appends EPOCH_BEGUN and what it re-arms or ends, when the clock's epoch is not the state's.
Status begin_epoch(Turn& turn);

Status judge(Turn& turn, const BeginWeightImport& command);
Status judge(Turn& turn, const RenewWeightImport& command);
Status judge(Turn& turn, const ReleaseWeightImport& command);
Status judge(Turn& turn, const CommitWeightImport& command);
Status judge(Turn& turn, const AbortWeightImport& command);
Status judge(Turn& turn, const AcquireLease& command);
Status judge(Turn& turn, const RenewLease& command);
Status judge(Turn& turn, const ReleaseLease& command);
Status judge(Turn& turn, const ReapLeases& command);
Status judge(Turn& turn, const ReconcileRevision& command);
Status judge(Turn& turn, const DeleteWeightRevision& command);
Status judge(Turn& turn, const FinishDelete& command);
Status judge(Turn& turn, const CompactTombstones& command);
Status judge(Turn& turn, const UpdateWeightPolicy& command);
Status judge(Turn& turn, const StartOperation& command);
Status judge(Turn& turn, const TakeOperation& command);
Status judge(Turn& turn, const ReportOperation& command);
Status judge(Turn& turn, const PermitRemoval& command);
Status judge(Turn& turn, const EndOperation& command);
Status judge(Turn& turn, const CancelOperation& command);

/// Moves the active operation, if there is one, to the ended ones of `record`, and ends its runner.
void end_operation(Turn& turn, RevisionRecord& record, const std::optional<Runner>& runner, OperationState state,
                   std::string message);

/// When an observation was made.
enum class Look : std::uint8_t {
  kPlain,
  kWhileRemoving,  ///< replicas may be going: it makes nothing hotter
  kWhenBrought,    ///< by a rehydration that is done: who asked for it wants the record to be of this memory
};
/// Lets `next`, the record's next generation, follow an observation; false, and nothing changed, where it
/// must not be published. INVALID_ARGUMENT for one that cannot be.
Result<bool> follow(RevisionRecord& next, const Observation& seen, Look look);
/// Lowers the hot share to what is left when `members` and `bytes` of it go.
void lower_hot(RevisionRecord& next, std::uint64_t members, std::uint64_t bytes);
void set_hot(RevisionRecord& record, std::string instance, std::string boot_id, std::uint64_t members,
             std::uint64_t bytes, bool cold_readable);
/// POLICY_UNSATISFIABLE when a pinned policy wants the revision elsewhere.
Status check_policy_allows(const RevisionRecord& record, OperationKind kind, Residency target,
                           std::optional<std::uint32_t> ratio_millionths);

/// The record's next generation, to be changed further; updated_at never decreases.
RevisionRecord next_of(const RevisionRecord& record, const Now& now);
void set_availability(RevisionRecord& record, Availability availability);
/// NOT_READY unless READY or DEGRADED.
Status check_published(const RevisionRecord& record, std::string hint);

/// STALE_GENERATION naming the current generation unless `expected` is it.
Status check_fence(const RevisionRecord& record, std::uint64_t expected);
/// The request was carried out before: its retry answers with the current record.
bool was_applied(const RevisionRecord& record, const AppliedRequest& request);
void set_applied(RevisionRecord& record, const AppliedRequest& request);

/// Digest of a request's arguments, in their order.
class Arguments {
 public:
  explicit Arguments(const Identity& identity);
  Arguments& add(std::string_view part);
  Arguments& add(std::uint64_t number);
  AppliedRequest request(RequestKind kind, std::uint64_t expected_generation);

 private:
  hash::FramedSha256 sha_;
};

/// "IMPORTING since 2026-11-30T02:51:41.123Z".
std::string state_and_since(const RevisionRecord& record);
/// Ends the leases that have expired, which makes their last renewal the revision's last access; gives the live ones.
Result<std::vector<Lease>> reap_expired(Turn& turn, const Identity& identity);
/// Keeps `mono_ms` of the epoch `epoch` as the revision's last access, unless a later one is known.
Status put_access(Turn& turn, const Identity& identity, const EpochState& epoch, std::int64_t mono_ms);
/// As the one of rules.h.
std::string describe_leases(const std::vector<Lease>& leases, const Turn& turn);

}  // namespace steelyard::metadata
