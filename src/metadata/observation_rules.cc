// What was seen of a revision in the tiers, and the residency that follows from it.
#include <algorithm>
#include <utility>

#include "base/limits.h"
#include "formats/ref.h"
#include "metadata/memory_instance.h"
#include "metadata/shares.h"
#include "metadata/turn.h"
#include "metadata/validate.h"

namespace steelyard::metadata {
namespace {

Status invalid(const RevisionRecord& record, const std::string& why) {
  return {Code::kInvalidArgument, formats::format_ref(record.identity) + ": " + why};
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

/// The hot bytes that a record vouches for; of MIXED at most those that there are, since a share is rounded down.
std::uint64_t hot_bytes_of(const RevisionRecord& record) {
  if (record.residency == Residency::kHot) return record.summary.logical_bytes;
  return bytes_of_share(record.hot_millionths.value_or(0), record.summary.logical_bytes);
}

Status check_hot(const RevisionRecord& record, const Observation& seen) {
  const GroupSummary& all = record.summary;
  if (seen.hot_instance.empty() ? seen.hot_members != 0 : seen.boot_id.empty()) {
    return invalid(record, "hot members need the memory instance in which they were seen, and its boot");
  }
  const bool within = seen.hot_members <= all.payload_count && seen.hot_bytes <= all.logical_bytes;
  const bool none_fit = (seen.hot_members == 0) == (seen.hot_bytes == 0);
  const bool all_fit = (seen.hot_members == all.payload_count) == (seen.hot_bytes == all.logical_bytes);
  if (within && none_fit && all_fit) return {};
  return invalid(record, std::to_string(seen.hot_members) + " hot members with " + std::to_string(seen.hot_bytes) +
                             " bytes were seen, and the revision has " + std::to_string(all.payload_count) + " with " +
                             std::to_string(all.logical_bytes));
}

/// Millionths, as the record keeps them: bytes would make a rounded share less than the very bytes that it was made of.
std::uint32_t share_seen(const RevisionRecord& record, const Observation& seen) {
  if (seen.hot_members == 0) return 0;
  return seen.hot_members == record.summary.payload_count ? kMillion
                                                          : share_of(seen.hot_bytes, record.summary.logical_bytes);
}

std::uint32_t share_recorded(const RevisionRecord& record) {
  return record.residency == Residency::kHot ? kMillion : record.hot_millionths.value_or(0);
}

bool is_elsewhere(const RevisionRecord& record, const Observation& seen) {
  return view_of_instance(instance_of(record), {seen.hot_instance, seen.boot_id}) == InstanceView::kElsewhere;
}

}  // namespace

bool shows_more(const RevisionRecord& record, const Observation& seen) {
  return share_seen(record, seen) > share_recorded(record);
}

bool is_stray(const RevisionRecord& record, const Observation& seen) {
  const bool idle = record.availability == Availability::kReady && !record.operation;
  return idle && seen.hot_members > 0 && is_elsewhere(record, seen) && !shows_more(record, seen);
}

void set_hot(RevisionRecord& record, std::string instance, std::string boot_id, std::uint64_t members,
             std::uint64_t bytes, bool cold_readable) {
  const GroupSummary& all = record.summary;
  record.hot_millionths.reset();
  if (members == 0) {
    record.residency = cold_readable ? Residency::kCold : Residency::kAbsent;
    record.hot_instance.clear();
    record.hot_boot_id.clear();
    record.hot_members = 0;
    return;
  }
  record.residency = members == all.payload_count ? Residency::kHot : Residency::kMixed;
  if (record.residency == Residency::kMixed) record.hot_millionths = share_of(bytes, all.logical_bytes);
  record.hot_instance = std::move(instance);
  record.hot_boot_id = std::move(boot_id);
  record.hot_members = members;
}

void lower_hot(RevisionRecord& next, std::uint64_t members, std::uint64_t bytes) {
  if (next.hot_members == 0) return;
  const std::uint64_t had = hot_bytes_of(next);
  const bool some_left = members < next.hot_members && bytes < had;
  // Only what has a cold replica is removed, so something cold is readable.
  set_hot(next, next.hot_instance, next.hot_boot_id, some_left ? next.hot_members - members : 0,
          some_left ? had - bytes : 0, next.residency != Residency::kAbsent);
}

Result<bool> follow(RevisionRecord& next, const Observation& seen, Look look) {
  SY_ASSIGN_OR_RETURN(DamageReport damage, normalised(seen.damage));
  SY_RETURN_IF_ERROR(check_hot(next, seen));
  // Equal shares move the record to the observer's memory at one event only, or two would take it from each other for
  // ever.
  const bool takes_over = look == Look::kWhenBrought ? seen.hot_members > 0 : shows_more(next, seen);
  if (is_elsewhere(next, seen) && !takes_over) {
    // Whatever lies in that memory: of what is whole in the cold tier everything can be read.
    if (damage.count != 0) return false;
    set_availability(next, Availability::kReady);
    next.damage = {};
    return true;
  }
  set_availability(next, damage.count == 0 ? Availability::kReady : Availability::kDegraded);
  next.damage = std::move(damage);
  const std::uint64_t vouched = hot_bytes_of(next);
  const bool no_less = look == Look::kWhileRemoving && seen.hot_members >= next.hot_members;
  // A share that was made of bytes, which were made of a share, would become less at every look.
  const bool as_it_is =
      no_less && next.hot_members != 0 && next.hot_instance == seen.hot_instance && seen.hot_bytes >= vouched;
  if (!as_it_is) {
    set_hot(next, seen.hot_instance, seen.boot_id, no_less ? next.hot_members : seen.hot_members,
            no_less ? std::min(seen.hot_bytes, vouched) : seen.hot_bytes, seen.cold_readable);
  }
  if (const Status status = validate(next); !status.ok()) return invalid(next, status.message());
  return true;
}

Status judge(Turn& turn, const ReconcileRevision& command) {
  SY_ASSIGN_OR_RETURN(RevisionRecord record, get_record(turn.view, command.identity));
  SY_RETURN_IF_ERROR(check_published(record, {}));
  SY_RETURN_IF_ERROR(check_fence(record, command.observed_generation));

  Look look = Look::kPlain;
  if (record.operation && record.operation->kind == OperationKind::kEvicting) {
    SY_ASSIGN_OR_RETURN(const std::optional<Runner> runner, find_runner(turn.view, record.identity));
    if (runner && runner->permitted_members != 0) look = Look::kWhileRemoving;
  }
  RevisionRecord next = next_of(record, turn.now);
  SY_ASSIGN_OR_RETURN(const bool published, follow(next, command.seen, look));
  const bool same = next.availability == record.availability && next.damage == record.damage &&
                    next.residency == record.residency && next.hot_millionths == record.hot_millionths &&
                    next.hot_instance == record.hot_instance && next.hot_boot_id == record.hot_boot_id &&
                    next.hot_members == record.hot_members;
  if (published && !same) {
    turn.put(RevisionPut{next});
    record = std::move(next);
  }
  turn.answer.record = std::move(record);
  return {};
}

}  // namespace steelyard::metadata
