// Keeping a store reconciled, in a time that stands still but where it is waited for: what happens meanwhile is the
// test's, told at each wait.
#include "store/keep_reconciled.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <filesystem>
#include <fstream>

#include "base/limits.h"
#include "oplog/fault_injecting.h"
#include "oplog/forwarding.h"
#include "oplog/open.h"
#include "store/delete.h"
#include "store/import.h"
#include "store/open_store.h"
#include "store/resolve.h"
#include "store/watch.h"
#include "tiers/directory/test_folder.h"

namespace steelyard::store {
namespace {

using metadata::Availability;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::int64_t kForEver = 3'600'000;

/// A wait passes the time at once, after what the test does in it.
class PassingTime final : public Runtime {
 public:
  std::int64_t mono_ms() override { return mono; }
  std::int64_t mono_ns() override { return mono * 1'000'000; }
  std::int64_t wall_ms() override { return real_runtime().wall_ms(); }
  const std::string& epoch() override { return boot_; }
  void fill_random(ByteSpan out) override { real_runtime().fill_random(out); }
  void sleep_ms(std::int64_t duration_ms) override { mono += duration_ms; }
  std::unique_ptr<Event> make_event() override { return std::make_unique<Waited>(*this); }
  std::unique_ptr<Task> spawn(std::string_view name, std::function<void()> body) override {
    return real_runtime().spawn(name, std::move(body));
  }
  const ProcessIdentity& self() override { return real_runtime().self(); }
  bool provably_gone(const ProcessIdentity& /*process*/) override { return false; }

  std::atomic<std::int64_t> mono = 1'000'000;  ///< keepers on other threads look at it
  std::function<void()> at_wait;               ///< on the thread of the test; others wait for real

 protected:
  int point_armed(const char* /*name*/) override { return 0; }

 private:
  class Waited final : public Event {
   public:
    explicit Waited(PassingTime& time) : time_(time), real_(real_runtime().make_event()) {}
    void set() override {
      set_ = true;
      real_->set();
    }
    bool wait_until(std::int64_t deadline_mono_ms) override {
      if (deadline_mono_ms == INT64_MAX) return real_->wait_until(deadline_mono_ms);
      if (time_.at_wait) time_.at_wait();
      if (set_) return true;
      time_.mono = std::max(time_.mono.load(), deadline_mono_ms);
      return false;
    }

