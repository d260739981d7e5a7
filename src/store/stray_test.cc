// Two memories on one store: what lies in the one that the record does not name.
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "store/damage_record.h"
#include "store/delete.h"
#include "store/doctor_memory.h"
#include "store/evict.h"
#include "store/gc.h"
#include "store/make_room.h"
#include "store/manifest_file.h"
#include "store/test_hot_store.h"

namespace steelyard::store {
namespace {

using metadata::OperationState;

class StrayTest : public HotStoreTest {
 protected:
  void SetUp() override {
    HotStoreTest::SetUp();
    if (IsSkipped()) return;
    ASSERT_TRUE(other_.made());
    ASSERT_TRUE(rehydrate().ok());
    use(other_);
    ASSERT_TRUE(rehydrate().ok());
    // The record names the other one from now on; this process has mounted the first.
    use(memory_);
    ASSERT_NE(record().hot_instance, mounted_instance(*context_));
  }
  GcReport gc(bool dry_run = false) { return run_gc(*context_, dry_run, cancel_).value(); }
  fs::path catalog_path() { return root_.path() + "/store/catalog.db"; }
  HotReplicas here() {
    const auto manifest = load_manifest(*parts_.cold, record()).value();
    return find_hot(*context_, record(), manifest).value();
  }
  metadata::Identity import_another(const std::string& name, std::uint64_t mib) {
    std::string data(mib * kMiB, 's');
    for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<char>(i / 999 * 5 + mib);
    return import_file(name, data);
  }

