// Operations: started under the record's fence, run by one runner at a time, ended once.
#include <algorithm>
#include <limits>
#include <utility>

#include "base/limits.h"
#include "base/units.h"
#include "base/utf8.h"
#include "formats/ref.h"
#include "metadata/keys.h"
#include "metadata/memory_instance.h"
#include "metadata/rows.h"
#include "metadata/turn.h"
#include "metadata/validate.h"

namespace steelyard::metadata {
namespace {

Status validate_runner(const RunnerGrant& grant) {
  SY_RETURN_IF_ERROR(validate_id("runner token", grant.token));
  SY_RETURN_IF_ERROR(validate_holder(grant.holder));
  SY_RETURN_IF_ERROR(validate_process(grant.process));
  SY_RETURN_IF_ERROR(validate_source(grant.source));
  return validate_ttl("runner ttl", grant.ttl_ms, kWriterTtlMsMin, kWriterTtlMsMax);
}

Runner make_runner(const Turn& turn, const RunnerGrant& grant, const Identity& identity, std::string operation_id) {
  Runner runner;
  runner.identity = identity;
  runner.operation_id = std::move(operation_id);
  runner.run_attempt = 1;
  runner.token = grant.token;
  runner.holder = grant.holder;
  runner.process = grant.process;
  runner.ttl_ms = grant.ttl_ms;
  runner.source = grant.source;
  runner.epoch = turn.now.epoch;
  runner.granted_mono_ms = turn.now.mono_ms;
  return runner;
}

std::string name_of_operation(const Operation& operation) {
  return std::string(name_of(operation.kind)) + " operation " + operation.operation_id;
}

Status not_running(const RevisionRecord& record, std::string_view operation_id) {
  const Operation* operation = find_operation(record, operation_id);
  return {Code::kStaleGeneration,
          "operation " + std::string(operation_id) + " of " + formats::format_ref(record.identity) + " is " +
              (operation == nullptr ? "not known any more" : std::string(name_of(operation->state))) +
              ", wanted RUNNING",
          operation == nullptr ? "`steelyard inspect " + formats::format_ref(record.identity) + "` shows those it has"
                               : "`steelyard operation show " + std::string(operation_id) + "` says how it ended"};
}

/// The active operation's runner, or STALE_GENERATION when (operation, token, attempt) is not it.
Result<Runner> get_own_runner(const Turn& turn, const RevisionRecord& record, const RunnerToken& token) {
  SY_RETURN_IF_ERROR(validate_id("operation id", token.operation_id));
  SY_RETURN_IF_ERROR(validate_id("runner token", token.token));
  if (!record.operation || record.operation->operation_id != token.operation_id) {
    return not_running(record, token.operation_id);
  }
  SY_ASSIGN_OR_RETURN(std::optional<Runner> runner, find_runner(turn.view, record.identity));
  if (!runner || runner->token != token.token || runner->run_attempt != token.run_attempt) {
    return Status(Code::kStaleGeneration,
                  "operation " + token.operation_id + " of " + formats::format_ref(record.identity) +
                      (runner && !runner->token.empty() ? " was taken over by " + printable(runner->holder)
                                                        : std::string(" has no runner of this token any more")),
                  "`steelyard operation show " + token.operation_id + "` says who carries it out now");
  }
  return *std::move(runner);
}

/// BUSY while a lease lives.
Status check_no_lease(Turn& turn, const Identity& identity) {
  SY_ASSIGN_OR_RETURN(const std::vector<Lease> live, reap_expired(turn, identity));
  if (live.empty()) return {};
  const std::string ref = formats::format_ref(identity);
  return {Code::kBusy, ref + " has " + describe_leases(live, turn),
          "wait for them (steelyard lease list " + ref + "), or end one that nobody needs: steelyard lease release ID"};
}

/// UNAVAILABLE when the hot replicas in question lie in a memory instance of this boot that the caller has not mounted.
Status check_instance(const RevisionRecord& record, const InstanceName& named, const InstanceName& mounted) {
  if (view_of_instance(named, mounted) != InstanceView::kElsewhere) return {};
  return {
      Code::kUnavailable,
      "the hot replicas of " + formats::format_ref(record.identity) + " lie in memory instance " +
          std::string(named.id) + ", " +
          (mounted.id.empty() ? "and this process has mounted none"
                              : "and this process has mounted " + std::string(mounted.id)),
      "run it where that instance is mounted (hot.path); where nobody has that memory any more, steelyard rehydrate " +
          formats::format_ref(record.identity) + " brings the revision into the memory here"};
}

/// The totals are of payload members.
Status check_totals(const RevisionRecord& record, const Operation& operation) {
  const GroupSummary& all = record.summary;
  if (!moves_replicas(operation.kind)) return {};
  if (operation.total_members <= all.payload_count && operation.total_bytes <= all.logical_bytes) return {};
  return {Code::kInvalidArgument, formats::format_ref(record.identity) + ": the operation would move " +
                                      std::to_string(operation.total_members) + " members with " +
                                      std::to_string(operation.total_bytes) + " bytes, and there are " +
                                      std::to_string(all.payload_count) + " with " + std::to_string(all.logical_bytes)};
}

void renew(const Turn& turn, const Operation& operation, std::uint64_t members, std::uint64_t bytes, Runner& runner) {
  runner.epoch = turn.now.epoch;
  runner.granted_mono_ms = turn.now.mono_ms;
  // A runner that took over may count from its own beginning.
  runner.processed_members = std::max(runner.processed_members, std::min(members, operation.total_members));
  runner.processed_bytes = std::max(runner.processed_bytes, std::min(bytes, operation.total_bytes));
}

/// NOT_READY when what was seen is not the operation's target.
Status check_reached(const RevisionRecord& record, const std::optional<Observation>& seen) {
  const Operation& operation = *record.operation;
  if (!moves_replicas(operation.kind)) return {};
  const std::string what = "the " + name_of_operation(operation) + " of " + formats::format_ref(record.identity);
  if (!seen) return {Code::kInvalidArgument, what + " cannot be DONE without an observation"};
  const std::uint64_t all = record.summary.payload_count;
  const bool rehydrates = operation.kind == OperationKind::kRehydrating;
  const std::uint64_t wanted = operation.target == Residency::kHot    ? all
                               : operation.target == Residency::kCold ? 0
                               : rehydrates                           ? operation.total_members
                                                                      : all - operation.total_members;
  // Who could not look has seen nothing; and who looked at another memory, nothing of what was to leave this one.
  const InstanceView view = view_of_instance(instance_of(operation), {seen->hot_instance, seen->boot_id});
  const bool elsewhere = !rehydrates && !seen->boot_id.empty() && view == InstanceView::kElsewhere;
  if (seen->boot_id.empty() || elsewhere) {
    return {Code::kNotReady,
            what + " is not done: what is in " + (elsewhere ? "memory instance " + operation.hot_instance : "memory") +
                " could not be counted",
            elsewhere ? "run it where that instance is mounted (hot.path)"
                      : "`steelyard doctor` says what keeps memory from being read"};
  }
  if (rehydrates ? seen->hot_members >= wanted : seen->hot_members <= wanted) return {};
  return {Code::kNotReady,
          what + " is not done: " + std::to_string(seen->hot_members) + " of " + std::to_string(all) +
              " members are hot, wanted " + (rehydrates ? "at least " : "at most ") + std::to_string(wanted),
          "something was removed or brought meanwhile: run it again"};
}

/// BUSY: the operation that the record has, and what can be done about it.
Status in_the_way(const Turn& turn, const RevisionRecord& record, const InstanceName& mounted) {
  const Operation& operation = *record.operation;
  const std::string ref = formats::format_ref(record.identity);
  SY_ASSIGN_OR_RETURN(const std::optional<Runner> runner, find_runner(turn.view, record.identity));
  const bool runs = runner && !runner->token.empty() && life_of(*runner, turn.epoch, turn.now).live;
  const bool moves = moves_replicas(operation.kind);
  const std::string end = "end it: steelyard operation cancel " + operation.operation_id;
  const bool in_one_memory = moves && view_of_instance(instance_of(operation), mounted) == InstanceView::kElsewhere;
  const std::string where =
      in_one_memory ? " where memory instance " + operation.hot_instance + " is mounted" : std::string();
  return {Code::kBusy,
          ref + " has the running " + name_of_operation(operation) +
              (moves ? ", to " + std::string(name_of(operation.target)) : std::string()) +
              (runs ? ", which " + printable(runner->holder) + " carries out" : ", which nobody carries out now"),
          runs ? "wait for it, or " + end : "steelyard reconcile " + ref + " goes on with it" + where + "; or " + end};
}

void answer(Turn& turn, RevisionRecord record, std::optional<Runner> runner) {
  turn.answer.record = std::move(record);
  turn.answer.runner = std::move(runner);
}

}  // namespace

const Operation* find_operation(const RevisionRecord& record, std::string_view operation_id) {
  if (record.operation && record.operation->operation_id == operation_id) return &*record.operation;
  for (const Operation& operation : record.finished_operations) {
    if (operation.operation_id == operation_id) return &operation;
  }
  return nullptr;
}

void end_operation(Turn& turn, RevisionRecord& record, const std::optional<Runner>& runner, OperationState state,
                   std::string message) {
  if (runner) turn.put(RunnerRemoved{record.identity});
  if (!record.operation) return;
  Operation ended = *std::move(record.operation);
  record.operation.reset();
  ended.state = state;
  ended.ended_at_ms = record.updated_at_ms;
  ended.ended_epoch_ordinal = turn.epoch.ordinal;
  ended.ended_mono_ms = turn.now.mono_ms;
  ended.message = std::move(message);
  if (runner && state != OperationState::kCancelled) ended.ended_by = runner->token;
  if (state == OperationState::kDone) {
    // What it was for is so, whoever did how much of it.
    ended.processed_members = ended.total_members;
    ended.processed_bytes = ended.total_bytes;
  } else if (runner) {
    ended.processed_members = std::min(runner->processed_members, ended.total_members);
    ended.processed_bytes = std::min(runner->processed_bytes, ended.total_bytes);
  }
  record.finished_operations.push_back(std::move(ended));
  if (record.finished_operations.size() > limits::kOperationsRetained) {
    turn.put(OperationForgotten{record.finished_operations.front().operation_id});
    record.finished_operations.erase(record.finished_operations.begin());
  }
}

Status judge(Turn& turn, const StartOperation& command) {
  SY_RETURN_IF_ERROR(validate_id("operation id", command.operation_id));
  if (command.runner) SY_RETURN_IF_ERROR(validate_runner(*command.runner));
  SY_ASSIGN_OR_RETURN(const RevisionRecord record, get_record(turn.view, command.identity));
  const std::string ref = formats::format_ref(record.identity);
  // What an id was used for. The rest is what the caller found when it looked, which a retry may find otherwise.
  const AppliedRequest request = Arguments(command.identity)
                                     .add(command.operation_id)
                                     .add(name_of(command.kind))
                                     .add(name_of(command.target))
                                     .add(command.ratio_millionths ? std::to_string(*command.ratio_millionths) : "")
                                     .add(command.plan_digest)
                                     .add(command.hot_instance)
                                     .request(RequestKind::kStart, command.expected_metadata_generation);
  if (const Operation* known = find_operation(record, command.operation_id)) {
    if (known->request != request) {
      return {Code::kConflict, "operation id " + command.operation_id + " of " + ref + " is that of another request"};
    }
    SY_ASSIGN_OR_RETURN(std::optional<Runner> runner, find_runner(turn.view, record.identity));
    const bool own = runner && command.runner && runner->operation_id == command.operation_id &&
                     runner->token == command.runner->token;
    answer(turn, record, own ? std::move(runner) : std::nullopt);
    return {};
  }
  SY_ASSIGN_OR_RETURN(const auto elsewhere, turn.view.get(keys::operation_id(command.operation_id)));
  if (elsewhere) return {Code::kConflict, "operation id " + command.operation_id + " is that of another revision"};
  SY_RETURN_IF_ERROR(check_published(record, {}));
  if (record.operation) return in_the_way(turn, record, {command.hot_instance, turn.epoch.epoch});
  SY_RETURN_IF_ERROR(check_fence(record, command.expected_metadata_generation));
  SY_RETURN_IF_ERROR(check_policy_allows(record, command.kind, command.target, command.ratio_millionths));
  if (command.kind == OperationKind::kEvicting) {
    SY_RETURN_IF_ERROR(check_instance(record, instance_of(record), instance_of(command)));
    SY_RETURN_IF_ERROR(check_no_lease(turn, command.identity));
  }

  RevisionRecord next = next_of(record, turn.now);
  Operation operation;
  operation.operation_id = command.operation_id;
  operation.kind = command.kind;
  operation.target = command.target;
  operation.ratio_millionths = command.ratio_millionths;
  operation.plan_digest = command.plan_digest;
  operation.total_members = command.total_members;
  operation.total_bytes = command.total_bytes;
  operation.message = command.message;
  operation.request = request;
  operation.hot_instance = command.hot_instance;
  operation.hot_boot_id = command.hot_boot_id;
  operation.started_at_ms = next.updated_at_ms;
  SY_RETURN_IF_ERROR(check_totals(next, operation));
  next.operation = std::move(operation);
  if (const Status status = validate(next); !status.ok()) {
    return {Code::kInvalidArgument, ref + ": " + status.message()};
  }
  turn.put(RevisionPut{next});
  std::optional<Runner> runner;
  if (command.runner) {
    runner = make_runner(turn, *command.runner, next.identity, command.operation_id);
    turn.put(RunnerPut{*runner});
  }
  answer(turn, std::move(next), std::move(runner));
  return {};
}

Status judge(Turn& turn, const TakeOperation& command) {
  SY_RETURN_IF_ERROR(validate_id("operation id", command.operation_id));
  SY_RETURN_IF_ERROR(validate_runner(command.runner));
  SY_ASSIGN_OR_RETURN(RevisionRecord record, get_record(turn.view, command.identity));
  if (!record.operation || record.operation->operation_id != command.operation_id) {
    return not_running(record, command.operation_id);
  }
  // A rehydration has only added replicas, so one that nobody runs may be ended from anywhere.
  if (record.operation->kind == OperationKind::kEvicting) {
    SY_RETURN_IF_ERROR(check_instance(record, instance_of(*record.operation), instance_of(command)));
  }
  SY_ASSIGN_OR_RETURN(std::optional<Runner> before, find_runner(turn.view, record.identity));
  Runner runner = make_runner(turn, command.runner, record.identity, command.operation_id);
  if (before) {
    const LeaseLife life = life_of(*before, turn.epoch, turn.now);
    if (before->token == command.runner.token && life.live) {
      answer(turn, std::move(record), std::move(before));
      return {};
    }
    const bool gone = command.current_runner_gone && before->process == command.gone_process;
    if (life.live && !gone) {
      return {Code::kBusy,
              name_of_operation(*record.operation) + " of " + formats::format_ref(record.identity) + " is run by " +
                  printable(before->holder) + ", whose token ends in " + format_age(life.left_ms) + " unless renewed",
              "wait for it, or end it: steelyard operation cancel " + command.operation_id};
    }
    if (before->run_attempt == std::numeric_limits<std::uint32_t>::max()) {
      return {Code::kGenerationExhausted, name_of_operation(*record.operation) + " has had its last runner",
              "cancel it and start another"};
    }
    runner.run_attempt = before->run_attempt + 1;
    runner.processed_members = before->processed_members;
    runner.processed_bytes = before->processed_bytes;
    runner.permitted_members = before->permitted_members;
    if (runner.source.empty()) runner.source = before->source;
  }
  turn.put(RunnerPut{runner});
  answer(turn, std::move(record), std::move(runner));
  return {};
}

Status judge(Turn& turn, const ReportOperation& command) {
  SY_ASSIGN_OR_RETURN(RevisionRecord record, get_record(turn.view, command.identity));
  SY_ASSIGN_OR_RETURN(Runner runner, get_own_runner(turn, record, command.token));
  const Runner before = runner;
  renew(turn, *record.operation, command.processed_members, command.processed_bytes, runner);
  runner.message = command.message;
  if (command.give_back) runner.token.clear();
  if (const Status status = validate(runner); !status.ok()) {
    return {Code::kInvalidArgument, "operation " + command.token.operation_id + ": " + status.message()};
  }
  if (runner != before) turn.put(RunnerPut{runner});
  answer(turn, std::move(record), std::move(runner));
  return {};
}

Status judge(Turn& turn, const PermitRemoval& command) {
  SY_ASSIGN_OR_RETURN(RevisionRecord record, get_record(turn.view, command.identity));
  SY_ASSIGN_OR_RETURN(Runner runner, get_own_runner(turn, record, command.token));
  const Operation& operation = *record.operation;
  const std::string ref = formats::format_ref(record.identity);
  if (operation.kind != OperationKind::kEvicting) {
    return {Code::kInvalidArgument, "the " + name_of_operation(operation) + " of " + ref + " removes nothing"};
  }
  if (command.members == 0 || command.members > operation.total_members) {
    return {Code::kInvalidArgument, "removal of " + std::to_string(command.members) + " members of " + ref +
                                        " was asked for, wanted 1 to " + std::to_string(operation.total_members)};
  }
  SY_RETURN_IF_ERROR(check_no_lease(turn, record.identity));
  if (runner.permitted_members == 0) {
    RevisionRecord next = next_of(record, turn.now);
    lower_hot(next, operation.total_members, operation.total_bytes);
    const bool lowered = next.residency != record.residency || next.hot_millionths != record.hot_millionths ||
                         next.hot_members != record.hot_members;
    if (lowered) {
      turn.put(RevisionPut{next});
      record = std::move(next);
    }
  }
  const Runner before = runner;
  renew(turn, *record.operation, command.processed_members, command.processed_bytes, runner);
  runner.permitted_members = std::max(runner.permitted_members, command.members);
  if (runner != before) turn.put(RunnerPut{runner});
  answer(turn, std::move(record), std::move(runner));
  return {};
}

Status judge(Turn& turn, const EndOperation& command) {
  SY_RETURN_IF_ERROR(validate_id("operation id", command.token.operation_id));
  if (command.state != OperationState::kDone && command.state != OperationState::kFailed) {
    return {Code::kInvalidArgument,
            "a runner ends its operation DONE or FAILED, not " + std::string(name_of(command.state))};
  }
  SY_ASSIGN_OR_RETURN(RevisionRecord record, get_record(turn.view, command.identity));
  const Operation* known = find_operation(record, command.token.operation_id);
  // What an older version ended does not say whose end it was.
  const bool is_retry = known != nullptr && known->state == command.state &&
                        (known->ended_by.empty() || known->ended_by == command.token.token);
  if (is_retry) {
    answer(turn, std::move(record), std::nullopt);
    return {};
  }
  SY_ASSIGN_OR_RETURN(Runner runner, get_own_runner(turn, record, command.token));
  renew(turn, *record.operation, command.processed_members, command.processed_bytes, runner);
  RevisionRecord next = next_of(record, turn.now);
  if (command.state == OperationState::kDone) SY_RETURN_IF_ERROR(check_reached(record, command.seen));
  if (command.seen) {
    Observation seen = *command.seen;
    if (moves_replicas(record.operation->kind)) {
      // A move looks at memory. What others found of the rest meanwhile, its runner may not know.
      seen.damage = record.damage;
      seen.cold_readable = record.residency != Residency::kAbsent;
    }
    const bool brought =
        record.operation->kind == OperationKind::kRehydrating && command.state == OperationState::kDone;
    SY_RETURN_IF_ERROR(follow(next, seen, brought ? Look::kWhenBrought : Look::kPlain).status());
  }
  end_operation(turn, next, runner, command.state, command.message);
  next.finished_operations.back().failed_with = command.failed_with;
  if (const Status status = validate(next); !status.ok()) {
    return {Code::kInvalidArgument, formats::format_ref(record.identity) + ": " + status.message()};
  }
  turn.put(RevisionPut{next});
  answer(turn, std::move(next), std::nullopt);
  return {};
}

Status judge(Turn& turn, const CancelOperation& command) {
  SY_ASSIGN_OR_RETURN(const OperationView found, get_operation(turn.view, command.operation_id));
  if (found.operation.state != OperationState::kRunning) {
    answer(turn, found.record, std::nullopt);
    return {};  // it has ended, one way or another
  }
  RevisionRecord next = next_of(found.record, turn.now);
  end_operation(turn, next, found.runner, OperationState::kCancelled, "cancelled");
  turn.put(RevisionPut{next});
  answer(turn, std::move(next), std::nullopt);
  return {};
}

Result<OperationView> get_operation(const StateView& view, std::string_view operation_id) {
  if (Status status = validate_id("operation id", operation_id); !status.ok()) {
    return std::move(status).with_hint("`steelyard inspect REF` shows the operations of a revision with their ids");
  }
  SY_ASSIGN_OR_RETURN(const std::optional<std::string> key, view.get(keys::operation_id(operation_id)));
  std::optional<std::string> row;
  if (key) {
    SY_ASSIGN_OR_RETURN(row, view.get(*key));
  }
  if (!row) {
    return Status(Code::kNotFound,
                  "operation " + std::string(operation_id) +
                      " is not known: it was never started, or its revision keeps only newer ones",
                  "`steelyard inspect REF` shows the running one");
  }
  OperationView found;
  SY_ASSIGN_OR_RETURN(found.record, decode_record(*row));
  const Operation* operation = find_operation(found.record, operation_id);
  if (operation == nullptr) return Status(Code::kCorrupt, "the index names an operation that its record lacks");
  found.operation = *operation;
  if (found.operation.state != OperationState::kRunning) return found;
  SY_ASSIGN_OR_RETURN(found.runner, find_runner(view, found.record.identity));
  if (found.runner) {
    found.operation.processed_members = found.runner->processed_members;
    found.operation.processed_bytes = found.runner->processed_bytes;
    if (!found.runner->message.empty()) found.operation.message = found.runner->message;
  }
  return found;
}

}  // namespace steelyard::metadata
