// What clients are told, held against what was appended.
#include <fmt/format.h>

#include <algorithm>

#include "base/limits.h"
#include "sim/checkers/model.h"

namespace steelyard::sim {

using metadata::Availability;
using metadata::Identity;
using metadata::Lease;
using metadata::OperationState;
using metadata::RevisionRecord;

void Model::check_told(const Operation& operation, bool appended, const Status& answer, std::string_view what) {
  if (!appended || answer.ok() || answer.code() == Code::kUnknownOutcome || answer.code() == Code::kUnavailable) return;
  violated(fmt::format("op {} {}, and is told: {}", operation.id, what, answer.to_string()));
}

bool Model::leased_during(const Operation& operation, const Identity& identity) const {
  const auto ended = lease_ended_at_.find(identity);
  if (ended != lease_ended_at_.end() && ended->second > operation.begun_at) return true;
  return std::ranges::any_of(leases_, [&](const auto& one) { return one.second.identity == identity; });
}

void Model::import_answered(const Operation& operation, const Result<store::ImportResult>& answer,
                            bool source_changed) {
  if (!answer.ok()) {
    check_told(operation, operation.published.has_value(), answer.status(), "published what it imported");
    if (operation.published && answer.code() == Code::kUnavailable) {
      violated(fmt::format("op {} published {} and is told: {}", operation.id, text_of(*operation.published),
                           answer.status().to_string()));
    }
    if (answer.code() == Code::kInternal || answer.code() == Code::kInvalidArgument) {
      violated(fmt::format("op {} is refused: {}", operation.id, answer.status().to_string()));
    }
    bool taken_over = false;
    for (const auto& [identity, attempt] : operation.attempts) {
      // Or aborted, which it may meet as missing objects while the log does not tell it.
      const RevisionRecord& now = find(identity)->now();
      taken_over = taken_over || now.import_attempt != attempt || now.availability == Availability::kDeleting ||
                   now.availability == Availability::kDeleted;
    }
    if (answer.code() == Code::kCorrupt && !source_changed && !any_damage() && !taken_over) {
      violated(fmt::format("op {} finds damage where none is: {}", operation.id, answer.status().to_string()));
    }
    return;
  }
  const RevisionRecord& record = answer->record;
  const std::string name = text_of(record.identity);
  if (source_changed) violated(name + " was published from a source that changed while it was read");
  const Revision* revision = find(record.identity);
  if (answer->already_there) {
    // The writer that was waited for published it, and nobody else is told so.
    if (revision == nullptr || operation.published || record.committed_seq <= operation.begun_at) {
      violated(fmt::format("op {} is told that {} is there already", operation.id, name));
      return;
    }
  } else if (operation.published != record.identity || revision == nullptr) {
    violated(fmt::format("op {} is told that it published {}, which the log does not have", operation.id, name));
    return;
  }
  shown(operation, record);
  if (record.availability != Availability::kReady) violated(name + " is published and not READY");
  if (revision->checkpoint != operation.checkpoint) violated(name + " holds another source than op was given");
}

void Model::listed(const metadata::ListQuery& query, const Result<metadata::ListPage>& answer) {
  if (!answer.ok()) return;
  std::vector<Identity> expected;
  for (const auto& [identity, revision] : revisions_) {
    const Availability state = revision.now().availability;
    if (revision.compacted) continue;
    if (query.all || is_published(state)) expected.push_back(identity);
  }
  std::vector<Identity> found;
  for (const RevisionRecord& record : answer->records) {
    found.push_back(record.identity);
    const Revision* revision = find(record.identity);
    if (revision == nullptr || revision->now() != record)
      violated("list shows " + text_of(record.identity) + " as it is not");
  }
  std::sort(found.begin(), found.end());
  if (found != expected) {
    violated(fmt::format("list shows {} revisions, {} are there", found.size(), expected.size()));
  }
}

void Model::shown(const Operation& operation, const RevisionRecord& record) {
  const Revision* revision = find(record.identity);
  const std::uint64_t generation = record.metadata_generation;
  if (revision == nullptr || generation == 0 || generation > revision->facts.size() ||
      revision->facts[generation - 1].record != record) {
    violated(fmt::format("op {} is shown {} as it never was", operation.id, text_of(record.identity)));
    return;
  }
  if (generation < revision->facts.size() && revision->facts[generation].sequence <= operation.begun_at) {
    violated(fmt::format("op {} is shown {} as it was before it began", operation.id, text_of(record.identity)));
  }
}

void Model::lease_acquired(const Operation& operation, const Identity& identity, const Result<Lease>& answer) {
  if (answer.ok()) return lease_granted(operation, *answer);
  check_told(operation, operation.put_lease, answer.status(), "was granted a lease");
  const Revision& revision = *find(identity);
  const bool refused =
      answer.code() == Code::kBusy || answer.code() == Code::kNotReady || answer.code() == Code::kNotFound;
  // What can be read now could be read all the time: from DELETING there is no way back.
  if (refused && revision.readable()) {
    violated(fmt::format("op {} gets no lease on {}, which can be read: {}", operation.id, text_of(identity),
                         answer.status().to_string()));
  }
}

void Model::lease_granted(const Operation& operation, const Lease& lease) {
  const auto found = leases_.find(lease.lease_id);
  if (found == leases_.end()) {
    // It may have run out while its holder stood still.
    if (lease.epoch == epoch_ && world_.mono_ms() < lease.expires_mono_ms) {
      violated(fmt::format("op {} is told of lease {}, which the log does not have", operation.id, lease.lease_id));
    }
    return;
  }
  if (found->second.epoch == lease.epoch && found->second.expires_mono_ms < lease.expires_mono_ms) {
    violated(fmt::format("op {} is told that lease {} lasts longer than it does", operation.id, lease.lease_id));
  }
}

void Model::lease_renewed(const Operation& operation, const std::string& lease_id, const Result<Lease>& answer) {
  if (answer.ok()) {
    if (answer->lease_id != lease_id) violated("another lease is renewed than was asked for");
    return lease_granted(operation, *answer);
  }
  check_told(operation, operation.put_lease, answer.status(), "renewed its lease");
  const bool lost = answer.code() == Code::kLeaseExpired || answer.code() == Code::kNotFound;
  if (lost && lease_lives(lease_id)) {
    violated(fmt::format("op {} is told that lease {} ended, which lives", operation.id, lease_id));
  }
}

void Model::lease_released(const Operation& operation, const std::string& lease_id, const Status& answer) {
  check_told(operation, operation.released, answer, "released its lease");
  if (answer.ok() && leases_.contains(lease_id)) {
    violated(fmt::format("op {} is told that lease {} is released, which it is not", operation.id, lease_id));
  }
}

void Model::aborted(const Operation& operation, const Identity& identity, const Result<RevisionRecord>& answer) {
  const Revision* revision = find(identity);
  if (!answer.ok()) {
    return check_told(operation, operation.aborted.has_value(), answer.status(), "aborted " + text_of(identity));
  }
  if (revision == nullptr || (revision->now().availability != Availability::kDeleting &&
                              revision->now().availability != Availability::kDeleted)) {
    violated(fmt::format("op {} is told that {} is aborted, which it is not", operation.id, text_of(identity)));
  }
}

void Model::erased(const Operation& operation, const Identity& identity, const Result<store::RemovalResult>& answer) {
  const Revision* revision = find(identity);
  const std::string name = text_of(identity);
  check_told(operation, operation.tombstones.contains(identity), answer.status(), "made the tombstone of " + name);
  if (answer.code() == Code::kNotFound && revision != nullptr && (operation.may_delete || !revision->compacted)) {
    violated(name + " is there and not found");
  }
  // What it began it may be kept from ending: by leases, and by tiers and a log that fail.
  const bool began = operation.deleted == identity || operation.aborted == identity;
  const bool refused = answer.code() == Code::kStaleGeneration || answer.code() == Code::kConflict ||
                       answer.code() == Code::kNotReady || answer.code() == Code::kNotFound ||
                       answer.code() == Code::kInvalidArgument || answer.code() == Code::kUnauthorized;
  if (began && refused) {
    violated(fmt::format("op {} began to remove {}, and is told: {}", operation.id, name, answer.status().to_string()));
  }
  if (operation.may_delete && answer.code() == Code::kBusy && !leased_during(operation, identity)) {
    violated(fmt::format("op {} waits for nobody and is told: {}", operation.id, answer.status().to_string()));
  }
  if (answer.ok() && (revision == nullptr || revision->now().availability != Availability::kDeleted)) {
    violated(fmt::format("op {} is told that {} is deleted, which it is not", operation.id, name));
  }
}

void Model::moved(const Operation& operation, const Identity& identity, bool waited, bool short_of_room,
                  const Result<store::ResidencyResult>& answer) {
  const Revision& revision = *find(identity);
  const std::string name = text_of(identity);
  if (answer.ok()) {
    shown(operation, answer->record);
    if (!answer->operation) return;
    const auto found = revision.moves.find(answer->operation->operation_id);
    if (found == revision.moves.end()) {
      return violated(fmt::format("op {} is told of an operation of {} that never was", operation.id, name));
    }
    if (waited && answer->operation->state != OperationState::kDone) {
      violated(fmt::format("op {} waited for an operation of {}, which is {}", operation.id, name,
                           metadata::name_of(answer->operation->state)));
    }
    return;
  }
  if (answer.code() == Code::kNotFound && !revision.compacted) violated(name + " is there and not found");
  const auto ended = operation.ended.find(identity);
  const bool done = ended != operation.ended.end() && ended->second.state == OperationState::kDone;
  // With a ratio another one follows the first.
  check_told(operation, done && !ended->second.ratio_millionths, answer.status(), "came to the end of its move");
  const auto refused = [&](std::string_view without) {
    violated(fmt::format("op {} on {} is refused {}: {}", operation.id, name, without, answer.status().to_string()));
  };
  // What is in memory may be hard to count.
  if (answer.code() == Code::kNotReady && revision.readable() && !may_be_damaged(revision) && !operation.disturbed) {
    refused("although it can be read");
  }
  const bool moved_meanwhile = revision.now().operation || revision.facts.back().sequence > operation.begun_at;
  // Where there is no room, whoever is read is in the way.
  const auto ended_since = [&](const auto& one) { return one.second > operation.begun_at; };
  const bool any = !leases_.empty() || std::ranges::any_of(lease_ended_at_, ended_since);
  const bool leases = leased_during(operation, identity) || ((operation.makes_room || short_of_room) && any);
  if (answer.code() == Code::kBusy && !moved_meanwhile && !leases) refused("and nobody is in the way");
  if (answer.code() == Code::kNoSpace && !short_of_room) refused("where there is room");
  // One object is hot or cold as a whole, so no share of it can be asked for.
  if (answer.code() == Code::kInvalidArgument && revision.now().summary.payload_count > 1) {
    violated(fmt::format("op {} is refused: {}", operation.id, answer.status().to_string()));
  }
  if (answer.code() == Code::kCorrupt && !may_be_damaged(revision)) {
    violated(
        fmt::format("op {} finds damage of {} where none is: {}", operation.id, name, answer.status().to_string()));
  }
  if (answer.code() == Code::kPolicyUnsatisfiable) {
    bool pinned = false;
    for (std::size_t i = 0; i < revision.facts.size(); ++i) {
      const bool current = i + 1 == revision.facts.size() || revision.facts[i + 1].sequence > operation.begun_at;
      pinned = pinned || (current && revision.facts[i].record.policy.mode == metadata::PolicyMode::kPinned);
    }
    if (!pinned) violated(fmt::format("op {} is told that {} is pinned, which it is not", operation.id, name));
  }
}

void Model::cancelled(const Operation& operation, const std::string& operation_id,
                      const Result<metadata::OperationView>& answer) {
  check_told(operation, operation.cancelled.contains(operation_id), answer.status(), "cancelled an operation");
  if (!answer.ok()) return;
  const metadata::Operation& told = answer->operation;
  const Revision* const revision = find(answer->record.identity);
  if (revision == nullptr || told.operation_id != operation_id || told.state == OperationState::kRunning) {
    return violated(
        fmt::format("op {} is told that operation {} is cancelled, and it is not", operation.id, operation_id));
  }
  const auto& ended = revision->now().finished_operations;
  const auto found = std::ranges::find(ended, operation_id, &metadata::Operation::operation_id);
  // It may be forgotten by now, when others ended after it.
  if (found != ended.end() && *found != told) {
    violated(fmt::format("op {} is told of operation {} as it did not end", operation.id, operation_id));
  }
}

void Model::policy_set(const Operation& operation, const Result<RevisionRecord>& answer) {
  check_told(operation, operation.put_policy, answer.status(), "set a policy");
  if (answer.ok()) shown(operation, *answer);
}

void Model::passed(const Operation& operation, bool short_of_room, const Status& answer) {
  const Code code = answer.code();
  const bool damage = code == Code::kCorrupt && !any_damage();
  const bool room = code == Code::kNoSpace && !short_of_room;
  // It asks for nothing that may be refused, but others may overtake it.
  const bool overtaken = code == Code::kStaleGeneration && sequence_ > operation.begun_at;
  const bool refused = code == Code::kInvalidArgument || code == Code::kStaleGeneration || code == Code::kNotFound ||
                       code == Code::kGenerationExhausted || code == Code::kLeaseExpired ||
                       code == Code::kPolicyUnsatisfiable || code == Code::kUnauthorized || code == Code::kInternal;
  if (!damage && !room && (!refused || overtaken)) return;
  violated(
      fmt::format("op {} ({}) fails, and nothing explains it: {}", operation.id, operation.what, answer.to_string()));
}

void Model::followed(const catalog::WatchQuery& query, bool has_next, std::uint64_t begun_at,
                     const catalog::WatchBatch& batch) {
  const std::string name = fmt::format("a watch from {} to {}", query.after.value_or(0), batch.next);
  if (batch.next > sequence_) return violated(name + " tells of what is not there yet");
  if (batch.changes.empty() && !batch.resnapshot && batch.next < begun_at) violated(name + " stops short");
  if (batch.resnapshot && query.after && has_next) violated(name + " begins anew, and the log has what comes next");
  if (!batch.resnapshot && !query.after) return violated(name + " begins without what is there");
  std::map<std::pair<std::uint64_t, Identity>, const RevisionRecord*> expected;
  for (const auto& [identity, revision] : revisions_) {
    if (query.resource_id && identity.lineage.resource_id != *query.resource_id) continue;
    const auto after = [](std::uint64_t sequence, const Revision::Fact& fact) { return sequence < fact.sequence; };
    const auto end = std::upper_bound(revision.facts.begin(), revision.facts.end(), batch.next, after);
    if (batch.resnapshot) {
      const bool gone = revision.compacted && revision.compacted_at <= batch.next;
      if (end != revision.facts.begin() && !gone) expected[{batch.next, identity}] = &std::prev(end)->record;
      continue;
    }
    for (auto fact = std::upper_bound(revision.facts.begin(), end, *query.after, after); fact != end; ++fact) {
      expected[{fact->sequence, identity}] = &fact->record;
    }
  }
  std::uint64_t last = 0;
  std::size_t found = 0;
  for (const catalog::RevisionChange& change : batch.changes) {
    if (change.sequence < last) violated(name + " is not in the order of the log");
    last = change.sequence;
    const auto told = expected.find({change.sequence, change.record.identity});
    if (told != expected.end() && *told->second == change.record) {
      ++found;
      continue;
    }
    violated(fmt::format("{} tells of {} at {} as it was not", name, text_of(change.record.identity), change.sequence));
  }
  if (found != expected.size()) {
    violated(fmt::format("{} tells of {} changes, and there were {}", name, found, expected.size()));
  }
}

}  // namespace steelyard::sim
