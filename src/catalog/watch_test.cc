// Watching: in order, each change at least once, anew after a trim, woken by the log.
#include <gtest/gtest.h>

#include "base/limits.h"
#include "catalog/catalog.h"
#include "oplog/open.h"

namespace steelyard::catalog {
namespace {

class AnswersAsTold final : public GroupObserver {
 public:
  Result<GroupObservation> observe(const metadata::Identity& /*identity*/, std::uint32_t /*attempt*/) override {
    return found;
  }
  GroupObservation found;
};

metadata::Identity identity_of(const std::string& resource, std::int64_t generation = 1) {
  return {{"default", "production", resource, "main"}, generation};
}

struct WatchTest : testing::Test {
  void begin(const std::string& resource, std::int64_t generation = 1) {
    metadata::BeginWeightImport command;
    command.lineage = identity_of(resource).lineage;
    command.weight_generation = generation;
    command.token = std::string(32, 'a');
    command.holder = "writer";
    command.ttl_ms = limits::kWriterTtlMs;
    ASSERT_TRUE(catalog.begin_weight_import(command).ok());
  }
  void abort(const std::string& resource) {
    const auto record = catalog.get_weight_revision(identity_of(resource));
    ASSERT_TRUE(record.ok());
    metadata::AbortWeightImport command;
    command.identity = identity_of(resource);
    command.expected_metadata_generation = record->metadata_generation;
    command.force = true;
    ASSERT_TRUE(catalog.abort_weight_import(command).ok());
  }
  void finish(const std::string& resource) {
    const auto record = catalog.get_weight_revision(identity_of(resource));
    ASSERT_TRUE(record.ok());
    ASSERT_TRUE(catalog
                    .finish_delete({.identity = identity_of(resource),
                                    .expected_metadata_generation = record->metadata_generation})
                    .ok());
  }
  void publish(const std::string& resource) {
    begin(resource);
    const metadata::Identity identity = identity_of(resource);
    metadata::CommitWeightImport command;
    command.identity = identity;
    command.token = std::string(32, 'a');
    command.import_attempt = 1;
    command.expected_metadata_generation = catalog.get_weight_revision(identity)->metadata_generation;
    command.summary = {1, 1, formats::payload_keys_sha256(identity, 1), std::string(64, 'a')};
    observer.found = {.payload_count = 1,
                      .logical_bytes = 1,
                      .payload_keys_sha256 = command.summary.payload_keys_sha256,
                      .manifests = 1,
                      .manifest_sha256 = command.summary.manifest_sha256,
                      .unexpected = {},
                      .unreadable = {},
                      .flushed = true};
    const auto committed = catalog.commit_weight_import(command);
    ASSERT_TRUE(committed.ok()) << committed.status().to_string();
  }
  WatchQuery all(std::optional<std::uint64_t> after) const {
    WatchQuery query;
    query.tenant_id = "default";
    query.namespace_id = "production";
    query.after = after;
    return query;
  }
  static std::vector<std::string> told(const WatchBatch& batch) {
    std::vector<std::string> out;
    std::uint64_t last = 0;
    for (const RevisionChange& change : batch.changes) {
      EXPECT_GE(change.sequence, last);
      EXPECT_LE(change.sequence, batch.next);
      last = change.sequence;
      out.push_back(change.record.identity.lineage.resource_id + " " +
                    std::string(name_of(change.record.availability)));
    }
    return out;
  }

