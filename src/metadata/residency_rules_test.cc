// Residency: what observations publish, what evictions may remove, what pins refuse, and when a revision was used.
#include "metadata/keys.h"
#include "metadata/test_bench.h"

namespace steelyard::metadata {
namespace {

const std::string kMine = token_of('1');
const std::string kOther = token_of('2');

struct ResidencyRules : testing::Test {
  ResidencyRules() { bench.publish(identity); }

  RevisionRecord now() const { return bench.record(identity); }
  std::string place() const {
    const RevisionRecord record = now();
    std::string out = std::string(name_of(record.availability)) + " " + std::string(name_of(record.residency));
    if (record.hot_millionths) out += " " + std::to_string(*record.hot_millionths);
    if (record.hot_members != 0) out += " of " + std::to_string(record.hot_members);
    return out;
  }
  Observation seen(std::uint64_t members, const std::string& instance = kMine) const {
    return TestBench::hot(members, instance, bench.now.epoch);
  }
  Result<Answer> observe(const Observation& observation) {
    return bench.run(ReconcileRevision{identity, now().metadata_generation, observation});
  }
  Result<Answer> start(OperationKind kind, Residency target, std::uint64_t members = 2) {
    StartOperation command = TestBench::start(identity, now().metadata_generation, kind, target);
    command.operation_id = token_of(++next_id);
    command.total_members = members;
    command.total_bytes = members * 50;
    return bench.run(command);
  }
  Result<Answer> permit(std::uint64_t members) {
    return bench.run(PermitRemoval{identity, token(), members, members, members * 50});
  }
  Result<Answer> end(OperationState state, std::optional<Observation> observation) {
    return bench.run(EndOperation{identity, token(), state, 2, 100, "over", std::move(observation)});
  }
  RunnerToken token() const {
    const std::optional<Runner> runner = find_runner(bench.state, identity).value();
    return runner ? RunnerToken{runner->operation_id, runner->token, runner->run_attempt} : RunnerToken{};
  }
  void make_hot() { ASSERT_TRUE(observe(seen(2)).ok()); }

