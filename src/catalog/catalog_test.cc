#include "catalog/catalog.h"

#include <gtest/gtest.h>

#include <set>
#include <utility>

#include "base/limits.h"
#include "oplog/fault_injecting.h"
#include "oplog/open.h"

namespace steelyard::catalog {
namespace {

/// The real runtime with a clock that the test moves, and processes that it declares gone.
class TestRuntime final : public Runtime {
 public:
  std::int64_t mono_ms() override { return std::exchange(mono, mono + tick); }
  std::int64_t mono_ns() override { return mono * 1'000'000; }
  std::int64_t wall_ms() override { return 1'700'000'000'000 + mono; }
  const std::string& epoch() override { return boot; }
  void fill_random(ByteSpan out) override { real_runtime().fill_random(out); }
  void sleep_ms(std::int64_t duration_ms) override { mono += duration_ms; }
  std::unique_ptr<Event> make_event() override { return real_runtime().make_event(); }
  std::unique_ptr<Task> spawn(std::string_view name, std::function<void()> body) override {
    return real_runtime().spawn(name, std::move(body));
  }
  const ProcessIdentity& self() override { return real_runtime().self(); }
  bool provably_gone(const ProcessIdentity& process) override { return gone.contains(process.pid); }

  std::int64_t mono = 1'000;
  std::int64_t tick = 0;  ///< time passes with each look at the clock
  std::string boot = "boot-a";
  std::set<std::int64_t> gone;

