// Rehydration where a test holds the parts of the store in its hands.
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "oplog/fault_injecting.h"
#include "store/damage_record.h"
#include "store/delete.h"
#include "store/gc.h"
#include "store/manifest_file.h"
#include "store/runner_keeper.h"
#include "store/test_hot_store.h"
#include "store/verify.h"

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

TEST_F(RehydrateTest, AnEndWhoseAnswerWasLostIsFound) {
  oplog::FaultInjectingLog faulty(runtime_, *parts_.log, {});
  catalog::Catalog catalog(runtime_, faulty, *observer_, {});
  Context context{runtime_, options_, *parts_.cold, catalog, *observer_, options_.io_memory, false, {}, &*hot_};
  runtime_.on("residency.after_objects", [&] { faulty.script({oplog::LogFault::kLostAnswerUnreadable}); });
  const auto done = run_rehydrate(context, request_, silent_, cancel_);
  ASSERT_TRUE(done.ok()) << done.status().to_string();
  EXPECT_EQ(done->record.residency, Residency::kHot);
  EXPECT_EQ(done->operation->state, metadata::OperationState::kDone);
}

TEST_F(RehydrateTest, WhatIsBadInMemoryIsReadFromTheColdTier) {
  ASSERT_TRUE(rehydrate().ok());
  damage_hot(2);
  EXPECT_TRUE(cat() == data_);
}

TEST_F(RehydrateTest, WhatCannotFitIsNotBegun) {
  use_capacity(2 * kMiB);
  const auto before = record();
  const auto refused = rehydrate();
  EXPECT_EQ(refused.code(), Code::kNoSpace) << refused.status().to_string();
  EXPECT_NE(refused.status().message().find("hot.capacity"), std::string::npos);
  EXPECT_EQ(record(), before);
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
  const metadata::Operation failed = record().finished_operations.back();
  EXPECT_EQ(failed.state, metadata::OperationState::kFailed);
  EXPECT_EQ(failed.processed_members, 2U) << "what its runner knew, told before or not";
  EXPECT_EQ(failed.processed_bytes, 2 * kMiB);
  EXPECT_EQ(hot_bytes(), 0U);
}

TEST_F(RehydrateTest, WhoComesLateTakesNothingBackThatTheRecordCounts) {
  damage_cold(3);
  runtime_.on("residency.after_objects", [&] {
    runtime_.on("residency.after_objects", {});
    // Another process took it over and ended it, and could not take back what had been brought.
    metadata::TakeOperation take;
    take.identity = identity_;
    take.operation_id = record().operation->operation_id;
    take.runner = runner_grant(runtime_, options_.writer_ttl_ms);
    take.current_runner_gone = true;
    take.gone_process = runtime_.self();
    const auto taken = catalog_->take_operation(take);
    ASSERT_TRUE(taken.ok()) << taken.status().to_string();
    metadata::EndOperation end;
    end.identity = identity_;
    end.token = {take.operation_id, taken->runner->token, taken->runner->run_attempt};
    end.state = metadata::OperationState::kFailed;
    end.seen.emplace();
    see_hot(*context_, record(), *end.seen);
    ASSERT_TRUE(catalog_->end_operation(end).ok());
  });
  const auto late = rehydrate();
  EXPECT_EQ(late.code(), Code::kCorrupt) << late.status().to_string();
  EXPECT_NE(late.status().hint().find("starts another"), std::string::npos) << late.status().hint();
  EXPECT_EQ(record().hot_members, 3U);
  EXPECT_EQ(hot_bytes(), 3 * kMiB);
}

TEST_F(RehydrateTest, NothingIsRemovedBetweenTheLastCountAndTheEnd) {
  bool removable = true;
  bool tried = false;
  runtime_.on("residency.before_end", [&] {
    tried = true;
    const auto lock = hot_->find().value()->try_lock_group(attempt_of(record()).group, true);
    removable = !lock.ok() || *lock != nullptr;
  });
  ASSERT_TRUE(rehydrate().ok());
  EXPECT_TRUE(tried);
  EXPECT_FALSE(removable) << "it would be counted, and gone";
}