  Runtime& runtime = real_runtime();
  std::unique_ptr<oplog::OpLog> log = oplog::open_memory(runtime);
  AnswersAsTold observer;
  Catalog catalog{runtime, *log, observer, {}};
};

using Told = std::vector<std::string>;

TEST_F(WatchTest, BeginsWithWhatIsThereAndGoesOnInOrder) {
  begin("llama");
  const auto first = catalog.watch_weight_revisions(all({}));
  ASSERT_TRUE(first.ok()) << first.status().to_string();
  EXPECT_TRUE(first->resnapshot);
  EXPECT_EQ(told(*first), (Told{"llama IMPORTING"}));

  begin("qwen");
  abort("llama");
  const auto second = catalog.watch_weight_revisions(all(first->next));
  ASSERT_TRUE(second.ok());
  EXPECT_FALSE(second->resnapshot);
  EXPECT_EQ(told(*second), (Told{"qwen IMPORTING", "llama DELETING"}));
  EXPECT_EQ(told(*catalog.watch_weight_revisions(all(first->next))), told(*second)) << "and again for who asks again";

  const auto nothing = catalog.watch_weight_revisions(all(second->next));
  ASSERT_TRUE(nothing.ok()) << "the deadline is over";
  EXPECT_TRUE(nothing->changes.empty());
  EXPECT_EQ(nothing->next, second->next);
}

TEST_F(WatchTest, OneResourceOrOneRevision) {
  begin("llama");
  begin("llama", 2);
  begin("llama-2");
  abort("llama");
  WatchQuery query = all(0);
  query.resource_id = "llama";
  EXPECT_EQ(told(*catalog.watch_weight_revisions(query)),
            (Told{"llama IMPORTING", "llama IMPORTING", "llama DELETING"}));
  query.after.reset();
  EXPECT_EQ(told(*catalog.watch_weight_revisions(query)), (Told{"llama DELETING", "llama IMPORTING"}));
  query.identity = identity_of("llama", 2);
  EXPECT_EQ(told(*catalog.watch_weight_revisions(query)), (Told{"llama IMPORTING"}));
  query.after = 0;
  EXPECT_EQ(told(*catalog.watch_weight_revisions(query)), (Told{"llama IMPORTING"}));
  query.identity = identity_of("nobody");
  const auto nothing = catalog.watch_weight_revisions(query);
  EXPECT_TRUE(nothing->changes.empty());
  EXPECT_EQ(nothing->next, log->length().value()) << "what does not match is not read again";
  query.identity->weight_generation = 0;
  EXPECT_EQ(catalog.watch_weight_revisions(query).code(), Code::kInvalidArgument);
  query = all(0);
  query.namespace_id = "elsewhere";
  EXPECT_TRUE(catalog.watch_weight_revisions(query)->changes.empty());
}

TEST_F(WatchTest, EveryGenerationOfARevision) {
  begin("llama");
  begin("llama", 3);
  WatchQuery query = all({});
  query.revision = "main";
  EXPECT_EQ(catalog.watch_weight_revisions(query).code(), Code::kInvalidArgument) << "of which resource?";
  query.resource_id = "llama";
  EXPECT_EQ(told(*catalog.watch_weight_revisions(query)), (Told{"llama IMPORTING", "llama IMPORTING"}));
  query.after = 0;
  EXPECT_EQ(told(*catalog.watch_weight_revisions(query)), (Told{"llama IMPORTING", "llama IMPORTING"}));
  query.revision = "step-1";
  EXPECT_TRUE(catalog.watch_weight_revisions(query)->changes.empty());
  query.after.reset();
  EXPECT_TRUE(catalog.watch_weight_revisions(query)->changes.empty());
}

TEST_F(WatchTest, WhatWasCompactedIsDeletedNotMissing) {
  begin("llama");
  begin("llama", 2);
  WatchQuery query = all({});
  query.identity = identity_of("llama");
  EXPECT_FALSE(catalog.watch_weight_revisions(query)->compacted);
  abort("llama");
  finish("llama");
  ASSERT_TRUE(catalog.compact_tombstones({.lineage = identity_of("llama").lineage, .weight_generation = 1}).ok());
  const auto gone = catalog.watch_weight_revisions(query);
  ASSERT_TRUE(gone.ok()) << gone.status().to_string();
  EXPECT_TRUE(gone->changes.empty());
  EXPECT_TRUE(gone->compacted);
  query.identity->weight_generation = 2;
  EXPECT_FALSE(catalog.watch_weight_revisions(query)->compacted);
  query.identity->weight_generation = 3;
  EXPECT_FALSE(catalog.watch_weight_revisions(query)->compacted) << "it may still come";
}

TEST_F(WatchTest, TheWholeStore) {
  begin("llama");
  const std::uint64_t before = catalog.sequence().value();
  begin("qwen");
  begin("llama", 2);
  const auto found = catalog.watch_store(before, 0);
  ASSERT_TRUE(found.ok()) << found.status().to_string();
  ASSERT_EQ(found->changes.size(), 2U);
  EXPECT_EQ(found->changes[0].record.identity, identity_of("qwen"));
  EXPECT_EQ(found->changes[1].record.identity, identity_of("llama", 2));
  EXPECT_EQ(found->next, catalog.sequence().value());
  const auto nothing = catalog.watch_store(found->next, 0);
  EXPECT_TRUE(nothing->changes.empty() && !nothing->resnapshot);
  ASSERT_TRUE(catalog.save_snapshot().ok());
  const auto anew = catalog.watch_store(before, 0);
  ASSERT_TRUE(anew.ok()) << anew.status().to_string();
  EXPECT_TRUE(anew->resnapshot && anew->changes.empty());
  EXPECT_EQ(anew->next, catalog.sequence().value());
}

TEST_F(WatchTest, LeasesAreOfInterestToAReconciler) {
  publish("llama");
  metadata::AcquireLease lease;
  lease.identity = identity_of("llama");
  lease.holder = "reader";
  lease.nonce = "n";
  lease.ttl_ms = limits::kLeaseTtlMs;
  const auto held = catalog.acquire_lease(lease);
  ASSERT_TRUE(held.ok()) << held.status().to_string();
  const std::uint64_t before = catalog.sequence().value();
  ASSERT_TRUE(catalog.renew_lease({.lease_id = held->lease->lease_id, .ttl_ms = limits::kLeaseTtlMs}).ok());
  const auto taken = catalog.watch_store(before - 1, 0);
  EXPECT_TRUE(taken->leases_ended.empty());
  EXPECT_EQ(taken->leases_taken, std::vector{identity_of("llama")}) << "granted and renewed";
  ASSERT_TRUE(catalog.release_lease({.lease_id = held->lease->lease_id}).ok());
  const auto ended = catalog.watch_store(before, 0);
  EXPECT_TRUE(ended->changes.empty());
  EXPECT_EQ(ended->leases_ended, std::vector{identity_of("llama")});
}

TEST_F(WatchTest, UsesAreFoundByGroup) {
  publish("llama");
  publish("qwen");
  metadata::AcquireLease lease;
  lease.identity = identity_of("qwen");
  lease.holder = "reader";
  lease.nonce = "n";
  lease.ttl_ms = limits::kLeaseTtlMs;
  ASSERT_TRUE(catalog.acquire_lease(lease).ok());
  const auto group = [](const char* name) { return formats::payload_group_digest(identity_of(name)).hex(); };
  const auto uses = catalog.uses_of_groups({group("qwen"), std::string(64, '0'), group("llama")});
  ASSERT_TRUE(uses.ok()) << uses.status().to_string();
  ASSERT_EQ(uses->size(), 2U);
  EXPECT_EQ((*uses)[0].record.identity, identity_of("qwen"));
  EXPECT_EQ((*uses)[0].live_leases, 1U);
  EXPECT_GT((*uses)[0].last_use, (*uses)[1].last_use);
  EXPECT_EQ((*uses)[1].live_leases, 0U);
}

TEST_F(WatchTest, AGoneReaderIsNamedWithTheWayToEndItsLease) {
  publish("llama");
  metadata::AcquireLease lease;
  lease.identity = identity_of("llama");
  lease.holder = "server";
  lease.nonce = "n";
  lease.ttl_ms = limits::kLeaseTtlMs;
  ASSERT_TRUE(catalog.acquire_lease(lease).ok());
  const Status busy(Code::kBusy, "it is read", "wait");
  EXPECT_EQ(catalog.name_gone_readers(lease.identity, busy).hint(), "wait") << "nothing is known of its process";
  lease.holder = "reader (pid 1)";
  lease.process = real_runtime().self();
  lease.process.start_ticks += 1000;  // another process had this pid
  const auto held = catalog.acquire_lease(lease);
  ASSERT_TRUE(held.ok()) << held.status().to_string();
  const Status named = catalog.name_gone_readers(lease.identity, busy);
  EXPECT_EQ(named.code(), Code::kBusy);
  EXPECT_NE(named.hint().find("the process of reader (pid 1) is gone"), std::string::npos) << named.hint();
  EXPECT_NE(named.hint().find("steelyard lease release " + held->lease->lease_id), std::string::npos);
  EXPECT_EQ(named.hint().find("server"), std::string::npos);
}

TEST_F(WatchTest, WhatTimeAloneHasMadeDue) {
  begin("llama");
  EXPECT_EQ(catalog.find_overdue(0)->size(), 0U) << "its writer lives";
  ASSERT_TRUE(
      catalog
          .release_weight_import({.identity = identity_of("llama"), .token = std::string(32, 'a'), .import_attempt = 1})
          .ok());
  EXPECT_EQ(*catalog.find_overdue(0), std::vector{identity_of("llama")});
  EXPECT_TRUE(catalog.find_overdue(3'600'000)->empty()) << "it may be resumed for an hour";

  publish("qwen");
  metadata::StartOperation start;
  start.identity = identity_of("qwen");
  start.expected_metadata_generation = catalog.get_weight_revision(start.identity)->metadata_generation;
  start.operation_id = std::string(32, 'b');
  start.kind = metadata::OperationKind::kRepairing;
  start.target = metadata::Residency::kCold;
  start.total_members = 1;
  start.total_bytes = 1;
  start.runner = metadata::RunnerGrant{std::string(32, 'c'), "runner", runtime.self(), limits::kWriterTtlMs, {}};
  EXPECT_FALSE(*catalog.is_being_run(start.identity));
  const auto started = catalog.start_operation(start);
  ASSERT_TRUE(started.ok()) << started.status().to_string();
  EXPECT_TRUE(*catalog.is_being_run(start.identity));
  EXPECT_TRUE(catalog.query_operation(start.operation_id)->is_being_run());
  const Status busy(Code::kBusy, "busy", "wait");
  EXPECT_EQ(catalog.name_gone_runner(start.identity, busy).hint(), "wait") << "it lives";
  EXPECT_TRUE(catalog.find_overdue(3'600'000)->empty());
  metadata::ReportOperation report;
  report.identity = start.identity;
  report.token = {start.operation_id, std::string(32, 'c'), started->runner->run_attempt};
  report.give_back = true;
  ASSERT_TRUE(catalog.report_operation(report).ok());
  EXPECT_FALSE(*catalog.is_being_run(start.identity));
  EXPECT_FALSE(catalog.query_operation(start.operation_id)->is_being_run()) << "it gave it back";
  // Another process had that pid.
  metadata::TakeOperation take;
  take.identity = start.identity;
  take.operation_id = start.operation_id;
  take.runner = *start.runner;
  take.runner.token = std::string(32, 'd');
  take.runner.process.start_ticks += 1000;
  ASSERT_TRUE(catalog.take_operation(take).ok());
  EXPECT_FALSE(*catalog.is_being_run(start.identity));
  EXPECT_FALSE(catalog.query_operation(start.operation_id)->is_being_run()) << "it is gone";
  start.operation_id = std::string(32, 'e');
  start.expected_metadata_generation = catalog.get_weight_revision(start.identity)->metadata_generation;
  const Status in_the_way = catalog.start_operation(start).status();
  EXPECT_EQ(in_the_way.code(), Code::kBusy);
  EXPECT_NE(in_the_way.hint().find("that process is gone"), std::string::npos) << in_the_way.hint();
  EXPECT_EQ(*catalog.find_overdue(3'600'000), std::vector{identity_of("qwen")});
}

TEST_F(WatchTest, AfterATrimItBeginsAnew) {
  begin("llama");
  begin("qwen");
  abort("llama");
  ASSERT_TRUE(catalog.save_snapshot().ok());
  const auto anew = catalog.watch_weight_revisions(all(1));
  ASSERT_TRUE(anew.ok()) << anew.status().to_string();
  EXPECT_TRUE(anew->resnapshot);
  EXPECT_EQ(told(*anew), (Told{"llama DELETING", "qwen IMPORTING"}));
  abort("qwen");
  const auto next = catalog.watch_weight_revisions(all(anew->next));
  EXPECT_FALSE(next->resnapshot);
  EXPECT_EQ(told(*next), (Told{"qwen DELETING"}));
  EXPECT_TRUE(catalog.watch_weight_revisions(all(next->next + 100))->resnapshot) << "of another log, or a later one";
}

TEST_F(WatchTest, AWriteWakesIt) {
  begin("llama");
  WatchQuery query = all(log->length().value());
  query.deadline_mono_ms = INT64_MAX;
  const auto task = runtime.spawn("writer", [this] { begin("qwen"); });
  EXPECT_EQ(told(*catalog.watch_weight_revisions(query)), (Told{"qwen IMPORTING"}));
  task->join();
}

TEST_F(WatchTest, WhenRevisionsWereUsed) {
  begin("llama");
  begin("qwen");
  const auto uses = catalog.uses_after({}, 10);
  ASSERT_TRUE(uses.ok()) << uses.status().to_string();
  ASSERT_EQ(uses->size(), 2U);
  EXPECT_EQ((*uses)[0].record.identity, identity_of("llama"));
  EXPECT_EQ((*uses)[0].live_leases, 0U);
  EXPECT_EQ((*uses)[0].last_use, metadata::LastUse{});
  EXPECT_EQ(catalog.uses_after(identity_of("llama"), 10)->size(), 1U);
  const auto now = catalog.use_now();
  ASSERT_TRUE(now.ok());
  EXPECT_EQ(now->epoch_ordinal, 1U);
}

}  // namespace
}  // namespace steelyard::catalog
