// What the rules say of operations and residency.
#include <fmt/format.h>

#include <algorithm>

#include "base/limits.h"
#include "sim/checkers/model.h"

namespace steelyard::sim {

using metadata::Availability;
using metadata::Identity;
using metadata::OperationKind;
using metadata::OperationState;
using metadata::Residency;
using metadata::RevisionRecord;

/// Which residencies go with which availability, and what goes with HOT and MIXED.
void Model::check_residency(const RevisionRecord& record) {
  const Residency residency = record.residency;
  const bool tiered = residency == Residency::kHot || residency == Residency::kCold || residency == Residency::kMixed;
  bool fits = false;
  switch (record.availability) {
    case Availability::kImporting:
      fits = residency == Residency::kUnknown;
      break;
    case Availability::kReady:
      fits = tiered;
      break;
    case Availability::kDegraded:
      fits = tiered || residency == Residency::kAbsent;
      break;
    case Availability::kDeleting:
      fits = tiered || residency == Residency::kAbsent || residency == Residency::kUnknown;
      break;
    case Availability::kDeleted:
      fits = residency == Residency::kAbsent;
      break;
  }
  const std::string name = text_of(record.identity);
  if (!fits) {
    violated(
        fmt::format("{} is {} and {}", name, metadata::name_of(record.availability), metadata::name_of(residency)));
  }
  const bool in_memory = residency == Residency::kHot || residency == Residency::kMixed;
  const std::uint64_t all = record.summary.payload_count;
  const bool members_fit = residency == Residency::kHot     ? record.hot_members == all
                           : residency == Residency::kMixed ? record.hot_members > 0 && record.hot_members < all
                                                            : record.hot_members == 0;
  if (in_memory == record.hot_instance.empty() || !members_fit ||
      record.hot_millionths.has_value() != (residency == Residency::kMixed)) {
    violated(fmt::format("{} is {} with {} of {} members in memory", name, metadata::name_of(residency),
                         record.hot_members, all));
  }
}

/// At most one runs; it stays as it began; those that ended are retained, and never change.
void Model::check_operations(Operation& by, const oplog::Append& append, const RevisionRecord& before,
                             const RevisionRecord& after, Revision& revision) {
  const std::string name = text_of(after.identity);
  const bool began = !before.operation && after.operation;
  const bool ended = before.operation && !after.operation;
  if (began) check_begun(by, append, after, revision);
  if (before.operation && after.operation && *before.operation != *after.operation) {
    violated(fmt::format("{}: operation {} turns into {}", name, before.operation->operation_id,
                         after.operation->operation_id));
  }
  std::vector<metadata::Operation> retained = before.finished_operations;
  if (ended) {
    if (after.finished_operations.empty()) return violated(name + ": an operation ends without a trace");
    retained.push_back(after.finished_operations.back());
    if (retained.size() > limits::kOperationsRetained) retained.erase(retained.begin());
    check_ended(by, append, before, after, revision);
  }
  if (after.finished_operations != retained)
    violated(name + ": the operations that ended are not retained as they were");
  if (after.operation && !is_published(after.availability)) {
    violated(fmt::format("{} is {} and has a running operation", name, metadata::name_of(after.availability)));
  }
}

void Model::check_begun(const Operation& by, const oplog::Append& append, const RevisionRecord& after,
                        Revision& revision) {
  const metadata::Operation& operation = *after.operation;
  const std::string name = fmt::format("operation {} of {}", operation.operation_id, text_of(after.identity));
  // Who finds damage that memory can mend begins the repair, for the next reconcile.
  if (!by.operates && metadata::moves_replicas(operation.kind)) {
    violated(fmt::format("op {} ({}) begins {}", by.id, by.what, name));
  }
  if (operation.state != OperationState::kRunning) violated(name + " begins and does not run");
  if (!operation_ids_.insert(operation.operation_id).second) violated(name + " has an id that was used before");
  if (metadata::moves_replicas(operation.kind) && operation.hot_instance.empty()) violated(name + " works nowhere");
  if (operation.kind == OperationKind::kEvicting) {
    if (const auto lease = live_lease_of(after.identity)) {
      violated(fmt::format("{} begins under lease {} of {}", name, lease->lease_id, lease->holder));
    }
  }
  if (after.policy.mode == metadata::PolicyMode::kPinned && metadata::moves_replicas(operation.kind) &&
      (operation.target != after.policy.prefer || operation.ratio_millionths != after.policy.ratio_millionths)) {
    violated(name + " goes where its revision is not pinned to");
  }
  if (metadata::moves_replicas(operation.kind)) {
    check_plan(operation, revision);
    check_reason(by, append, operation, revision);
  }
  Move& move = revision.moves[operation.operation_id];
  move.operation = operation;
  move.begun_at = append.sequence;
}

void Model::check_ended(Operation& by, const oplog::Append& append, const RevisionRecord& before,
                        const RevisionRecord& after, Revision& revision) {
  const metadata::Operation& ended = after.finished_operations.back();
  const std::string name = fmt::format("operation {} of {}", ended.operation_id, text_of(after.identity));
  metadata::Operation begun = *before.operation;
  Move& move = revision.moves[begun.operation_id];
  move.state = ended.state;
  move.ended = {epoch_ordinal_, append.at.mono_ms};
  by.ended[after.identity] = ended;
  if (ended.state == OperationState::kCancelled) by.cancelled.insert(ended.operation_id);
  const bool same = ended.operation_id == begun.operation_id && ended.kind == begun.kind &&
                    ended.target == begun.target && ended.ratio_millionths == begun.ratio_millionths &&
                    ended.plan_digest == begun.plan_digest && ended.total_members == begun.total_members &&
                    ended.total_bytes == begun.total_bytes && ended.request == begun.request &&
                    ended.hot_instance == begun.hot_instance;
  if (!same) violated(name + " ends as another one than it began");
  if (metadata::LastUse{ended.ended_epoch_ordinal, ended.ended_mono_ms} != move.ended) {
    violated(name + " says that it ended at another time");
  }
  if (ended.processed_members < move.processed_members || ended.processed_bytes < move.processed_bytes) {
    violated(name + ": its progress goes back at its end");
  }
  const bool all = ended.processed_members == ended.total_members && ended.processed_bytes == ended.total_bytes;
  if (ended.state == OperationState::kDone && !all) violated(name + " is DONE before all of it is");
  switch (ended.state) {
    case OperationState::kRunning:
      violated(name + " ends and runs");
      break;
    case OperationState::kCancelled:
      if (!by.cancels && !by.may_delete) violated(fmt::format("op {} ({}) cancels {}", by.id, by.what, name));
      break;
    case OperationState::kDone:
    case OperationState::kFailed:
      if (move.runners.empty() || move.runners.back() != by.process) {
        violated(fmt::format("op {} ({}) ends {}, which it does not run", by.id, by.what, name));
      }
      break;
  }
  tally_.cancelled += ended.state == OperationState::kCancelled ? 1 : 0;
  if (ended.state != OperationState::kDone) return;
  tally_.resumed += move.runners.size() > 1 ? 1 : 0;
  if (ended.kind == OperationKind::kRepairing) ++tally_.repaired;
  if (!metadata::moves_replicas(ended.kind)) return;
  ++(ended.kind == OperationKind::kEvicting ? tally_.evicted : tally_.rehydrated);
  tally_.mixed += ended.target == Residency::kMixed ? 1 : 0;
  // Of a ratio each of its two halves is DONE by itself: all of the set is in memory, or nothing but of the set.
  const Residency halfway = ended.kind == OperationKind::kEvicting ? Residency::kCold : Residency::kHot;
  const bool reached =
      after.residency == ended.target || (ended.target == Residency::kMixed && after.residency == halfway);
  if (!reached) {
    violated(fmt::format("{} is DONE, to {}, and its revision is {}", name, metadata::name_of(ended.target),
                         metadata::name_of(after.residency)));
  }
}

void Model::count_pause(const Identity& identity) {
  Revision& revision = revisions_[identity];
  if (revision.facts.empty() || !revision.now().operation || !revision.runner || revision.runner->token.empty()) return;
  Move& move = revision.moves[revision.now().operation->operation_id];
  if (move.operation.kind != OperationKind::kEvicting || move.permitted == move.operation.total_members) return;
  tally_.paused += move.paused ? 0 : 1;
  move.paused = true;
}

void Model::see(Operation& by, const oplog::Append& append, const metadata::RunnerPut& put) {
  const metadata::Runner& runner = put.runner;
  const std::string name = "the runner of " + text_of(runner.identity);
  std::optional<metadata::Runner>& before = revisions_[runner.identity].runner;
  if (begins_epoch_) {
    if (!before || runner.run_attempt != before->run_attempt) violated(name + " is not re-armed as it was");
    before = runner;
    return;
  }
  if (!by.operates) violated(fmt::format("op {} ({}) puts {}", by.id, by.what, name));
  const bool same_operation = before && before->operation_id == runner.operation_id;
  const bool takes_over = same_operation && !runner.token.empty() && before->token != runner.token;
  if (takes_over) {
    if (runner.run_attempt != before->run_attempt + 1) violated(name + " was taken over without a new attempt");
    const bool expired = append.at.mono_ms >= before->granted_mono_ms + before->ttl_ms;
    if (!before->token.empty() && !expired && world_.is_running(before->process)) {
      violated(name + " was taken over while it was live");
    }
  } else if (same_operation && (runner.process != before->process || before->process != by.process)) {
    violated(fmt::format("op {} speaks for {}", by.id, name));
  }
  before = runner;
  check_progress(runner);
}

/// It belongs to the operation, and never goes back, whoever runs it; removals are permitted where nobody reads.
void Model::check_progress(const metadata::Runner& runner) {
  const std::string name = "the runner of " + text_of(runner.identity);
  Revision& revision = revisions_[runner.identity];
  if (!revision.now().operation || revision.now().operation->operation_id != runner.operation_id) {
    return violated(name + " runs what is not under way");
  }
  Move& move = revision.moves[runner.operation_id];
  if (runner.processed_members < move.processed_members || runner.processed_bytes < move.processed_bytes ||
      runner.permitted_members < move.permitted) {
    violated(fmt::format("{}: its progress goes back", name));
  }
  if (runner.processed_members > move.operation.total_members || runner.processed_bytes > move.operation.total_bytes) {
    violated(fmt::format("{}: more is done than there is to do", name));
  }
  if (runner.permitted_members > move.permitted) {
    if (const auto lease = live_lease_of(runner.identity)) {
      violated(fmt::format("removals from {} are permitted under lease {} of {}", text_of(runner.identity),
                           lease->lease_id, lease->holder));
    }
  }
  move.processed_members = runner.processed_members;
  move.processed_bytes = runner.processed_bytes;
  move.permitted = runner.permitted_members;
  if (move.runners.empty() || move.runners.back() != runner.process) move.runners.push_back(runner.process);
}

void Model::see(Operation& by, const oplog::Append& /*append*/, const metadata::RunnerRemoved& removed) {
  if (!by.operates && !by.may_delete && !by.cancels) {
    violated(fmt::format("op {} ({}) ends a runner", by.id, by.what));
  }
  revisions_[removed.identity].runner.reset();
}

void Model::see(Operation& by, const oplog::Append& /*append*/, const metadata::OperationForgotten& forgotten) {
  if (!by.operates && !by.may_delete && !by.cancels) {
    violated(fmt::format("op {} ({}) forgets operation {}", by.id, by.what, forgotten.operation_id));
  }
}

/// Since the operation began a record counted none of what lies in that memory: it named another one of this boot, and
/// nothing was under way. Whoever removes has judged so at some moment of it, and is not told of what came after.
bool Model::was_stray(const Operation& by, const Revision& revision, const std::string& instance) const {
  for (auto fact = revision.facts.rbegin(); fact != revision.facts.rend(); ++fact) {
    const RevisionRecord& record = fact->record;
    const bool elsewhere = !record.hot_instance.empty() && record.hot_instance != instance;
    if (record.availability == Availability::kReady && !record.operation && elsewhere &&
        record.hot_boot_id == world_.epoch()) {
      return true;
    }
    if (fact->sequence <= by.begun_at) break;
  }
  return false;
}

void Model::replica_removed(const Process& process, const Removal& removal) {
  const Revision* const revision = find(removal.identity);
  const std::string name = fmt::format("object {} of {}", removal.object, text_of(removal.identity));
  if (revision == nullptr || !revision->published()) return violated(name + " is taken out of memory, and is nobody's");
  if (!revision->readable()) return;
  // Its own, brought by an operation that came to nothing; or others', of an eviction that was permitted to, or stray.
  const auto ran = [&](const Move& move) { return std::ranges::count(move.runners, process.identity()) != 0; };
  const auto brought = revision->moves.find(removal.brought_by);
  const bool own = brought != revision->moves.end() && ran(brought->second);
  const Move* eviction = nullptr;
  for (const auto& [id, move] : revision->moves) {
    if (move.permitted > 0 && ran(move) && (eviction == nullptr || move.begun_at > eviction->begun_at)) {
      eviction = &move;
    }
  }
  const Operation& by = operations_[world_.current_operation()];
  const bool stray = by.operates && was_stray(by, *revision, removal.instance);
  if (!own && !stray && eviction == nullptr) return violated(name + " is taken out of memory without a permission");
  if (removal.readable_left) return;
  // What a failed rehydration takes back it brought itself, and no record vouched for it: all is as it was before.
  const bool vouched_for = stray && brought != revision->moves.end() && brought->second.state == OperationState::kDone;
  if (own && eviction == nullptr && !vouched_for) return;
  // It was read back, and rotted after that.
  const std::uint64_t since = stray ? by.begun_at : eviction->begun_at;
  const Digest& sha256 = revision->objects.at(removal.object + 1).sha256;
  if (damaged_.contains(sha256) && was_whole_at(sha256, since)) return;
  violated("the last readable replica of " + name + " is taken out of memory");
}

}  // namespace steelyard::sim
