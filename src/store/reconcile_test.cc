// Reconciliation over reboots and beside others, where a test holds the clock and the parts of the store in its hands.
#include "store/reconcile.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/limits.h"
#include "catalog/catalog.h"
#include "store/delete.h"
#include "store/import.h"
#include "store/open_store.h"
#include "store/resolve.h"
#include "tiers/directory/test_folder.h"

namespace steelyard::store {
namespace {

using metadata::Availability;

/// The real runtime, in a boot and at an hour that the test chooses; it acts at fault points.
class TestRuntime final : public Runtime {
 public:
  TestRuntime() { faults_armed_ = true; }

  std::int64_t mono_ms() override { return mono; }
  std::int64_t mono_ns() override { return mono * 1'000'000; }
  std::int64_t wall_ms() override { return real_runtime().wall_ms(); }
  const std::string& epoch() override { return boot; }
  void fill_random(ByteSpan out) override { real_runtime().fill_random(out); }
  void sleep_ms(std::int64_t duration_ms) override { mono += duration_ms; }
  std::unique_ptr<Event> make_event() override { return real_runtime().make_event(); }
  std::unique_ptr<Task> spawn(std::string_view name, std::function<void()> body) override {
    return real_runtime().spawn(name, std::move(body));
  }
  const ProcessIdentity& self() override { return real_runtime().self(); }
  bool provably_gone(const ProcessIdentity& /*process*/) override { return false; }

  std::int64_t mono = 1'000'000;
  std::string boot = "boot-a";
  std::function<void(std::string_view)> at_point;

 protected:
  int point_armed(const char* name) override {
    if (at_point) at_point(name);
    return 0;
  }
};

class Silent final : public Observer {
 public:
  void progress(const Progress& /*progress*/) override {}
  void warning(const std::string& /*message*/) override {}
};

class ReconcileTest : public testing::Test {
 protected:
  static StoreOptions options_at(const std::string& path) {
    StoreOptions options;
    options.path = path;
    options.cold_reserve_free = 0;
    options.io_memory = limits::kIoMemoryMin;
    options.jobs = 1;
    return options;
  }
  metadata::RevisionRecord begin() {
    metadata::BeginWeightImport command;
    command.lineage = {"default", "default", "m", "main"};
    command.token = runtime_.random_hex(16);
    command.holder = "writer";
    command.process = runtime_.self();
    command.ttl_ms = options_.writer_ttl_ms;
    return catalog_.begin_weight_import(command).value().record.value();
  }
  ReconcileReport reconcile(const std::optional<Selector>& selector = std::nullopt) {
    return run_reconcile(context_, selector, silent_, cancel_).value();
  }
  Availability now(const metadata::Identity& identity) {
    return catalog_.get_weight_revision(identity).value().availability;
  }

