// The states of the lifecycle's table (docs/lifecycle-table.md): how to come to each, and how one is written there. A
// letter names each writer, runner and operation, and is what its token consists of.
#pragma once

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "metadata/test_bench.h"

namespace steelyard::metadata::matrix {

inline const Identity kIdentity = identity_of("llama", 1);
inline constexpr std::int64_t kLeaseTtlMs = 30'000;

inline std::uint64_t generation_of(const TestBench& bench) { return bench.record(kIdentity).metadata_generation; }

/// What an observer saw who has mounted the usual memory instance, `1`.
inline Observation saw(std::uint64_t hot_members) { return TestBench::hot(hot_members, token_of('1'), "boot-a"); }

inline RunnerToken runner_of(char token, std::uint32_t attempt = 1) {
  return {token_of('f'), token_of(token), attempt};
}

inline EndOperation end(char token, OperationState state, std::optional<Observation> seen) {
  return {kIdentity, runner_of(token), state, 2, 100, "over", std::move(seen)};
}

inline Policy pinned(Residency prefer) {
  Policy policy{prefer, {}, PolicyMode::kPinned};
  if (prefer == Residency::kMixed) policy.ratio_millionths = 500'000;
  return policy;
}

/// Damage that the cold tier cannot serve either.
inline Observation lost() {
  Observation seen = saw(0);
  seen.damage = {{"object", "object2"}, 2};
  seen.cold_readable = false;
  return seen;
}

/// `command` as a start of an eviction to MIXED or a rehydration to it, of one of the two members.
inline StartOperation half(StartOperation command) {
  command.total_members = 1;
  command.total_bytes = 50;
  return command;
}

/// A column's way from an empty log, step by step.
class Way : public TestBench {
 public:
  Way() { must(BeginEpoch{}); }

