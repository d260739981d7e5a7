// What one tier has and the other lacks.
#include <gtest/gtest.h>

#include <filesystem>

#include "store/repair.h"
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

TEST_F(HotRepairTest, AnEvictionThatMeetsABadColdObjectLeavesItToARepair) {
  ASSERT_TRUE(rehydrate().ok());
  damage_cold(2);
  EXPECT_EQ(evict().code(), Code::kCorrupt);
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