TEST_F(RehydrateTest, ItsTotalsAreThoseOfWhatIsToBeThere) {
  request_.ratio_millionths = 500'000;
  ASSERT_TRUE(rehydrate().ok());
  request_.ratio_millionths.reset();
  runtime_.on("residency.after_start", [&] {  // what was counted before it goes
    for (const char* name : {"00000000", "00000001", "00000002", "00000003"}) {
      std::vector<fs::path> replicas;
      for (const auto& file : fs::recursive_directory_iterator(memory_.path())) {
        if (file.path().filename() == name) replicas.push_back(file.path());
      }
      for (const fs::path& replica : replicas) fs::remove(replica);
    }
  });
  const auto done = rehydrate();
  ASSERT_TRUE(done.ok()) << done.status().to_string();
  EXPECT_EQ(done->moved_objects, kObjects);
  EXPECT_EQ(done->operation->total_members, kObjects);
  EXPECT_EQ(done->operation->processed_members, kObjects);
  EXPECT_EQ(done->operation->total_bytes, kObjects * kMiB);
}

TEST_F(RehydrateTest, WhoTakesItOverCountsWhatWasBroughtBefore) {
  int brought = 0;
  runtime_.on("rehydrate.after_object", [&] {
    if (++brought == 2) cancel_.store(true);
  });
  ASSERT_TRUE(is_cancelled(rehydrate().status()));
  cancel_.store(false);
  const std::string id = record().operation->operation_id;
  EXPECT_EQ(catalog_->query_operation(id)->operation.processed_members, 2U);
  runtime_.on("rehydrate.after_object", [] {});
  damage_cold(3);
  EXPECT_EQ(rehydrate().code(), Code::kCorrupt);
  const metadata::Operation ended = catalog_->query_operation(id)->operation;
  EXPECT_EQ(ended.state, metadata::OperationState::kFailed);
  EXPECT_EQ(ended.processed_members, 3U);
  EXPECT_EQ(ended.processed_bytes, 3 * kMiB);
  EXPECT_EQ(ended.total_members, kObjects);
}

TEST_F(RehydrateTest, WhatAnotherRevisionBringsMeanwhileDoesForADamagedObject) {
  damage_cold(2);
  const auto tier = hot_->make().value();
  const auto manifest = load_manifest(*parts_.cold, record()).value();
  const std::string bytes = data_.substr(2 * kMiB, kMiB);
  tiers::AttemptName other{std::string(64, 'f'), 1, std::string(32, 'a')};
  int brought = 0;
  bool put_there = false;
  runtime_.on("rehydrate.after_object", [&] { ++brought; });
  runtime_.on("tier.read", [&] {
    if (brought != 2 || put_there) return;  // the third is being read
    put_there = true;
    const auto put = tier->start_put({other, tiers::ObjectKind::kPayload, 0},
                                     std::as_bytes(std::span(bytes.data(), bytes.size())), manifest.objects[2].sha256);
    ASSERT_TRUE(put.ok() && (*put)->finish().ok());
  });
  const auto done = rehydrate();
  ASSERT_TRUE(done.ok()) << done.status().to_string();
  EXPECT_TRUE(put_there);
  EXPECT_EQ(done->record.residency, Residency::kHot);
}

TEST_F(RehydrateTest, OneWhoseMemoryWasWipedIsEndedAndBegunAnew) {
  request_.wait = false;
  ASSERT_TRUE(rehydrate().ok());
  const std::string first = record().operation->operation_id;
  wipe_memory();
  const ReconcileReport report = reconcile();
  EXPECT_TRUE(report.waiting.empty()) << report.waiting.front().why.to_string();
  EXPECT_TRUE(report.failed.empty());
  EXPECT_EQ(record().residency, Residency::kHot);
  EXPECT_FALSE(record().operation);
  ASSERT_EQ(record().finished_operations.size(), 2U);
  const metadata::Operation ended = record().finished_operations.front();
  EXPECT_EQ(ended.operation_id, first);
  EXPECT_EQ(ended.state, metadata::OperationState::kFailed);
  EXPECT_NE(ended.message.find("not mounted here"), std::string::npos) << ended.message;
}

TEST_F(RehydrateTest, WithoutItsManifestNoReplicaCounts) {
  ASSERT_TRUE(rehydrate().ok());
  const fs::path manifest = cold_object(0).parent_path().parent_path() / "manifest";
  fs::permissions(manifest, fs::perms::owner_all);
  std::ofstream(manifest, std::ios::binary) << "no manifest";
  reconcile();
  EXPECT_EQ(record().availability, metadata::Availability::kDegraded);
  EXPECT_EQ(record().residency, Residency::kCold);
}

