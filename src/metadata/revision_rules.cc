// Deletion and policy of a published revision.
#include <algorithm>
#include <utility>

#include "base/limits.h"
#include "base/units.h"
#include "formats/ref.h"
#include "metadata/turn.h"
#include "metadata/validate.h"

namespace steelyard::metadata {
namespace {

constexpr std::int64_t kDrainMsMax = limits::kLeaseTtlMsMax;

/// Whether a revision that is not found was deleted, and its tombstone compacted: then there is nothing left to do.
Result<bool> was_compacted(const Turn& turn, const Identity& identity, const Status& found) {
  if (found.code() != Code::kNotFound) return false;
  SY_ASSIGN_OR_RETURN(const std::optional<Watermark> mark, find_watermark(turn.view, identity.lineage));
  return mark && mark->weight_generation >= identity.weight_generation;
}

}  // namespace

Status judge(Turn& turn, const DeleteWeightRevision& command) {
  Result<RevisionRecord> found = get_record(turn.view, command.identity);
  SY_ASSIGN_OR_RETURN(const bool compacted, was_compacted(turn, command.identity, found.status()));
  if (compacted) return {};
  SY_ASSIGN_OR_RETURN(RevisionRecord record, std::move(found));
  const AppliedRequest request = Arguments(command.identity)
                                     .add(command.mode == DeleteMode::kDrain ? "drain" : "refuse")
                                     .request(RequestKind::kDelete, command.expected_metadata_generation);
  if (was_applied(record, request) || record.availability == Availability::kDeleted) {
    turn.answer.record = std::move(record);
    return {};
  }
  if (record.availability == Availability::kImporting) {
    return check_published(record, "`steelyard abort` ends an import");
  }
  SY_RETURN_IF_ERROR(check_fence(record, command.expected_metadata_generation));
  if (record.availability == Availability::kDeleting) {
    turn.answer.record = std::move(record);
    return {};  // under way; whoever asks goes on with it
  }
  SY_ASSIGN_OR_RETURN(std::vector<Lease> live, reap_expired(turn, command.identity));
  if (!live.empty() && command.mode == DeleteMode::kRefuse) {
    return {Code::kBusy, formats::format_ref(command.identity) + " has " + describe_leases(live, turn),
            "wait for them, drain it with --wait 10m, or end one: steelyard lease release ID"};
  }
  SY_ASSIGN_OR_RETURN(const std::optional<Runner> runner, find_runner(turn.view, command.identity));
  RevisionRecord next = next_of(record, turn.now);
  set_availability(next, Availability::kDeleting);
  next.drain = command.mode == DeleteMode::kDrain;
  end_operation(turn, next, runner, OperationState::kCancelled, "cancelled by a delete");
  set_applied(next, request);
  turn.put(RevisionPut{next});
  for (Lease& lease : live) {
    lease.renewable_until_mono_ms = turn.now.mono_ms + kDrainMsMax;
    turn.put(LeasePut{std::move(lease)});
  }
  turn.answer.record = std::move(next);
  return {};
}

Status judge(Turn& turn, const FinishDelete& command) {
  Result<RevisionRecord> found = get_record(turn.view, command.identity);
  SY_ASSIGN_OR_RETURN(const bool compacted, was_compacted(turn, command.identity, found.status()));
  if (compacted) return {};
  SY_ASSIGN_OR_RETURN(RevisionRecord record, std::move(found));
  if (record.availability == Availability::kDeleted) {
    turn.answer.record = std::move(record);
    return {};
  }
  if (record.availability != Availability::kDeleting) {
    return {Code::kConflict, formats::format_ref(command.identity) + " is " + state_and_since(record) +
                                 ", wanted DELETING: nothing was deleted"};
  }
  SY_RETURN_IF_ERROR(check_fence(record, command.expected_metadata_generation));
  SY_ASSIGN_OR_RETURN(const std::vector<Lease> live, reap_expired(turn, command.identity));
  if (!live.empty()) {
    return {Code::kBusy, formats::format_ref(command.identity) + " has " + describe_leases(live, turn),
            "a later delete or reconcile ends it"};
  }
  RevisionRecord next = next_of(record, turn.now);
  set_availability(next, Availability::kDeleted);
  set_hot(next, {}, {}, 0, 0, false);
  next.damage = {};
  next.drain = false;
  next.deleted_seq = turn.sequence;
  turn.put(RevisionPut{next});
  turn.answer.record = std::move(next);
  return {};
}

Status judge(Turn& turn, const CompactTombstones& command) {
  SY_RETURN_IF_ERROR(formats::validate(Identity{command.lineage, command.weight_generation}));
  SY_ASSIGN_OR_RETURN(const std::vector<RevisionRecord> records, records_of(turn.view, command.lineage));
  std::vector<const RevisionRecord*> tombstones;
  for (const RevisionRecord& record : records) {
    if (record.identity.weight_generation > command.weight_generation) break;
    if (record.availability == Availability::kImporting) {
      return {Code::kConflict, formats::format_ref(record.identity) + " is " + state_and_since(record) +
                                   ": what is imported cannot lie at or below the watermark"};
    }
    if (record.availability == Availability::kDeleted) tombstones.push_back(&record);
  }
  if (tombstones.empty()) return {};
  const std::int64_t highest = tombstones.back()->identity.weight_generation;
  SY_ASSIGN_OR_RETURN(const std::optional<Watermark> mark, find_watermark(turn.view, command.lineage));
  if (!mark || mark->weight_generation < highest) turn.put(WatermarkPut{{command.lineage, highest}});
  for (const RevisionRecord* record : tombstones) turn.put(RevisionRemoved{*record});
  return {};
}

Status check_policy_allows(const RevisionRecord& record, OperationKind kind, Residency target,
                           std::optional<std::uint32_t> ratio_millionths) {
  const Policy& policy = record.policy;
  if (policy.mode != PolicyMode::kPinned || !moves_replicas(kind)) return {};
  if (target == policy.prefer && ratio_millionths == policy.ratio_millionths) return {};
  const auto place = [](Residency residency, const std::optional<std::uint32_t>& ratio) {
    return std::string(name_of(residency)) + (ratio ? " with " + format_ratio(*ratio) + " hot" : "");
  };
  return {Code::kPolicyUnsatisfiable,
          formats::format_ref(record.identity) + " is pinned to " + place(policy.prefer, policy.ratio_millionths) +
              ", and " + std::string(name_of(kind)) + " would make it " + place(target, ratio_millionths),
          "change its policy first: steelyard policy set " + formats::format_ref(record.identity) + " --mode manual"};
}

Status judge(Turn& turn, const UpdateWeightPolicy& command) {
  SY_RETURN_IF_ERROR(validate_policy(command.policy));
  SY_ASSIGN_OR_RETURN(RevisionRecord record, get_record(turn.view, command.identity));
  const Policy& policy = command.policy;
  const AppliedRequest request = Arguments(command.identity)
                                     .add(name_of(policy.prefer))
                                     .add(policy.ratio_millionths ? std::to_string(*policy.ratio_millionths) : "")
                                     .add(name_of(policy.mode))
                                     .request(RequestKind::kPolicy, command.expected_metadata_generation);
  if (was_applied(record, request)) {
    turn.answer.record = std::move(record);
    return {};
  }
  SY_RETURN_IF_ERROR(check_published(record, {}));
  SY_RETURN_IF_ERROR(check_fence(record, command.expected_metadata_generation));
  if (policy.prefer == Residency::kMixed && record.summary.payload_count < 2) {
    return {Code::kInvalidArgument,
            formats::format_ref(command.identity) + " has " + std::to_string(record.summary.payload_count) +
                (record.summary.payload_count == 1 ? " object" : " objects") + " and cannot be MIXED, wanted 2 or more",
            "an object is hot or cold as a whole: prefer hot or cold"};
  }
  RevisionRecord next = next_of(record, turn.now);
  next.policy = policy;
  if (const auto& running = record.operation) {
    if (!check_policy_allows(next, running->kind, running->target, running->ratio_millionths).ok()) {
      return {Code::kBusy,
              formats::format_ref(command.identity) + " has the running " + std::string(name_of(running->kind)) +
                  " operation " + running->operation_id + ", which the new policy would refuse",
              "wait for it, or end it: steelyard operation cancel " + running->operation_id};
    }
  }
  set_applied(next, request);
  turn.put(RevisionPut{next});
  turn.answer.record = std::move(next);
  return {};
}

}  // namespace steelyard::metadata