   private:
    PassingTime& time_;
    std::unique_ptr<Event> real_;
    std::atomic<bool> set_{false};
  };
  const std::string boot_ = "boot-a";
};

class Warnings final : public Observer {
 public:
  void progress(const Progress& /*progress*/) override {}
  void warning(const std::string& message) override { messages.push_back(message); }
  std::vector<std::string> messages;
};

class KeepReconciledTest : public testing::Test {
 protected:
  KeepReconciledTest() {
    std::filesystem::create_directory(root_.path() + "/src");
    std::ofstream(root_.path() + "/src/config.json") << "{}";
  }
  static StoreOptions options_at(const std::string& path) {
    StoreOptions options;
    options.path = path;
    options.cold_reserve_free = 0;
    options.io_memory = limits::kIoMemoryMin;
    options.jobs = 1;
    return options;
  }
  metadata::RevisionRecord imported(const std::string& resource) {
    ImportRequest request;
    request.source = root_.path() + "/src";
    request.target.ref = {resource, "main", std::nullopt};
    request.checkpoint.allow_empty = true;
    const auto source = open_source(request.source, false);
    return run_import(context_, request, **source, observer_, cancel_).value().record;
  }
  std::string lease(const metadata::RevisionRecord& record, std::int64_t ttl_ms) {
    metadata::AcquireLease command;
    command.identity = record.identity;
    command.holder = "reader";
    command.nonce = runtime_.random_hex(16);
    command.ttl_ms = ttl_ms;
    return catalog_.acquire_lease(command).value().lease->lease_id;
  }
  void begin_delete(const metadata::RevisionRecord& record) {
    metadata::DeleteWeightRevision command;
    command.identity = record.identity;
    command.expected_metadata_generation = catalog_.get_weight_revision(record.identity).value().metadata_generation;
    command.mode = metadata::DeleteMode::kDrain;
    ASSERT_TRUE(catalog_.delete_weight_revision(command).ok());
  }
  Availability now(const metadata::RevisionRecord& record) {
    return catalog_.get_weight_revision(record.identity).value().availability;
  }
  /// Runs until `script`, asked at each wait, is empty and `ms` have passed since.
  Status keep(std::deque<std::function<void()>> script, std::int64_t ms = 0,
              const std::optional<Selector>& selector = std::nullopt) {
    std::int64_t end = 0;
    runtime_.at_wait = [&] {
      if (!script.empty()) {
        const auto next = std::move(script.front());
        script.pop_front();
        next();
        end = runtime_.mono + ms;
      } else if (runtime_.mono >= end) {
        cancel_.store(true);
      }
    };
    Status status = run_keep_reconciled(context_, selector, observer_, tell_, cancel_);
    runtime_.at_wait = nullptr;
    cancel_.store(false);
    return status;
  }
  void keep_until_cancelled(std::deque<std::function<void()>> script, std::int64_t ms = 0,
                            const std::optional<Selector>& selector = std::nullopt) {
    const Status ended = keep(std::move(script), ms, selector);
    EXPECT_TRUE(is_cancelled(ended)) << ended.to_string();
    EXPECT_THAT(observer_.messages, IsEmpty());
  }
  /// What was told, a line each, without the first pass's where that found nothing.
  std::vector<std::string> lines_;
  std::vector<std::int64_t> at_;
  int told_ = 0;
  const std::function<Status(const ReconcileReport&)> tell_ = [this](const ReconcileReport& report) {
    ++told_;
    for (const auto& change : report.changes) lines_.push_back(change.ref + ": " + change.what);
    for (const auto& left : report.waiting) lines_.push_back("waiting: " + left.ref);
    for (const auto& left : report.failed) lines_.push_back("failed: " + left.ref);
    at_.push_back(runtime_.mono);
    return Status();
  };

