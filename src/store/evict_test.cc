// Eviction where a test holds the parts of the store in its hands.
#include "store/evict.h"

#include <gtest/gtest.h>

#include "store/delete.h"
#include "store/manifest_file.h"
#include "store/runner_keeper.h"
#include "store/test_hot_store.h"

namespace steelyard::store {
namespace {

using metadata::OperationKind;
using metadata::OperationState;

class EvictTest : public HotStoreTest {
 protected:
  void SetUp() override {
    HotStoreTest::SetUp();
    if (IsSkipped()) return;
    ASSERT_TRUE(rehydrate().ok());
  }
  std::uint64_t replicas() {
    const auto tier = hot_->find().value();
    std::uint64_t count = 0;
    const auto listing = tier->list_group(attempt_of(record()).group);
    for (const tiers::AttemptName& made : listing->by_operation) count += tier->list_attempt(made)->size();
    return count;
  }
};

TEST_F(EvictTest, EverythingLeavesAndTheColdTierServes) {
  const auto done = evict();
  ASSERT_TRUE(done.ok()) << done.status().to_string();
  EXPECT_EQ(done->record.residency, Residency::kCold);
  EXPECT_TRUE(done->record.hot_instance.empty());
  ASSERT_TRUE(done->operation);
  EXPECT_EQ(done->operation->kind, OperationKind::kEvicting);
  EXPECT_EQ(done->operation->state, OperationState::kDone);
  EXPECT_EQ(done->operation->processed_members, kObjects);
  EXPECT_EQ(done->operation->processed_bytes, kObjects * kMiB);
  EXPECT_EQ(done->moved_objects, kObjects);
  EXPECT_EQ(done->read_bytes, kObjects * kMiB) << "each cold byte is read back once";
  EXPECT_EQ(hot_bytes(), 0U);
  EXPECT_TRUE(cat() == data_);

  const auto again = evict();
  ASSERT_TRUE(again.ok()) << again.status().to_string();
  EXPECT_FALSE(again->operation);
  EXPECT_EQ(again->record.metadata_generation, done->record.metadata_generation);
}

TEST_F(EvictTest, ALiveLeaseRefusesIt) {
  const auto before = record();
  const metadata::Lease held = lease();
  const auto refused = evict();
  EXPECT_EQ(refused.code(), Code::kBusy) << refused.status().to_string();
  EXPECT_NE(refused.status().message().find("reader"), std::string::npos);
  EXPECT_EQ(record(), before) << "nothing changed";
  EXPECT_EQ(replicas(), kObjects);
  release(held);
  EXPECT_TRUE(evict().ok());
}

TEST_F(EvictTest, ALeaseThatComesMeanwhilePausesTheRemovals) {
  std::optional<metadata::Lease> held;
  int paused = 0;
  runtime_.skip_sleeps();
  runtime_.on("evict.after_read_back", [&] {
    if (!held) held = lease();
  });
  runtime_.on("evict.paused", [&] {
    EXPECT_EQ(replicas(), kObjects) << "nothing goes while a lease lives";
    EXPECT_EQ(record().residency, Residency::kHot);
    if (++paused == 3) release(*held);
  });
  const auto done = evict();
  ASSERT_TRUE(done.ok()) << done.status().to_string();
  EXPECT_EQ(paused, 3);
  EXPECT_EQ(done->record.residency, Residency::kCold);
}

TEST_F(EvictTest, AReconcileDoesNotWaitForLeases) {
  request_.wait = false;
  const auto started = evict();
  ASSERT_TRUE(started.ok()) << started.status().to_string();
  const metadata::Lease held = lease();
  const ReconcileReport report = reconcile();
  ASSERT_EQ(report.waiting.size(), 1U);
  EXPECT_EQ(report.waiting.front().why.code(), Code::kBusy);
  EXPECT_TRUE(report.failed.empty());
  EXPECT_EQ(replicas(), kObjects);
  const auto operation = catalog_->query_operation(started->operation->operation_id);
  EXPECT_EQ(operation->operation.state, OperationState::kRunning);
  EXPECT_NE(operation->operation.message.find("paused"), std::string::npos) << operation->operation.message;
  release(held);
  EXPECT_FALSE(reconcile().changes.empty());
  EXPECT_EQ(record().residency, Residency::kCold);
}

TEST_F(EvictTest, AReconcileReadsNothingWhileALeaseLives) {
  request_.wait = false;
  ASSERT_TRUE(evict().ok());
  const metadata::Lease held = lease();
  const ReconcileReport report = reconcile();
  ASSERT_EQ(report.waiting.size(), 1U);
  EXPECT_NE(report.waiting.front().why.message().find("reader"), std::string::npos);
  EXPECT_EQ(runtime_.passes("evict.after_read_back"), 0U);
  release(held);
  EXPECT_FALSE(reconcile().changes.empty());
  EXPECT_EQ(record().residency, Residency::kCold);
}

TEST_F(EvictTest, ACancelIsHeardBetweenTwoRemovals) {
  runtime_.on("evict.after_permission", [&] { runtime_.on("tier.remove", [&] { cancel_.store(true); }); });
  EXPECT_TRUE(is_cancelled(evict().status()));
  EXPECT_EQ(replicas(), kObjects - 1);
  EXPECT_EQ(record().residency, Residency::kCold) << "it counts none of what may go";
  runtime_.on("evict.after_permission", {});
  runtime_.on("tier.remove", {});
  cancel_.store(false);
  EXPECT_FALSE(reconcile().changes.empty());
  EXPECT_EQ(replicas(), 0U);
}

TEST_F(EvictTest, WhatGoesWithItsStoreIsNotDamaged) {
  ASSERT_TRUE(rehydrate().ok());
  runtime_.on("residency.after_start", [&] { fs::remove_all(root_.path() + "/store"); });
  const auto moved = evict();
  EXPECT_EQ(moved.code(), Code::kUnavailable) << moved.status().to_string();
  EXPECT_NE(moved.status().message().find("is not there any more"), std::string::npos) << moved.status().message();
}

TEST_F(EvictTest, ABadColdObjectKeepsItsHotReplica) {
  damage_cold(2);
  const auto refused = evict();
  EXPECT_EQ(refused.code(), Code::kCorrupt) << refused.status().to_string();
  EXPECT_NE(refused.status().message().find("00000002"), std::string::npos) << refused.status().message();
  EXPECT_EQ(record().finished_operations.back().state, OperationState::kFailed);
  EXPECT_EQ(replicas(), kObjects);
}

TEST_F(EvictTest, AColdObjectThatGoesAfterItWasReadBackKeepsItsHotReplica) {
  runtime_.on("evict.after_permission", [&] { fs::remove(cold_object(1)); });
  const auto refused = evict();
  EXPECT_EQ(refused.code(), Code::kCorrupt) << refused.status().to_string();
  EXPECT_NE(refused.status().message().find("00000001"), std::string::npos) << refused.status().message();
  EXPECT_EQ(record().finished_operations.back().state, OperationState::kFailed);
  EXPECT_EQ(record().finished_operations.back().processed_members, 0U);
  EXPECT_EQ(replicas(), kObjects);
  EXPECT_TRUE(cat() == data_);
  // What memory has is put back, and then it may go.
  runtime_.on("evict.after_permission", [] {});
  reconcile();
  ASSERT_TRUE(evict().ok());
  EXPECT_TRUE(cat() == data_);
}

TEST_F(EvictTest, AColdObjectThatIsReplacedIsReadBeforeItsReplicaGoes) {
  // As a repair does it that another revision has begun: whole bytes in another file take the name.
  const auto replace = [&](std::uint32_t object, char first) {
    const fs::path other = root_.path() + "/other";
    std::string bytes = data_.substr(object * kMiB, kMiB);
    bytes[0] = first;
    std::ofstream(other, std::ios::binary) << bytes;
    fs::rename(other, cold_object(object));
  };
  runtime_.on("evict.after_permission", [&] { replace(2, data_[2 * kMiB]); });
  const auto done = evict();
  ASSERT_TRUE(done.ok()) << done.status().to_string();
  EXPECT_TRUE(cat() == data_);
  runtime_.on("evict.after_permission", [] {});
  ASSERT_TRUE(rehydrate().ok());
  runtime_.on("evict.after_permission", [&] { replace(3, static_cast<char>(data_[3 * kMiB] + 1)); });
  EXPECT_EQ(evict().code(), Code::kCorrupt);
  EXPECT_EQ(replicas(), kObjects);
  EXPECT_TRUE(cat() == data_);
}

TEST_F(EvictTest, DamageThatIsCountedWithoutANameMayBeAnywhere) {
  // More is damaged than a record names, found by others while this one read.
  runtime_.on("evict.after_read_back", [&] {
    if (record().damage.count != 0) return;
    metadata::ReconcileRevision command;
    command.identity = identity_;
    command.observed_generation = record().metadata_generation;
    command.seen.hot_instance = record().hot_instance;
    command.seen.boot_id = record().hot_boot_id;
    command.seen.hot_members = kObjects;
    command.seen.hot_bytes = kObjects * kMiB;
    command.seen.damage.count = kObjects;
    ASSERT_TRUE(catalog_->reconcile_weight_revision(command).ok());
  });
  EXPECT_EQ(evict().code(), Code::kCorrupt);
  EXPECT_EQ(replicas(), kObjects);
}

TEST_F(EvictTest, WithoutAManifestItEnds) {
  // Nobody can go on with it, and a revision with an operation that runs for ever could have no other.
  request_.wait = false;
  const auto started = evict();
  ASSERT_TRUE(started.ok()) << started.status().to_string();
  const fs::path manifest = cold_object(0).parent_path().parent_path() / "manifest";
  fs::permissions(manifest, fs::perms::owner_all);
  std::ofstream(manifest, std::ios::app) << "!";
  const ReconcileReport report = reconcile();
  ASSERT_EQ(report.failed.size(), 1U);
  EXPECT_EQ(report.failed.front().why.code(), Code::kCorrupt);
  EXPECT_FALSE(record().operation);
  EXPECT_EQ(record().finished_operations.back().state, OperationState::kFailed);
  EXPECT_EQ(record().availability, metadata::Availability::kDegraded);
  EXPECT_EQ(replicas(), kObjects);
}

TEST_F(EvictTest, ADeleteEndsIt) {
  runtime_.on("evict.after_read_back", [&] {
    DeleteRequest request;
    request.target = request_.target;
    ASSERT_TRUE(run_delete(*context_, request, cancel_).ok());
  });
  const auto ended = evict();
  EXPECT_EQ(ended.code(), Code::kNotReady) << ended.status().to_string();
  EXPECT_NE(ended.status().message().find("m@main#1 was deleted, and the eviction has ended"), std::string::npos);
}

TEST_F(EvictTest, AnInterruptedOneNamesTheCommandThatGoesOn) {
  request_.ratio_millionths = 500'000;
  runtime_.on("evict.after_read_back", [&] { cancel_.store(true); });
  const auto ended = evict();
  ASSERT_TRUE(is_cancelled(ended.status())) << ended.status().to_string();
  EXPECT_EQ(ended.status().hint(), "the operation goes on with `steelyard evict m@main#1 --ratio 0.5`");
}

TEST_F(EvictTest, ARunnerThatTakesOverRemovesWhatIsLeft) {
  // The first runner ends in the middle of the removals that it was permitted: one of three is done.
  request_.ratio_millionths = 250'000;
  runtime_.on("evict.after_permission", [&] { runtime_.arm("tier.remove", EIO, 0, 2); });
  const auto broken = evict();
  ASSERT_FALSE(broken.ok());
  const std::uint64_t left = replicas();
  EXPECT_LT(left, kObjects);
  EXPECT_GT(left, 1U);
  EXPECT_EQ(record().residency, Residency::kMixed) << "the record says no more than there is at every moment";
  EXPECT_LE(record().hot_members, left);
  ASSERT_TRUE(record().operation);
  runtime_.disarm();
  runtime_.on("evict.after_permission", [] {});

  const auto done = evict();
  ASSERT_TRUE(done.ok()) << done.status().to_string();
  EXPECT_EQ(done->operation->processed_members, 3U);
  EXPECT_EQ(done->record.residency, Residency::kMixed);
  EXPECT_EQ(replicas(), 1U);
  EXPECT_EQ(record().hot_members, 1U);
  EXPECT_EQ(record().hot_millionths, 250'000U);
}

TEST_F(EvictTest, WhileOthersRemoveReplicasNobodyCountsThem) {
  const auto tier = hot_->find().value();
  const auto lock = tier->try_lock_group(attempt_of(record()).group, true);
  ASSERT_TRUE(lock.ok() && *lock != nullptr);
  const auto before = record();
  runtime_.skip_sleeps();
  fs::remove(cold_object(1));  // so that there is something to publish
  reconcile();
  EXPECT_EQ(record().hot_members, before.hot_members);
  const auto refused = rehydrate();
  EXPECT_EQ(refused.code(), Code::kBusy) << refused.status().to_string();
}

TEST_F(EvictTest, ARatioIsReachedFromBothSides) {
  request_.ratio_millionths = 500'000;
  auto done = evict();
  ASSERT_TRUE(done.ok()) << done.status().to_string();
  EXPECT_EQ(done->record.residency, Residency::kMixed);
  EXPECT_EQ(done->record.hot_millionths, 500'000U);
  EXPECT_EQ(replicas(), 2U);
  EXPECT_TRUE(cat() == data_);
  request_.ratio_millionths = 750'000;
  done = evict();
  ASSERT_TRUE(done.ok()) << done.status().to_string();
  EXPECT_EQ(done->record.hot_millionths, 750'000U);
  request_.ratio_millionths = 250'000;
  done = rehydrate();
  ASSERT_TRUE(done.ok()) << done.status().to_string();
  EXPECT_EQ(done->record.hot_millionths, 250'000U);
  EXPECT_EQ(replicas(), 1U);
  request_.ratio_millionths.reset();
  ASSERT_TRUE(evict().ok());
  request_.ratio_millionths = 250'000;
  done = evict();
  ASSERT_TRUE(done.ok());
  EXPECT_FALSE(done->operation) << "what is COLD needs none";
}

TEST_F(EvictTest, ASetThatSharesNothingWithWhatIsInMemoryIsBrought) {
  // As nothing of it was there, the eviction ends COLD in between.
  request_.ratio_millionths = 250'000;
  ASSERT_TRUE(evict().ok());
  const auto manifest = load_manifest(*parts_.cold, record()).value();
  const HotReplicas there = find_hot(*context_, record(), manifest).value();
  ASSERT_EQ(there.members, 1U);
  std::uint32_t kept = 0;
  while (!there.has(kept)) ++kept;
  const std::uint32_t other = kept == 0 ? 1 : 0;
  ASSERT_TRUE(there.tier->remove(there.name_of(kept)).ok());
  tiers::ObjectName name = there.name_of(kept);
  name.index = other;
  const std::string bytes = data_.substr(other * kMiB, kMiB);
  const auto put =
      there.tier->start_put(name, std::as_bytes(std::span(bytes.data(), bytes.size())), manifest.objects[other].sha256);
  ASSERT_TRUE(put.ok() && (*put)->finish().ok());
  const auto done = evict();
  ASSERT_TRUE(done.ok()) << done.status().to_string();
  EXPECT_EQ(done->record.residency, Residency::kMixed);
  EXPECT_EQ(done->record.hot_millionths, 250'000U);
  EXPECT_TRUE(find_hot(*context_, record(), manifest)->has(kept));
}

TEST_F(EvictTest, WhoIsLateForAnEndThatWasUndoneSinceIsTold) {
  ResidencyRequest others = request_;
  HotTier theirs(parts_.open_hot);
  Context context{runtime_, options_, *parts_.cold, *catalog_, *observer_, options_.io_memory, false, {}, &theirs};
  runtime_.on("residency.after_objects", [&] {
    runtime_.on("residency.after_objects", {});
    metadata::ReportOperation gone;
    gone.identity = identity_;
    const auto running = catalog_->query_operation(record().operation->operation_id).value();
    gone.token = {running.operation.operation_id, running.runner->token, running.runner->run_attempt};
    gone.give_back = true;
    ASSERT_TRUE(catalog_->report_operation(gone).ok());
    ASSERT_TRUE(run_evict(context, others, silent_, cancel_).ok());
    ASSERT_TRUE(run_rehydrate(context, others, silent_, cancel_).ok());
  });
  EXPECT_EQ(evict().code(), Code::kStaleGeneration);
  EXPECT_EQ(record().residency, Residency::kHot);
}

TEST_F(EvictTest, WhileItIsPausedOthersCount) {
  std::optional<metadata::Lease> held;
  runtime_.skip_sleeps();
  runtime_.on("evict.after_read_back", [&] {
    if (!held) held = lease();
  });
  runtime_.on("evict.paused", [&] {
    const auto lock = hot_->find().value()->try_lock_group(attempt_of(record()).group, false);
    EXPECT_TRUE(lock.ok() && *lock != nullptr);
    release(*held);
  });
  EXPECT_TRUE(evict().ok());
}

TEST_F(EvictTest, AReconcileDoesNotWaitForALiveRunner) {
  metadata::StartOperation command;
  command.identity = identity_;
  command.expected_metadata_generation = record().metadata_generation;
  command.operation_id = runtime_.random_hex(16);
  command.kind = OperationKind::kEvicting;
  command.target = Residency::kCold;
  command.total_members = kObjects;
  command.total_bytes = kObjects * kMiB;
  command.hot_instance = record().hot_instance;
  command.hot_boot_id = runtime_.epoch();
  command.runner = runner_grant(runtime_, 60'000);
  ASSERT_TRUE(catalog_->start_operation(command).ok());
  const ReconcileReport report = reconcile();
  ASSERT_EQ(report.waiting.size(), 1U);
  EXPECT_EQ(report.waiting.front().why.code(), Code::kBusy);
  EXPECT_EQ(replicas(), kObjects);
}

TEST_F(EvictTest, WhoRemovesFromAGroupWithoutAFolderHoldsItsLockToo) {
  const auto tier = hot_->find().value();
  const std::string group(64, 'e');
  const auto held = tier->try_lock_group(group, true);
  ASSERT_TRUE(held.ok() && *held != nullptr);
  const auto other = tier->try_lock_group(group, false);
  ASSERT_TRUE(other.ok()) << other.status().to_string();
  EXPECT_EQ(*other, nullptr);
}

TEST_F(EvictTest, ACancelEndsTheWaitForTheLockOfAGroup) {
  const auto tier = hot_->find().value();
  const auto held = tier->try_lock_group(attempt_of(record()).group, true);
  ASSERT_TRUE(held.ok() && *held != nullptr);
  const std::uint64_t before = runtime_.passes("tier.lock_group");
  runtime_.on("tier.lock_group", [&] { cancel_.store(true); });
  const auto ended = evict();
  EXPECT_TRUE(is_cancelled(ended.status())) << ended.status().to_string();
  EXPECT_EQ(runtime_.passes("tier.lock_group"), before + 1) << "it did not go on trying";
  cancel_.store(false);
}

TEST_F(EvictTest, ARepeatedRequestIsAnsweredAsTheFirst) {
  request_.expected_generation = record().metadata_generation;
  const auto first = evict();
  ASSERT_TRUE(first.ok()) << first.status().to_string();
  const auto again = evict();
  ASSERT_TRUE(again.ok()) << again.status().to_string();
  EXPECT_EQ(again->operation->operation_id, first->operation->operation_id);
  EXPECT_EQ(again->record.metadata_generation, first->record.metadata_generation);
  EXPECT_EQ(rehydrate().code(), Code::kStaleGeneration) << "another request";
}

TEST_F(EvictTest, ARatioThatIsOnlyStartedBeginsWithWhatIsToBeDone) {
  request_.ratio_millionths = 500'000;
  request_.wait = false;
  const auto started = rehydrate();
  ASSERT_TRUE(started.ok()) << started.status().to_string();
  ASSERT_TRUE(started->operation) << "nothing is to be brought, and something to be removed";
  EXPECT_EQ(started->operation->kind, OperationKind::kEvicting);
  EXPECT_FALSE(reconcile().changes.empty());
  EXPECT_EQ(record().residency, Residency::kMixed);
}

TEST_F(EvictTest, AnotherOperationIsInTheWay) {
  request_.wait = false;
  ASSERT_TRUE(evict().ok());
  request_.wait = true;
  const auto refused = rehydrate();
  EXPECT_EQ(refused.code(), Code::kBusy) << refused.status().to_string();
  EXPECT_NE(refused.status().hint().find("operation cancel"), std::string::npos);
  request_.ratio_millionths = 500'000;
  EXPECT_EQ(evict().code(), Code::kBusy) << "to another target";
}

TEST_F(EvictTest, WhatWasWipedIsOutOfMemory) {
  ASSERT_TRUE(rehydrate().ok());
  wipe_memory();
  const auto evicted = evict();
  ASSERT_TRUE(evicted.ok()) << evicted.status().to_string();
  EXPECT_EQ(evicted->record.residency, Residency::kCold);
  EXPECT_FALSE(evicted->operation) << "there was nothing to be moved";
  EXPECT_TRUE(cat() == data_);
}

TEST_F(EvictTest, OneThatWasLeftInMemoryThatIsWipedIsEnded) {
  for (const bool by_reconcile : {true, false}) {
    request_.wait = true;
    ASSERT_TRUE(rehydrate().ok());
    request_.wait = false;
    ASSERT_TRUE(evict().ok());
    ASSERT_TRUE(record().operation);
    wipe_memory();
    request_.wait = true;
    if (by_reconcile) {
      const ReconcileReport report = reconcile();
      EXPECT_TRUE(report.waiting.empty()) << report.waiting.front().why.to_string();
      EXPECT_TRUE(report.failed.empty()) << report.failed.front().why.to_string();
      EXPECT_EQ(report.changes.size(), 1U);
    } else {
      const auto evicted = evict();
      ASSERT_TRUE(evicted.ok()) << evicted.status().to_string();
    }
    EXPECT_FALSE(record().operation);
    EXPECT_EQ(record().residency, Residency::kCold);
  }
}

TEST_F(EvictTest, ARehydrationThatWasLeftInMemoryThatIsWipedIsNamedWithTheNextStep) {
  ASSERT_TRUE(evict().ok());
  request_.wait = false;
  ASSERT_TRUE(rehydrate().ok());
  ASSERT_TRUE(record().operation);
  wipe_memory();
  request_.wait = true;
  const auto refused = evict();
  EXPECT_EQ(refused.code(), Code::kBusy) << refused.status().to_string();
  EXPECT_EQ(refused.status().hint().find("is mounted"), std::string::npos) << refused.status().hint();
  reconcile();
  ASSERT_FALSE(record().operation);
  ASSERT_TRUE(evict().ok());
  EXPECT_EQ(record().residency, Residency::kCold);
}

TEST_F(EvictTest, AFullDiskUnderTheCatalogEndsNothing) {
  ASSERT_TRUE(rehydrate().ok());
  runtime_.arm("log.before_commit", ENOSPC, 1, 1);  // the first removal is not permitted
  EXPECT_EQ(evict().code(), Code::kNoSpace);
  runtime_.disarm();
  ASSERT_TRUE(record().operation) << "it goes on once there is room";
  const auto evicted = evict();
  ASSERT_TRUE(evicted.ok()) << evicted.status().to_string();
  EXPECT_EQ(record().residency, Residency::kCold);
}

}  // namespace
}  // namespace steelyard::store