  const Identity identity = identity_of("llama", 1);
  TestBench bench;
  char next_id = '0';
};

TEST_F(ResidencyRules, FollowsWhatWasSeen) {
  make_hot();
  EXPECT_EQ(place(), "READY HOT of 2");
  EXPECT_EQ(now().hot_instance, kMine);
  EXPECT_EQ(now().metadata_generation, 3U);
  ASSERT_TRUE(observe(seen(2)).ok());
  EXPECT_TRUE(bench.last.empty()) << "nothing new";
  ASSERT_TRUE(observe(seen(1)).ok());
  EXPECT_EQ(place(), "READY MIXED 500000 of 1");
  ASSERT_TRUE(observe(seen(0)).ok());
  EXPECT_EQ(place(), "READY COLD");
  EXPECT_EQ(now().hot_instance, "");

  Observation damaged = seen(1);
  damaged.damage = {{"a"}, 1};
  ASSERT_TRUE(observe(damaged).ok());
  EXPECT_EQ(place(), "DEGRADED MIXED 500000 of 1");
  damaged = seen(0);
  damaged.damage = {{"a", "b"}, 2};
  damaged.cold_readable = false;
  ASSERT_TRUE(observe(damaged).ok());
  EXPECT_EQ(place(), "DEGRADED ABSENT");
  ASSERT_TRUE(observe(seen(2)).ok());
  EXPECT_EQ(place(), "READY HOT of 2") << "the cold tier may lack everything that memory has";
}

TEST_F(ResidencyRules, WhatCannotBeSeenIsNotPublished) {
  Observation impossible = seen(3);
  EXPECT_EQ(observe(impossible).code(), Code::kInvalidArgument);
  impossible = seen(1);
  impossible.hot_bytes = 100;
  EXPECT_EQ(observe(impossible).code(), Code::kInvalidArgument);
  impossible = seen(1, "");
  EXPECT_EQ(observe(impossible).code(), Code::kInvalidArgument);
  impossible = seen(1);
  impossible.boot_id.clear();
  EXPECT_EQ(observe(impossible).code(), Code::kInvalidArgument);
  EXPECT_EQ(place(), "READY COLD");
}

TEST_F(ResidencyRules, AnotherInstanceIsUnknown) {
  make_hot();
  Observation blind = seen(0, "");
  for (const std::string& boot : {bench.now.epoch, std::string()}) {
    blind.boot_id = boot;
    ASSERT_TRUE(observe(blind).ok());
    EXPECT_EQ(place(), "READY HOT of 2");
  }
  Observation other = seen(1, kOther);
  other.damage = {{"cold copy"}, 1};
  ASSERT_TRUE(observe(other).ok());
  EXPECT_EQ(place(), "READY HOT of 2") << "where the record's instance is mounted it may be whole";
  EXPECT_TRUE(bench.last.empty());
  ASSERT_TRUE(observe(seen(1)).ok());
  ASSERT_TRUE(observe(seen(2, kOther)).ok());
  EXPECT_EQ(now().hot_instance, kOther) << "more is hot here";
  EXPECT_EQ(place(), "READY HOT of 2");
}

TEST_F(ResidencyRules, MemoryWhoseFolderHasAnotherInstanceIsGone) {
  const std::string successor = kMine.substr(0, 24) + kOther.substr(0, 8);
  make_hot();
  ASSERT_TRUE(start(OperationKind::kEvicting, Residency::kCold).ok());
  bench.advance(limits::kWriterTtlMs);
  TakeOperation take{identity, token().operation_id, TestBench::grant('b'), false, {}, successor, bench.now.epoch};
  EXPECT_TRUE(bench.run(take).ok()) << "whoever takes it ends it";
  ASSERT_TRUE(observe(seen(0, successor)).ok());
  EXPECT_EQ(place(), "READY COLD");
  ASSERT_TRUE(end(OperationState::kDone, seen(0, successor)).ok());
  ASSERT_TRUE(observe(seen(1)).ok());
  ASSERT_TRUE(observe(seen(1, successor)).ok());
  EXPECT_EQ(now().hot_instance, successor) << "no share of it is larger than one that there is";
}

TEST_F(ResidencyRules, TwoMemoriesThatHoldAsMuchDoNotTakeItFromEachOther) {
  // A share is kept rounded down: it stands for fewer bytes than were seen.
  const Identity odd = identity_of("odd", 1);
  constexpr std::uint64_t kBytes = 3'000'001;
  bench.must(TestBench::begin(odd, 'b'));
  CommitWeightImport commit = TestBench::commit(odd, 'b', 1, bench.record(odd).metadata_generation);
  commit.summary.logical_bytes = kBytes;
  bench.must(commit);
  for (const std::uint64_t members : {1, 2}) {
    Observation look = seen(members);
    look.hot_bytes = members == 1 ? 1'000'001 : kBytes;
    bench.must(ReconcileRevision{odd, bench.record(odd).metadata_generation, look});
    const RevisionRecord record = bench.record(odd);
    ASSERT_EQ(record.hot_members, members);
    for (int turn = 0; turn < 4; ++turn) {
      look.hot_instance = turn % 2 == 0 ? kOther : kMine;
      bench.must(ReconcileRevision{odd, bench.record(odd).metadata_generation, look});
      EXPECT_EQ(bench.record(odd).metadata_generation, record.metadata_generation)
          << members << " members, turn " << turn;
    }
  }
}

TEST_F(ResidencyRules, ARehydrationThatIsDoneTakesTheRecordToItsMemory) {
  make_hot();
  StartOperation command =
      TestBench::start(identity, now().metadata_generation, OperationKind::kRehydrating, Residency::kHot);
  command.hot_instance = kOther;
  ASSERT_TRUE(bench.run(command).ok());
  ASSERT_TRUE(observe(seen(2, kOther)).ok());
  EXPECT_EQ(now().hot_instance, kMine) << "not before it is done";
  ASSERT_TRUE(end(OperationState::kDone, seen(2, kOther)).ok());
  EXPECT_EQ(now().hot_instance, kOther);
  EXPECT_EQ(place(), "READY HOT of 2");
}

TEST_F(ResidencyRules, WhatIsWholeInTheColdTierIsReadyWhateverLiesElsewhere) {
  Observation damaged = seen(1);
  damaged.damage = {{now().manifest_key}, 1};
  ASSERT_TRUE(observe(damaged).ok());
  EXPECT_EQ(place(), "DEGRADED MIXED 500000 of 1");
  // A repair, by a process that has mounted another memory.
  ASSERT_TRUE(observe(seen(0, kOther)).ok());
  EXPECT_EQ(place(), "READY MIXED 500000 of 1");
  EXPECT_EQ(now().hot_instance, kMine);
  EXPECT_EQ(now().damage, DamageReport());
}

TEST_F(ResidencyRules, AnInstanceOfAnotherBootIsGone) {
  make_hot();
  bench.now.epoch = "boot-b";
  bench.now.mono_ms = 5;
  ASSERT_TRUE(bench.run(BeginEpoch{}).ok());
  EXPECT_EQ(place(), "READY HOT of 2") << "nobody has looked yet";
  ASSERT_TRUE(observe(seen(0, "")).ok());
  EXPECT_EQ(place(), "READY COLD");
}

TEST_F(ResidencyRules, RehydratingEndsWhenEverythingIsHot) {
  EXPECT_EQ(start(OperationKind::kRehydrating, Residency::kCold).code(), Code::kInvalidArgument);
  EXPECT_EQ(start(OperationKind::kEvicting, Residency::kHot).code(), Code::kInvalidArgument);
  EXPECT_EQ(start(OperationKind::kRehydrating, Residency::kHot, 3).code(), Code::kInvalidArgument);
  ASSERT_TRUE(bench.run(TestBench::acquire(identity, "reader")).ok());
  ASSERT_TRUE(start(OperationKind::kRehydrating, Residency::kHot).ok()) << "no lease blocks it";
  EXPECT_EQ(end(OperationState::kDone, std::nullopt).code(), Code::kInvalidArgument);
  EXPECT_EQ(end(OperationState::kDone, seen(1)).code(), Code::kNotReady);
  ASSERT_TRUE(end(OperationState::kDone, seen(2)).ok());
  EXPECT_EQ(place(), "READY HOT of 2");
  EXPECT_EQ(now().metadata_generation, 4U) << "the end and what it reached are one step";
  EXPECT_EQ(permit(1).code(), Code::kInvalidArgument) << "there is no runner";
}

TEST_F(ResidencyRules, AnEndThatIsRefusedSaysWhatToDo) {
  const auto expect_hint = [](const Status& refused, Code code, const std::string& next) {
    EXPECT_EQ(refused.code(), code) << refused.to_string();
    EXPECT_NE(refused.hint().find(next), std::string::npos) << refused.to_string();
  };
  ASSERT_TRUE(start(OperationKind::kRehydrating, Residency::kHot).ok());
  const RunnerToken own = token();
  Observation blind = seen(0, "");
  blind.boot_id.clear();
  expect_hint(end(OperationState::kDone, blind).status(), Code::kNotReady, "steelyard doctor");
  expect_hint(end(OperationState::kDone, seen(1)).status(), Code::kNotReady, "run it again");
  ASSERT_TRUE(end(OperationState::kDone, seen(2)).ok());
  const EndOperation late{identity, own, OperationState::kFailed, 2, 100, "over", seen(2)};
  expect_hint(bench.run(late).status(), Code::kStaleGeneration, "steelyard operation show");

  ASSERT_TRUE(start(OperationKind::kEvicting, Residency::kCold).ok());
  expect_hint(end(OperationState::kDone, seen(0, kOther)).status(), Code::kNotReady, "hot.path");
}

TEST_F(ResidencyRules, AMoveThatEndsLeavesTheDamageThatWasFoundMeanwhile) {
  for (const OperationState state : {OperationState::kFailed, OperationState::kDone}) {
    ASSERT_TRUE(observe(seen(0)).ok());
    ASSERT_TRUE(start(OperationKind::kRehydrating, Residency::kHot).ok());
    Observation damaged = seen(0);
    damaged.damage = {{now().manifest_key}, 1};
    ASSERT_TRUE(observe(damaged).ok());
    // Its runner looked before that.
    ASSERT_TRUE(end(state, seen(2)).ok());
    EXPECT_EQ(place(), "DEGRADED HOT of 2");
    EXPECT_EQ(now().damage, damaged.damage);
  }
}

TEST_F(ResidencyRules, AFailedOneSaysHowFarItCame) {
  ASSERT_TRUE(start(OperationKind::kRehydrating, Residency::kHot).ok());
  EXPECT_EQ(permit(1).code(), Code::kInvalidArgument) << "it removes nothing";
  ASSERT_TRUE(end(OperationState::kFailed, seen(1)).ok());
  EXPECT_EQ(place(), "READY MIXED 500000 of 1");
}

TEST_F(ResidencyRules, ALeasePausesAnEviction) {
  make_hot();
  const Lease first = *bench.run(TestBench::acquire(identity, "alice"))->lease;
  const auto refused = start(OperationKind::kEvicting, Residency::kCold);
  EXPECT_EQ(refused.code(), Code::kBusy);
  EXPECT_NE(refused.status().message().find("1 live lease (alice), the nearest expiry in 30s"), std::string::npos);
  bench.must(ReleaseLease{first.lease_id});

  ASSERT_TRUE(start(OperationKind::kEvicting, Residency::kCold).ok());
  EXPECT_EQ(place(), "READY HOT of 2");
  EXPECT_EQ(permit(0).code(), Code::kInvalidArgument);
  EXPECT_EQ(permit(3).code(), Code::kInvalidArgument);
  const auto permitted = permit(1);
  ASSERT_TRUE(permitted.ok()) << permitted.status().to_string();
  EXPECT_EQ(permitted->runner->permitted_members, 1U);
  EXPECT_EQ(place(), "READY COLD") << "before the first replica goes, nothing is promised that is to go";
  const std::uint64_t generation = now().metadata_generation;

  const Lease reader = *bench.run(TestBench::acquire(identity, "bob"))->lease;
  EXPECT_EQ(permit(2).code(), Code::kBusy);
  EXPECT_TRUE(bench.last.empty());
  EXPECT_EQ(permit(1).code(), Code::kBusy) << "what was permitted and not removed yet waits as well";
  bench.must(ReportOperation{identity, token(), 1, 50, "paused", false});
  EXPECT_EQ(find_runner(bench.state, identity).value()->permitted_members, 1U);
  bench.must(ReleaseLease{reader.lease_id});
  ASSERT_TRUE(permit(2).ok());
  EXPECT_EQ(now().metadata_generation, generation) << "only the first permission moves it";
  EXPECT_EQ(permit(1)->runner->permitted_members, 2U) << "a permission is not taken back";
  EXPECT_EQ(end(OperationState::kDone, seen(1)).code(), Code::kNotReady);
  ASSERT_TRUE(end(OperationState::kDone, seen(0)).ok());
  EXPECT_EQ(place(), "READY COLD");
}

TEST_F(ResidencyRules, AnExpiredLeasePausesNothing) {
  make_hot();
  ASSERT_TRUE(start(OperationKind::kEvicting, Residency::kCold).ok());
  ASSERT_TRUE(bench.run(TestBench::acquire(identity, "bob", 1'000)).ok());
  bench.advance(1'000);
  ASSERT_TRUE(permit(2).ok());
  EXPECT_TRUE(all_leases_of(bench.state, identity).value().empty());
}

TEST_F(ResidencyRules, WhileReplicasGoNothingBecomesHotter) {
  make_hot();
  ASSERT_TRUE(start(OperationKind::kEvicting, Residency::kMixed, 1).ok());
  ASSERT_TRUE(permit(1).ok());
  EXPECT_EQ(place(), "READY MIXED 500000 of 1");
  ASSERT_TRUE(observe(seen(2)).ok());
  EXPECT_EQ(place(), "READY MIXED 500000 of 1") << "what was counted may be gone by now";
  ASSERT_TRUE(observe(seen(0)).ok());
  EXPECT_EQ(place(), "READY COLD");
  ASSERT_TRUE(observe(seen(2)).ok());
  EXPECT_EQ(place(), "READY COLD");
  bench.must(CancelOperation{token().operation_id});
  ASSERT_TRUE(observe(seen(2)).ok());
  EXPECT_EQ(place(), "READY HOT of 2");
}

/// A share is rounded, so that what is taken from it once must not be taken from it at each look.
TEST_F(ResidencyRules, TheSameLookAgainChangesNothing) {
  const Identity odd = identity_of("odd", 1);
  bench.must(TestBench::begin(odd, 'a'));
  CommitWeightImport commit = TestBench::commit(odd, 'a', 1, bench.record(odd).metadata_generation);
  commit.summary.payload_count = 3;
  commit.summary.logical_bytes = 11;
  bench.must(commit);
  const auto look = [&](std::uint64_t members, std::uint64_t bytes) {
    Observation all = seen(members);
    all.hot_bytes = bytes;
    bench.must(ReconcileRevision{odd, bench.record(odd).metadata_generation, all});
  };
  look(3, 11);
  StartOperation start_odd =
      TestBench::start(odd, bench.record(odd).metadata_generation, OperationKind::kEvicting, Residency::kMixed);
  start_odd.total_members = 1;
  start_odd.total_bytes = 4;
  bench.must(start_odd);
  const Runner runner = *find_runner(bench.state, odd).value();
  bench.must(PermitRemoval{odd, {runner.operation_id, runner.token, runner.run_attempt}, 1, 1, 4});
  EXPECT_EQ(bench.record(odd).residency, Residency::kMixed);
  for (const std::uint64_t bytes : {11U, 7U, 6U, 2U}) {
    look(bytes == 11 ? 3 : 2, bytes);
    const RevisionRecord once = bench.record(odd);
    EXPECT_LE(once.hot_millionths.value_or(1'000'000) * 11ULL / 1'000'000, bytes);
    look(bytes == 11 ? 3 : 2, bytes);
    EXPECT_TRUE(bench.last.empty()) << bytes;
    EXPECT_EQ(bench.record(odd), once);
  }
}

TEST_F(ResidencyRules, ProgressNeverGoesBack) {
  make_hot();
  ASSERT_TRUE(start(OperationKind::kEvicting, Residency::kCold).ok());
  bench.must(ReportOperation{identity, token(), 2, 90, "", false});
  const auto later = bench.run(ReportOperation{identity, token(), 1, 200, "", false});
  EXPECT_EQ(later->runner->processed_members, 2U);
  EXPECT_EQ(later->runner->processed_bytes, 100U) << "nor beyond the total";
  ASSERT_TRUE(end(OperationState::kFailed, std::nullopt).ok());
  EXPECT_EQ(now().finished_operations.back().processed_members, 2U);
}

TEST_F(ResidencyRules, ATakeoverKeepsWhatWasPermitted) {
  make_hot();
  ASSERT_TRUE(start(OperationKind::kEvicting, Residency::kCold).ok());
  ASSERT_TRUE(permit(1).ok());
  bench.advance(limits::kWriterTtlMs);
  TakeOperation take{identity, token().operation_id, TestBench::grant('b'), false, {}, kOther, bench.now.epoch};
  const auto elsewhere = bench.run(take);
  EXPECT_EQ(elsewhere.code(), Code::kUnavailable);
  EXPECT_NE(elsewhere.status().message().find(kMine), std::string::npos);
  take.hot_boot_id.clear();
  EXPECT_EQ(bench.run(take).code(), Code::kUnavailable) << "it does not say that the boot is another";
  take.hot_boot_id = "boot-b";
  EXPECT_TRUE(bench.run(take).ok()) << "its instance is gone: whoever takes it ends it";
  bench.advance(limits::kWriterTtlMs);
  take.runner = TestBench::grant('c');
  take.hot_instance = kMine;
  take.hot_boot_id = bench.now.epoch;
  const auto taken = bench.run(take);
  ASSERT_TRUE(taken.ok()) << taken.status().to_string();
  EXPECT_EQ(taken->runner->run_attempt, 3U);
  EXPECT_EQ(taken->runner->permitted_members, 1U);
  EXPECT_EQ(taken->runner->processed_members, 1U);
}

TEST_F(ResidencyRules, ARehydrationThatNobodyRunsMayBeEndedFromAnywhere) {
  ASSERT_TRUE(start(OperationKind::kRehydrating, Residency::kHot).ok());
  TakeOperation take{identity, token().operation_id, TestBench::grant('b'), false, {}, kOther, bench.now.epoch};
  EXPECT_EQ(bench.run(take).code(), Code::kBusy) << "its runner lives";
  bench.advance(limits::kWriterTtlMs);
  const auto taken = bench.run(take);
  ASSERT_TRUE(taken.ok()) << taken.status().to_string();
  EXPECT_EQ(taken->runner->run_attempt, 2U);
}

TEST_F(ResidencyRules, AnEvictionStartsWhereTheReplicasAre) {
  make_hot();
  StartOperation command = TestBench::start(identity, 3, OperationKind::kEvicting, Residency::kCold);
  command.hot_instance = kOther;
  EXPECT_EQ(bench.run(command).code(), Code::kUnavailable);
  command.hot_instance.clear();
  EXPECT_EQ(bench.run(command).code(), Code::kUnavailable);
  command.hot_instance = kOther;
  command.hot_boot_id = "boot-b";
  EXPECT_TRUE(bench.run(command).ok()) << "the record's instance is gone";
}

TEST_F(ResidencyRules, AMixedOperationNamesItsPlan) {
  StartOperation command = TestBench::start(identity, 2, OperationKind::kRehydrating, Residency::kMixed);
  command.plan_digest.clear();
  EXPECT_EQ(bench.run(command).code(), Code::kInvalidArgument);
  command = TestBench::start(identity, 2, OperationKind::kRehydrating, Residency::kMixed);
  command.ratio_millionths.reset();
  EXPECT_EQ(bench.run(command).code(), Code::kInvalidArgument);
  command = TestBench::start(identity, 2, OperationKind::kRehydrating, Residency::kHot);
  command.plan_digest = std::string(64, 'd');
  EXPECT_EQ(bench.run(command).code(), Code::kInvalidArgument);
  command = TestBench::start(identity, 2, OperationKind::kRehydrating, Residency::kMixed);
  command.total_members = 1;
  command.total_bytes = 50;
  ASSERT_TRUE(bench.run(command).ok());
  StartOperation other = command;
  other.plan_digest = std::string(64, 'e');
  EXPECT_EQ(bench.run(other).code(), Code::kConflict) << "a retry moves the same set";
  EXPECT_EQ(end(OperationState::kDone, seen(0)).code(), Code::kNotReady);
  ASSERT_TRUE(end(OperationState::kDone, seen(1)).ok());
  EXPECT_EQ(place(), "READY MIXED 500000 of 1");
}

TEST_F(ResidencyRules, APinRefusesEverythingElse) {
  bench.must(UpdateWeightPolicy{identity, 2, {Residency::kHot, {}, PolicyMode::kPinned}});
  ASSERT_TRUE(start(OperationKind::kRehydrating, Residency::kHot).ok());
  ASSERT_TRUE(end(OperationState::kDone, seen(2)).ok());
  const auto refused = start(OperationKind::kEvicting, Residency::kCold);
  EXPECT_EQ(refused.code(), Code::kPolicyUnsatisfiable);
  EXPECT_EQ(refused.status().message(), "llama@main#1 is pinned to HOT, and EVICTING would make it COLD");
  EXPECT_EQ(start(OperationKind::kEvicting, Residency::kMixed, 1).code(), Code::kPolicyUnsatisfiable);
  bench.must(
      UpdateWeightPolicy{identity, now().metadata_generation, {Residency::kMixed, 500'000, PolicyMode::kPinned}});
  EXPECT_EQ(start(OperationKind::kEvicting, Residency::kCold).code(), Code::kPolicyUnsatisfiable);
  ASSERT_TRUE(start(OperationKind::kEvicting, Residency::kMixed, 1).ok());

  // A pin that would refuse what runs waits for it.
  const auto busy =
      bench.run(UpdateWeightPolicy{identity, now().metadata_generation, {Residency::kHot, {}, PolicyMode::kPinned}});
  EXPECT_EQ(busy.code(), Code::kBusy);
  EXPECT_NE(busy.status().message().find(token().operation_id), std::string::npos);
  bench.must(UpdateWeightPolicy{identity, now().metadata_generation, {Residency::kHot, {}, PolicyMode::kAuto}});
}

TEST_F(ResidencyRules, TheLastUseIsThatOfItsLeases) {
  EXPECT_EQ(last_use_of(bench.state, identity).value(), LastUse{});
  const std::uint64_t generation = now().metadata_generation;
  const Lease lease = *bench.run(TestBench::acquire(identity, "reader"))->lease;
  EXPECT_EQ(last_use_of(bench.state, identity).value(), (LastUse{1, 1'000}));
  bench.advance(10'000);
  bench.must(RenewLease{lease.lease_id, 30'000});
  EXPECT_EQ(last_use_of(bench.state, identity).value(), (LastUse{1, 11'000}));
  bench.advance(500);
  bench.must(ReleaseLease{lease.lease_id});
  EXPECT_EQ(last_use_of(bench.state, identity).value(), (LastUse{1, 11'500}));
  bench.must(ReleaseLease{lease.lease_id});
  EXPECT_TRUE(bench.last.empty());

  // One that nobody released counts by its last renewal, however it is removed.
  ASSERT_TRUE(bench.run(TestBench::acquire(identity, "a", 1'000)).ok());
  ASSERT_TRUE(bench.run(TestBench::acquire(identity, "b", 2'000)).ok());
  bench.advance(60'000);
  bench.must(ReapLeases{identity});
  EXPECT_EQ(find_access(bench.state, identity).value()->mono_ms, 11'500);
  bench.advance(1);
  ASSERT_TRUE(bench.run(TestBench::acquire(identity, "c", 1'000)).ok());
  bench.advance(5'000);
  bench.must(BeginEpoch{});
  bench.must(ReapLeases{identity_of("llama", 1)});
  bench.now = {"boot-b", 5, bench.now.wall_ms};
  ASSERT_TRUE(bench.run(TestBench::acquire(identity, "d", 1'000)).ok());
  EXPECT_EQ(last_use_of(bench.state, identity).value(), (LastUse{2, 5}));
  EXPECT_EQ(now().metadata_generation, generation) << "no use moves it";
}

TEST_F(ResidencyRules, ReplayRefusesWhatTheRulesWouldNotDo) {
  make_hot();
  const auto refused = [&](std::vector<EntryBody> bodies, std::string_view why) {
    std::vector<Entry> entries;
    for (std::size_t i = 0; i < bodies.size(); ++i) {
      const bool last = i + 1 == bodies.size();
      entries.push_back(encode_entry({bodies[i], last ? std::optional(bench.now.mono_ms) : std::nullopt}));
    }
    const Status status = check_entries(bench.state, bench.state.sequence() + 1, entries).status();
    EXPECT_EQ(status.code(), Code::kCorrupt);
    EXPECT_NE(status.message().find(why), std::string::npos) << status.to_string();
  };
  const auto next = [&] {
    RevisionRecord record = now();
    ++record.metadata_generation;
    return record;
  };
  ASSERT_TRUE(start(OperationKind::kEvicting, Residency::kCold).ok());
  const Runner idle = find_runner(bench.state, identity).value().value();
  ASSERT_TRUE(bench.run(TestBench::acquire(identity, "reader")).ok());
  Runner runner = idle;
  runner.permitted_members = 1;
  refused({RunnerPut{runner}}, "an eviction or a removal permitted under a lease");
  runner.permitted_members = 3;
  refused({RunnerPut{runner}}, "a runner that is further than its operation goes");
  RevisionRecord record = next();
  record.operation->total_members = 1;
  refused({RevisionPut{record}}, "another operation takes the place of a running one");
  record = next();
  record.operation.reset();
  refused({RunnerRemoved{identity}, RevisionPut{record}}, "an operation vanishes");

  bench.must(ReportOperation{identity, token(), 1, 50, "", false});
  refused({RunnerPut{idle}}, "its attempt or its progress goes back");
  bench.must(CancelOperation{idle.operation_id});
  record = next();
  record.finished_operations.clear();
  refused({RevisionPut{record}}, "the ended operations changed");
  Operation evicting = now().finished_operations.back();
  evicting.operation_id = token_of('e');
  evicting.state = OperationState::kRunning;
  evicting.ended_at_ms = 0;
  evicting.ended_epoch_ordinal = 0;
  evicting.ended_mono_ms = 0;
  record = next();
  record.operation = evicting;
  refused({RevisionPut{record}}, "an eviction or a removal permitted under a lease");
  refused({AccessPut{{identity, "boot-a", 1, 1, 7}}}, "an access in an epoch to come");
}

}  // namespace
}  // namespace steelyard::metadata
