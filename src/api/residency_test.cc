// Memory, operations, policies and watching through the public headers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "api/test_store.h"
#include "steelyard/store.h"
#include "tiers/memory/test_instance.h"

namespace steelyard {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class ApiMemoryTest : public ApiStoreTest {
 protected:
  void SetUp() override {
    if (!memory_.made()) GTEST_SKIP() << "/dev/shm cannot be used here";
    options_.hot_path = memory_.path();
    options_.hot_capacity = 64 * kMiB;
  }

  tiers::TestTmpfs memory_;
};

TEST_F(ApiMemoryTest, ARevisionComesIntoMemoryAndLeavesIt) {
  const Store store = open();
  const Revision cold = imported(store);
  EXPECT_EQ(cold.residency, Residency::kCold);
  EXPECT_EQ(cold.policy, Policy{});
  std::vector<std::string> phases;
  Hooks hooks;
  hooks.progress = [&](const Progress& progress) { phases.emplace_back(progress.phase); };
  const auto hot = store.rehydrate(ref_, {}, hooks);
  ASSERT_TRUE(hot.ok()) << hot.status().to_string();
  EXPECT_EQ(hot->revision.residency, Residency::kHot);
  EXPECT_EQ(hot->moved_objects, cold.payload_objects);
  ASSERT_TRUE(hot->operation.has_value());
  EXPECT_EQ(hot->operation->state, OperationState::kDone);
  EXPECT_EQ(name_of(hot->operation->kind), "REHYDRATING");
  EXPECT_EQ(hot->operation->processed_bytes, hot->operation->total_bytes);
  ASSERT_FALSE(phases.empty());
  EXPECT_EQ(phases.back(), "rehydrate");
  EXPECT_FALSE(store.rehydrate(ref_)->operation.has_value()) << "there is nothing to move";
  EXPECT_EQ(store.operation(hot->operation->operation_id)->state, OperationState::kDone);
  EXPECT_EQ(store.cancel_operation(hot->operation->operation_id)->state, OperationState::kDone) << "it has ended";
  EXPECT_EQ(store.operation(std::string(32, '0')).code(), Code::kNotFound);

  {
    const auto opened = store.open_revision(ref_);
    ASSERT_TRUE(opened.ok()) << opened.status().to_string();
    EXPECT_EQ(read_all(*opened->open_file("old.bin")), read(at("src/old.bin")));
    EXPECT_EQ(store.evict(ref_).code(), Code::kBusy) << "it is leased";
  }
  ResidencyOptions some;
  some.ratio_millionths = 500'000;
  const auto mixed = store.evict(ref_, some);
  ASSERT_TRUE(mixed.ok()) << mixed.status().to_string();
  EXPECT_EQ(mixed->revision.residency, Residency::kMixed);
  ASSERT_TRUE(mixed->revision.hot_millionths.has_value());
  EXPECT_NEAR(*mixed->revision.hot_millionths, 500'000, 100'000);
  const auto gone = store.evict(ref_);
  ASSERT_TRUE(gone.ok()) << gone.status().to_string();
  EXPECT_EQ(gone->revision.residency, Residency::kCold);
  EXPECT_EQ(gone->revision.hot_millionths, std::nullopt);
  some.ratio_millionths = 0;
  EXPECT_EQ(store.rehydrate(ref_, some).code(), Code::kInvalidArgument);
  some.ratio_millionths = 1'000'000;
  EXPECT_EQ(store.evict(ref_, some).code(), Code::kInvalidArgument);
}

TEST_F(ApiMemoryTest, WhatLiesInMemoryIsTold) {
  const Store store = open();
  const Revision cold = imported(store);
  EXPECT_EQ(store.inspect(ref_)->memory.instance, "");
  ASSERT_TRUE(store.rehydrate(ref_).ok());
  const auto hot = store.inspect(ref_);
  ASSERT_TRUE(hot.ok()) << hot.status().to_string();
  EXPECT_EQ(hot->memory.objects, cold.payload_objects);
  EXPECT_EQ(hot->memory.bytes, cold.logical_bytes);
  EXPECT_EQ(hot->memory.instance.size(), 32U);
  EXPECT_EQ(hot->memory.recorded_instance, hot->memory.instance);
  EXPECT_FALSE(hot->memory.recorded_elsewhere());
  EXPECT_EQ(store.verify(ref_)->memory.objects, cold.payload_objects);
  EXPECT_EQ(store.usage()->tiers.back().name, "hot");

  const tiers::TestTmpfs other;
  StoreOptions elsewhere = options_;
  elsewhere.hot_path = other.path();
  const auto there = Store::open(elsewhere, OpenMode::kRead);
  ASSERT_TRUE(there.ok()) << there.status().to_string();
  EXPECT_TRUE(there->inspect(ref_)->memory.recorded_elsewhere());
  EXPECT_EQ(there->inspect(ref_)->memory.objects, 0U);
  const auto verified = there->verify(ref_);
  EXPECT_TRUE(verified->problems.empty());
  EXPECT_TRUE(verified->memory.recorded_elsewhere());
  EXPECT_TRUE(verified->memory.unknown.ok()) << verified->memory.unknown.to_string();

  // An instance file that cannot be read: nothing is known of what lies there.
  const tiers::TestTmpfs broken;
  std::string folder;
  for (const auto& entry : fs::directory_iterator(memory_.path())) folder = entry.path().filename();
  fs::copy(memory_.path() + "/" + folder, broken.path() + "/" + folder);
  for (const auto& entry : fs::directory_iterator(broken.path() + "/" + folder)) {
    if (!entry.is_regular_file()) continue;
    fs::permissions(entry.path(), fs::perms::owner_all);
    std::ofstream(entry.path()) << "no instance";
  }
  elsewhere.hot_path = broken.path();
  const auto blind = Store::open(elsewhere, OpenMode::kRead);
  ASSERT_TRUE(blind.ok()) << blind.status().to_string();
  for (const MemoryReplicas& memory : {blind->inspect(ref_)->memory, blind->verify(ref_)->memory}) {
    EXPECT_EQ(memory.unknown.code(), Code::kCorrupt) << memory.unknown.to_string();
    EXPECT_EQ(memory.recorded_instance, hot->memory.instance);
    EXPECT_FALSE(memory.recorded_elsewhere()) << "nobody knows";
  }
}

TEST_F(ApiMemoryTest, AReadOfBadMemoryIsServedAndMended) {
  const Store store = open();
  imported(store);
  ASSERT_TRUE(store.rehydrate(ref_).ok());
  std::vector<fs::path> replicas;
  for (const auto& entry : fs::recursive_directory_iterator(memory_.path())) {
    if (entry.is_regular_file() && entry.path().parent_path().filename() == "p") replicas.push_back(entry.path());
  }
  std::ranges::sort(replicas);
  for (const fs::path& replica : replicas) {
    ASSERT_EQ(chmod(replica.c_str(), 0644), 0);
    std::fstream bad(replica, std::ios::binary | std::ios::in | std::ios::out);
    const int first = bad.get();
    bad.seekp(0);
    bad.put(static_cast<char>(first ^ 1));
  }
  {
    const auto opened = store.open_revision(ref_);
    ASSERT_TRUE(opened.ok()) << opened.status().to_string();
    EXPECT_EQ(read_all(*opened->open_file("old.bin")), read(at("src/old.bin")));
  }
  const auto met = store.inspect(ref_);
  EXPECT_EQ(met->revision.availability, Availability::kReady);
  EXPECT_NE(met->revision.residency, Residency::kHot);
  ASSERT_TRUE(met->revision.operation.has_value());
  EXPECT_EQ(met->revision.operation->kind, OperationKind::kRepairing);
  const auto found = store.verify(ref_);
  ASSERT_TRUE(found.ok()) << found.status().to_string();
  EXPECT_EQ(found->problems.size(), replicas.size());
  for (const Problem& problem : found->problems) EXPECT_EQ(problem.tier, "hot");
  EXPECT_TRUE(store.reconcile()->failed.empty());
  EXPECT_TRUE(store.verify(ref_)->problems.empty());
  EXPECT_EQ(store.find(ref_)->residency, Residency::kHot);
}

TEST_F(ApiMemoryTest, WhoHoldsAnAutoRevisionBringsItIn) {
  const Store store = open();
  imported(store);
  EXPECT_FALSE(store.follow_policy(ref_)->moved) << "MANUAL";
  PolicyChange change;
  change.mode = PolicyMode::kAuto;
  change.prefer = Residency::kHot;
  ASSERT_TRUE(store.update_policy(ref_, change).ok());
  EXPECT_FALSE(store.follow_policy(ref_)->moved) << "nobody reads it";
  const auto held = store.hold(ref_);
  ASSERT_TRUE(held.ok()) << held.status().to_string();
  const auto moved = store.follow_policy(ref_);
  ASSERT_TRUE(moved.ok()) << moved.status().to_string();
  EXPECT_TRUE(moved->moved);
  EXPECT_THAT(moved->evicted, IsEmpty());
  EXPECT_TRUE(moved->stays.ok()) << moved->stays.to_string();
  EXPECT_EQ(store.find(ref_)->residency, Residency::kHot);
}

TEST_F(ApiMemoryTest, FollowingAPolicySaysWhatWentForIt) {
  options_.policy_cooldown_ms = 0;
  options_.hot_capacity = 12 * kMiB;
  const Store store = open();
  imported(store);
  write(at("src/old.bin"), pattern(5 * kMiB, 3));
  tensors_ = pattern(3145769, 4);
  const std::string head = read(at("src/model.safetensors"));
  write(at("src/model.safetensors"), head.substr(0, head.size() - tensors_.size()) + tensors_);
  ImportRequest another = request();
  another.target = Ref{"n", "main", std::nullopt};
  ASSERT_TRUE(store.import(another).ok());
  PolicyChange change;
  change.mode = PolicyMode::kAuto;
  change.prefer = Residency::kHot;
  for (const Ref& ref : {ref_, *another.target}) ASSERT_TRUE(store.update_policy(ref, change).ok());
  ASSERT_TRUE(store.rehydrate(ref_).ok());
  std::optional<Result<HeldLease>> reader = store.hold(ref_);
  const auto held = store.hold(*another.target);
  ASSERT_TRUE(held.ok()) << held.status().to_string();
  const auto stays = store.follow_policy(*another.target);
  ASSERT_TRUE(stays.ok()) << stays.status().to_string();
  EXPECT_FALSE(stays->moved);
  EXPECT_EQ(stays->stays.code(), Code::kNoSpace);
  reader.reset();
  const auto moved = store.follow_policy(*another.target);
  ASSERT_TRUE(moved.ok()) << moved.status().to_string();
  EXPECT_TRUE(moved->moved);
  ASSERT_EQ(moved->evicted.size(), 1U);
  EXPECT_EQ(moved->evicted[0].resource_id, "m");
  EXPECT_EQ(store.find(ref_)->residency, Residency::kCold);
}

TEST_F(ApiMemoryTest, AStoreIsKeptReconciledUntilItIsCancelled) {
  const Store store = open();
  imported(store);
  PolicyChange change;
  change.mode = PolicyMode::kPinned;
  change.prefer = Residency::kHot;
  Cancellation cancel;
  Hooks hooks;
  hooks.cancel = &cancel;
  std::size_t told = 0;
  const Status ended = store.keep_reconciled(
      std::nullopt,
      [&](const ReconcileReport& report) {
        if (told++ == 0) {
          EXPECT_EQ(report.checked, 1U);
          EXPECT_TRUE(store.update_policy(ref_, change).ok());
        }
        if (store.find(ref_)->residency == Residency::kHot) cancel.cancel();
        return Status();
      },
      hooks);
  EXPECT_EQ(ended.code(), Code::kUnavailable);
  EXPECT_THAT(ended.message(), HasSubstr("was interrupted"));
  EXPECT_GE(told, 2U);
  const Status refused = store.keep_reconciled(
      std::nullopt, [](const ReconcileReport&) { return Status(Code::kNoSpace, "the pipe is full"); }, {});
  EXPECT_EQ(refused.code(), Code::kNoSpace);
}

TEST_F(ApiMemoryTest, ARepairMayOnlyBeStarted) {
  const Store store = open();
  imported(store);
  ASSERT_TRUE(store.rehydrate(ref_).ok());
  damage(tensors_.substr(0, 64));
  ASSERT_TRUE(store.verify(ref_).ok());
  const auto started = store.repair(ref_, {.wait = false});
  ASSERT_TRUE(started.ok()) << started.status().to_string();
  ASSERT_TRUE(started->operation.has_value());
  EXPECT_EQ(started->operation->kind, OperationKind::kRepairing);
  EXPECT_EQ(started->operation->state, OperationState::kRunning);
  EXPECT_EQ(store.repair(ref_, {.source = at("src"), .wait = false}).code(), Code::kInvalidArgument);
  const auto done = store.repair(ref_);
  ASSERT_TRUE(done.ok()) << done.status().to_string();
  ASSERT_TRUE(done->operation.has_value());
  EXPECT_EQ(done->operation->operation_id, started->operation->operation_id);
  EXPECT_EQ(done->operation->state, OperationState::kDone);
  EXPECT_FALSE(store.repair(ref_)->operation.has_value()) << "nothing to repair is known";
}

TEST_F(ApiMemoryTest, AnOperationThatIsOnlyStartedMayBeCancelledOrGoneOnWith) {
  const Store store = open();
  imported(store);
  ResidencyOptions only_start;
  only_start.wait = false;
  const auto started = store.rehydrate(ref_, only_start);
  ASSERT_TRUE(started.ok()) << started.status().to_string();
  const auto found = store.find(ref_);
  ASSERT_TRUE(found->operation.has_value());
  EXPECT_EQ(found->operation->state, OperationState::kRunning);
  EXPECT_EQ(found->operation->target, Residency::kHot);
  EXPECT_EQ(store.cancel_operation(found->operation->operation_id)->state, OperationState::kCancelled);
  EXPECT_FALSE(store.find(ref_)->operation.has_value());
  ASSERT_TRUE(store.rehydrate(ref_, only_start).ok());
  EXPECT_TRUE(store.reconcile()->failed.empty());
  EXPECT_EQ(store.find(ref_)->residency, Residency::kHot);
}

TEST_F(ApiMemoryTest, AnImportEndsInMemory) {
  const Store store = open();
  make_source();
  ImportRequest wanted = request();
  wanted.residency = Residency::kHot;
  wanted.policy = {Residency::kCold, {}, PolicyMode::kPinned};
  const Status pinned = store.import(wanted).status();
  EXPECT_EQ(pinned.code(), Code::kPolicyUnsatisfiable);
  EXPECT_THAT(pinned.message(), HasSubstr("pins the revision to COLD, and the import is to end HOT"));
  EXPECT_EQ(store.find(ref_).code(), Code::kNotFound) << "nothing was begun";
  wanted.policy.prefer = Residency::kHot;
  wanted.residency = Residency::kCold;
  EXPECT_EQ(store.import(wanted).code(), Code::kPolicyUnsatisfiable);
  wanted.residency = Residency::kMixed;
  EXPECT_EQ(store.import(wanted).code(), Code::kInvalidArgument);
  wanted.residency = Residency::kHot;
  const auto report = store.import(wanted);
  ASSERT_TRUE(report.ok()) << report.status().to_string();
  EXPECT_EQ(report->revision.residency, Residency::kHot);
  wanted.residency.reset();
  EXPECT_EQ(store.import(wanted)->revision.residency, Residency::kCold) << "its policy is followed later";
}

TEST_F(ApiStoreTest, MemoryOptionsAreChecked) {
  options_.hot_capacity = 1;
  EXPECT_THAT(Store::open(options_, OpenMode::kCreate).status().message(), HasSubstr("hot_capacity is 1"));
  options_.hot_capacity.reset();
  options_.hot_low_watermark_millionths = options_.hot_high_watermark_millionths + 1;
  EXPECT_THAT(Store::open(options_, OpenMode::kCreate).status().message(),
              HasSubstr("hot_low_watermark_millionths is 900001"));
  options_.hot_low_watermark_millionths = options_.hot_high_watermark_millionths;
  options_.hot_path.clear();
  EXPECT_EQ(Store::open(options_, OpenMode::kCreate).code(), Code::kInvalidArgument);
}

TEST_F(ApiStoreTest, APolicyIsRecordedAndChanged) {
  const Store store = open();
  make_source();
  ImportRequest wanted = request();
  wanted.policy = {Residency::kMixed, 250'000, PolicyMode::kAuto};
  const auto report = store.import(wanted);
  ASSERT_TRUE(report.ok()) << report.status().to_string();
  EXPECT_EQ(report->revision.policy, wanted.policy);
  PolicyChange change;
  change.mode = PolicyMode::kPinned;
  change.expected_generation = report->revision.metadata_generation;
  const auto pinned = store.update_policy(ref_, change);
  ASSERT_TRUE(pinned.ok()) << pinned.status().to_string();
  EXPECT_EQ(pinned->policy, (Policy{Residency::kMixed, 250'000, PolicyMode::kPinned}));
  EXPECT_EQ(store.update_policy(ref_, change)->metadata_generation, pinned->metadata_generation) << "a retry";
  EXPECT_EQ(store.rehydrate(ref_).code(), Code::kPolicyUnsatisfiable);
  change.mode = PolicyMode::kManual;
  EXPECT_EQ(store.update_policy(ref_, change).code(), Code::kStaleGeneration);
  change = {};
  change.prefer = Residency::kHot;
  EXPECT_EQ(store.update_policy(ref_, change)->policy, (Policy{Residency::kHot, {}, PolicyMode::kPinned}));
  change.ratio_millionths = 1;
  EXPECT_EQ(store.update_policy(ref_, change).code(), Code::kInvalidArgument);
  EXPECT_EQ(name_of(store.find(ref_)->policy.mode), "pinned");
  EXPECT_EQ(store.find({"n", {}, {}}).code(), Code::kNotFound);
  const Store reader = open(OpenMode::kRead);
  EXPECT_EQ(reader.update_policy(ref_, {}).code(), Code::kUnauthorized);
  EXPECT_EQ(reader.rehydrate(ref_).code(), Code::kUnauthorized);
  EXPECT_EQ(reader.evict(ref_).code(), Code::kUnauthorized);
  EXPECT_EQ(reader.cancel_operation("x").code(), Code::kUnauthorized);
}

TEST_F(ApiStoreTest, AWatchGivesEveryChangeThatAnotherStoreMakes) {
  const Store store = open();
  const Store watcher = open(OpenMode::kRead);
  WatchQuery query;
  query.resource_id = "m";
  query.revision = "main";
  query.weight_generation = 1;
  auto batch = watcher.watch(query);
  ASSERT_TRUE(batch.ok()) << batch.status().to_string();
  EXPECT_TRUE(batch->resnapshot);
  EXPECT_THAT(batch->changes, IsEmpty());

  std::thread other([&] {
    imported(store);
    EXPECT_TRUE(store.delete_revision(ref_).ok());
  });
  std::vector<Availability> seen;
  std::uint64_t generation = 0;
  query.wait_ms = 60'000;
  while (seen.empty() || seen.back() != Availability::kDeleted) {
    query.after = batch->next;
    batch = watcher.watch(query);
    ASSERT_TRUE(batch.ok()) << batch.status().to_string();
    ASSERT_THAT(batch->changes, Not(IsEmpty())) << "a minute is over";
    for (const RevisionChange& change : batch->changes) {
      EXPECT_EQ(change.revision.metadata_generation, ++generation) << "none is missed";
      EXPECT_LE(change.sequence, batch->next);
      seen.push_back(change.revision.availability);
    }
  }
  other.join();
  EXPECT_THAT(seen, ElementsAre(Availability::kImporting, Availability::kReady, Availability::kDeleting,
                                Availability::kDeleted));

  query.wait_ms = 0;
  query.after = batch->next;
  EXPECT_THAT(watcher.watch(query)->changes, IsEmpty());
  query = {};
  EXPECT_EQ(watcher.watch(query)->changes.size(), 1U) << "the namespace";
  query.resource_id = "other";
  EXPECT_THAT(watcher.watch(query)->changes, IsEmpty());
  query.weight_generation = 1;
  EXPECT_EQ(watcher.watch(query).code(), Code::kInvalidArgument);
  query = {};
  query.revision = "main";
  EXPECT_EQ(watcher.watch(query).code(), Code::kInvalidArgument);
}

TEST_F(ApiStoreTest, AWatchMayBeCancelled) {
  const Store store = open();
  WatchQuery query;
  query.after = store.watch(query)->next;
  query.wait_ms = INT64_MAX;
  Cancellation cancel;
  std::thread other([&] { cancel.cancel(); });
  const auto stopped = store.watch(query, &cancel);
  other.join();
  EXPECT_EQ(stopped.code(), Code::kUnavailable);
  EXPECT_THAT(stopped.status().message(), HasSubstr("was interrupted"));
}

}  // namespace
}  // namespace steelyard