  tiers::TestFolder root_;
  PassingTime runtime_;
  const StoreOptions options_ = options_at(root_.path() + "/store");
  StoreParts parts_ = open_parts(real_runtime(), options_, OpenMode::kCreate).value();
  std::unique_ptr<oplog::OpLog> log_ = oplog::open_memory(runtime_);
  TierObserver group_observer_{*parts_.cold};
  catalog::Catalog catalog_{runtime_, *log_, group_observer_, {}};
  Context context_{runtime_, options_, *parts_.cold, catalog_, group_observer_, options_.io_memory, false};
  Warnings observer_;
  CancelFlag cancel_{false};
};

TEST_F(KeepReconciledTest, AChangeIsLookedAtAtOnce) {
  const auto record = imported("m");
  std::int64_t began = 0;
  const Status ended = keep({[&] {
    begin_delete(record);
    began = runtime_.mono;
  }});
  EXPECT_TRUE(is_cancelled(ended)) << ended.to_string();
  EXPECT_EQ(now(record), Availability::kDeleted);
  EXPECT_THAT(lines_, ElementsAre("m@main#1: the delete that was begun is done"));
  ASSERT_EQ(told_, 2) << "the first pass, and the delete";
  EXPECT_EQ(at_[1], began);
}

TEST_F(KeepReconciledTest, WhatWaitsIsSaidOnceAndGoesOnWithTheLease) {
  const auto record = imported("m");
  const std::string held = lease(record, kForEver);
  std::int64_t released = 0;
  const auto nothing = [] {};
  std::deque<std::function<void()>> script{[&] { begin_delete(record); }};
  for (int i = 0; i < 400; ++i) script.emplace_back(nothing);  // 100 s: it is tried again and again
  script.emplace_back([&] {
    ASSERT_TRUE(catalog_.release_lease({.lease_id = held}).ok());
    released = runtime_.mono;
  });
  keep_until_cancelled(std::move(script));
  EXPECT_THAT(lines_, ElementsAre("waiting: m@main#1", "m@main#1: the delete that was begun is done"));
  EXPECT_EQ(at_.back(), released);
}

TEST_F(KeepReconciledTest, AnExpiredLeaseIsFoundWithoutAChange) {
  const auto record = imported("m");
  lease(record, 5'000);
  begin_delete(record);
  const std::int64_t expires = runtime_.mono + 5'000;
  keep_until_cancelled({[] {}}, 30'000);
  EXPECT_EQ(now(record), Availability::kDeleted);
  ASSERT_FALSE(lines_.empty());
  EXPECT_EQ(lines_.back(), "m@main#1: the delete that was begun is done");
  EXPECT_LE(at_.back(), expires + 10'000);
}

TEST_F(KeepReconciledTest, AnAbandonedImportIsFoundWithoutAChange) {
  metadata::BeginWeightImport command;
  command.lineage = {"default", "default", "m", "main"};
  command.token = std::string(32, 'a');
  command.holder = "writer";
  command.ttl_ms = options_.writer_ttl_ms;
  const auto record = catalog_.begin_weight_import(command).value().record.value();
  const std::int64_t abandoned = runtime_.mono + options_.abandon_after_ms;
  keep_until_cancelled({[&] {
                         EXPECT_EQ(now(record), Availability::kImporting);
                         runtime_.mono = abandoned;
                       }},
                       15'000);
  EXPECT_EQ(now(record), Availability::kDeleted);
  EXPECT_LE(at_.back(), abandoned + 11'000);
}

TEST_F(KeepReconciledTest, AfterATrimItLooksAtEverything) {
  const auto record = imported("m");
  keep_until_cancelled({[&] {
    begin_delete(record);
    ASSERT_TRUE(catalog_.save_snapshot().ok());
  }});
  EXPECT_EQ(now(record), Availability::kDeleted);
}

TEST_F(KeepReconciledTest, WhatChangesWithoutTheLogIsFoundByAPass) {
  imported("m");
  std::vector<std::filesystem::path> lost;
  const auto lose = [&] {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root_.path() + "/store/cold/groups")) {
      if (entry.path().filename() == "00000000") lost.push_back(entry.path());
    }
    for (const auto& path : lost) std::filesystem::remove(path);
  };
  keep_until_cancelled({lose}, 6 * 60'000);
  ASSERT_EQ(lost.size(), 1U);
  EXPECT_THAT(lines_, ElementsAre("m@main#1: DEGRADED: 1 missing or damaged object"));
}

TEST_F(KeepReconciledTest, OnlyWhatIsMeant) {
  const auto record = imported("m");
  const auto other = imported("n");
  keep_until_cancelled({[&] {
                         begin_delete(other);
                         begin_delete(record);
                       }},
                       20'000, selector_of(record.identity));
  EXPECT_EQ(now(record), Availability::kDeleted);
  EXPECT_EQ(now(other), Availability::kDeleting);
  Selector nobody;
  nobody.ref = {"nobody", "main", std::nullopt};
  EXPECT_EQ(keep({}, 0, nobody).code(), Code::kNotFound);
}

TEST_F(KeepReconciledTest, WhoHearsNoMoreEndsIt) {
  const auto record = imported("m");
  runtime_.at_wait = [&] {
    runtime_.at_wait = nullptr;
    begin_delete(record);
  };
  int told = 0;
  const Status ended = run_keep_reconciled(
      context_, std::nullopt, observer_,
      [&](const ReconcileReport&) { return ++told == 2 ? Status(Code::kUnavailable, "nobody reads") : Status(); },
      cancel_);
  EXPECT_EQ(ended.message(), "nobody reads");
  EXPECT_EQ(now(record), Availability::kDeleted);
}

TEST_F(KeepReconciledTest, WhatWaitingMendsDoesNotEndTheFirstPass) {
  oplog::FaultInjectingLog faulty(runtime_, *log_, {});
  catalog::Catalog catalog(runtime_, faulty, group_observer_, {});
  Context context{runtime_, options_, *parts_.cold, catalog, group_observer_, options_.io_memory, false};
  const auto record = imported("m");
  begin_delete(record);
  faulty.set_reads_unavailable(true);
  const std::int64_t began = runtime_.mono;
  class Readable final : public Observer {
   public:
    explicit Readable(oplog::FaultInjectingLog& log) : log_(log) {}
    void progress(const Progress& /*progress*/) override {}
    void warning(const std::string& /*message*/) override {
      if (++warnings == 2) log_.set_reads_unavailable(false);
    }
    int warnings = 0;

   private:
    oplog::FaultInjectingLog& log_;
  } observer(faulty);
  runtime_.at_wait = [&] { cancel_.store(true); };
  const Status ended = run_keep_reconciled(context, std::nullopt, observer, tell_, cancel_);
  EXPECT_TRUE(is_cancelled(ended)) << ended.to_string();
  EXPECT_EQ(observer.warnings, 2);
  EXPECT_EQ(now(record), Availability::kDeleted);
  ASSERT_FALSE(at_.empty());
  EXPECT_EQ(at_.front(), began + 20'000) << "tried every 10 seconds";
}

TEST_F(KeepReconciledTest, WhatAPassChangedIsNotLookedAtAgain) {
  const auto record = imported("m");
  std::filesystem::path object;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root_.path() + "/store/cold/groups")) {
    if (entry.path().filename() == "00000000") object = entry.path();
  }
  std::filesystem::rename(object, root_.path() + "/aside");
  const auto put_back = [&](const ReconcileReport& report) {
    if (std::filesystem::exists(root_.path() + "/aside")) std::filesystem::rename(root_.path() + "/aside", object);
    return tell_(report);
  };
  runtime_.at_wait = [&, end = runtime_.mono + 60'000] { cancel_.store(runtime_.mono >= end); };
  EXPECT_TRUE(is_cancelled(run_keep_reconciled(context_, std::nullopt, observer_, put_back, cancel_)));
  EXPECT_THAT(lines_, ElementsAre("m@main#1: DEGRADED: 1 missing or damaged object"));
  EXPECT_EQ(now(record), Availability::kDegraded) << "a pass will find it whole";
}

TEST_F(KeepReconciledTest, AnIdleWatchAsksTheLogOnce) {
  imported("m");
  class Counting final : public oplog::ForwardingLog {
   public:
    using ForwardingLog::ForwardingLog;
    Status view(const std::function<Status(const metadata::StateView&)>& read) override {
      ++asked;
      return inner_.view(read);
    }
    Result<std::vector<oplog::Append>> read(std::uint64_t after, std::size_t limit) override {
      ++asked;
      return inner_.read(after, limit);
    }
    Result<bool> watch(std::uint64_t after, std::int64_t deadline, const std::atomic<bool>* cancel) override {
      ++asked;
      return inner_.watch(after, deadline, cancel);
    }
    int asked = 0;
  } counting(*log_);
  catalog::Catalog catalog(runtime_, counting, group_observer_, {});
  Context context{runtime_, options_, *parts_.cold, catalog, group_observer_, options_.io_memory, false};
  const std::uint64_t newest = catalog_.sequence().value();
  const auto nothing = watch_store(context, newest, runtime_.mono + 60'000, cancel_);
  ASSERT_TRUE(nothing.ok()) << nothing.status().to_string();
  EXPECT_EQ(counting.asked, 3) << "how far the log is, what it has, and to be woken";
}

TEST_F(KeepReconciledTest, AWatchWaitsInSlicesAndHearsACancel) {
  const auto record = imported("m");
  catalog::WatchQuery query;
  query.identity = record.identity;
  const auto first = run_watch(context_, query, cancel_);
  ASSERT_TRUE(first.ok()) << first.status().to_string();
  EXPECT_EQ(first->changes.size(), 1U);
  query.after = first->next;
  query.deadline_mono_ms = runtime_.mono + 60'000;
  const auto nothing = run_watch(context_, query, cancel_);
  EXPECT_TRUE(nothing->changes.empty());
  EXPECT_EQ(runtime_.mono, query.deadline_mono_ms);
  query.deadline_mono_ms = INT64_MAX;
  int waits = 0;
  runtime_.at_wait = [&] { cancel_.store(++waits == 3); };
  EXPECT_TRUE(is_cancelled(run_watch(context_, query, cancel_).status()));
  cancel_.store(false);
  runtime_.at_wait = [&] {
    if (++waits == 10) begin_delete(record);
  };
  EXPECT_EQ(run_watch(context_, query, cancel_)->changes.size(), 1U);
}

}  // namespace
}  // namespace steelyard::store
