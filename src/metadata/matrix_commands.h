// The commands of the lifecycle's table (docs/lifecycle-table.md), by the names that it gives them.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>

#include "metadata/matrix_states.h"
#include "metadata/validate.h"

namespace steelyard::metadata::matrix {

/// Makes the command in a state; of a state it takes the record's generation, and `epoch.new` moves its clock.
using Make = std::function<Command(TestBench&)>;

inline BeginWeightImport begin_over(char gone) {
  BeginWeightImport command = TestBench::begin(kIdentity, 'b');
  command.current_writer_gone = true;
  command.gone_process = TestBench::begin(kIdentity, gone).process;
  return command;
}

inline CommitWeightImport commit(char token, std::uint32_t attempt, std::uint64_t expected) {
  return TestBench::commit(kIdentity, token, attempt, expected);
}

inline AbortWeightImport abort_by(char token, std::uint32_t attempt) {
  return {kIdentity, token_of(token), attempt, 0, false, {}};
}

inline AbortWeightImport abort_at(std::uint64_t generation) { return {kIdentity, "", 0, generation, false, {}}; }

inline AbortWeightImport abort_over(TestBench& bench, char gone) {
  AbortWeightImport command = abort_at(generation_of(bench));
  command.current_writer_gone = true;
  command.gone_process = TestBench::begin(kIdentity, gone).process;
  return command;
}

inline AbortWeightImport abort_idle(TestBench& bench, std::int64_t idle_ms) {
  AbortWeightImport command = abort_at(generation_of(bench));
  command.only_if_idle_ms = idle_ms;
  return command;
}

inline AcquireLease acquire(const std::string& holder, bool allow_degraded) {
  AcquireLease command = TestBench::acquire(kIdentity, holder, kLeaseTtlMs);
  command.allow_degraded = allow_degraded;
  return command;
}

inline std::string lease_id() { return lease_id_of(kIdentity, "x", TestBench::acquire(kIdentity, "x").nonce); }

inline ReconcileRevision reconcile(TestBench& bench, Observation seen) {
  return {kIdentity, generation_of(bench), std::move(seen)};
}

/// Another operation than the one that the states have.
inline StartOperation start(TestBench& bench, OperationKind kind, Residency target) {
  StartOperation command = TestBench::start(kIdentity, generation_of(bench), kind, target);
  command.operation_id = token_of('e');
  return target == Residency::kMixed ? half(command) : command;
}

inline TakeOperation take(char token) {
  return {kIdentity, token_of('f'), TestBench::grant(token), false, {}, token_of('1'), "boot-a"};
}

inline TakeOperation take_over(char gone) {
  TakeOperation command = take('b');
  command.current_runner_gone = true;
  command.gone_process = TestBench::grant(gone).process;
  return command;
}

inline TakeOperation take_from(const std::string& boot_id) {
  TakeOperation command = take('b');
  command.hot_instance = token_of('2');
  command.hot_boot_id = boot_id;
  return command;
}

inline ReportOperation report(RunnerToken token, bool give_back = false) {
  return {kIdentity, std::move(token), 1, 50, "", give_back};
}

inline PermitRemoval permit(RunnerToken token) { return {kIdentity, std::move(token), 1, 0, 0}; }

inline EndOperation end_done(std::optional<Observation> seen) {
  return end('a', OperationState::kDone, std::move(seen));
}

/// What an observer saw who has mounted the other memory instance.
inline Observation saw_elsewhere(std::uint64_t hot_members, const std::string& boot_id = "boot-a") {
  return TestBench::hot(hot_members, token_of('2'), boot_id);
}

inline void add_imports(std::map<std::string, Make>& out) {
  out["begin.own"] = [](TestBench&) { return TestBench::begin(kIdentity, 'a'); };
  out["begin.other"] = [](TestBench&) { return TestBench::begin(kIdentity, 'b'); };
  out["begin.above"] = [](TestBench&) {
    BeginWeightImport command = TestBench::begin(kIdentity, 'a');
    command.least_attempt = 3;
    return command;
  };
  out["begin.gone"] = [](TestBench&) { return begin_over('a'); };
  out["begin.gone_other"] = [](TestBench&) { return begin_over('c'); };
  out["begin.labels"] = [](TestBench&) {
    BeginWeightImport command = TestBench::begin(kIdentity, 'b');
    command.labels = {{"k", "v"}};
    return command;
  };
  out["begin.auto"] = [](TestBench&) {
    BeginWeightImport command = TestBench::begin(kIdentity, 'b');
    command.weight_generation.reset();
    return command;
  };
  out["renew.own"] = [](TestBench&) { return RenewWeightImport{kIdentity, token_of('a'), 1}; };
  out["renew.other"] = [](TestBench&) { return RenewWeightImport{kIdentity, token_of('b'), 1}; };
  out["renew.attempt"] = [](TestBench&) { return RenewWeightImport{kIdentity, token_of('a'), 2}; };
  out["renew.second"] = [](TestBench&) { return RenewWeightImport{kIdentity, token_of('b'), 2}; };
  out["release.own"] = [](TestBench&) { return ReleaseWeightImport{kIdentity, token_of('a'), 1}; };
  out["release.other"] = [](TestBench&) { return ReleaseWeightImport{kIdentity, token_of('b'), 1}; };
  out["release.attempt"] = [](TestBench&) { return ReleaseWeightImport{kIdentity, token_of('a'), 2}; };
  out["commit.first"] = [](TestBench&) { return commit('a', 1, 1); };
  out["commit.args"] = [](TestBench&) {
    CommitWeightImport command = commit('a', 1, 1);
    command.summary.logical_bytes = 7;
    return command;
  };
  out["commit.other"] = [](TestBench&) { return commit('b', 1, 1); };
  out["commit.attempt"] = [](TestBench&) { return commit('a', 2, 1); };
  out["commit.second"] = [](TestBench&) { return commit('b', 2, 2); };
  out["commit.fence"] = [](TestBench&) { return commit('a', 1, 99); };
  out["abort.own"] = [](TestBench&) { return abort_by('a', 1); };
  out["abort.other"] = [](TestBench&) { return abort_by('b', 1); };
  out["abort.attempt"] = [](TestBench&) { return abort_by('a', 2); };
  out["abort.plain"] = [](TestBench& bench) { return abort_at(generation_of(bench)); };
  out["abort.fence"] = [](TestBench&) { return abort_at(99); };
  out["abort.force"] = [](TestBench& bench) {
    AbortWeightImport command = abort_at(generation_of(bench));
    command.force = true;
    return command;
  };
  out["abort.gone"] = [](TestBench& bench) { return abort_over(bench, 'a'); };
  out["abort.gone_other"] = [](TestBench& bench) { return abort_over(bench, 'c'); };
  out["abort.idle"] = [](TestBench& bench) { return abort_idle(bench, limits::kAbandonAfterMs); };
  out["abort.idle_short"] = [](TestBench& bench) { return abort_idle(bench, limits::kWriterTtlMs); };
}

inline void add_leases(std::map<std::string, Make>& out) {
  out["acquire.new"] = [](TestBench&) { return acquire("y", false); };
  out["acquire.degraded"] = [](TestBench&) { return acquire("y", true); };
  out["acquire.again"] = [](TestBench&) { return acquire("x", false); };
  out["lease.renew"] = [](TestBench&) { return RenewLease{lease_id(), kLeaseTtlMs}; };
  out["lease.release"] = [](TestBench&) { return ReleaseLease{lease_id()}; };
  out["reap"] = [](TestBench&) { return ReapLeases{kIdentity}; };
}

inline void add_observations(std::map<std::string, Make>& out) {
  out["see.whole"] = [](TestBench& bench) { return reconcile(bench, {}); };
  out["see.damaged"] = [](TestBench& bench) { return reconcile(bench, TestBench::damaged()); };
  out["see.lost"] = [](TestBench& bench) { return reconcile(bench, lost()); };
  out["see.hot"] = [](TestBench& bench) { return reconcile(bench, saw(2)); };
  out["see.half"] = [](TestBench& bench) { return reconcile(bench, saw(1)); };
  out["see.none"] = [](TestBench& bench) { return reconcile(bench, saw(0)); };
  out["see.elsewhere"] = [](TestBench& bench) { return reconcile(bench, saw_elsewhere(0)); };
  out["see.brought"] = [](TestBench& bench) { return reconcile(bench, saw_elsewhere(2)); };
  out["see.reboot"] = [](TestBench& bench) { return reconcile(bench, saw_elsewhere(0, "boot-b")); };
  out["see.fence"] = [](TestBench&) { return ReconcileRevision{kIdentity, 99, TestBench::damaged()}; };
}

inline void add_ends_of_revisions(std::map<std::string, Make>& out) {
  out["delete.refuse"] = [](TestBench& bench) {
    return DeleteWeightRevision{kIdentity, generation_of(bench), DeleteMode::kRefuse};
  };
  out["delete.drain"] = [](TestBench& bench) {
    return DeleteWeightRevision{kIdentity, generation_of(bench), DeleteMode::kDrain};
  };
  out["delete.fence"] = [](TestBench&) { return DeleteWeightRevision{kIdentity, 99, DeleteMode::kRefuse}; };
  out["finish.now"] = [](TestBench& bench) { return FinishDelete{kIdentity, generation_of(bench)}; };
  out["finish.fence"] = [](TestBench&) { return FinishDelete{kIdentity, 99}; };
  out["compact"] = [](TestBench&) { return CompactTombstones{kIdentity.lineage, 1}; };
}

inline void add_policies(std::map<std::string, Make>& out) {
  const auto add = [&out](const char* name, const Policy& policy) {
    out[name] = [policy](TestBench& bench) { return UpdateWeightPolicy{kIdentity, generation_of(bench), policy}; };
  };
  add("policy.auto", {Residency::kHot, {}, PolicyMode::kAuto});
  add("policy.hot", pinned(Residency::kHot));
  add("policy.cold", pinned(Residency::kCold));
  add("policy.mixed", pinned(Residency::kMixed));
  out["policy.fence"] = [](TestBench&) { return UpdateWeightPolicy{kIdentity, 99, {}}; };
}

inline void add_operations(std::map<std::string, Make>& out) {
  using enum OperationKind;
  using enum Residency;
  out["start.evict"] = [](TestBench& bench) { return start(bench, kEvicting, kCold); };
  out["start.halve"] = [](TestBench& bench) { return start(bench, kEvicting, kMixed); };
  out["start.rehydr"] = [](TestBench& bench) { return start(bench, kRehydrating, kHot); };
  out["start.half"] = [](TestBench& bench) { return start(bench, kRehydrating, kMixed); };
  out["start.repair"] = [](TestBench& bench) { return start(bench, kRepairing, kCold); };
  out["start.unrun"] = [](TestBench& bench) {
    StartOperation command = start(bench, kEvicting, kCold);
    command.runner.reset();
    return command;
  };
  out["start.elsewhere"] = [](TestBench& bench) {
    StartOperation command = start(bench, kEvicting, kCold);
    command.hot_instance = token_of('2');
    return command;
  };
  out["start.fence"] = [](TestBench& bench) {
    StartOperation command = start(bench, kEvicting, kCold);
    command.expected_metadata_generation = 99;
    return command;
  };
  out["start.again"] = [](TestBench&) { return TestBench::start(kIdentity, 3, kEvicting, kCold); };
  out["start.reused"] = [](TestBench&) { return TestBench::start(kIdentity, 99, kEvicting, kCold); };
  out["take.other"] = [](TestBench&) { return take('b'); };
  out["take.own"] = [](TestBench&) { return take('a'); };
  out["take.gone"] = [](TestBench&) { return take_over('a'); };
  out["take.gone_other"] = [](TestBench&) { return take_over('c'); };
  out["take.elsewhere"] = [](TestBench&) { return take_from("boot-a"); };
  out["take.reboot"] = [](TestBench&) { return take_from("boot-b"); };
  out["take.unknown"] = [](TestBench&) {
    TakeOperation command = take('b');
    command.operation_id = token_of('e');
    return command;
  };
  out["report.own"] = [](TestBench&) { return report(runner_of('a')); };
  out["report.other"] = [](TestBench&) { return report(runner_of('b')); };
  out["report.second"] = [](TestBench&) { return report(runner_of('b', 2)); };
  out["report.back"] = [](TestBench&) { return report(runner_of('a'), true); };
  out["permit.own"] = [](TestBench&) { return permit(runner_of('a')); };
  out["permit.other"] = [](TestBench&) { return permit(runner_of('b')); };
  out["permit.second"] = [](TestBench&) { return permit(runner_of('b', 2)); };
  out["end.none"] = [](TestBench&) { return end_done(saw(0)); };
  out["end.half"] = [](TestBench&) { return end_done(saw(1)); };
  out["end.hot"] = [](TestBench&) { return end_done(saw(2)); };
  out["end.elsewhere"] = [](TestBench&) { return end_done(saw_elsewhere(0)); };
  out["end.brought"] = [](TestBench&) { return end_done(saw_elsewhere(2)); };
  out["end.blind"] = [](TestBench&) { return end_done({}); };
  out["end.failed"] = [](TestBench&) { return end('a', OperationState::kFailed, saw(0)); };
  out["end.other"] = [](TestBench&) { return end('b', OperationState::kDone, saw(0)); };
  out["end.second"] = [](TestBench&) {
    EndOperation command = end_done(saw(0));
    command.token = runner_of('b', 2);
    return command;
  };
  out["end.cancelled"] = [](TestBench&) { return end('a', OperationState::kCancelled, {}); };
  out["cancel"] = [](TestBench&) { return CancelOperation{token_of('f')}; };
}

inline const std::map<std::string, Make>& commands() {
  static const std::map<std::string, Make> kCommands = [] {
    std::map<std::string, Make> out;
    add_imports(out);
    add_leases(out);
    add_observations(out);
    add_ends_of_revisions(out);
    add_policies(out);
    add_operations(out);
    out["epoch.same"] = [](TestBench&) { return BeginEpoch{}; };
    out["epoch.new"] = [](TestBench& bench) {
      bench.now.epoch = "boot-b";
      bench.now.mono_ms = 500;
      return BeginEpoch{};
    };
    return out;
  }();
  return kCommands;
}

}  // namespace steelyard::metadata::matrix