 protected:
  int point_armed(const char* /*name*/) override { return 0; }
};

/// Says what a test puts into it.
class TestObserver final : public GroupObserver {
 public:
  Result<GroupObservation> observe(const metadata::Identity& /*identity*/, std::uint32_t /*attempt*/) override {
    ++calls;
    return found;
  }
  GroupObservation found;
  int calls = 0;
};

const metadata::Identity kIdentity{{"default", "production", "llama", "main"}, 1};

metadata::BeginWeightImport begin(char token, std::int64_t pid) {
  metadata::BeginWeightImport command;
  command.lineage = kIdentity.lineage;
  command.token = std::string(32, token);
  command.holder = "host (pid " + std::to_string(pid) + ")";
  command.process.pid = pid;
  command.ttl_ms = limits::kWriterTtlMs;
  return command;
}

metadata::CommitWeightImport commit(char token, std::uint32_t attempt, std::uint64_t expected) {
  return {kIdentity,
          std::string(32, token),
          attempt,
          expected,
          {2, 10, formats::payload_keys_sha256(kIdentity, 2), std::string(64, 'c')}};
}

GroupObservation whole() {
  GroupObservation found;
  found.payload_count = 2;
  found.logical_bytes = 10;
  found.payload_keys_sha256 = formats::payload_keys_sha256(kIdentity, 2);
  found.manifests = 1;
  found.manifest_sha256 = std::string(64, 'c');
  found.flushed = true;
  return found;
}

struct CatalogTest : testing::Test {
  TestRuntime runtime;
  TestObserver observer;
  std::unique_ptr<oplog::OpLog> log = oplog::open_memory(runtime);
  Catalog catalog{runtime, *log, observer, {}};
};

TEST_F(CatalogTest, ImportIsPublishedOnceItsGroupIsWhole) {
  const auto begun = catalog.begin_weight_import(begin('a', 1));
  ASSERT_TRUE(begun.ok()) << begun.status().to_string();
  observer.found = whole();
  const auto record = catalog.commit_weight_import(commit('a', 1, 1));
  ASSERT_TRUE(record.ok()) << record.status().to_string();
  EXPECT_EQ(record->availability, metadata::Availability::kReady);
  EXPECT_EQ(*catalog.get_weight_revision(kIdentity), *record);
  EXPECT_EQ(observer.calls, 1);
  // A retry is answered from the record alone.
  EXPECT_EQ(*catalog.commit_weight_import(commit('a', 1, 1)), *record);
  EXPECT_EQ(observer.calls, 1);
  EXPECT_EQ(decode_committed(encode_committed(*record)).value(), *record);
}

TEST_F(CatalogTest, EveryDifferenceOfTheGroupIsNamed) {
  ASSERT_TRUE(catalog.begin_weight_import(begin('a', 1)).ok());
  const auto refused = [&](auto change, std::string_view named, Code code = Code::kCorrupt) {
    observer.found = whole();
    change(observer.found);
    const Status status = catalog.commit_weight_import(commit('a', 1, 1)).status();
    EXPECT_EQ(status.code(), code) << status.to_string();
    EXPECT_NE(status.message().find(named), std::string::npos) << status.message();
    EXPECT_EQ(catalog.get_weight_revision(kIdentity)->availability, metadata::Availability::kImporting);
  };
  refused([](GroupObservation& found) { found.payload_count = 1; }, "payload objects is 1, wanted 2");
  refused([](GroupObservation& found) { found.logical_bytes = 9; }, "payload bytes is 9, wanted 10");
  refused([](GroupObservation& found) { found.payload_keys_sha256 = std::string(64, 'd'); }, "payload keys");
  refused([](GroupObservation& found) { found.manifests = 0; }, "manifests is 0");
  refused([](GroupObservation& found) { found.manifests = 2; }, "manifests is 2");
  refused([](GroupObservation& found) { found.manifest_sha256 = std::string(64, 'd'); }, "manifest's SHA-256");
  refused([](GroupObservation& found) { found.unexpected = {"stray"}; }, "stray");
  refused([](GroupObservation& found) { found.unreadable = {"payload/00000001"}; }, "payload/00000001");
  refused([](GroupObservation& found) { found.flushed = false; }, "since the last flush", Code::kDurabilityFailed);
  observer.found = whole();
  auto command = commit('a', 1, 1);
  command.summary.payload_keys_sha256 = std::string(64, 'e');
  EXPECT_EQ(catalog.commit_weight_import(command).code(), Code::kInvalidArgument);
}

TEST_F(CatalogTest, CommitThatCannotSucceedDoesNotLook) {
  EXPECT_EQ(catalog.commit_weight_import(commit('a', 1, 1)).code(), Code::kNotFound);
  ASSERT_TRUE(catalog.begin_weight_import(begin('a', 1)).ok());
  EXPECT_EQ(catalog.commit_weight_import(commit('b', 1, 1)).code(), Code::kStaleGeneration);
  EXPECT_EQ(observer.calls, 0);
}

TEST_F(CatalogTest, ADeadWriterIsTakenOverAtOnceALiveOneIsBusy) {
  ASSERT_TRUE(catalog.begin_weight_import(begin('a', 1)).ok());
  EXPECT_EQ(catalog.begin_weight_import(begin('b', 2)).code(), Code::kBusy);
  runtime.gone = {1};
  const auto taken = catalog.begin_weight_import(begin('b', 2));
  ASSERT_TRUE(taken.ok()) << taken.status().to_string();
  EXPECT_EQ(taken->record->import_attempt, 2U);
  EXPECT_EQ(catalog.renew_weight_import({kIdentity, std::string(32, 'a'), 1}).code(), Code::kStaleGeneration);
  ASSERT_TRUE(catalog.release_weight_import({kIdentity, std::string(32, 'b'), 2}).ok());
  EXPECT_FALSE((*catalog.get_writer_row(kIdentity))->live);
  EXPECT_TRUE(catalog.begin_weight_import(begin('c', 3)).ok());
}

TEST_F(CatalogTest, ANewEpochStandsEvenWhenTheCommandFails) {
  ASSERT_TRUE(catalog.begin_weight_import(begin('a', 1)).ok());
  runtime.boot = "boot-b";
  runtime.mono = 10;
  EXPECT_EQ(catalog.begin_weight_import(begin('b', 2)).code(), Code::kBusy);
  // Were the epoch not kept, the token would be armed again by each refusal, and never end.
  runtime.mono += limits::kWriterTtlMs - 1;
  EXPECT_EQ(catalog.begin_weight_import(begin('b', 2)).code(), Code::kBusy);
  runtime.mono += 1;
  EXPECT_TRUE(catalog.begin_weight_import(begin('b', 2)).ok());
}

TEST_F(CatalogTest, WhatWasSeenAlreadyTakesNoTurn) {
  ASSERT_TRUE(catalog.begin_weight_import(begin('a', 1)).ok());
  observer.found = whole();
  const auto record = catalog.commit_weight_import(commit('a', 1, 1));
  ASSERT_TRUE(record.ok());
  const std::uint64_t length = *log->length();
  oplog::FaultInjectingLog broken(runtime, *log, {});
  Catalog behind(runtime, broken, observer, {});
  metadata::ReconcileRevision seen{kIdentity, record->metadata_generation, {}};
  broken.script({oplog::LogFault::kBefore});
  const auto same = behind.reconcile_weight_revision(seen);
  ASSERT_TRUE(same.ok()) << same.status().to_string();
  EXPECT_EQ(*same, *record);
  seen.seen.damage = {{formats::payload_key(kIdentity, 0)}, 1};
  EXPECT_EQ(behind.reconcile_weight_revision(seen).code(), Code::kDurabilityFailed);
  EXPECT_EQ(*log->length(), length);
}

TEST_F(CatalogTest, Leases) {
  ASSERT_TRUE(catalog.begin_weight_import(begin('a', 1)).ok());
  observer.found = whole();
  ASSERT_TRUE(catalog.commit_weight_import(commit('a', 1, 1)).ok());
  metadata::AcquireLease acquire;
  acquire.identity = kIdentity;
  acquire.holder = "reader";
  acquire.nonce = "1";
  acquire.ttl_ms = 10'000;
  const auto answer = catalog.acquire_lease(acquire);
  ASSERT_TRUE(answer.ok()) << answer.status().to_string();
  runtime.mono += 4'000;
  ASSERT_EQ(catalog.list_leases(kIdentity)->size(), 1U);
  EXPECT_EQ(catalog.list_leases("default", "production")->front().left_ms, 6'000);
  EXPECT_TRUE(catalog.list_leases("default", "other")->empty());
  EXPECT_TRUE(catalog.renew_lease({answer->lease->lease_id, 10'000}).ok());
  EXPECT_TRUE(catalog.release_lease({answer->lease->lease_id}).ok());
  EXPECT_TRUE(catalog.list_leases(kIdentity)->empty());
}

TEST_F(CatalogTest, ALeaseThatEndsWhileTheOthersAreReapedIsNotPassedOver) {
  ASSERT_TRUE(catalog.begin_weight_import(begin('a', 1)).ok());
  observer.found = whole();
  ASSERT_TRUE(catalog.commit_weight_import(commit('a', 1, 1)).ok());
  metadata::AcquireLease acquire;
  acquire.identity = kIdentity;
  acquire.holder = "reader";
  acquire.nonce = std::string(32, 'b');
  acquire.ttl_ms = limits::kLeaseTtlMsMin;
  ASSERT_TRUE(catalog.acquire_lease(acquire).ok());
  runtime.mono += acquire.ttl_ms - 1;
  runtime.tick = 1;
  const auto left = catalog.reap_leases(kIdentity);
  ASSERT_TRUE(left.ok()) << left.status().to_string();
  ASSERT_EQ(left->size(), 1U) << "a reboot now would give it its time again";
  EXPECT_EQ(left->front().left_ms, 0);
  EXPECT_TRUE(catalog.list_leases(kIdentity)->empty());
  EXPECT_TRUE(catalog.reap_leases(kIdentity)->empty());
}

TEST_F(CatalogTest, AnEpochIsBegunOnce) {
  ASSERT_TRUE(catalog.begin_epoch().ok());
  EXPECT_EQ(*catalog.sequence(), 0U) << "an empty log has no past to end";
  ASSERT_TRUE(catalog.begin_weight_import(begin('a', 1)).ok());
  const std::uint64_t before = *catalog.sequence();
  ASSERT_TRUE(catalog.begin_epoch().ok());
  EXPECT_EQ(*catalog.sequence(), before);
  runtime.boot = "boot-b";
  runtime.mono = 5;
  ASSERT_TRUE(catalog.begin_epoch().ok());
  ASSERT_TRUE(catalog.begin_epoch().ok());
  EXPECT_EQ(*catalog.sequence(), before + 1);
  runtime.mono += 10'000;
  EXPECT_GE(catalog.get_writer_row(kIdentity)->value().idle_ms, 10'000);
}

TEST_F(CatalogTest, MutationsWaitForTheConfirmationOfStandbysReadsDoNot) {
  const auto gated = oplog::open_memory(runtime, true);
  Catalog unconfirmed(runtime, *gated, observer, {});
  const Status status = unconfirmed.begin_weight_import(begin('a', 1)).status();
  EXPECT_EQ(status.code(), Code::kDurabilityFailed);
  EXPECT_NE(status.hint().find("weight_management_oplog_capability_confirmed"), std::string::npos);
  EXPECT_EQ(unconfirmed.release_lease({std::string(32, 'a')}).code(), Code::kDurabilityFailed);
  EXPECT_EQ(unconfirmed.get_weight_revision(kIdentity).code(), Code::kNotFound);
  metadata::ListQuery query;
  query.tenant_id = "default";
  query.namespace_id = "production";
  EXPECT_TRUE(unconfirmed.list_weight_revisions(query).ok());
  CatalogOptions options;
  options.oplog_capability_confirmed = true;
  Catalog confirmed(runtime, *gated, observer, options);
  EXPECT_TRUE(confirmed.begin_weight_import(begin('a', 1)).ok());
}

/// What a log answers that was opened without write permission.
class ReadOnlyLog final : public oplog::OpLog {
 public:
  explicit ReadOnlyLog(oplog::OpLog& log) : log_(log) {}
  Result<std::uint64_t> write(const Prepare& /*prepare*/) override { return refuse(); }
  Status view(const std::function<Status(const metadata::StateView&)>& read) override { return log_.view(read); }
  Result<std::vector<oplog::Append>> read(std::uint64_t after, std::size_t limit) override {
    return log_.read(after, limit);
  }
  Result<bool> watch(std::uint64_t after, std::int64_t deadline, const std::atomic<bool>* cancel) override {
    return log_.watch(after, deadline, cancel);
  }
  Result<std::uint64_t> save_snapshot() override { return refuse(); }
  Result<std::string> newest_snapshot() override { return log_.newest_snapshot(); }
  Status trim(std::uint64_t /*sequence*/) override { return refuse(); }
  Result<std::uint64_t> length() override { return log_.length(); }
  Status restore(const oplog::Snapshot& /*snapshot*/) override { return refuse(); }
  oplog::Capabilities capabilities() const override {
    oplog::Capabilities can = log_.capabilities();
    can.read_only = true;
    return can;
  }

 private:
  static Status refuse() { return {Code::kInternal, "the catalog wrote to a read-only log"}; }
  oplog::OpLog& log_;
};

TEST_F(CatalogTest, ReadOnlyAnswersReadsAndRefusesMutations) {
  ASSERT_TRUE(catalog.begin_weight_import(begin('a', 1)).ok());
  ReadOnlyLog read_only(*log);
  Catalog reader(runtime, read_only, observer, {});
  EXPECT_TRUE(reader.get_weight_revision(kIdentity).ok());
  EXPECT_EQ(reader.list_lineage(kIdentity.lineage)->size(), 1U);
  for (const Status& status :
       {reader.begin_weight_import(begin('b', 2)).status(), reader.commit_weight_import(commit('a', 1, 1)).status(),
        reader.release_lease({std::string(32, 'a')}), reader.acquire_lease({}).status(),
        reader.renew_weight_import({kIdentity, std::string(32, 'a'), 1}).status()}) {
    EXPECT_EQ(status.code(), Code::kUnauthorized);
    EXPECT_NE(status.message().find("read-only"), std::string::npos);
  }
}

TEST_F(CatalogTest, SnapshotsByLengthAndAFailedCopyOnlyLogs) {
  std::vector<std::uint64_t> copies;
  CatalogOptions options;
  options.snapshot_every = 10;
  options.on_snapshot = [&](std::uint64_t sequence, const std::string& bytes) -> Status {
    EXPECT_EQ(oplog::decode_snapshot(bytes)->sequence, sequence);
    copies.push_back(sequence);
    return {Code::kNoSpace, "full"};
  };
  Catalog snapshotting(runtime, *log, observer, options);
  ASSERT_TRUE(snapshotting.begin_weight_import(begin('a', 1)).ok());
  for (int i = 0; i < 50; ++i) {
    runtime.mono += 1;
    ASSERT_TRUE(snapshotting.renew_weight_import({kIdentity, std::string(32, 'a'), 1}).ok());
  }
  EXPECT_GE(copies.size(), 4U);
  EXPECT_LE(copies.size(), 6U);
  EXPECT_LE(*log->length(), 10U);
  EXPECT_TRUE(snapshotting.get_weight_revision(kIdentity).ok());
}

TEST(Committed, ANewerFormatIsNamedBeforeItsChecksumIsJudged) {
  // Nobody knows where another format keeps its checksum, or whether it has one.
  for (const std::string bytes : {"steelyard committed 2\n", "steelyard committed 12\nanything"}) {
    const auto newer = decode_committed(bytes);
    EXPECT_EQ(newer.code(), Code::kUnavailable) << bytes;
    EXPECT_NE(newer.status().message().find("newer than 1"), std::string::npos) << newer.status().to_string();
  }
  for (const std::string bytes : {"steelyard committed \n", "steelyard committed 2", "steelyard committed 0\nanything",
                                  "steelyard committed 99999999999999999999\n", "steelyard committed x\n"}) {
    EXPECT_EQ(decode_committed(bytes).code(), Code::kCorrupt) << bytes;
  }
}

TEST(Committed, DamageIsFound) {
  metadata::RevisionRecord record;
  EXPECT_EQ(decode_committed("").code(), Code::kCorrupt);
  TestRuntime runtime;
  TestObserver observer;
  observer.found = whole();
  const auto log = oplog::open_memory(runtime);
  Catalog catalog(runtime, *log, observer, {});
  ASSERT_TRUE(catalog.begin_weight_import(begin('a', 1)).ok());
  const std::string bytes = encode_committed(*catalog.commit_weight_import(commit('a', 1, 1)));
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    std::string bad = bytes;
    bad[i] = static_cast<char>(bad[i] ^ 1);
    EXPECT_FALSE(decode_committed(bad).ok()) << i;
    EXPECT_FALSE(decode_committed(std::string_view(bytes).substr(0, i)).ok()) << i;
  }
}

}  // namespace
}  // namespace steelyard::catalog