TEST_F(RehydrateTest, WhatIsTakenBackIsNotCountedByWhoTakesIt) {
  const auto done = rehydrate();
  ASSERT_TRUE(done.ok());
  tiers::AttemptName brought = attempt_of(record());
  brought.operation = done->operation->operation_id;
  const auto lock = lock_to_remove(*context_, *hot_->find().value(), record());
  ASSERT_TRUE(lock.ok());
  metadata::Observation seen;
  see_hot_without(
      *context_, record(), [&](const tiers::ObjectName& name) { return name.in == brought; }, seen);
  EXPECT_EQ(seen.hot_instance, record().hot_instance);
  EXPECT_EQ(seen.hot_members, 0U);
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

TEST_F(RehydrateTest, WhatOthersEndedIsNotBegunAgainByWhoGoesOn) {
  ResidencyRequest request;
  request.target.ref = {identity_.lineage.resource_id, identity_.lineage.revision, identity_.weight_generation};
  for (const auto ratio : {std::optional<std::uint32_t>(), std::optional<std::uint32_t>(500'000)}) {
    request.ratio_millionths = ratio;
    const auto done = run_rehydrate(*context_, request, silent_, cancel_, Begin::kNothing);
    ASSERT_TRUE(done.ok()) << done.status().to_string();
    EXPECT_FALSE(done->operation);
    EXPECT_EQ(done->record.residency, Residency::kCold);
    EXPECT_TRUE(done->record.finished_operations.empty());
  }
}

TEST_F(RehydrateTest, MemoryThatWasWipedIsSeenToBeGone) {
  const auto first = rehydrate();
  ASSERT_TRUE(first.ok());
  wipe_memory();
  EXPECT_TRUE(cat() == data_) << "the cold replicas do as well";
  EXPECT_EQ(record().residency, Residency::kHot) << "a reader publishes nothing";
  const ReconcileReport report = reconcile();
  EXPECT_TRUE(report.waiting.empty()) << report.waiting.front().why.to_string();
  EXPECT_EQ(record().residency, Residency::kCold);
  EXPECT_TRUE(reconcile().changes.empty());
  const auto second = rehydrate();
  ASSERT_TRUE(second.ok()) << second.status().to_string();
  EXPECT_EQ(second->record.residency, Residency::kHot);
  EXPECT_NE(second->record.hot_instance, first->record.hot_instance);
}

TEST_F(RehydrateTest, WhatGoesWhileItIsLookedAtIsBroughtAgain) {
  runtime_.skip_sleeps();
  ResidencyRequest eviction = request_;
  eviction.wait_for_others = false;
  int brought = 0;
  for (int moment = 1; moment <= 8; ++moment) {
    ASSERT_TRUE(rehydrate().ok());
    int locks = 0;
    bool went = false;
    runtime_.on("tier.lock", [&] {
      if (++locks == moment) went = run_evict(*context_, eviction, silent_, cancel_).ok();
    });
    const auto again = rehydrate();
    runtime_.on("tier.lock", {});
    if (!went) {
      // The eviction met the lock and is left, or there was no such moment.
      EXPECT_TRUE(again.ok() || again.code() == Code::kBusy) << again.status().to_string();
      ASSERT_TRUE(!record().operation || run_evict(*context_, eviction, silent_, cancel_).ok());
      continue;
    }
    ASSERT_TRUE(again.ok()) << "at lock " << moment << ": " << again.status().to_string();
    EXPECT_EQ(again->record.residency, Residency::kHot);
    brought += again->moved_objects == kObjects ? 1 : 0;
  }
  EXPECT_GE(brought, 2) << "before the look, and after it";
}

TEST_F(RehydrateTest, ColdDamageThatIsFoundMeanwhileIsRepairedWhenItEnds) {
  // What is found beside a move could not be repaired then, and would be forgotten.
  int brought = 0;
  runtime_.on("rehydrate.after_object", [&] {
    if (++brought != 2) return;
    damage_cold(0);
    ASSERT_TRUE(run_verify(*context_, request_.target, silent_, cancel_).ok());
    EXPECT_EQ(record().damage.count, 1U) << "known to whoever comes, should this runner die";
  });
  const auto done = rehydrate();
  runtime_.on("rehydrate.after_object", {});
  ASSERT_TRUE(done.ok()) << done.status().to_string();
  EXPECT_EQ(done->record.availability, metadata::Availability::kReady) << "memory has it";
  ASSERT_TRUE(done->record.operation);
  EXPECT_EQ(done->record.operation->kind, metadata::OperationKind::kRepairing);
  reconcile();
  ASSERT_TRUE(evict().ok());
  EXPECT_TRUE(cat() == data_);
}

/// Another process runs the rehydration; what happens while this one waits for it.
class WaitingTest : public RehydrateTest {
 protected:
  class Ending final : public Observer {
   public:
    explicit Ending(std::function<void()> end) : end_(std::move(end)) {}
    void progress(const Progress& /*progress*/) override {}
    void warning(const std::string& /*message*/) override { end_(); }

   private:
    std::function<void()> end_;
  };

  void SetUp() override {
    RehydrateTest::SetUp();
    if (IsSkipped()) return;
    request_.wait = false;
    ASSERT_TRUE(rehydrate().ok());
    request_.wait = true;
    run_elsewhere(600'000);
  }
  /// The other process takes it, for so long.
  void run_elsewhere(std::int64_t ttl_ms) {
    if (!end_.token.token.empty()) {
      metadata::ReportOperation back;
      back.identity = identity_;
      back.token = end_.token;
      back.give_back = true;
      ASSERT_TRUE(catalog_->report_operation(back).ok());
    }
    metadata::TakeOperation take;
    take.identity = identity_;
    take.operation_id = record().operation->operation_id;
    take.runner = runner_grant(runtime_, ttl_ms);
    take.hot_instance = record().operation->hot_instance;
    take.hot_boot_id = runtime_.epoch();
    const auto taken = catalog_->take_operation(take);
    ASSERT_TRUE(taken.ok()) << taken.status().to_string();
    end_.identity = identity_;
    end_.token = {take.operation_id, take.runner.token, taken->runner->run_attempt};
    end_.state = metadata::OperationState::kFailed;
  }
  void end_as_failed(Code code) {
    end_.failed_with = code_name(code);
    end_.message = "the other one's words";
    const auto ended = catalog_->end_operation(end_);
    ASSERT_TRUE(ended.ok()) << ended.status().to_string();
  }
  Result<ResidencyResult> wait(std::function<void()> meanwhile) {
    Ending ending(std::move(meanwhile));
    return run_rehydrate(*context_, request_, ending, cancel_);
  }
  metadata::EndOperation end_;
};

TEST_F(WaitingTest, WhoWaitedForOneThatMetDamageReadsNothingAgain) {
  const auto waited = wait([&] { end_as_failed(Code::kCorrupt); });
  EXPECT_EQ(waited.code(), Code::kCorrupt) << waited.status().to_string();
  EXPECT_NE(waited.status().message().find("the other one's words"), std::string::npos);
  EXPECT_NE(waited.status().hint().find("steelyard repair m@main#1"), std::string::npos) << waited.status().hint();
  EXPECT_EQ(record().finished_operations.size(), 1U) << "it started none of its own";
}

TEST_F(WaitingTest, WhatElseFailedItTriesItself) {
  const auto waited = wait([&] { end_as_failed(Code::kNoSpace); });
  ASSERT_TRUE(waited.ok()) << waited.status().to_string();
  EXPECT_EQ(waited->record.residency, Residency::kHot);
}

TEST_F(WaitingTest, WhatWasCancelledItDoesNotBeginAgain) {
  const auto waited =
      wait([&] { ASSERT_TRUE(catalog_->cancel_operation({.operation_id = end_.token.operation_id}).ok()); });
  EXPECT_EQ(waited.code(), Code::kConflict) << waited.status().to_string();
  EXPECT_EQ(waited.status().message(), "the rehydration of m@main#1, which was waited for, was cancelled (operation " +
                                           end_.token.operation_id + "); what it did stays");
  EXPECT_EQ(waited.status().hint(), "`steelyard rehydrate m@main#1` starts another, if it is still wanted");
  EXPECT_FALSE(record().operation);
  EXPECT_EQ(record().finished_operations.size(), 1U) << "it started none of its own";
}

TEST_F(WaitingTest, WhatWasCancelledAndBegunAgainIsNotWhatItWaitedFor) {
  const auto waited = wait([&] {
    ASSERT_TRUE(catalog_->cancel_operation({.operation_id = end_.token.operation_id}).ok());
    request_.wait = false;
    ASSERT_TRUE(rehydrate().ok());
  });
  EXPECT_EQ(waited.code(), Code::kConflict) << waited.status().to_string();
  EXPECT_TRUE(record().operation);
}

TEST_F(WaitingTest, WhatHasNoRoomIsToldAsByTheOtherOne) {
  use_capacity(2 * kMiB);
  const auto waited = wait([&] { end_as_failed(Code::kNoSpace); });
  EXPECT_EQ(waited.code(), Code::kNoSpace) << waited.status().to_string();
  EXPECT_EQ(record().finished_operations.size(), 1U) << "it started none of its own";
}

TEST_F(WaitingTest, AStoreThatIsMovedAwayEndsIt) {
  const fs::path store = root_.path() + "/store";
  const fs::path away = root_.path() + "/away";
  const auto waited = wait([&] { fs::rename(store, away); });
  fs::rename(away, store);
  EXPECT_EQ(waited.code(), Code::kUnavailable) << waited.status().to_string();
  EXPECT_TRUE(record().operation) << "it is the other one's";
}

TEST_F(WaitingTest, ARunnerThatGivesNoSignOfLifeIsReplaced) {
  run_elsewhere(1000);
  const auto waited = wait([] {});
  ASSERT_TRUE(waited.ok()) << waited.status().to_string();
  EXPECT_EQ(waited->record.residency, Residency::kHot);
  ASSERT_EQ(record().finished_operations.size(), 1U) << "it took it over";
  EXPECT_EQ(record().finished_operations.front().operation_id, end_.token.operation_id);
  EXPECT_NE(record().finished_operations.front().ended_by, end_.token.token);
}

TEST_F(WaitingTest, OfTwoThatWaitOneGoesOn) {
  metadata::ReportOperation leave;
  leave.identity = identity_;
  leave.token = end_.token;
  leave.give_back = true;
  std::atomic<int> waiting{0};
  const auto left = [&] {
    if (waiting.fetch_add(1) == 0) return;
    EXPECT_TRUE(catalog_->report_operation(leave).ok());
  };
  std::vector<Result<ResidencyResult>> answers(2, Status(Code::kInternal, "no answer"));
  std::vector<std::thread> waiters;
  for (auto& answer : answers) {
    waiters.emplace_back([&] { answer = wait(left); });
  }
  for (std::thread& waiter : waiters) waiter.join();
  std::uint64_t read_bytes = 0;
  for (const auto& answer : answers) {
    ASSERT_TRUE(answer.ok()) << answer.status().to_string();
    EXPECT_EQ(answer->record.residency, Residency::kHot);
    read_bytes += answer->read_bytes;
  }
  EXPECT_EQ(read_bytes, kObjects * kMiB) << "every object once";
  EXPECT_EQ(record().finished_operations.size(), 1U);
}

TEST_F(WaitingTest, TheLogWakesIt) {
  const auto runner = std::make_unique<std::thread>();
  const auto waited = wait([&] { *runner = std::thread([&] { end_as_failed(Code::kCorrupt); }); });
  runner->join();
  EXPECT_EQ(waited.code(), Code::kCorrupt) << waited.status().to_string();
}

TEST_F(WaitingTest, WhatRunsAfterItsEndIsNotWaitedFor) {
  const auto waited = wait([&] {
    end_as_failed(Code::kNoSpace);
    metadata::StartOperation other;
    other.identity = identity_;
    other.expected_metadata_generation = record().metadata_generation;
    other.operation_id = runtime_.random_hex(16);
    other.kind = metadata::OperationKind::kRepairing;
    other.target = Residency::kCold;
    other.total_members = 1;
    other.total_bytes = 1;
    other.runner = runner_grant(runtime_, 600'000);
    ASSERT_TRUE(catalog_->start_operation(other).ok());
  });
  EXPECT_EQ(waited.code(), Code::kBusy) << waited.status().to_string();
}

TEST_F(RehydrateTest, WhatGoesWithItsStoreIsNotDamaged) {
  const metadata::RevisionRecord before = record();
  runtime_.on("rehydrate.after_object", [&] { fs::remove_all(root_.path() + "/store"); });
  const auto moved = rehydrate();
  EXPECT_EQ(moved.code(), Code::kUnavailable) << moved.status().to_string();
  EXPECT_NE(moved.status().message().find("is not there any more"), std::string::npos) << moved.status().message();
  const Status reader = check_not_deleted(*context_, before);
  EXPECT_EQ(reader.code(), Code::kUnavailable) << reader.to_string();
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

TEST_F(RehydrateTest, WhatIsDeletedIsNotSaidToBeRead) {
  ASSERT_TRUE(
      run_delete(*context_, {.target = request_.target, .expected_generation = {}, .wait_ms = {}}, cancel_).ok());
  const Status reader = check_not_deleted(*context_, record());
  EXPECT_EQ(reader.code(), Code::kNotReady);
  EXPECT_NE(reader.message().find("while it was read"), std::string::npos) << reader.message();
  EXPECT_NE(reader.hint().find("lease"), std::string::npos) << reader.hint();
  const Status mover = check_not_deleted(*context_, record(), "while it was moved");
  EXPECT_EQ(mover.code(), Code::kNotReady);
  EXPECT_NE(mover.message().find("while it was moved"), std::string::npos) << mover.message();
  EXPECT_EQ(mover.hint().find("lease"), std::string::npos) << mover.hint();
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