  Way& begun() { return does(begin(kIdentity, 'a')); }
  Way& published() {
    publish(kIdentity);
    return *this;
  }
  Way& seen(Observation observation) {
    return does(ReconcileRevision{kIdentity, generation_of(*this), std::move(observation)});
  }
  Way& leased() { return does(acquire(kIdentity, "x", kLeaseTtlMs)); }
  Way& started(OperationKind kind, Residency target) {
    const StartOperation command = start(kIdentity, generation_of(*this), kind, target);
    return does(target == Residency::kMixed ? half(command) : command);
  }
  Way& hot() { return published().seen(saw(2)); }
  Way& evicting() { return hot().started(OperationKind::kEvicting, Residency::kCold); }
  Way& permitted() { return does(PermitRemoval{kIdentity, runner_of('a'), 1, 0, 0}); }
  Way& policy(Policy wanted) { return does(UpdateWeightPolicy{kIdentity, generation_of(*this), wanted}); }
  Way& deleted(DeleteMode mode = DeleteMode::kRefuse) {
    return does(DeleteWeightRevision{kIdentity, generation_of(*this), mode});
  }
  Way& finished() { return does(FinishDelete{kIdentity, generation_of(*this)}); }
  /// So much later, and the log knows it from what happened to another revision.
  Way& after(std::int64_t duration_ms) {
    advance(duration_ms);
    return does(begin(identity_of("other", 1), 'f'));
  }
  Way& does(const Command& command) {
    must(command);
    return *this;
  }
};

using Step = std::function<void(Way&)>;

inline const std::vector<std::pair<std::string, Step>>& states() {
  using enum OperationKind;
  using enum Residency;
  static const std::vector<std::pair<std::string, Step>> kStates = {
      {"absent", [](Way&) {}},
      {"compacted",
       [](Way& way) {
         way.published().deleted().finished().does(CompactTombstones{kIdentity.lineage, 1});
       }},
      {"live", [](Way& way) { way.begun(); }},
      {"expired", [](Way& way) { way.begun().after(limits::kWriterTtlMs); }},
      {"returned",
       [](Way& way) {
         way.begun().does(ReleaseWeightImport{kIdentity, token_of('a'), 1});
       }},
      {"taken",
       [](Way& way) {
         way.begun().does(ReleaseWeightImport{kIdentity, token_of('a'), 1}).does(TestBench::begin(kIdentity, 'b'));
       }},
      {"aborting",
       [](Way& way) {
         way.begun().does(AbortWeightImport{kIdentity, token_of('a'), 1, 0, false, {}});
       }},
      {"aborted",
       [](Way& way) {
         way.begun().does(AbortWeightImport{kIdentity, token_of('a'), 1, 0, false, {}}).finished();
       }},
      {"deleting", [](Way& way) { way.published().deleted(); }},
      {"draining", [](Way& way) { way.published().leased().deleted(DeleteMode::kDrain); }},
      {"drained", [](Way& way) { way.published().leased().deleted(DeleteMode::kDrain).after(kLeaseTtlMs); }},
      {"dropped", [](Way& way) { way.evicting().deleted(); }},
      {"deleted", [](Way& way) { way.published().deleted().finished(); }},

      {"ready", [](Way& way) { way.published(); }},
      {"leased", [](Way& way) { way.published().leased(); }},
      {"lapsed", [](Way& way) { way.published().leased().after(kLeaseTtlMs); }},
      {"hot", [](Way& way) { way.hot(); }},
      {"hot.leased", [](Way& way) { way.hot().leased(); }},
      {"mixed", [](Way& way) { way.published().seen(saw(1)); }},
      {"degraded", [](Way& way) { way.published().seen(TestBench::damaged()); }},
      {"bad.hot",
       [](Way& way) {
         Observation bad = saw(2);
         bad.damage = TestBench::damaged().damage;
         way.hot().seen(bad);
       }},
      {"lost", [](Way& way) { way.published().seen(lost()); }},
      {"pin.hot", [](Way& way) { way.hot().policy(pinned(kHot)); }},
      {"pin.cold", [](Way& way) { way.published().policy(pinned(kCold)); }},
      {"pin.mixed", [](Way& way) { way.published().seen(saw(1)).policy(pinned(kMixed)); }},
      {"done", [](Way& way) { way.evicting().does(end('a', OperationState::kDone, saw(0))); }},
      {"failed", [](Way& way) { way.evicting().does(end('a', OperationState::kFailed, {})); }},
      {"cancelled", [](Way& way) { way.evicting().does(CancelOperation{token_of('f')}); }},

      {"evicting", [](Way& way) { way.evicting(); }},
      {"e.expired", [](Way& way) { way.evicting().after(limits::kWriterTtlMs); }},
      {"e.returned",
       [](Way& way) {
         way.evicting().does(ReportOperation{kIdentity, runner_of('a'), 0, 0, "", true});
       }},
      {"e.unrun",
       [](Way& way) {
         StartOperation command = TestBench::start(kIdentity, 3, kEvicting, kCold);
         command.runner.reset();
         way.hot().does(command);
       }},
      {"e.taken",
       [](Way& way) {
         way.evicting()
             .does(ReportOperation{kIdentity, runner_of('a'), 0, 0, "", true})
             .does(TakeOperation{kIdentity, token_of('f'), TestBench::grant('b'), false, {}, token_of('1'), "boot-a"});
       }},
      {"e.leased", [](Way& way) { way.evicting().leased(); }},
      {"removing", [](Way& way) { way.evicting().permitted(); }},
      {"paused", [](Way& way) { way.evicting().permitted().leased(); }},
      {"halving", [](Way& way) { way.hot().started(kEvicting, kMixed); }},
      {"halved", [](Way& way) { way.hot().started(kEvicting, kMixed).permitted(); }},
      {"e.bad",
       [](Way& way) {
         Observation bad = saw(2);
         bad.damage = TestBench::damaged().damage;
         way.evicting().seen(bad);
       }},
      {"rehydr", [](Way& way) { way.published().started(kRehydrating, kHot); }},
      {"r.expired", [](Way& way) { way.published().started(kRehydrating, kHot).after(limits::kWriterTtlMs); }},
      {"r.leased", [](Way& way) { way.published().started(kRehydrating, kHot).leased(); }},
      {"repair", [](Way& way) { way.published().started(kRepairing, kCold); }},
      {"p.bad", [](Way& way) { way.published().seen(TestBench::damaged()).started(kRepairing, kCold); }},
  };
  return kStates;
}

// The notation. A state is written in full, so that what a command must leave alone is compared too.

inline char letter_of(Availability value) {
  return value == Availability::kDeleting ? 'X' : value == Availability::kDeleted ? 'T' : name_of(value)[0];
}

inline char letter_of(OperationKind kind, bool permitted) {
  switch (kind) {
    case OperationKind::kEvicting:
      return permitted ? 'E' : 'e';
    case OperationKind::kRehydrating:
      return 'r';
    case OperationKind::kRepairing:
      return 'p';
    case OperationKind::kNone:
      break;
  }
  return '?';
}

inline std::string prime_of(const std::string& hot_instance) { return hot_instance == token_of('2') ? "'" : ""; }

inline std::string text_of(const RevisionRecord& record, const std::optional<Runner>& runner) {
  std::string text{letter_of(record.availability), name_of(record.residency)[0]};
  text += prime_of(record.hot_instance);
  if (record.drain) text += 'd';
  if (const auto& operation = record.operation) {
    text += letter_of(operation->kind, runner && runner->permitted_members != 0);
    if (operation->target == Residency::kMixed) text += 'm';
    text += prime_of(operation->hot_instance);
    if (runner && runner->processed_members != 0) text += std::to_string(runner->processed_members);
  }
  if (record.policy.mode != PolicyMode::kManual) {
    text += record.policy.mode == PolicyMode::kPinned ? '!' : '?';
    text += name_of(record.policy.prefer)[0];
  }
  if (record.finished_operations.empty()) return text;
  text += '(';
  for (const Operation& ended : record.finished_operations) {
    text += ended.state == OperationState::kDone ? 'd' : ended.state == OperationState::kFailed ? 'f' : 'c';
  }
  return text + ')';
}

/// `granted` is a Writer or a Runner.
template <typename Granted>
std::string text_of(const Granted& granted, std::uint32_t attempt, const TestBench& bench) {
  std::string text = ":";
  text += granted.token.empty() ? '-' : granted.token[0];
  if (attempt != 1) text += std::to_string(attempt);
  if (granted.token.empty()) return text;
  const LeaseLife life = life_of(granted, epoch_of(bench.state).value(), bench.now);
  if (!life.live) return text + "~";
  return life.left_ms == granted.ttl_ms ? text + "^" : text;
}

inline std::string text_of_leases(const TestBench& bench, const Identity& identity) {
  std::vector<Lease> leases = all_leases_of(bench.state, identity).value();
  std::sort(leases.begin(), leases.end(), [](const Lease& a, const Lease& b) { return a.holder < b.holder; });
  std::string text;
  for (const Lease& lease : leases) {
    const LeaseLife life = life_of(lease, epoch_of(bench.state).value(), bench.now);
    text += lease.holder;
    if (lease.renewable_until_mono_ms != 0) text += ']';
    if (!life.live) text += '~';
    if (life.left_ms == lease.ttl_ms) text += '^';
  }
  if (find_access(bench.state, identity).value()) text += 'u';
  return text.empty() ? text : "/" + text;
}

/// The state of one generation, as the table writes it.
inline std::string text_of(const TestBench& bench, const Identity& identity) {
  const auto record = find_revision(bench.state, identity).value();
  if (!record) {
    const auto mark = find_watermark(bench.state, identity.lineage).value();
    return mark && mark->weight_generation >= identity.weight_generation ? "-w" : "-";
  }
  const auto runner = find_runner(bench.state, identity).value();
  const auto writer = find_writer(bench.state, identity).value();
  std::string text = text_of(*record, runner);
  if (writer) text += text_of(*writer, writer->import_attempt, bench);
  if (runner) text += text_of(*runner, runner->run_attempt, bench);
  return text + text_of_leases(bench, identity);
}

}  // namespace steelyard::metadata::matrix
