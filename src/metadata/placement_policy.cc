#include "metadata/placement_policy.h"

#include <algorithm>
#include <limits>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

#include "base/units.h"
#include "metadata/memory_instance.h"
#include "metadata/shares.h"

namespace steelyard::metadata {
namespace {

using Revisions = std::vector<const PlacedRevision*>;

/// Who keeps what in memory.
class Holders {
 public:
  explicit Holders(std::span<const PlacedRevision> revisions) {
    for (const PlacedRevision& revision : revisions) keep(revision);
  }

  /// Gives the bytes that nobody keeps any more.
  std::uint64_t drop(const PlacedRevision& revision) {
    std::uint64_t freed = 0;
    for (const HotReplica& replica : revision.hot) freed += --names_[replica.storage] == 0 ? replica.bytes : 0;
    return freed;
  }
  /// Takes a drop back; gives the bytes that are kept again.
  std::uint64_t keep(const PlacedRevision& revision) {
    std::uint64_t kept = 0;
    for (const HotReplica& replica : revision.hot) kept += ++names_[replica.storage] == 1 ? replica.bytes : 0;
    return kept;
  }

 private:
  std::unordered_map<std::uint64_t, std::uint64_t> names_;
};

/// What was asked to be hot counts as used when it came to be so: it is not the first to go again.
LastUse use_of(const PlacedRevision& revision) {
  LastUse last = revision.last_use;
  for (const Operation& operation : revision.record.finished_operations) {
    if (operation.kind != OperationKind::kRehydrating || operation.state != OperationState::kDone) continue;
    last = std::max(last, {operation.ended_epoch_ordinal, operation.ended_mono_ms});
  }
  return last;
}

/// When the cool-down after its last move ends; absent: it is over.
std::optional<std::int64_t> cools_until(const RevisionRecord& record, const LastUse& now, std::int64_t cooldown_ms) {
  std::optional<std::int64_t> until;
  for (const Operation& operation : record.finished_operations) {
    const bool cools = moves_replicas(operation.kind) && operation.ended_epoch_ordinal == now.epoch_ordinal &&
                       now.mono_ms - operation.ended_mono_ms < cooldown_ms;
    if (cools) until = std::max(until.value_or(INT64_MIN), operation.ended_mono_ms + cooldown_ms);
  }
  return until;
}

InstanceName mounted(const Memory& memory) { return {memory.instance, memory.boot_id}; }

bool may_move(const RevisionRecord& record, const Memory& memory) {
  const bool elsewhere = view_of_instance(instance_of(record), mounted(memory)) == InstanceView::kElsewhere;
  return record.availability == Availability::kReady && !record.operation && !elsewhere;
}

/// Somebody read it a moment ago, perhaps for so short a time that no policy was followed meanwhile.
bool was_read_lately(const PlacedRevision& revision, const LastUse& now, std::int64_t cooldown_ms) {
  const LastUse& last = revision.last_use;
  return last.epoch_ordinal == now.epoch_ordinal && now.mono_ms - last.mono_ms < cooldown_ms;
}

/// Where it is by the record, as far as this boot goes.
Residency residency_in(const RevisionRecord& record, const Memory& memory) {
  return record.hot_instance == memory.instance ? record.residency : Residency::kCold;
}

/// Once nobody reads it. Its record may not know yet what lies there, after a rehydration that was cancelled.
bool is_evictable(const PlacedRevision& revision, const Memory& memory) {
  return may_move(revision.record, memory) && revision.cold_whole && !revision.hot.empty();
}

/// Its eviction was begun here, and has perhaps nobody who carries it out.
bool is_leaving(const PlacedRevision& revision, const Memory& memory) {
  const RevisionRecord& record = revision.record;
  return record.availability == Availability::kReady && !revision.hot.empty() && record.operation &&
         record.operation->kind == OperationKind::kEvicting && record.operation->target == Residency::kCold &&
         record.operation->hot_instance == memory.instance;
}

Observation seen_of(const PlacedRevision& revision, const Memory& memory) {
  Observation seen;
  seen.boot_id = memory.boot_id;
  seen.hot_instance = memory.instance;
  seen.hot_members = revision.hot_members;
  seen.hot_bytes = revision.hot_bytes;
  return seen;
}

bool is_free_to_go(const PlacedRevision& revision, const Memory& memory) {
  return revision.cold_whole && is_stray(revision.record, seen_of(revision, memory));
}

/// The next look makes its record name this memory, as there is more of it here than in the one that it names.
bool is_to_be_counted(const PlacedRevision& revision, const Memory& memory) {
  const RevisionRecord& record = revision.record;
  return record.availability == Availability::kReady && !record.operation && revision.cold_whole &&
         view_of_instance(instance_of(record), mounted(memory)) == InstanceView::kElsewhere &&
         shows_more(record, seen_of(revision, memory));
}

bool wants_warmer(const PlacedRevision& revision, const Memory& memory) {
  const RevisionRecord& record = revision.record;
  const Residency is = residency_in(record, memory);
  if (record.summary.payload_count == 0) return false;  // nothing of it can be hot
  if (record.policy.prefer == Residency::kHot) return is != Residency::kHot;
  if (record.policy.prefer != Residency::kMixed) return false;
  return is == Residency::kCold ||
         (is == Residency::kMixed && revision.plan_millionths && *record.hot_millionths < *revision.plan_millionths);
}

bool wants_colder(const PlacedRevision& revision, const Memory& memory) {
  const RevisionRecord& record = revision.record;
  const Residency is = residency_in(record, memory);
  if (record.policy.prefer == Residency::kCold) return is != Residency::kCold;
  if (record.policy.prefer != Residency::kMixed) return false;
  return is == Residency::kHot ||
         (is == Residency::kMixed && revision.plan_millionths && *record.hot_millionths > *revision.plan_millionths);
}

std::uint64_t hot_bytes_of(const PlacedRevision& revision) {
  std::uint64_t bytes = 0;
  for (const HotReplica& replica : revision.hot) bytes += replica.bytes;
  return bytes;
}

/// The oldest use first, then the largest.
void sort_for_eviction(Revisions& revisions) {
  const auto place = [](const PlacedRevision* revision) {
    return std::tuple(use_of(*revision), std::numeric_limits<std::uint64_t>::max() - hot_bytes_of(*revision),
                      revision->record.identity);
  };
  std::ranges::sort(revisions, {}, place);
}

Move move_of(const PlacedRevision& revision, OperationKind kind, Residency target, std::uint64_t bytes,
             std::string why) {
  Move move;
  move.identity = revision.record.identity;
  move.expected_metadata_generation = revision.record.metadata_generation;
  move.kind = kind;
  move.target = target;
  if (target == Residency::kMixed) move.ratio_millionths = revision.record.policy.ratio_millionths;
  move.bytes = bytes;
  move.why = std::move(why);
  return move;
}

/// Takes from `candidates`, in their order, what frees `wanted` bytes, without those that free nothing. Where not
/// enough can be freed: all that frees something, if `some` is enough, or nothing.
Revisions pick(Revisions& candidates, Holders& holders, std::uint64_t wanted, bool some) {
  Revisions chosen;
  std::uint64_t freed = 0;
  for (const PlacedRevision* revision : candidates) {
    if (freed >= wanted) break;
    freed += holders.drop(*revision);
    chosen.push_back(revision);
  }
  const bool taken = freed >= wanted || some;
  Revisions picked;
  for (const PlacedRevision* revision : chosen) {
    if (holders.keep(*revision) == 0 || !taken) continue;
    holders.drop(*revision);
    picked.push_back(revision);
  }
  const std::unordered_set<const PlacedRevision*> gone(picked.begin(), picked.end());
  std::erase_if(candidates, [&](const PlacedRevision* revision) { return gone.contains(revision); });
  return picked;
}

/// The moves that evict what was picked. The bytes of each are those that go when the ones before it are gone.
std::uint64_t put_evictions(const Revisions& picked, Holders& holders, const std::string& why,
                            std::vector<Move>& moves) {
  for (const PlacedRevision* revision : picked) holders.keep(*revision);
  std::uint64_t freed = 0;
  for (const PlacedRevision* revision : picked) {
    const std::uint64_t bytes = holders.drop(*revision);
    moves.push_back(move_of(*revision, OperationKind::kEvicting, Residency::kCold, bytes, why));
    freed += bytes;
  }
  return freed;
}

}  // namespace

PolicyPlan moves_of(std::span<const PlacedRevision> revisions, const Memory& memory, const LastUse& now,
                    std::int64_t cooldown_ms) {
  const std::uint64_t high = bytes_of_share(memory.high_watermark_millionths, memory.capacity_bytes);
  const std::uint64_t low = bytes_of_share(memory.low_watermark_millionths, memory.capacity_bytes);
  Holders holders(revisions);
  PolicyPlan plan;
  std::vector<Move>& moves = plan.moves;
  std::uint64_t used = memory.used_bytes;
  Revisions idle;
  Revisions warmer;
  for (const PlacedRevision& revision : revisions) {
    const RevisionRecord& record = revision.record;
    const bool pinned = record.policy.mode == PolicyMode::kPinned;
    if (record.policy.mode == PolicyMode::kManual || !may_move(record, memory)) continue;
    const bool evictable = !revision.leased && is_evictable(revision, memory);
    if (pinned && wants_colder(revision, memory) && evictable) {
      const bool whole = record.policy.prefer == Residency::kCold;
      const std::uint64_t freed = whole ? holders.drop(revision) : 0;
      moves.push_back(move_of(revision, OperationKind::kEvicting, record.policy.prefer, freed, "pinned"));
      used -= std::min(used, freed);
      continue;
    }
    const auto cools = pinned ? std::nullopt : cools_until(record, now, cooldown_ms);
    const bool cooling = cools.has_value();
    if (cooling) plan.again_at_mono_ms = std::min(plan.again_at_mono_ms.value_or(INT64_MAX), *cools);
    if (!pinned && !cooling && evictable) idle.push_back(&revision);
    const bool is_wanted = pinned || revision.leased || was_read_lately(revision, now, cooldown_ms);
    if (!is_wanted || !revision.promotion_bytes || !wants_warmer(revision, memory)) continue;
    if (!cooling) {
      warmer.push_back(&revision);
    } else if (revision.leased) {
      plan.cooling.push_back(
          move_of(revision, OperationKind::kRehydrating, record.policy.prefer, *revision.promotion_bytes, "read now"));
    }
  }
  sort_for_eviction(idle);
  if (used > high) {
    const Revisions picked = pick(idle, holders, used - std::min(used, low), true);
    used -= std::min(used, put_evictions(picked, holders, "memory is above the high watermark", moves));
  }
  std::ranges::sort(warmer, {}, [](const PlacedRevision* revision) {
    return std::tuple(revision->record.policy.mode != PolicyMode::kPinned, !revision->leased,
                      *revision->promotion_bytes, revision->record.identity);
  });
  for (const PlacedRevision* revision : warmer) {
    const bool pinned = revision->record.policy.mode == PolicyMode::kPinned;
    const std::uint64_t bytes = *revision->promotion_bytes;
    const char* why = pinned ? "pinned" : revision->leased ? "read now" : "read a moment ago";
    Move move = move_of(*revision, OperationKind::kRehydrating, revision->record.policy.prefer, bytes, why);
    if (bytes > high || used > high - bytes) {
      // It takes the room of those that were used longest ago, if somebody waits for it.
      const bool takes = (pinned || revision->leased) && bytes <= high;
      const Revisions picked = takes ? pick(idle, holders, used - (high - bytes), false) : Revisions();
      if (picked.empty()) {
        if (pinned)
          plan.without_room.push_back(std::move(move));
        else if (revision->leased)
          plan.stay_cold.push_back(std::move(move));
        continue;
      }
      used -= std::min(
          used, put_evictions(picked, holders,
                              pinned ? "room is made for what is pinned" : "room is made for what is read now", moves));
    }
    moves.push_back(std::move(move));
    used += bytes;
  }
  return plan;
}

bool may_be_brought(const PlacedRevision& revision, const Memory& memory, const LastUse& now,
                    std::int64_t cooldown_ms) {
  const RevisionRecord& record = revision.record;
  if (record.policy.mode == PolicyMode::kManual || record.policy.prefer == Residency::kCold) return false;
  // A MIXED one may have more in memory than its set, which only the set tells.
  if (record.policy.prefer == Residency::kHot && residency_in(record, memory) == Residency::kHot) return false;
  return record.policy.mode == PolicyMode::kPinned || revision.leased || was_read_lately(revision, now, cooldown_ms);
}

RoomPlan make_room(std::span<const PlacedRevision> revisions, const Memory& memory, const Identity& for_whom,
                   std::uint64_t wanted_bytes) {
  Holders holders(revisions);
  Revisions idle;
  Revisions leased;
  for (const PlacedRevision& revision : revisions) {
    const Policy& policy = revision.record.policy;
    if (revision.record.identity == for_whom) continue;
    if (is_free_to_go(revision, memory)) {
      idle.push_back(&revision);
      continue;
    }
    const bool pinned_warm = policy.mode == PolicyMode::kPinned && policy.prefer != Residency::kCold;
    if (pinned_warm) continue;
    const bool goes = is_evictable(revision, memory) || is_leaving(revision, memory);
    if (!goes && !is_to_be_counted(revision, memory)) continue;
    (revision.leased ? leased : idle).push_back(&revision);
  }
  sort_for_eviction(idle);
  sort_for_eviction(leased);
  std::ranges::stable_partition(idle, [&](const auto* revision) { return is_leaving(*revision, memory); });
  std::ranges::stable_partition(idle, [&](const auto* revision) { return is_free_to_go(*revision, memory); });

  RoomPlan plan;
  for (const PlacedRevision* revision : idle) plan.possible_bytes += holders.drop(*revision);
  for (const PlacedRevision* revision : leased) {
    plan.held_by_leases_bytes += holders.drop(*revision);
    plan.held_by_leases.push_back(revision->record.identity);
  }
  for (const PlacedRevision* revision : idle) holders.keep(*revision);
  for (const PlacedRevision* revision : leased) holders.keep(*revision);
  plan.enough = plan.possible_bytes >= wanted_bytes;
  if (!plan.enough || wanted_bytes == 0) return plan;
  const Revisions picked = pick(idle, holders, wanted_bytes, false);
  plan.freed_bytes = put_evictions(picked, holders, "makes room for " + for_whom.lineage.resource_id, plan.evictions);
  return plan;
}

}  // namespace steelyard::metadata