  tiers::TestTmpfs other_;
};

TEST_F(StrayTest, AnEvictionFreesItHere) {
  const auto before = record();
  const metadata::Lease held = lease();
  const auto evicted = evict();
  ASSERT_TRUE(evicted.ok()) << evicted.status().to_string();
  EXPECT_FALSE(evicted->operation);
  EXPECT_EQ(evicted->removed_objects, kObjects);
  EXPECT_EQ(evicted->read_bytes, kObjects * kMiB) << "the cold objects were read back";
  EXPECT_EQ(hot_bytes(), 0U);
  EXPECT_EQ(record(), before) << "it is HOT where its record says so";
  EXPECT_TRUE(cat() == data_);
  EXPECT_EQ(evict().code(), Code::kUnavailable) << "nothing is left here that could be evicted";
  use(other_);
  EXPECT_EQ(hot_bytes(), kObjects * kMiB);
  release(held);
  EXPECT_EQ(evict()->record.residency, Residency::kCold);
}

TEST_F(StrayTest, ARatioIsForTheMemoryThatTheRecordNames) {
  request_.ratio_millionths = 500'000;
  EXPECT_EQ(evict().code(), Code::kUnavailable);
  EXPECT_EQ(hot_bytes(), kObjects * kMiB);
}

TEST_F(StrayTest, GcLeavesWhatARevisionHas) {
  EXPECT_EQ(gc(true).bytes, 0U);
  EXPECT_EQ(gc().bytes, 0U);
  EXPECT_EQ(hot_bytes(), kObjects * kMiB);
}

TEST_F(StrayTest, WhoWantsTheRoomGetsIt) {
  set_policy(identity_, metadata::PolicyMode::kPinned, Residency::kHot);
  const metadata::Lease held = lease();
  const metadata::Identity second = import_another("second", 2);
  use(memory_, 5 * kMiB);
  request_.target.ref = {"second", "main", 1};
  const auto refused = rehydrate();
  EXPECT_EQ(refused.code(), Code::kNoSpace);
  EXPECT_NE(refused.status().message().find("would free 4MiB (m@main#1)"), std::string::npos)
      << refused.status().message();
  request_.make_room = true;
  const auto brought = rehydrate();
  ASSERT_TRUE(brought.ok()) << brought.status().to_string();
  EXPECT_EQ(brought->evicted, std::vector<std::string>{"m@main#1"});
  EXPECT_EQ(brought->record.identity, second);
  EXPECT_EQ(record().residency, Residency::kHot);
  EXPECT_EQ(hot_bytes(), 2 * kMiB);
}

TEST_F(StrayTest, WhatTheColdTierLacksStaysAndRepairsIt) {
  damage_cold(2);
  EXPECT_EQ(evict().code(), Code::kCorrupt);
  EXPECT_EQ(here().members, kObjects) << "it goes in batches";
  const auto operation = record().operation;
  ASSERT_TRUE(operation);
  EXPECT_EQ(operation->kind, metadata::OperationKind::kRepairing);
  EXPECT_EQ(evict().code(), Code::kBusy) << "the repair takes from it what the cold tier lacks";
  reconcile();
  EXPECT_FALSE(record().operation);
  ASSERT_TRUE(evict().ok());
  EXPECT_EQ(hot_bytes(), 0U);
  EXPECT_TRUE(cat() == data_);
}

TEST_F(StrayTest, WhatARehydrationAdoptsMeanwhileStays) {
  bool begun = false;
  runtime_.on("evict.after_read_back", [&] {
    if (std::exchange(begun, true)) return;
    ResidencyRequest request = request_;
    ASSERT_TRUE(run_rehydrate(*context_, request, silent_, cancel_).ok());
  });
  const auto evicted = evict();
  // The record names this memory by now, so it was evicted like any other.
  ASSERT_TRUE(evicted.ok()) << evicted.status().to_string();
  ASSERT_TRUE(evicted->operation);
  EXPECT_EQ(evicted->record.residency, Residency::kCold);
  use(other_);
  reconcile();
  EXPECT_EQ(record().residency, Residency::kHot) << "the other one still has it";
}

TEST_F(StrayTest, WhatARehydrationHasBegunToAdoptStays) {
  bool begun = false;
  runtime_.on("evict.after_read_back", [&] {
    if (std::exchange(begun, true)) return;
    ResidencyRequest request = request_;
    request.wait = false;
    ASSERT_TRUE(run_rehydrate(*context_, request, silent_, cancel_).ok());
  });
  EXPECT_EQ(evict().code(), Code::kBusy);
  EXPECT_TRUE(begun);
  EXPECT_EQ(hot_bytes(), kObjects * kMiB);
  const auto brought = rehydrate();
  ASSERT_TRUE(brought.ok()) << brought.status().to_string();
  EXPECT_EQ(brought->read_bytes, 0U);
  EXPECT_EQ(record().hot_instance, mounted_instance(*context_));
}

TEST_F(StrayTest, ARehydrationThatBeganBringsWhatWentJustBefore) {
  bool gone = false;
  runtime_.on("residency.after_start", [&] {
    if (std::exchange(gone, true)) return;
    // As if it had been judged, under the lock, a moment before the operation was there.
    const HotReplicas there = here();
    for (std::uint32_t object = 0; object < kObjects; ++object) {
      ASSERT_TRUE(there.tier->remove(there.name_of(object)).ok());
    }
  });
  const auto brought = rehydrate();
  ASSERT_TRUE(brought.ok()) << brought.status().to_string();
  EXPECT_TRUE(gone);
  EXPECT_EQ(brought->moved_objects, kObjects);
  EXPECT_EQ(brought->operation->state, OperationState::kDone);
  EXPECT_EQ(hot_bytes(), kObjects * kMiB);
}

TEST_F(StrayTest, WhatShowsMoreThanTheRecordIsCountedFirst) {
  use(other_);
  const HotReplicas there = here();
  ASSERT_TRUE(there.tier->remove(there.name_of(0)).ok());
  reconcile();
  ASSERT_EQ(record().residency, Residency::kMixed);
  use(memory_);
  const auto evicted = evict();
  ASSERT_TRUE(evicted.ok()) << evicted.status().to_string();
  EXPECT_TRUE(evicted->operation);
  EXPECT_EQ(evicted->record.residency, Residency::kCold);
  EXPECT_EQ(hot_bytes(), 0U);
}

TEST_F(StrayTest, WhatShowsMoreAndIsPinnedMakesNoRoom) {
  import_another("second", 2);
  import_another("third", 5);
  request_.target.ref = {"second", "main", 1};
  ASSERT_TRUE(rehydrate().ok());
  use(other_);
  const HotReplicas there = here();
  ASSERT_TRUE(there.tier->remove(there.name_of(0)).ok());
  reconcile();
  ASSERT_EQ(record().residency, Residency::kMixed);
  set_policy(identity_, metadata::PolicyMode::kPinned, Residency::kHot);
  use(memory_, 6 * kMiB);
  request_.target.ref = {"third", "main", 1};
  request_.make_room = true;
  EXPECT_EQ(rehydrate().code(), Code::kNoSpace);
  EXPECT_EQ(hot_bytes(), 6 * kMiB) << "nothing was evicted, as it would not have been enough";
}

TEST_F(StrayTest, NothingGoesByTheLogOfAStoreThatWasMovedAway) {
  bool moved = false;
  runtime_.on("evict.after_read_back", [&] {
    if (!std::exchange(moved, true)) fs::rename(catalog_path(), root_.path() + "/moved");
  });
  EXPECT_EQ(evict().code(), Code::kUnavailable);
  EXPECT_TRUE(moved);
  EXPECT_EQ(hot_bytes(), kObjects * kMiB);
  fs::rename(root_.path() + "/moved", catalog_path());
  EXPECT_TRUE(evict().ok());
  EXPECT_EQ(hot_bytes(), 0U);
}

TEST_F(StrayTest, GcTakesNothingByTheLogOfAStoreThatWasMovedAway) {
  use(other_);
  DeleteRequest request;
  request.target = request_.target;
  ASSERT_TRUE(run_delete(*context_, request, cancel_).ok());
  use(memory_);
  bool moved = false;
  runtime_.on("gc.after_hold_hot", [&] {
    if (!std::exchange(moved, true)) fs::rename(catalog_path(), root_.path() + "/moved");
  });
  const GcReport kept = gc();
  EXPECT_TRUE(moved);
  EXPECT_EQ(hot_bytes(), kObjects * kMiB);
  ASSERT_EQ(kept.kept.size(), 1U);
  EXPECT_NE(kept.kept[0].find("catalog"), std::string::npos) << kept.kept[0];
  fs::rename(root_.path() + "/moved", catalog_path());
  gc();
  EXPECT_EQ(hot_bytes(), 0U);
}

TEST_F(StrayTest, WhoReportsItSaysWhetherAnEvictionFreesIt) {
  const auto is_reported = [&] {
    const auto store = Store::open(runtime_, options_, OpenMode::kWrite).value();
    const bool inspected = store->inspect(request_.target).value().hot_stray;
    const auto checks = examine_memory(runtime_, options_, parts_, {});
    const bool examined = std::ranges::any_of(checks, [](const DoctorReport::Check& check) {
      return check.found.find("recorded in another memory instance: m@main#1") != std::string::npos;
    });
    EXPECT_EQ(inspected, examined);
    return inspected && examined;
  };
  EXPECT_TRUE(is_reported());
  request_.wait = false;
  const auto begun = rehydrate();
  ASSERT_TRUE(begun.ok()) << begun.status().to_string();
  EXPECT_FALSE(is_reported()) << "an operation is about to adopt it";
  metadata::CancelOperation cancel;
  cancel.operation_id = begun->operation->operation_id;
  ASSERT_TRUE(catalog_->cancel_operation(cancel).ok());
  EXPECT_TRUE(is_reported());
  use(other_);
  const HotReplicas there = here();
  ASSERT_TRUE(there.tier->remove(there.name_of(0)).ok());
  reconcile();
  EXPECT_FALSE(is_reported()) << "more lies here than the record counts";
}

TEST_F(StrayTest, WhereMemoryCannotBeReadNobodySaysThatItIsNotMounted) {
  ASSERT_EQ(reconcile().waiting.size(), 1U) << "it is HOT in the other one";
  const auto deny = [](bool) -> Result<std::unique_ptr<tiers::Tier>> {
    return Status(Code::kUnauthorized, "it may not be opened");
  };
  hot_.emplace(deny);
  EXPECT_TRUE(reconcile().waiting.empty());
  use(memory_);
  request_.wait = false;
  ASSERT_TRUE(rehydrate().ok());
  hot_.emplace(deny);
  const ReconcileReport report = reconcile();
  ASSERT_EQ(report.waiting.size(), 1U);
  const Status& why = report.waiting[0].why;
  EXPECT_EQ(why.code(), Code::kUnauthorized);
  EXPECT_NE(why.message().find("cannot be read: it may not be opened"), std::string::npos) << why.message();
}

TEST_F(StrayTest, ALookThatCountedItBeforePublishesNothing) {
  const auto before = record();
  runtime_.on("evict.after_permission", [&] {
    // Nobody counts while it goes.
    EXPECT_EQ(hot_->find().value()->try_lock_group(attempt_of(record()).group, false).value(), nullptr);
  });
  ASSERT_TRUE(evict().ok());
  EXPECT_GT(runtime_.passes("evict.after_permission"), 0U);
  reconcile();
  EXPECT_EQ(record(), before);
}

}  // namespace
}  // namespace steelyard::store
