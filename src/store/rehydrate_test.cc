// Rehydration where a test holds the parts of the store in its hands.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "store/delete.h"
#include "store/gc.h"
#include "store/test_hot_store.h"

namespace steelyard::store {
namespace {

class RehydrateTest : public HotStoreTest {};

TEST_F(RehydrateTest, EveryObjectIsBroughtOnceAndReadFromThere) {
  const auto done = rehydrate();
  ASSERT_TRUE(done.ok()) << done.status().to_string();
  EXPECT_EQ(done->record.residency, Residency::kHot);
  EXPECT_EQ(done->record.hot_members, kObjects);
  EXPECT_EQ(done->operation->state, metadata::OperationState::kDone);
  EXPECT_EQ(done->moved_objects, kObjects);
  EXPECT_EQ(done->read_bytes, kObjects * kMiB);
  const std::uint64_t held = hot_bytes();
  EXPECT_EQ(held, kObjects * kMiB);

  const auto again = rehydrate();
  ASSERT_TRUE(again.ok()) << again.status().to_string();
  EXPECT_FALSE(again->operation) << "prefetching what is HOT reads nothing";
  EXPECT_EQ(again->record.metadata_generation, done->record.metadata_generation);

  // The cold bytes are damaged, and a read does not see them.
  damage_cold(1);
  EXPECT_TRUE(cat() == data_);
  EXPECT_TRUE(reconcile().changes.empty());
}

TEST_F(RehydrateTest, WhatIsBadInMemoryIsReadFromTheColdTier) {
  ASSERT_TRUE(rehydrate().ok());
  for (const auto& file : fs::recursive_directory_iterator(memory_.path())) {
    if (file.path().filename() != "00000002") continue;
    fs::permissions(file.path(), fs::perms::owner_all);
    std::fstream bad(file.path(), std::ios::in | std::ios::out | std::ios::binary);
    bad.seekp(5000);
    bad.put('!');
  }
  EXPECT_TRUE(cat() == data_);
}

TEST_F(RehydrateTest, WithoutRoomItFailsAndLeavesNothing) {
  options_.hot_capacity = 2 * kMiB;
  tiers::MemoryOptions small;
  small.path = memory_.path();
  small.store_id = parts_.store_id;
  small.capacity = 2 * kMiB;
  hot_.emplace([&](bool create) {
    small.create = create;
    return tiers::open_memory(runtime_, small);
  });
  const auto refused = rehydrate();
  EXPECT_EQ(refused.code(), Code::kNoSpace) << refused.status().to_string();
  EXPECT_NE(refused.status().message().find("hot.capacity"), std::string::npos);
  EXPECT_EQ(record().residency, Residency::kCold);
  EXPECT_FALSE(record().operation);
  EXPECT_EQ(record().finished_operations.back().state, metadata::OperationState::kFailed);
  EXPECT_EQ(hot_bytes(), 0U);
}

TEST_F(RehydrateTest, ADamagedColdObjectEndsItAndIsRecorded) {
  damage_cold(2);
  const auto refused = rehydrate();
  EXPECT_EQ(refused.code(), Code::kCorrupt) << refused.status().to_string();
  EXPECT_EQ(record().availability, metadata::Availability::kDegraded);
  EXPECT_EQ(record().damage.count, 1U);
  EXPECT_EQ(record().residency, Residency::kCold);
  EXPECT_FALSE(record().operation);
  EXPECT_EQ(hot_bytes(), 0U);
}

TEST_F(RehydrateTest, OneThatWasOnlyStartedIsCarriedOutByAReconcile) {
  request_.wait = false;
  const auto started = rehydrate();
  ASSERT_TRUE(started.ok()) << started.status().to_string();
  ASSERT_TRUE(started->operation);
  EXPECT_EQ(record().residency, Residency::kCold);
  const ReconcileReport report = reconcile();
  ASSERT_FALSE(report.changes.empty());
  EXPECT_TRUE(report.failed.empty());
  EXPECT_EQ(record().residency, Residency::kHot);
  EXPECT_FALSE(record().operation);
}

TEST_F(RehydrateTest, MemoryThatWasWipedIsNotKnownToBeGoneUntilAsMuchIsThereAgain) {
  const auto first = rehydrate();
  ASSERT_TRUE(first.ok());
  fs::remove_all(memory_.path() + "/steelyard-" + parts_.store_id);
  EXPECT_TRUE(cat() == data_) << "the cold replicas do as well";
  reconcile();
  EXPECT_EQ(record().residency, Residency::kHot) << "another container may have it";
  const auto second = rehydrate();
  ASSERT_TRUE(second.ok()) << second.status().to_string();
  EXPECT_EQ(second->record.residency, Residency::kHot);
  EXPECT_NE(second->record.hot_instance, first->record.hot_instance);
}

TEST_F(RehydrateTest, MembersThatWentAreSeen) {
  ASSERT_TRUE(rehydrate().ok());
  const auto tier = hot_->find().value();
  const auto listing = tier->list_group(attempt_of(record()).group);
  ASSERT_EQ(listing->by_operation.size(), 1U);
  ASSERT_TRUE(tier->remove({listing->by_operation.front(), tiers::ObjectKind::kPayload, 3}).ok());
  EXPECT_EQ(reconcile().changes.size(), 1U);
  EXPECT_EQ(record().residency, Residency::kMixed);
  EXPECT_EQ(record().hot_members, 3U);
  const auto again = rehydrate();
  ASSERT_TRUE(again.ok()) << again.status().to_string();
  EXPECT_EQ(again->moved_objects, 1U);
  EXPECT_EQ(record().residency, Residency::kHot);
}

TEST_F(RehydrateTest, ADeleteFreesTheMemoryAndGcWhatCameLate) {
  ASSERT_TRUE(rehydrate().ok());
  const auto tier = hot_->find().value();
  tiers::AttemptName late = attempt_of(record());
  late.operation = std::string(32, 'a');
  const auto deleted =
      run_delete(*context_, {.target = request_.target, .expected_generation = {}, .wait_ms = {}}, cancel_);
  ASSERT_TRUE(deleted.ok()) << deleted.status().to_string();
  EXPECT_EQ(hot_bytes(), 0U);
  std::vector<std::byte> bytes(kMiB, std::byte{1});
  const Digest any{};
  ASSERT_TRUE((*tier->start_put({late, tiers::ObjectKind::kPayload, 0}, bytes, any))->finish().ok());
  EXPECT_EQ(run_gc(*context_, false, cancel_)->bytes, kMiB);
  EXPECT_EQ(hot_bytes(), 0U);
}

}  // namespace
}  // namespace steelyard::store
