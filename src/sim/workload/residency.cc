// What moves revisions between the tiers, and reads them meanwhile.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/limits.h"
#include "metadata/commands.h"
#include "sim/checkpoints.h"
#include "sim/workload/calls.h"
#include "sim/workload/client.h"
#include "store/open_revision.h"
#include "store/runner_keeper.h"
#include "tiers/fault_injecting.h"

namespace steelyard::sim {

using metadata::Identity;
using metadata::OperationKind;
using metadata::OperationState;
using metadata::Residency;

Result<std::unique_ptr<tiers::Tier>> Client::open_hot(bool create) {
  const Status unreachable(Code::kUnavailable, "the memory cannot be reached");
  if (!alive() || random_.per_mille(profile_.hot.error / 1000)) return unreachable;
  SY_ASSIGN_OR_RETURN(auto tier, tiers::open_simulated(process_.runtime(), bench_.memories[container_], create));
  tiers::FaultPlan plan = profile_.hot;
  plan.seed = random_.next();
  plan.latency_ms_max = profile_.latency_ms_max;
  return tiers::make_fault_injecting(
      process_.runtime(),
      make_process_tier(process_, std::move(tier), bench_.graveyard, bench_.canary,
                        [this](Process& by, const std::vector<tiers::ObjectStat>& objects) {
                          bench_.removed_from_memory(by, own_instance(), objects);
                        }),
      plan, faults_);
}

std::string Client::own_instance() const {
  return instance_of(bench_.world.nature().runtime(), bench_.memories[container_]);
}

MemoryFindings Client::look_here(const Revision& revision) {
  return look_into(bench_.model, bench_.world.nature().runtime(), bench_.memories[container_], revision);
}

void Client::move_something() {
  const std::uint64_t die = random_.below(100);
  const auto readable = some_revision(random_.per_mille(950) ? Kind::kReadable : Kind::kPublished);
  if (!readable) return;
  if (random_.per_mille(100)) return random_.per_mille(500) ? press_for_room() : ask_too_soon(*readable);
  if (die < 55) {
    Course course{.evicts = random_.per_mille(450), .wait = random_.per_mille(800)};
    if (random_.per_mille(300)) course.ratio_millionths = 1 + static_cast<std::uint32_t>(random_.below(999'999));
    move(*readable, course).ignore("judged where it was answered");
  } else if (die < 70) {
    read_open(*readable, 1 + random_.below(5));
  } else if (die < 80) {
    cancel(*readable);
  } else if (die < 87) {
    operate_by_hand(*readable);
  } else if (die < 92) {
    follow_policy(*readable);
  } else {
    set_some_policy(*readable);
  }
}

void Client::press_for_room() {
  constexpr int kRevisions = 4;
  constexpr std::uint64_t kSpareBytes = 512;
  for (int i = 0; i < kRevisions && alive(); ++i) {
    const auto readable = some_revision(Kind::kReadable);
    if (!readable) return;
    const bool last = i + 1 == kRevisions;
    tiers::SimulatedDisk& memory = *bench_.memories[container_];
    const auto tier = tiers::open_simulated(process_.runtime(), bench_.memories[container_], false);
    if (last && tier.ok() && !bench_.calm) bench_.set_capacity(memory, (*tier)->usage({}).value().bytes + kSpareBytes);
    move(*readable, {.make_room = last}).ignore("judged where it was answered");
    if (!alive()) return;
    // A lease that ends.
    start("use " + text_of(*readable));
    store_->open_revision(selector_of(*readable), {.allow_degraded = true}).status().ignore("used, where it can be");
    pause(profile_.pause_ms_max);
  }
}

void Client::ask_too_soon(const Identity& identity) {
  set_policy(identity, {Residency::kHot, std::nullopt, metadata::PolicyMode::kAuto});
  for (int times = 0; times < 2 && alive(); ++times) {
    move(identity, {.evicts = true}).ignore("judged where it was answered");
    if (!alive()) return;
    start("open " + text_of(identity));
    const auto open = store_->open_revision(selector_of(identity), {.allow_degraded = true});
    if (open.ok() && alive()) follow_policy(identity);
  }
}

Status Client::move(const Identity& identity, const Course& course) {
  store::ResidencyRequest request;
  request.target = selector_of(identity);
  request.wait = course.wait;
  request.make_room = course.make_room || (!course.evicts && random_.per_mille(350));
  request.ratio_millionths = course.ratio_millionths;
  const std::string instance = own_instance();
  Operation& operation =
      start(fmt::format("{} {}{}{}", course.evicts ? "evict" : "rehydrate", text_of(identity),
                        course.ratio_millionths ? fmt::format(" --ratio {}e-6", *course.ratio_millionths) : "",
                        course.wait ? "" : " --no-wait"));
  operation.operates = true;
  operation.moves = identity;
  operation.makes_room = request.make_room;
  const store::CancelFlag never{false};
  Deaf deaf;
  const auto answer = course.evicts ? store_->evict(request, deaf, never) : store_->rehydrate(request, deaf, never);
  end(operation, answer.status());
  if (!alive()) return answer.status();
  const bool same_memory = !instance.empty() && instance == own_instance();
  operation.disturbed =
      operation.disturbed || !same_memory || profile_.log.read_unavailable > 0 || faults() > faults_before_;
  bench_.model.moved(operation, identity, course.wait, bench_.is_short_of_room(operation), answer);
  // Where there was nothing to do it is where it was to be, unless the memory went meanwhile.
  if (answer.ok() && !answer->operation && !course.ratio_millionths && same_memory) {
    const Residency wanted = course.evicts ? Residency::kCold : Residency::kHot;
    const Residency found = answer->record.residency;
    // What was stray: its record still names another memory.
    const bool freed_here = course.evicts && answer->record.hot_instance != instance &&
                            (answer->removed_objects > 0 || look_here(*bench_.model.find(identity)).members == 0);
    if (found != wanted && !freed_here && !(course.evicts && found == Residency::kAbsent)) {
      bench_.model.violated(fmt::format("op {} has nothing to move of {}, which is {}", operation.id, text_of(identity),
                                        metadata::name_of(found)));
    }
  }
  return answer.status();
}

void Client::read_open(const Identity& identity, std::uint64_t reads) {
  const Operation& operation = start("open " + text_of(identity));
  const auto open = store_->open_revision(selector_of(identity), {.allow_degraded = random_.per_mille(500)});
  end(operation, open.status());
  if (!alive() || !open.ok()) return;
  const Revision& revision = *bench_.model.find(identity);
  const auto& files = (*open)->manifest()->files;
  for (std::uint64_t i = 0; i < reads && alive(); ++i) {
    const formats::FileEntry& file = files[random_.below(files.size())];
    const std::uint64_t offset = random_.below(file.bytes + 1);
    std::string bytes(random_.below(file.bytes - offset + 1), '\0');
    const Operation& own = start(fmt::format("read {} of {} at {}", file.path, text_of(identity), offset));
    const Status status = (*open)->read_file(file, offset, std::as_writable_bytes(std::span(bytes)));
    end(own, status);
    if (!alive()) return;
    if (status.ok() && revision.checkpoint) {
      const std::string& source = checkpoints()[*revision.checkpoint].files.at(file.path);
      if (source.compare(offset, bytes.size(), bytes) != 0) {
        bench_.model.violated(fmt::format("op {} reads other bytes of {} than its source's", own.id, file.path));
      }
    }
    if (status.code() == Code::kCorrupt && !bench_.model.may_be_damaged(revision)) {
      bench_.model.violated(fmt::format("op {} reads damage where none is: {}", own.id, status.to_string()));
    }
    pause(profile_.pause_ms_max);
  }
}

void Client::cancel(const Identity& identity) {
  const Revision& revision = *bench_.model.find(identity);
  const metadata::RevisionRecord& record = revision.now();
  const bool ended = !record.operation;
  if (ended && record.finished_operations.empty()) return;
  const std::string id = ended ? record.finished_operations.back().operation_id : record.operation->operation_id;
  const store::CancelFlag never{false};
  std::optional<metadata::Operation> first;
  const std::uint64_t wanted_answers = 1 + random_.below(2);
  std::uint64_t answers = 0;
  for (int tries = 0; tries < kTriesMax && alive() && answers < wanted_answers; ++tries) {
    Operation& operation = start(fmt::format("operation cancel {} of {}", id, text_of(identity)));
    operation.cancels = true;
    const auto answer = store_->cancel_operation(id, never);
    end(operation, answer.status());
    if (!alive()) return;
    bench_.model.cancelled(operation, id, answer);
    if (!answer.ok() && !may_try_again(answer.status())) return;
    if (!answer.ok()) continue;
    if (first && *first != answer->operation)
      bench_.model.violated("a repeated cancel of " + id + " is answered otherwise");
    first = answer->operation;
    ++answers;
  }
}

void Client::operate_by_hand(const Identity& identity) {
  const auto record = catalog_.get_weight_revision(identity);
  const std::string instance = own_instance();
  if (!alive() || !record.ok() || instance.empty()) return;
  metadata::StartOperation command;
  command.identity = identity;
  command.expected_metadata_generation = record->metadata_generation;
  command.operation_id = process_.runtime().random_hex(16);
  const bool evicts = random_.per_mille(300);
  command.kind = evicts ? OperationKind::kEvicting : OperationKind::kRehydrating;
  command.target = evicts ? Residency::kCold : Residency::kHot;
  command.total_members = record->summary.payload_count;
  command.total_bytes = record->summary.logical_bytes;
  command.hot_instance = instance;
  command.hot_boot_id = process_.runtime().epoch();
  command.runner = store::runner_grant(process_.runtime(), profile_.writer_ttl_ms);
  Operation& operation = start("operate by hand on " + text_of(identity));
  operation.operates = true;
  operation.moves = identity;
  Status status;
  metadata::RunnerToken token;
  const std::uint64_t wanted_answers = 1 + random_.below(2);
  std::uint64_t answers = 0;
  for (int tries = 0; tries < kTriesMax && alive() && answers < wanted_answers; ++tries) {
    const auto answer = catalog_.start_operation(command);
    if (!alive()) return;
    status = answer.status();
    const bool began = bench_.model.find(identity)->moves.contains(command.operation_id);
    if (answer.ok() && !began) bench_.model.violated("an operation is said to have begun, and has not");
    const bool gone = answer.code() == Code::kNotReady || answer.code() == Code::kNotFound;
    if (!answer.ok() && !may_try_again(status)) {
      // Its repetition is answered as it was, as long as the record retains it.
      const auto& now = bench_.model.find(identity)->now();
      const bool retained =
          (now.operation && now.operation->operation_id == command.operation_id) ||
          std::ranges::count(now.finished_operations, command.operation_id, &metadata::Operation::operation_id) != 0;
      if (began && retained && !gone) {
        bench_.model.violated(
            fmt::format("a repeated start of {} is refused: {}", command.operation_id, status.to_string()));
      }
      break;
    }
    if (!answer.ok()) continue;
    ++answers;
    if (answer->runner) token = {command.operation_id, answer->runner->token, answer->runner->run_attempt};
    pause(profile_.pause_ms_max);
  }
  if (answers > 0 && !token.token.empty()) run_by_hand(identity, *command.runner, token);
  end(operation, status);
}

/// Tells progress for a while, and then stops: with a word, without one, or as FAILED.
void Client::run_by_hand(const Identity& identity, const metadata::RunnerGrant& grant,
                         const metadata::RunnerToken& token) {
  for (std::uint64_t steps = random_.below(4); steps > 0 && alive(); --steps) {
    pause(grant.ttl_ms * 3 / 4);
    metadata::ReportOperation report;
    report.identity = identity;
    report.token = token;
    report.processed_members = random_.below(5);
    report.processed_bytes = random_.below(10'000);
    report.give_back = random_.per_mille(200);
    const auto told = catalog_.report_operation(report);
    if (!alive()) return;
    if (!told.ok() && !may_try_again(told.status())) return;
  }
  if (random_.per_mille(400) || !alive()) return;
  metadata::EndOperation command;
  command.identity = identity;
  command.token = token;
  command.state = OperationState::kFailed;
  command.message = "by hand";
  bool ended = false;
  for (int tries = 0; tries < kTriesMax && alive(); ++tries) {
    const auto answer = catalog_.end_operation(command);
    if (!alive()) return;
    const auto& finished = bench_.model.find(identity)->now().finished_operations;
    const auto found = std::ranges::find(finished, token.operation_id, &metadata::Operation::operation_id);
    const bool failed = found != finished.end() && found->state == OperationState::kFailed;
    if (answer.ok() && !failed && !ended) bench_.model.violated("an operation is said to have ended, and has not");
    const bool is_own = failed && (found->ended_by.empty() || found->ended_by == token.token);
    if (!answer.ok() && is_own && !may_try_again(answer.status()) && answer.code() != Code::kNotFound) {
      bench_.model.violated("a repeated end is refused: " + answer.status().to_string());
    }
    if (!may_try_again(answer.status()) && (ended || !answer.ok())) return;
    ended = ended || answer.ok();
  }
}

void Client::set_some_policy(const Identity& identity) {
  metadata::Policy policy;
  constexpr metadata::PolicyMode kModes[] = {metadata::PolicyMode::kManual, metadata::PolicyMode::kAuto,
                                             metadata::PolicyMode::kAuto, metadata::PolicyMode::kPinned};
  constexpr Residency kPreferences[] = {Residency::kHot, Residency::kCold, Residency::kMixed};
  policy.mode = random_.one_of(kModes);
  policy.prefer = random_.one_of(kPreferences);
  if (policy.prefer == Residency::kMixed) {
    policy.ratio_millionths = 1 + static_cast<std::uint32_t>(random_.below(999'999));
  }
  set_policy(identity, policy);
}

void Client::set_policy(const Identity& identity, const metadata::Policy& policy) {
  const auto record = catalog_.get_weight_revision(identity);
  if (!alive() || !record.ok()) return;
  metadata::UpdateWeightPolicy command;
  command.identity = identity;
  command.expected_metadata_generation = record->metadata_generation;
  command.policy = policy;
  bool answered = false;
  for (int tries = 0; tries < kTriesMax && alive(); ++tries) {
    Operation& operation = start("policy set " + text_of(identity));
    operation.sets_policy = true;
    const auto answer = catalog_.update_weight_policy(command);
    end(operation, answer.status());
    if (!alive()) return;
    bench_.model.policy_set(operation, answer);
    if (answer.ok()) {
      const auto& facts = bench_.model.find(identity)->facts;
      const bool set = std::ranges::any_of(facts, [&](const Revision::Fact& fact) {
        return fact.record.metadata_generation > command.expected_metadata_generation &&
               fact.record.policy == command.policy;
      });
      if (!set && record->policy != command.policy) {
        bench_.model.violated("op " + std::to_string(operation.id) + " is told of a policy that was not set");
      }
    }
    if (answered || (!answer.ok() && !may_try_again(answer.status()))) return;
    answered = answer.ok();
    if (answered && random_.per_mille(600)) return;
  }
}

void Client::follow_policy(const Identity& identity) {
  Operation& operation = start("follow the policy of " + text_of(identity));
  operation.operates = operation.follows = true;
  const store::CancelFlag never{false};
  Deaf deaf;
  const auto answer = store_->follow_policy(identity, deaf, never);
  end(operation, answer.status());
  if (alive()) bench_.model.passed(operation, bench_.is_short_of_room(operation), answer.status());
}

void Client::settle(const Identity& identity, std::int64_t patience_ms) {
  const Revision& revision = *bench_.model.find(identity);
  if (!revision.readable() || !revision.now().operation || !metadata::moves_replicas(revision.now().operation->kind)) {
    return;
  }
  const metadata::Operation operation = *revision.now().operation;
  if (operation.hot_instance == own_instance()) {
    const Course course{.evicts = operation.kind == OperationKind::kEvicting,
                        .ratio_millionths = operation.ratio_millionths};
    Status moved = move(identity, course);
    if (moved.code() == Code::kBusy) {
      process_.runtime().sleep_ms(patience_ms);
      moved = move(identity, course);
    }
    if (!moved.ok() && !bench_.model.may_be_damaged(revision)) {
      bench_.model.violated(fmt::format("{} cannot be moved in peace: {}", text_of(identity), moved.to_string()));
    }
  }
  // What another container began, or in a memory that is gone.
  if (revision.now().operation) cancel(identity);
  if (revision.now().operation) bench_.model.violated(text_of(identity) + " has an operation that nobody can end");
}

void Client::warm_and_cool(const Identity& identity) {
  const Revision& revision = *bench_.model.find(identity);
  if (!has_hot() || !revision.readable() || !bench_.look_at(identity).damaged.empty()) return;
  const metadata::Policy policy = revision.now().policy;
  const auto go = [&](bool evicts, Residency wanted) {
    Status moved = move(identity, {.evicts = evicts});
    // A read that met bad memory has begun its repair.
    const auto& running = revision.now().operation;
    if (moved.code() == Code::kBusy && running && running->kind == OperationKind::kRepairing) {
      Status done = repair(identity, false, true);
      if (done.code() == Code::kBusy) {
        // The runner of a process that is gone without a proof: its token ends.
        process_.runtime().sleep_ms(limits::kWriterTtlMs);
        done = repair(identity, false, true);
      }
      if (!done.ok()) moved = std::move(done);
      if (!revision.now().operation) moved = move(identity, {.evicts = evicts});
    }
    const bool pinned = policy.mode == metadata::PolicyMode::kPinned && policy.prefer != wanted;
    if (pinned && moved.code() == Code::kPolicyUnsatisfiable) return;
    // It is evicted where it lies.
    if (evicts && moved.code() == Code::kUnavailable && revision.now().hot_instance != own_instance()) return;
    if (moved.ok() && revision.now().residency == wanted) return;
    bench_.model.violated(fmt::format("{} cannot be moved in peace: {} and {}, wanted {}", text_of(identity),
                                      moved.to_string(), metadata::name_of(revision.now().residency),
                                      metadata::name_of(wanted)));
  };
  go(false, Residency::kHot);
  read_open(identity, 3);
  // Leases of the dead run out; a new epoch may have given them their time again.
  for (int tries = 0; tries < kTriesMax; ++tries) {
    if (const auto lease = bench_.model.live_lease_of(identity)) process_.runtime().sleep_ms(lease->ttl_ms);
  }
  if (random_.per_mille(500)) return;
  go(true, Residency::kCold);
  if (revision.now().residency != Residency::kCold) return;
  if (look_here(revision).members > 0) bench_.model.violated(text_of(identity) + " was evicted and is left in memory");
}

}  // namespace steelyard::sim
