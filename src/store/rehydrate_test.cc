// Rehydration where a test holds the parts of the store in its hands.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/limits.h"
#include "store/cat.h"
#include "store/delete.h"
#include "store/gc.h"
#include "store/import.h"
#include "store/open_store.h"
#include "store/reconcile.h"
#include "store/residency.h"
#include "tiers/memory/test_instance.h"

namespace steelyard::store {
namespace {

namespace fs = std::filesystem;
using limits::kMiB;
using metadata::Residency;

constexpr std::uint32_t kObjects = 4;

class Silent final : public Observer {
 public:
  void progress(const Progress& /*progress*/) override {}
  void warning(const std::string& /*message*/) override {}
};

class ResidencyTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!memory_.made()) GTEST_SKIP() << "/dev/shm cannot be used here";
    parts_ = open_parts(runtime_, options(), OpenMode::kCreate).value();
    observer_.emplace(*parts_.cold);
    catalog_.emplace(runtime_, *parts_.log, *observer_, catalog::CatalogOptions{});
    hot_.emplace(parts_.open_hot);
    context_.emplace(
        Context{runtime_, options_, *parts_.cold, *catalog_, *observer_, options_.io_memory, false, {}, &*hot_});
    fs::create_directories(root_.path() + "/src");
    data_.resize(kObjects * kMiB);
    for (std::size_t i = 0; i < data_.size(); ++i) data_[i] = static_cast<char>(i / 1000 * 7 + i / kMiB);
    std::ofstream(root_.path() + "/src/w.bin", std::ios::binary) << data_;
    ImportRequest request;
    request.source = root_.path() + "/src";
    request.target.ref = {"m", "main", std::nullopt};
    request.chunk_bytes = kMiB;
    const auto source = open_source(request.source, false);
    ASSERT_TRUE(source.ok());
    const auto imported = run_import(*context_, request, **source, silent_, cancel_);
    ASSERT_TRUE(imported.ok()) << imported.status().to_string();
    request_.target.ref = {"m", "main", 1};
    identity_ = imported->record.identity;
  }

  const StoreOptions& options() {
    options_.path = root_.path() + "/store";
    options_.cold_reserve_free = 0;
    options_.hot_path = memory_.path();
    options_.hot_capacity = 64 * kMiB;
    options_.jobs = 1;
    return options_;
  }
  Result<ResidencyResult> rehydrate() { return run_rehydrate(*context_, request_, silent_, cancel_); }
  metadata::RevisionRecord record() { return catalog_->get_weight_revision(identity_).value(); }
  ReconcileReport reconcile() { return run_reconcile(*context_, std::nullopt, silent_, cancel_).value(); }
  std::string cat() {
    std::string text;
    CatRequest request;
    request.source = request_.target;
    request.path = "w.bin";
    const Status status = run_cat(
        *context_, request,
        [&](ByteView bytes) {
          text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
          return Status();
        },
        cancel_);
    EXPECT_TRUE(status.ok()) << status.to_string();
    return text;
  }
  std::uint64_t hot_bytes() { return hot_->make().value()->usage()->bytes; }
  fs::path cold_object(std::uint32_t index) {
    const tiers::AttemptName attempt = attempt_of(record());
    return root_.path() + "/store/cold/groups/" + attempt.group.substr(0, 2) + "/" + attempt.group + "/1/p/0000000" +
           std::to_string(index);
  }
  void damage_cold(std::uint32_t index) {
    const fs::path path = cold_object(index);
    fs::permissions(path, fs::perms::owner_all);
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(100);
    file.put('!');
  }

  tiers::TestFolder root_;
  tiers::TestTmpfs memory_;
  Runtime& runtime_ = real_runtime();
  StoreOptions options_;
  StoreParts parts_;
  std::optional<TierObserver> observer_;
  std::optional<catalog::Catalog> catalog_;
  std::optional<HotTier> hot_;
  std::optional<Context> context_;
  ResidencyRequest request_;
  metadata::Identity identity_;
  std::string data_;
  Silent silent_;
  CancelFlag cancel_{false};
};

TEST_F(ResidencyTest, EveryObjectIsBroughtOnceAndReadFromThere) {
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
  EXPECT_EQ(cat(), data_);
  EXPECT_TRUE(reconcile().changes.empty());
}

TEST_F(ResidencyTest, WhatIsBadInMemoryIsReadFromTheColdTier) {
  ASSERT_TRUE(rehydrate().ok());
  for (const auto& file : fs::recursive_directory_iterator(memory_.path())) {
    if (file.path().filename() != "00000002") continue;
    fs::permissions(file.path(), fs::perms::owner_all);
    std::fstream bad(file.path(), std::ios::in | std::ios::out | std::ios::binary);
    bad.seekp(5000);
    bad.put('!');
  }
  EXPECT_EQ(cat(), data_);
}

TEST_F(ResidencyTest, WithoutRoomItFailsAndLeavesNothing) {
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

TEST_F(ResidencyTest, ADamagedColdObjectEndsItAndIsRecorded) {
  damage_cold(2);
  const auto refused = rehydrate();
  EXPECT_EQ(refused.code(), Code::kCorrupt) << refused.status().to_string();
  EXPECT_EQ(record().availability, metadata::Availability::kDegraded);
  EXPECT_EQ(record().damage.count, 1U);
  EXPECT_EQ(record().residency, Residency::kCold);
  EXPECT_FALSE(record().operation);
  EXPECT_EQ(hot_bytes(), 0U);
}

TEST_F(ResidencyTest, WithoutItsManifestNoReplicaCounts) {
  ASSERT_TRUE(rehydrate().ok());
  const fs::path manifest = cold_object(0).parent_path().parent_path() / "manifest";
  fs::permissions(manifest, fs::perms::owner_all);
  std::ofstream(manifest, std::ios::binary) << "no manifest";
  reconcile();
  EXPECT_EQ(record().availability, metadata::Availability::kDegraded);
  EXPECT_EQ(record().residency, Residency::kCold);
}

TEST_F(ResidencyTest, WhatIsTakenBackIsNotCountedByWhoTakesIt) {
  const auto done = rehydrate();
  ASSERT_TRUE(done.ok());
  tiers::AttemptName brought = attempt_of(record());
  brought.operation = done->operation->operation_id;
  const auto lock = lock_to_remove(*context_, *hot_->find().value(), record());
  ASSERT_TRUE(lock.ok());
  metadata::Observation seen;
  see_hot_without(*context_, record(), brought, seen);
  EXPECT_EQ(seen.hot_instance, record().hot_instance);
  EXPECT_EQ(seen.hot_members, 0U);
}

TEST_F(ResidencyTest, OneThatWasOnlyStartedIsCarriedOutByAReconcile) {
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

TEST_F(ResidencyTest, MemoryThatWasWipedIsNotKnownToBeGoneUntilAsMuchIsThereAgain) {
  const auto first = rehydrate();
  ASSERT_TRUE(first.ok());
  fs::remove_all(memory_.path() + "/steelyard-" + parts_.store_id);
  EXPECT_EQ(cat(), data_) << "the cold replicas do as well";
  reconcile();
  EXPECT_EQ(record().residency, Residency::kHot) << "another container may have it";
  const auto second = rehydrate();
  ASSERT_TRUE(second.ok()) << second.status().to_string();
  EXPECT_EQ(second->record.residency, Residency::kHot);
  EXPECT_NE(second->record.hot_instance, first->record.hot_instance);
}

TEST_F(ResidencyTest, MembersThatWentAreSeen) {
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

TEST_F(ResidencyTest, ADeleteFreesTheMemoryAndGcWhatCameLate) {
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
