#include "store/resolve.h"

#include <gtest/gtest.h>

#include "formats/identity.h"
#include "oplog/open.h"

namespace steelyard::store {
namespace {

using metadata::Availability;
using metadata::RevisionRecord;

/// Sees exactly what the last commit promised.
class Believer final : public catalog::GroupObserver {
 public:
  Result<catalog::GroupObservation> observe(const metadata::Identity&, std::uint32_t) override { return seen; }
  catalog::GroupObservation seen;
};

class ResolveTest : public testing::Test {
 protected:
  ResolveTest() { selector_.ref.resource_id = "m"; }

  RevisionRecord begin(const std::string& resource = "m", const std::string& revision = "main") {
    metadata::BeginWeightImport command;
    command.lineage = {"default", "default", resource, revision};
    command.token = std::string(32, 'a');
    command.process = real_runtime().self();
    command.holder = "test";
    command.ttl_ms = 60'000;
    const auto answer = catalog_.begin_weight_import(command);
    EXPECT_TRUE(answer.ok()) << answer.status().to_string();
    return *answer->record;
  }
  RevisionRecord publish(const std::string& resource = "m", const std::string& revision = "main") {
    const RevisionRecord begun = begin(resource, revision);
    metadata::CommitWeightImport command;
    command.identity = begun.identity;
    command.token = std::string(32, 'a');
    command.import_attempt = begun.import_attempt;
    command.expected_metadata_generation = begun.metadata_generation;
    command.summary = {1, 10, formats::payload_keys_sha256(begun.identity, 1), std::string(64, 'a')};
    observer_.seen.payload_count = 1;
    observer_.seen.logical_bytes = 10;
    observer_.seen.payload_keys_sha256 = command.summary.payload_keys_sha256;
    observer_.seen.manifests = 1;
    observer_.seen.manifest_sha256 = command.summary.manifest_sha256;
    observer_.seen.flushed = true;
    const auto record = catalog_.commit_weight_import(command);
    EXPECT_TRUE(record.ok()) << record.status().to_string();
    return *record;
  }
  void damage(const RevisionRecord& record) {
    metadata::ReconcileRevision command;
    command.identity = record.identity;
    command.observed_generation = record.metadata_generation;
    command.seen.damage.count = 1;
    command.seen.damage.objects = {formats::payload_key(record.identity, 0)};
    const auto now = catalog_.reconcile_weight_revision(command);
    ASSERT_TRUE(now.ok()) << now.status().to_string();
    ASSERT_EQ(now->availability, Availability::kDegraded);
  }
  /// The generation that a verb gets, or its error as text.
  std::string get(Purpose purpose, std::optional<std::int64_t> generation = {}) {
    Selector selector = selector_;
    selector.ref.weight_generation = generation;
    const auto record = resolve(catalog_, selector, purpose);
    last_ = record.status();
    if (!record.ok()) return std::string(code_name(record.code()));
    return std::to_string(record->identity.weight_generation);
  }
  bool says(const std::string& text) const { return last_.message().find(text) != std::string::npos; }

