// Observed truth, deletion and policy of a published revision.
#include <algorithm>
#include <utility>

#include "base/limits.h"
#include "formats/ref.h"
#include "metadata/turn.h"
#include "metadata/validate.h"

namespace steelyard::metadata {
namespace {

constexpr std::int64_t kDrainMsMax = limits::kLeaseTtlMsMax;

bool published(const RevisionRecord& record) {
  return record.availability == Availability::kReady || record.availability == Availability::kDegraded;
}

Status not_published(const RevisionRecord& record, std::string hint) {
  return {Code::kNotReady,
          formats::format_ref(record.identity) + " is " + state_and_since(record) + ", wanted READY or DEGRADED",
          std::move(hint)};
}

Result<DamageReport> normalised(const DamageReport& damage) {
  DamageReport out = damage;
  std::sort(out.objects.begin(), out.objects.end());
  out.objects.erase(std::unique(out.objects.begin(), out.objects.end()), out.objects.end());
  out.count = std::max<std::uint64_t>(out.count, out.objects.size());
  if (out.objects.size() > limits::kDamagedNamedMax) out.objects.resize(limits::kDamagedNamedMax);
  SY_RETURN_IF_ERROR(validate_damage(out));
  return out;
}

void clear_hot(RevisionRecord& record) {
  record.hot_millionths.reset();
  record.hot_instance.clear();
  record.hot_members = 0;
}

}  // namespace

Status judge(Turn& turn, const ReconcileRevision& command) {
  SY_ASSIGN_OR_RETURN(RevisionRecord record, get_record(turn.view, command.identity));
  SY_ASSIGN_OR_RETURN(DamageReport damage, normalised(command.damage));
  if (!published(record)) return not_published(record, {});
  SY_RETURN_IF_ERROR(check_fence(record, command.observed_generation));

  RevisionRecord next = next_of(record, turn.now);
  set_availability(next, damage.count == 0 ? Availability::kReady : Availability::kDegraded);
  next.damage = std::move(damage);
  next.residency = command.residency;
  next.hot_millionths = command.hot_millionths;
  next.hot_instance = command.hot_instance;
  next.hot_members = command.hot_members;
  if (const Status status = validate(next); !status.ok()) {
    return {Code::kInvalidArgument, formats::format_ref(record.identity) + ": " + status.message()};
  }
  const bool same = next.availability == record.availability && next.damage == record.damage &&
                    next.residency == record.residency && next.hot_millionths == record.hot_millionths &&
                    next.hot_instance == record.hot_instance && next.hot_members == record.hot_members;
  if (!same) {
    turn.put(RevisionPut{next});
    record = std::move(next);
  }
  turn.answer.record = std::move(record);
  return {};
}

namespace {

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
    return not_published(record, "`steelyard abort` ends an import");
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
  next.residency = Residency::kAbsent;
  next.damage = {};
  next.drain = false;
  next.deleted_seq = turn.sequence;
  clear_hot(next);
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
  if (!published(record)) return not_published(record, {});
  SY_RETURN_IF_ERROR(check_fence(record, command.expected_metadata_generation));
  RevisionRecord next = next_of(record, turn.now);
  next.policy = policy;
  set_applied(next, request);
  turn.put(RevisionPut{next});
  turn.answer.record = std::move(next);
  return {};
}

}  // namespace steelyard::metadata