  tiers::TestFolder root_;
  TestRuntime runtime_;
  const StoreOptions options_ = options_at(root_.path() + "/store");
  StoreParts parts_ = open_parts(runtime_, options_, OpenMode::kCreate).value();
  TierObserver observer_{*parts_.cold};
  catalog::Catalog catalog_{runtime_, *parts_.log, observer_, {}};
  Context context_{runtime_, options_, *parts_.cold, catalog_, observer_, options_.io_memory, false};
  Silent silent_;
  CancelFlag cancel_{false};
};

TEST_F(ReconcileTest, AnImportThatARebootEndedIsAbandonedInTime) {
  const metadata::Identity identity = begin().identity;
  runtime_.boot = "boot-b";
  runtime_.mono = 1'000;
  EXPECT_TRUE(reconcile().changes.empty());
  runtime_.mono += options_.abandon_after_ms + options_.writer_ttl_ms;
  const ReconcileReport report = reconcile();
  ASSERT_EQ(report.changes.size(), 1U) << "nothing else in this store begins the epoch";
  EXPECT_EQ(now(identity), Availability::kDeleted);
}

TEST_F(ReconcileTest, WhatMovedMeanwhileIsLookedAtAgain) {
  const metadata::RevisionRecord record = begin();
  metadata::AbortWeightImport abort;
  abort.identity = record.identity;
  abort.expected_metadata_generation = record.metadata_generation;
  abort.force = true;
  const metadata::RevisionRecord deleting = catalog_.abort_weight_import(abort).value();
  ASSERT_EQ(deleting.availability, Availability::kDeleting);
  // Somebody else ends it between the look at the record and the append.
  runtime_.at_point = [&](std::string_view point) {
    if (point != "delete.after_objects") return;
    runtime_.at_point = nullptr;
    ASSERT_TRUE(catalog_
                    .finish_delete(
                        {.identity = deleting.identity, .expected_metadata_generation = deleting.metadata_generation})
                    .ok());
  };
  Selector selector;
  selector.ref = {"m", "main", 1};
  const ReconcileReport report = reconcile(selector);
  EXPECT_EQ(report.checked, 1U);
  EXPECT_TRUE(report.failed.empty());
  EXPECT_EQ(now(record.identity), Availability::kDeleted);
}

class DeletedBeside : public ReconcileTest {
 protected:
  void SetUp() override {
    const std::string source = root_.path() + "/source";
    std::filesystem::create_directory(source);
    std::ofstream(source + "/config.json") << "{}";
    ImportRequest request;
    request.source = source;
    request.target.ref = {"m", "main", std::nullopt};
    request.checkpoint.allow_empty = true;
    const auto folder = parts_.open_source(source, false);
    record_ = run_import(context_, request, **folder, silent_, cancel_).value().record;
    ASSERT_TRUE(cold().put_deleting(group(), "stray").ok());
  }
  tiers::Tier& cold() { return *parts_.cold; }
  std::string group() const { return attempt_of(record_).group; }
  Status erase(std::optional<std::int64_t> wait_ms = std::nullopt) {
    DeleteRequest request;
    request.target = selector_of(record_.identity);
    request.wait_ms = wait_ms;
    return run_delete(context_, request, cancel_).status();
  }
  void expect_known_as_used() {
    const auto bytes = cold().read_deleting(group());
    ASSERT_TRUE(bytes.ok()) << bytes.status().to_string();
    const auto marked = catalog::decode_deleting(*bytes);
    ASSERT_TRUE(marked.ok()) << marked.status().to_string();
    EXPECT_EQ(marked->identity, record_.identity);
  }

  metadata::RevisionRecord record_;
};

TEST_F(DeletedBeside, AMarkerThatALateReconcileTookComesBack) {
  runtime_.at_point = [&](std::string_view point) {
    if (point != "reconcile.after_stray_marker") return;
    runtime_.at_point = nullptr;
    // As if the delete had found the stray one, and ended before it was taken.
    ASSERT_TRUE(erase().ok());
    ASSERT_TRUE(cold().remove_deleting(group()).ok());
  };
  EXPECT_TRUE(reconcile().failed.empty());
  EXPECT_EQ(now(record_.identity), Availability::kDeleted);
  expect_known_as_used();
}

TEST_F(DeletedBeside, AMarkerThatWentBeforeTheTombstoneComesBack) {
  runtime_.at_point = [&](std::string_view point) {
    if (point != "delete.after_objects") return;
    runtime_.at_point = nullptr;
    ASSERT_TRUE(cold().remove_deleting(group()).ok());
  };
  EXPECT_TRUE(erase().ok());
  EXPECT_EQ(now(record_.identity), Availability::kDeleted);
  expect_known_as_used();
}

TEST_F(DeletedBeside, ADrainPutsItsMarkerOnceAndThenOnlyAsks) {
  metadata::AcquireLease lease;
  lease.identity = record_.identity;
  lease.holder = "reader";
  lease.nonce = runtime_.random_hex(16);
  lease.ttl_ms = 10'000;
  lease.process = runtime_.self();
  ASSERT_TRUE(catalog_.acquire_lease(lease).ok());
  int waits = 0;
  int markers = 0;
  runtime_.at_point = [&](std::string_view point) {
    waits += point == "delete.waiting" ? 1 : 0;
    markers += point == "delete.after_marker" ? 1 : 0;
  };
  EXPECT_TRUE(erase(60'000).ok());
  EXPECT_GE(waits, 10);
  EXPECT_EQ(markers, 2) << "before the first look, and with the removal";
}

}  // namespace
}  // namespace steelyard::store
