// What one tier has and the other lacks.
#include <gtest/gtest.h>

#include <filesystem>
#include <utility>
#include <vector>

#include "steelyard/log.h"
#include "store/repair.h"
#include "store/resolve.h"
#include "store/test_hot_store.h"
#include "store/verify.h"

namespace steelyard::store {
namespace {

class HotRepairTest : public HotStoreTest {
 protected:
  Result<RepairResult> repair() {
    RepairRequest request;
    request.target = request_.target;
    return run_repair(*context_, request, nullptr, silent_, cancel_);
  }
  void remove_from_memory(std::uint32_t index) {
    std::vector<fs::path> found;
    for (const auto& file : fs::recursive_directory_iterator(memory_.path())) {
      if (file.path().filename() == "0000000" + std::to_string(index)) found.push_back(file.path());
    }
    for (const fs::path& path : found) fs::remove(path);
  }
  VerifyReport verify() { return run_verify(*context_, request_.target, silent_, cancel_).value(); }
};

TEST_F(HotRepairTest, WhatMemoryServesIsNoDamageAndIsPutBack) {
  ASSERT_TRUE(rehydrate().ok());
  damage_cold(1);
  const VerifyReport found = verify();
  ASSERT_EQ(found.problems.size(), 1U);
  EXPECT_EQ(found.problems.front().tier, "cold");
  EXPECT_EQ(found.hot_objects, kObjects);
  EXPECT_EQ(found.record.availability, metadata::Availability::kReady);
  EXPECT_EQ(found.record.damage.count, 0U);
  ASSERT_TRUE(found.record.operation);
  EXPECT_EQ(found.record.operation->kind, metadata::OperationKind::kRepairing);
  EXPECT_EQ(found.record.operation->total_members, 1U);

  EXPECT_TRUE(reconcile().failed.empty());
  EXPECT_FALSE(record().operation);
  EXPECT_EQ(record().finished_operations.back().state, metadata::OperationState::kDone);
  EXPECT_EQ(record().residency, Residency::kHot);
  EXPECT_TRUE(verify().problems.empty());
}

TEST_F(HotRepairTest, ColdMembersThatAreMissingComeBackInOnePass) {
  ASSERT_TRUE(rehydrate().ok());
  for (std::uint32_t i = 0; i < kObjects; ++i) fs::remove(cold_object(i));
  fs::remove_all(root_.path() + "/store/cold/content");
  EXPECT_EQ(cat(), data_);
  EXPECT_TRUE(reconcile().failed.empty());
  EXPECT_EQ(record().availability, metadata::Availability::kReady);
  EXPECT_FALSE(record().operation);
  ASSERT_TRUE(remove_hot(*context_, attempt_of(record()).group).ok());
  EXPECT_TRUE(reconcile().failed.empty());
  EXPECT_EQ(record().residency, Residency::kCold);
  EXPECT_TRUE(verify().problems.empty());
  EXPECT_EQ(cat(), data_);
}

TEST_F(HotRepairTest, WithoutItsMemoryItIsDamage) {
  ASSERT_TRUE(rehydrate().ok());
  damage_cold(1);
  damage_hot(1);
  EXPECT_EQ(verify().record.availability, metadata::Availability::kDegraded);
  EXPECT_EQ(record().damage.count, 1U);
}

TEST_F(HotRepairTest, WhatIsBadInMemoryIsMadeAnewFromTheColdTier) {
  ASSERT_TRUE(rehydrate().ok());
  damage_hot(2);
  const VerifyReport found = verify();
  ASSERT_EQ(found.problems.size(), 1U);
  EXPECT_EQ(found.problems.front().tier, "hot");
  EXPECT_EQ(found.record.availability, metadata::Availability::kReady);
  EXPECT_TRUE(found.record.operation);
  const auto repaired = repair();
  ASSERT_TRUE(repaired.ok()) << repaired.status().to_string();
  EXPECT_EQ(repaired->restored_objects, 1U);
  EXPECT_EQ(record().residency, Residency::kHot);
  EXPECT_TRUE(verify().problems.empty());
  EXPECT_EQ(hot_bytes(), kObjects * kMiB);
}

TEST_F(HotRepairTest, WithoutRoomForBothABadReplicaGoes) {
  ASSERT_TRUE(rehydrate().ok());
  damage_hot(2);
  use_capacity(kObjects * kMiB);
  const auto repaired = repair();
  ASSERT_TRUE(repaired.ok()) << repaired.status().to_string();
  EXPECT_EQ(record().residency, Residency::kMixed);
  EXPECT_TRUE(verify().problems.empty());
  EXPECT_EQ(hot_bytes(), (kObjects - 1) * kMiB);
  ASSERT_TRUE(rehydrate().ok());
  EXPECT_TRUE(verify().problems.empty());
}

TEST_F(HotRepairTest, BlocksThatAreBadInDifferentReplicasMakeAWholeOne) {
  ImportRequest import;
  import.source = root_.path() + "/src";
  import.target.ref = {"two-blocks", "main", std::nullopt};
  import.chunk_bytes = 2 * kMiB;
  const auto source = open_source(import.source, false);
  const auto imported = run_import(*context_, import, **source, silent_, cancel_);
  ASSERT_TRUE(imported.ok()) << imported.status().to_string();
  identity_ = imported->record.identity;
  request_.target = selector_of(identity_);
  ASSERT_TRUE(rehydrate().ok());
  damage_cold(0);
  for (const auto& file : fs::recursive_directory_iterator(memory_.path())) {
    if (file.path().filename() != "00000000") continue;
    fs::permissions(file.path(), fs::perms::owner_all);
    std::fstream bad(file.path(), std::ios::in | std::ios::out | std::ios::binary);
    bad.seekp(kMiB + 5);
    bad.put('!');
  }
  EXPECT_EQ(evict().code(), Code::kCorrupt);
  ASSERT_TRUE(record().operation) << "a repair is begun by who finds it";
  EXPECT_EQ(record().operation->kind, metadata::OperationKind::kRepairing);
  EXPECT_TRUE(reconcile().failed.empty());
  EXPECT_EQ(record().availability, metadata::Availability::kReady);
  EXPECT_TRUE(verify().problems.empty());
  EXPECT_TRUE(evict().ok());
}

TEST_F(HotRepairTest, WhatNobodyHasIsTriedOnce) {
  ASSERT_TRUE(rehydrate().ok());
  damage_cold(1);
  damage_hot(1);
  EXPECT_EQ(evict().code(), Code::kCorrupt);
  for (int pass = 0; pass < 3; ++pass) reconcile();
  EXPECT_EQ(record().availability, metadata::Availability::kDegraded);
  EXPECT_FALSE(record().operation);
  std::uint64_t repairs = 0;
  for (const metadata::Operation& ended : record().finished_operations) {
    repairs += ended.kind == metadata::OperationKind::kRepairing ? 1 : 0;
  }
  EXPECT_EQ(repairs, 1U);
}

class SharedHotRepairTest : public HotRepairTest {
 protected:
  void SetUp() override {
    HotRepairTest::SetUp();
    if (IsSkipped()) return;
    ImportRequest request;
    request.source = root_.path() + "/src";
    request.target.ref = {"n", "main", std::nullopt};
    request.chunk_bytes = kMiB;
    const auto source = open_source(request.source, false);
    const auto imported = run_import(*context_, request, **source, silent_, cancel_);
    ASSERT_TRUE(imported.ok()) << imported.status().to_string();
    other_ = imported->record.identity;
    ResidencyRequest other;
    other.target.ref = {"n", "main", 1};
    ASSERT_TRUE(rehydrate().ok());
    ASSERT_TRUE(run_rehydrate(*context_, other, silent_, cancel_).ok());
    ASSERT_EQ(hot_bytes(), kObjects * kMiB) << "they share it";
    damage_hot(2);
    use_capacity(kObjects * kMiB);
  }
  Selector other_selector() const { return selector_of(other_); }
  metadata::RevisionRecord other() { return catalog_->get_weight_revision(other_).value(); }
  metadata::Identity other_;
};

TEST_F(SharedHotRepairTest, ABadReplicaGoesUnderEveryNameAndIsCountedByNobody) {
  const auto tier = hot_->find().value();
  bool locked = false;
  bool counted = false;
  runtime_.on("tier.remove", [&] {
    const auto lock = tier->try_lock_group(attempt_of(other()).group, false);
    if (!lock.ok() || *lock != nullptr) return;
    locked = true;
    counted = counted || other().residency == Residency::kHot;
  });
  const auto repaired = repair();
  runtime_.on("tier.remove", {});
  ASSERT_TRUE(repaired.ok()) << repaired.status().to_string();
  EXPECT_TRUE(locked && !counted) << "lowered first, under the lock";
  EXPECT_EQ(record().hot_members, kObjects - 1);
  EXPECT_EQ(other().residency, Residency::kMixed);
  EXPECT_EQ(other().hot_members, kObjects - 1);
  EXPECT_EQ(hot_bytes(), (kObjects - 1) * kMiB);
  EXPECT_TRUE(verify().problems.empty());
}

TEST_F(SharedHotRepairTest, TheNameThatIsRepairedIsTheLastToBeGood) {
  use_capacity(8 * kObjects * kMiB);
  const auto bad_of_other = [&] {
    return run_verify(*context_, other_selector(), silent_, cancel_).value().problems.size();
  };
  std::size_t first_good = 0;
  runtime_.on("tier.after_replace", [&] {
    if (first_good++ != 0) return;
    EXPECT_FALSE(verify().problems.empty()) << "the other one's name came first";
  });
  ASSERT_TRUE(repair().ok());
  runtime_.on("tier.after_replace", {});
  EXPECT_GE(first_good, 2U);
  EXPECT_TRUE(verify().problems.empty());
  EXPECT_EQ(bad_of_other(), 0U);
}

TEST_F(SharedHotRepairTest, AnEvictionBesideARepairIsNotUndone) {
  use_capacity(8 * kObjects * kMiB);
  ResidencyRequest other;
  other.target = other_selector();
  runtime_.on("tier.after_replacement_write", [&] {
    runtime_.on("tier.after_replacement_write", {});
    const auto evicted = run_evict(*context_, other, silent_, cancel_);
    EXPECT_TRUE(evicted.ok()) << evicted.status().to_string();
  });
  ASSERT_TRUE(repair().ok());
  EXPECT_EQ(this->other().residency, Residency::kCold);
  const auto listing = hot_->find().value()->list_group(attempt_of(this->other()).group);
  ASSERT_TRUE(listing.ok());
  EXPECT_TRUE(listing->by_operation.empty()) << "nothing came back";
  EXPECT_TRUE(verify().problems.empty());
}

TEST_F(SharedHotRepairTest, NothingGoesWhileSomebodyCountsIt) {
  runtime_.skip_sleeps();
  const auto counting = hot_->find().value()->try_lock_group(attempt_of(other()).group, false);
  ASSERT_TRUE(counting.ok() && *counting != nullptr);
  EXPECT_EQ(repair().code(), Code::kBusy);
  EXPECT_EQ(other().residency, Residency::kHot);
  EXPECT_EQ(hot_bytes(), kObjects * kMiB);
}

TEST_F(HotRepairTest, AReadNamesWhatIsBadInMemory) {
  ASSERT_TRUE(rehydrate().ok());
  damage_hot(2);
  std::string said;
  const LogSink before = set_log_sink([&](LogLevel, std::string_view line) { said += std::string(line) + "\n"; });
  EXPECT_EQ(cat(), data_);
  set_log_sink(before);
  EXPECT_NE(said.find("weights/default/m/main/1/payload/00000002 of m@main#1 is damaged in memory"), std::string::npos)
      << said;
}

TEST_F(HotRepairTest, AReadBeginsTheRepairOfWhatIsBadInMemory) {
  ASSERT_TRUE(rehydrate().ok());
  damage_hot(2);
  EXPECT_EQ(cat(), data_);
  EXPECT_EQ(record().availability, metadata::Availability::kReady);
  EXPECT_EQ(record().residency, Residency::kMixed) << "HOT means every byte";
  EXPECT_EQ(record().hot_members, kObjects - 1);
  ASSERT_TRUE(record().operation);
  EXPECT_EQ(record().operation->kind, metadata::OperationKind::kRepairing);
  EXPECT_EQ(record().operation->total_members, 1U);
  const std::uint64_t generation = record().metadata_generation;
  EXPECT_EQ(cat(), data_);
  EXPECT_EQ(record().metadata_generation, generation) << "it is known";
  EXPECT_TRUE(reconcile().failed.empty());
  EXPECT_FALSE(record().operation);
  EXPECT_EQ(record().residency, Residency::kHot);
  EXPECT_TRUE(verify().problems.empty());
}

TEST_F(HotRepairTest, AReaderWhoMayNotWriteOnlyReads) {
  ASSERT_TRUE(rehydrate().ok());
  damage_hot(2);
  context_->read_only = true;
  EXPECT_EQ(cat(), data_);
  EXPECT_EQ(verify().problems.size(), 1U);
  EXPECT_FALSE(record().operation);
  EXPECT_EQ(record().residency, Residency::kHot);
}

TEST_F(HotRepairTest, WhatIsMissingInMemoryIsAProblemOnce) {
  ASSERT_TRUE(rehydrate().ok());
  remove_from_memory(2);
  const VerifyReport found = verify();
  ASSERT_EQ(found.problems.size(), 1U);
  EXPECT_EQ(found.problems.front().kind, ProblemKind::kMissingObject);
  EXPECT_EQ(found.problems.front().tier, "hot");
  EXPECT_EQ(found.record.availability, metadata::Availability::kReady);
  EXPECT_EQ(found.record.residency, Residency::kMixed);
  EXPECT_FALSE(found.record.operation) << "a rehydration is what brings it back";
  EXPECT_TRUE(verify().problems.empty());
}

TEST_F(HotRepairTest, WhatAnEvictionTakesIsNotMissing) {
  ASSERT_TRUE(rehydrate().ok());
  bool once = false;
  runtime_.on("tier.read", [&] {
    if (std::exchange(once, true)) return;
    const auto leases = catalog_->list_leases(identity_);
    ASSERT_TRUE(leases.ok());
    for (const auto& row : *leases) {
      ASSERT_TRUE(catalog_->release_lease({.lease_id = row.lease.lease_id}).ok());
    }
    ASSERT_TRUE(evict().ok());
  });
  const VerifyReport found = verify();
  runtime_.on("tier.read", {});
  EXPECT_TRUE(once);
  EXPECT_TRUE(found.problems.empty());
  EXPECT_EQ(record().residency, Residency::kCold);
}

TEST_F(HotRepairTest, AnEvictionThatMeetsABadColdObjectLeavesItToARepair) {
  ASSERT_TRUE(rehydrate().ok());
  damage_cold(2);
  bool was_degraded = false;
  runtime_.on("log.after_commit",
              [&] { was_degraded = was_degraded || record().availability == metadata::Availability::kDegraded; });
  EXPECT_EQ(evict().code(), Code::kCorrupt);
  runtime_.on("log.after_commit", {});
  EXPECT_FALSE(was_degraded) << "at no time";
  EXPECT_EQ(record().availability, metadata::Availability::kReady) << "memory has it";
  ASSERT_TRUE(record().operation);
  EXPECT_EQ(record().operation->kind, metadata::OperationKind::kRepairing);
  EXPECT_TRUE(reconcile().failed.empty());
  const auto evicted = evict();
  ASSERT_TRUE(evicted.ok()) << evicted.status().to_string();
  EXPECT_EQ(record().residency, Residency::kCold);
  EXPECT_EQ(cat(), data_);
}

}  // namespace
}  // namespace steelyard::store
