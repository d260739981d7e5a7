// What a reconciler that stays does beside what takes long.
#include "store/long_work.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "metadata/commands.h"
#include "store/keep_reconciled.h"
#include "store/test_hot_store.h"

namespace steelyard::store {
namespace {

class LongWorkTest : public HotStoreTest {
 protected:
  void prefer_hot(metadata::PolicyMode mode) { set_policy(identity_, mode, Residency::kHot); }
  /// With bytes of its own.
  metadata::Identity import_different(const std::string& resource) {
    return import_file(resource, std::string(kObjects * kMiB, 'd') + resource, 4 * kMiB);
  }
  metadata::Identity import_other() { return import_folder("other", root_.path() + "/src"); }
  /// Until `tell` has heard of `last`, or too much time has passed.
  std::vector<std::string> keep(const std::string& last, const std::function<void()>& at_first) {
    std::vector<std::string> lines;
    bool first = true;
    const auto tell = [&](const ReconcileReport& report) {
      for (const auto& change : report.changes) lines.push_back(change.ref + ": " + change.what);
      for (const auto& left : report.waiting) lines.push_back("waiting: " + left.ref);
      for (const auto& left : report.failed) lines.push_back("failed: " + left.ref + left.why.to_string());
      if (std::exchange(first, false)) at_first();
      if (heard_) heard_(lines);
      if (!lines.empty() && lines.back() == last) cancel_.store(true);
      return Status();
    };
    const auto over = runtime_.make_event();
    const auto watchdog = runtime_.spawn("watchdog", [&] {
      if (!over->wait_until(runtime_.mono_ms() + 60'000)) cancel_.store(true);
    });
    const Status ended = run_keep_reconciled(*context_, std::nullopt, silent_, tell, cancel_);
    over->set();
    watchdog->join();
    EXPECT_TRUE(is_cancelled(ended)) << ended.to_string();
    cancel_.store(false);
    return lines;
  }

  std::function<void(const std::vector<std::string>&)> heard_;
};

TEST_F(LongWorkTest, ALongMoveHoldsNothingElseUp) {
  const auto other = import_other();
  prefer_hot(metadata::PolicyMode::kPinned);
  const auto deleted = runtime_.make_event();
  runtime_.on("rehydrate.after_object", [&] { deleted->wait_until(runtime_.mono_ms() + 30'000); });
  heard_ = [&](const std::vector<std::string>& lines) {
    if (!lines.empty()) deleted->set();
  };
  const auto lines = keep("m@main#1: HOT by its policy: pinned", [&] {
    metadata::DeleteWeightRevision command;
    command.identity = other;
    command.expected_metadata_generation = catalog_->get_weight_revision(other).value().metadata_generation;
    command.mode = metadata::DeleteMode::kDrain;
    ASSERT_TRUE(catalog_->delete_weight_revision(command).ok());
  });
  EXPECT_EQ(lines, (std::vector<std::string>{"other@main#1: the delete that was begun is done",
                                             "m@main#1: HOT by its policy: pinned"}));
}

TEST_F(LongWorkTest, WhatEndsDuringAPassIsToldAtOnce) {
  const auto next = import_different("next");
  const auto other = import_other();
  import_file("z", "small");
  prefer_hot(metadata::PolicyMode::kPinned);
  set_policy(next, metadata::PolicyMode::kPinned, Residency::kHot);
  const auto passing = runtime_.make_event();
  const auto ended = runtime_.make_event();
  int started = 0;
  runtime_.on("residency.after_start", [&] {
    if (++started == 2) ended->set();  // the first is told by now
    passing->wait_until(runtime_.mono_ms() + 30'000);
  });
  runtime_.on("delete.after_objects", [&] {
    passing->set();
    ended->wait_until(runtime_.mono_ms() + 30'000);
  });
  const auto lines = keep("next@main#1: HOT by its policy: pinned", [&] {
    metadata::DeleteWeightRevision command;
    command.identity = other;
    command.expected_metadata_generation = catalog_->get_weight_revision(other).value().metadata_generation;
    command.mode = metadata::DeleteMode::kDrain;
    ASSERT_TRUE(catalog_->delete_weight_revision(command).ok());
    ASSERT_TRUE(catalog_->save_snapshot().ok());  // so the next turn is a pass
  });
  EXPECT_EQ(lines, (std::vector<std::string>{"m@main#1: HOT by its policy: pinned",
                                             "other@main#1: the delete that was begun is done",
                                             "next@main#1: HOT by its policy: pinned"}));
}

TEST_F(LongWorkTest, ALeaseBringsItsRevisionIn) {
  prefer_hot(metadata::PolicyMode::kAuto);
  const auto lines = keep("m@main#1: HOT by its policy: read now", [&] { lease(identity_); });
  EXPECT_EQ(lines, std::vector<std::string>{"m@main#1: HOT by its policy: read now"});
}

TEST_F(LongWorkTest, AnOperationThatNobodyRunsGoesOn) {
  ResidencyRequest begin;
  begin.target = request_.target;
  begin.wait = false;
  ASSERT_TRUE(run_rehydrate(*context_, begin, silent_, cancel_).ok());
  const auto lines = keep("m@main#1: the rehydration that was begun is done", [] {});
  ASSERT_FALSE(lines.empty());
  EXPECT_EQ(lines.back(), "m@main#1: the rehydration that was begun is done");
  EXPECT_EQ(record().residency, Residency::kHot);
}

TEST_F(LongWorkTest, WhoListensSlowlyHoldsNothingUp) {
  ResidencyRequest begin;
  begin.target = request_.target;
  begin.wait = false;
  ASSERT_TRUE(run_rehydrate(*context_, begin, silent_, cancel_).ok());
  const auto done = runtime_.make_event();
  runtime_.on("residency.after_end", [&] { done->set(); });
  bool went_on = false;
  keep("m@main#1: the rehydration that was begun is done",
       [&] { went_on = done->wait_until(runtime_.mono_ms() + 30'000); });
  EXPECT_TRUE(went_on) << "while the first report was being told";
}

TEST_F(LongWorkTest, WhatIsUnderWayWhenItEndsGoesOnLater) {
  prefer_hot(metadata::PolicyMode::kPinned);
  runtime_.on("rehydrate.after_object", [&] { cancel_.store(true); });
  keep("", [] {});
  runtime_.on("rehydrate.after_object", [] {});
  reconcile();
  EXPECT_FALSE(record().operation);
  EXPECT_EQ(record().residency, Residency::kHot);
}

/// In memory for one of two revisions.
class OneOfTwoTest : public LongWorkTest {
 protected:
  void SetUp() override {
    LongWorkTest::SetUp();
    if (IsSkipped()) return;
    options_.policy_cooldown_ms = 0;
    use_capacity(6 * kMiB);
    other_ = import_different("other");
  }
  metadata::Identity other_;
};

TEST_F(OneOfTwoTest, RoomGoesToWhoIsReadOnceTheOtherIsNot) {
  ASSERT_TRUE(rehydrate().ok());
  set_policy(identity_, metadata::PolicyMode::kAuto, Residency::kHot);
  set_policy(other_, metadata::PolicyMode::kAuto, Residency::kHot);
  const auto first = lease(identity_);
  const auto second = lease(other_);
  const auto lines = keep("other@main#1: HOT by its policy: read now", [&] { release(first); });
  EXPECT_EQ(lines, (std::vector<std::string>{"m@main#1: COLD by its policy: room is made for what is read now",
                                             "other@main#1: HOT by its policy: read now"}));
}

TEST_F(OneOfTwoTest, APinComesWhenSomebodyElseGoes) {
  ASSERT_TRUE(rehydrate().ok());
  set_policy(other_, metadata::PolicyMode::kPinned, Residency::kHot);
  bool gone = false;
  heard_ = [&](const std::vector<std::string>& lines) {
    if (lines.empty() || std::exchange(gone, true)) return;
    ASSERT_TRUE(evict().ok());
  };
  const auto lines = keep("other@main#1: HOT by its policy: pinned", [] {});
  EXPECT_EQ(lines, (std::vector<std::string>{"waiting: other@main#1", "other@main#1: HOT by its policy: pinned"}));
}

TEST_F(OneOfTwoTest, TheEndOfACoolDownIsAReason) {
  options_.policy_cooldown_ms = 1'500;
  ASSERT_TRUE(rehydrate().ok());
  set_policy(identity_, metadata::PolicyMode::kAuto, Residency::kHot);
  set_policy(other_, metadata::PolicyMode::kAuto, Residency::kHot);
  lease(other_);
  const auto lines = keep("other@main#1: HOT by its policy: read now", [] {});
  ASSERT_FALSE(lines.empty());
  EXPECT_EQ(lines.back(), "other@main#1: HOT by its policy: read now");
}

TEST_F(OneOfTwoTest, MemoryAboveTheMarkIsEasedAtOnce) {
  use_capacity(9 * kMiB - kMiB / 2);  // for two, above the mark
  ASSERT_TRUE(rehydrate().ok());
  set_policy(identity_, metadata::PolicyMode::kAuto, Residency::kHot);
  const auto lines = keep("m@main#1: COLD by its policy: memory is above the high watermark", [&] {
    ResidencyRequest request;
    request.target.ref = {"other", "main", 1};
    ASSERT_TRUE(run_rehydrate(*context_, request, silent_, cancel_).ok());
  });
  EXPECT_EQ(lines, std::vector<std::string>{"m@main#1: COLD by its policy: memory is above the high watermark"});
}

TEST_F(LongWorkTest, AMoveThatOthersAreInTheWayOfIsNotRepeatedAtOnce) {
  runtime_.skip_sleeps();
  ASSERT_TRUE(rehydrate().ok());
  set_policy(identity_, metadata::PolicyMode::kPinned, Residency::kCold);
  const auto tier = hot_->make().value();
  std::unique_ptr<tiers::GroupLock> stopped;  // a process that was stopped while it counted
  runtime_.on("residency.after_start",
              [&] { stopped = tier->try_lock_group(attempt_of(record()).group, false).value(); });
  const auto lines = keep("waiting: m@main#1", [] {});
  EXPECT_EQ(lines, std::vector<std::string>{"waiting: m@main#1"});
  stopped.reset();
  runtime_.on("residency.after_start", [] {});
  LongWork work(*context_, silent_);
  const auto follow = [&] {
    EXPECT_TRUE(work.follow(Asked({identity_})).ok());
    while (
        !std::ranges::any_of(work.take(), [](const auto& one) { return one.what == LongWork::Done::What::kAllMoves; }))
      runtime_.sleep_ms(1);
  };
  runtime_.on("residency.after_start",
              [&] { stopped = tier->try_lock_group(attempt_of(record()).group, false).value(); });
  follow();
  const std::size_t tried = record().finished_operations.size();
  follow();
  EXPECT_EQ(record().finished_operations.size(), tried);
  stopped.reset();
  runtime_.on("residency.after_start", [] {});
  work.try_again(identity_);
  follow();
  EXPECT_EQ(record().residency, Residency::kCold) << "there is a reason to try it at once";
}

}  // namespace
}  // namespace steelyard::store
