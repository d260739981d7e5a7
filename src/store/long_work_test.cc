// What a reconciler that stays does beside what takes long.
#include "store/long_work.h"

#include <gtest/gtest.h>

#include "metadata/commands.h"
#include "store/keep_reconciled.h"
#include "store/test_hot_store.h"

namespace steelyard::store {
namespace {

class LongWorkTest : public HotStoreTest {
 protected:
  void prefer_hot(metadata::PolicyMode mode) {
    metadata::UpdateWeightPolicy command;
    command.identity = identity_;
    command.expected_metadata_generation = record().metadata_generation;
    command.policy.mode = mode;
    command.policy.prefer = Residency::kHot;
    ASSERT_TRUE(catalog_->update_weight_policy(command).ok());
  }
  metadata::Identity import_other() {
    ImportRequest request;
    request.source = root_.path() + "/src";
    request.target.ref = {"other", "main", std::nullopt};
    request.chunk_bytes = kMiB;
    const auto source = open_source(request.source, false).value();
    return run_import(*context_, request, *source, silent_, cancel_).value().record.identity;
  }
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

TEST_F(LongWorkTest, ALeaseBringsItsRevisionIn) {
  prefer_hot(metadata::PolicyMode::kAuto);
  const auto lines = keep("m@main#1: HOT by its policy: read now", [&] {
    metadata::AcquireLease command;
    command.identity = identity_;
    command.holder = "reader";
    command.nonce = "n";
    command.ttl_ms = 300'000;
    ASSERT_TRUE(catalog_->acquire_lease(command).ok());
  });
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

TEST_F(LongWorkTest, WhatIsUnderWayWhenItEndsGoesOnLater) {
  prefer_hot(metadata::PolicyMode::kPinned);
  runtime_.on("rehydrate.after_object", [&] { cancel_.store(true); });
  keep("", [] {});
  runtime_.on("rehydrate.after_object", [] {});
  reconcile();
  EXPECT_FALSE(record().operation);
  EXPECT_EQ(record().residency, Residency::kHot);
}

}  // namespace
}  // namespace steelyard::store