  std::unique_ptr<oplog::OpLog> log_ = oplog::open_memory(real_runtime());
  Believer observer_;
  catalog::Catalog catalog_{real_runtime(), *log_, observer_, {}};
  Selector selector_;
  Status last_;
};

TEST_F(ResolveTest, NothingIsNotFoundByItsName) {
  for (const Purpose purpose : {Purpose::kRead, Purpose::kReadDegraded, Purpose::kInspect}) {
    EXPECT_EQ(get(purpose), "NOT_FOUND");
    EXPECT_TRUE(says("m@main") && says("default")) << last_.message();
    EXPECT_EQ(get(purpose, 1), "NOT_FOUND");
  }
}

TEST_F(ResolveTest, AnUnfinishedImportIsNamedButNotRead) {
  begin();
  for (const Purpose purpose : {Purpose::kRead, Purpose::kReadDegraded, Purpose::kInspect}) {
    EXPECT_EQ(get(purpose), "NOT_FOUND");
    EXPECT_TRUE(says("#1 (IMPORTING since 2")) << last_.message();
  }
  EXPECT_EQ(get(Purpose::kRead, 1), "NOT_READY");
  EXPECT_TRUE(says("m@main#1 is IMPORTING since 2")) << last_.message();
  EXPECT_EQ(get(Purpose::kReadDegraded, 1), "NOT_READY");
  EXPECT_EQ(get(Purpose::kInspect, 1), "1");
}

TEST_F(ResolveTest, AnotherRevisionOfTheResourceIsNamed) {
  publish("m", "abc123");
  publish("n", "def");
  for (const Purpose purpose : {Purpose::kRead, Purpose::kReadDegraded, Purpose::kInspect}) {
    EXPECT_EQ(get(purpose), "NOT_FOUND");
    EXPECT_TRUE(says("of m there is m@abc123#1 (READY since 2")) << last_.message();
    EXPECT_FALSE(says("n@def")) << last_.message();
    EXPECT_NE(last_.hint().find("m@abc123"), std::string::npos) << last_.hint();
    EXPECT_NE(last_.hint().find("without a revision, main is meant"), std::string::npos) << last_.hint();
  }
  EXPECT_EQ(get(Purpose::kRead, 1), "NOT_FOUND");
  EXPECT_TRUE(says("m@main#1") && says("m@abc123#1")) << last_.message();
  selector_.ref.revision = "abc12";
  EXPECT_EQ(get(Purpose::kRead), "NOT_FOUND");
  EXPECT_TRUE(says("m@abc12 ") && says("m@abc123#1")) << last_.message();
  EXPECT_EQ(last_.hint().find("main is meant"), std::string::npos) << last_.hint();
}

TEST_F(ResolveTest, OfManyRevisionsTheNewestAreNamed) {
  for (const char* revision : {"a", "b", "c", "d", "e", "f", "g"}) publish("m", revision);
  begin("m", "unfinished");
  EXPECT_EQ(get(Purpose::kRead), "NOT_FOUND");
  EXPECT_TRUE(says("m@g#1 (READY") && says("m@c#1") && says(" and 3 more")) << last_.message();
  EXPECT_FALSE(says("m@b#1")) << last_.message();
  EXPECT_NE(last_.hint().find("m@g"), std::string::npos) << last_.hint();
}

TEST_F(ResolveTest, AGenerationThatIsNotThereNamesThoseThatAre) {
  publish();
  EXPECT_EQ(get(Purpose::kRead, 7), "NOT_FOUND");
  EXPECT_TRUE(says("m@main#7 is not in the catalog") && says("#1 (READY since 2")) << last_.message();
}

TEST_F(ResolveTest, ANameWithoutItsOrganisationNamesTheWholeOne) {
  publish("org/m", "abc123");
  publish("org/moon", "abc123");
  EXPECT_EQ(get(Purpose::kRead), "NOT_FOUND");
  EXPECT_NE(last_.hint().find("org/m@abc123"), std::string::npos) << last_.hint();
  EXPECT_EQ(last_.hint().find("moon"), std::string::npos) << last_.hint();
}

TEST_F(ResolveTest, TheNewestReadyOneIsMeant) {
  publish();
  publish();
  begin();
  for (const Purpose purpose : {Purpose::kRead, Purpose::kReadDegraded, Purpose::kInspect})
    EXPECT_EQ(get(purpose), "2");
  EXPECT_EQ(get(Purpose::kRead, 1), "1");
}

TEST_F(ResolveTest, ADegradedOneIsMeantOnlyWhereNoneIsReady) {
  publish();
  damage(publish());
  EXPECT_EQ(get(Purpose::kReadDegraded), "1");
  EXPECT_EQ(get(Purpose::kRead, 2), "NOT_READY");
  EXPECT_NE(last_.hint().find("--allow-degraded"), std::string::npos);
  EXPECT_EQ(get(Purpose::kReadDegraded, 2), "2");
}

TEST_F(ResolveTest, OnlyADegradedOneIsNamed) {
  damage(publish());
  begin();
  EXPECT_EQ(get(Purpose::kRead), "NOT_READY");
  EXPECT_TRUE(says("m@main#1 is DEGRADED since 2")) << last_.message();
  EXPECT_EQ(get(Purpose::kReadDegraded), "1");
  EXPECT_EQ(get(Purpose::kInspect), "1");
}

}  // namespace
}  // namespace steelyard::store
