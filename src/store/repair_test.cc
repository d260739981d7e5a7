// What is recorded of damage, and repairs where a test holds the parts of the store in its hands.
#include "store/repair.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "base/limits.h"
#include "formats/identity.h"
#include "store/cat.h"
#include "store/damage_record.h"
#include "store/delete.h"
#include "store/import.h"
#include "store/manifest_file.h"
#include "store/materialize.h"
#include "store/open_revision.h"
#include "store/open_store.h"
#include "store/rebuild.h"
#include "store/resolve.h"
#include "store/verify.h"
#include "tiers/directory/test_folder.h"

namespace steelyard::store {
namespace {

namespace fs = std::filesystem;
using limits::kMiB;
using metadata::Availability;

class Silent final : public Observer {
 public:
  void progress(const Progress& /*progress*/) override {}
  void warning(const std::string& /*message*/) override {}
};

constexpr std::uint32_t kObjects = 70;  ///< more than a record names

class RepairTest : public testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(at("src"));
    std::string data(kObjects * kMiB, '\0');
    for (std::size_t i = 0; i < data.size(); i += 4096) {
      data[i] = static_cast<char>(i / kMiB);
      data[i + 1] = static_cast<char>(i / 4096);
    }
    std::ofstream(at("src/w.bin"), std::ios::binary) << data;
    ImportRequest request;
    request.source = at("src");
    request.target.ref = {"m", "main", std::nullopt};
    request.chunk_bytes = kMiB;
    const auto source = open_source(at("src"), false);
    ASSERT_TRUE(source.ok());
    const auto imported = run_import(context_, request, **source, silent_, cancel_);
    ASSERT_TRUE(imported.ok()) << imported.status().to_string();
    record_ = imported->record;
    manifest_ = load_manifest(context_.cold, record_).value();
  }

  std::string at(const std::string& name) const { return root_.path() + "/" + name; }
  static StoreOptions options_at(const std::string& path) {
    StoreOptions options;
    options.path = path;
    options.cold_reserve_free = 0;
    options.io_memory = limits::kIoMemoryMin;
    options.jobs = 2;
    return options;
  }
  std::string key(std::uint32_t object) const { return formats::payload_key(record_.identity, object); }
  metadata::RevisionRecord now() { return context_.catalog.get_weight_revision(record_.identity).value(); }
  void remove(std::uint32_t object) {
    ASSERT_TRUE(context_.cold.remove(payload_of(attempt_of(record_), object)).ok());
    ASSERT_TRUE(context_.cold.remove_content(manifest_.objects[object].sha256).ok());
  }
  Result<RepairResult> repair(bool with_source) {
    RepairRequest request;
    request.target.ref = {"m", "main", 1};
    std::unique_ptr<Source> source;
    if (with_source) source = open_source(at("src"), false).value();
    return run_repair(context_, request, source.get(), silent_, cancel_);
  }

  /// Somebody deletes the revision before the file that is opened then, the manifest first, is read.
  void delete_at_open(std::uint64_t number) {
    const std::uint64_t from = runtime_.passes("tier.open_read");
    runtime_.on("tier.open_read", [this, pass = from + number] {
      if (runtime_.passes("tier.open_read") != pass) return;
      DeleteRequest request;
      request.target.ref = {"m", "main", 1};
      ASSERT_TRUE(run_delete(context_, request, cancel_).ok());
    });
  }
  /// Of a user who may only read, and holds no lease.
  Context reader() { return {runtime_, options_, *parts_.cold, catalog_, observer_, options_.io_memory, true}; }
  static void expect_told(const Status& status) {
    EXPECT_EQ(status.code(), Code::kNotReady) << status.to_string();
    EXPECT_NE(status.message().find("m@main#1 was deleted at "), std::string::npos) << status.message();
    EXPECT_NE(status.hint().find("lease"), std::string::npos);
  }

  tiers::TestFolder root_;
  tiers::FaultRuntime runtime_;
  const StoreOptions options_ = options_at(root_.path() + "/store");
  StoreParts parts_ = open_parts(runtime_, options_, OpenMode::kCreate).value();
  TierObserver observer_{*parts_.cold};
  catalog::Catalog catalog_{runtime_, *parts_.log, observer_, {}};
  Context context_{runtime_, options_, *parts_.cold, catalog_, observer_, options_.io_memory, false};
  Silent silent_;
  CancelFlag cancel_{false};
  StopSignal stop_{cancel_};
  metadata::RevisionRecord record_;
  formats::StoredManifest manifest_;
};

TEST_F(RepairTest, FindingsOfWhatWasDeletedMeanwhileAreOfNoUse) {
  // The look at it found its objects gone: a delete had taken them.
  DeleteRequest request;
  request.target = selector_of(record_.identity);
  ASSERT_TRUE(run_delete(context_, request, cancel_).ok());
  const auto recorded = record_findings(context_, record_, {.damaged = {key(3)}}, stop_);
  ASSERT_TRUE(recorded.ok()) << recorded.status().to_string();
  EXPECT_EQ(recorded->availability, Availability::kDeleted);
}

TEST_F(RepairTest, FindingsAddUpAndAreTakenBack) {
  auto recorded = record_findings(context_, record_, {.damaged = {key(3)}}, stop_);
  ASSERT_TRUE(recorded.ok()) << recorded.status().to_string();
  EXPECT_EQ(recorded->availability, Availability::kDegraded);
  recorded = record_findings(context_, *recorded, {.damaged = {key(1), key(3)}}, stop_);
  EXPECT_EQ(recorded->damage.objects, (std::vector<std::string>{key(1), key(3)}));
  EXPECT_EQ(recorded->damage.count, 2U);
  const std::uint64_t generation = recorded->metadata_generation;
  recorded = record_findings(context_, *recorded, {.damaged = {key(1)}}, stop_);
  EXPECT_EQ(recorded->metadata_generation, generation) << "what is known already is no news";
  recorded = record_findings(context_, *recorded, {.damaged = {}, .whole = {key(1)}}, stop_);
  EXPECT_EQ(recorded->damage.objects, std::vector<std::string>{key(3)});
  recorded = record_findings(context_, *recorded, {.damaged = {}, .whole = {key(3)}}, stop_);
  EXPECT_EQ(recorded->availability, Availability::kReady);
}

TEST_F(RepairTest, AnOpenRevisionReportsAnObjectOnce) {
  // The object on the way to a repair is judged again, whole, where the record has moved: once is enough.
  for (const std::uint32_t object : {3U, 4U}) {
    ASSERT_TRUE(context_.cold.remove(payload_of(attempt_of(record_), object)).ok());
  }
  Selector selector;
  selector.ref = {"m", "main", 1};
  const auto opened = OpenRevision::open(context_, selector, {}, std::make_shared<BufferPool>(runtime_, kMiB, 1));
  ASSERT_TRUE(opened.ok()) << opened.status().to_string();
  std::string bytes(kMiB, '\0');
  const auto opened_files = [&](std::uint64_t object) {
    const std::uint64_t before = runtime_.passes("tier.open_read");
    const Status status =
        (*opened)->read_file((*opened)->manifest()->files[0], object * kMiB, std::as_writable_bytes(std::span(bytes)));
    EXPECT_EQ(status.code(), Code::kCorrupt) << status.to_string();
    return runtime_.passes("tier.open_read") - before;
  };
  opened_files(3);
  EXPECT_EQ(now().damage.objects, std::vector<std::string>{key(3)});
  const std::uint64_t with_report = opened_files(4);
  EXPECT_EQ(now().damage.objects, (std::vector<std::string>{key(3), key(4)}));
  const std::uint64_t generation = now().metadata_generation;
  for (const std::uint64_t object : {3U, 4U}) EXPECT_LT(opened_files(object), with_report);
  EXPECT_EQ(now().metadata_generation, generation);
}

TEST_F(RepairTest, AMarkerOfToday) {
  // Older programs wrote the record as it was, with its operation and damage, where the marker was missing.
  remove(3);
  RepairRequest request;
  request.target.ref = {"m", "main", 1};
  request.wait = false;
  ASSERT_TRUE(run_repair(context_, request, nullptr, silent_, cancel_).ok());
  metadata::RevisionRecord record = now();
  ASSERT_TRUE(record.operation);
  const auto put_marker = [&] {
    const tiers::AttemptName attempt = attempt_of(record_);
    fs::remove(at("store/cold/groups/" + attempt.group.substr(0, 2) + "/" + attempt.group + "/1/committed"));
    ASSERT_TRUE(context_.cold.put_committed(attempt, catalog::encode_committed(record)).ok());
  };
  put_marker();
  auto rebuilt = rebuild_catalog(context_.cold);
  ASSERT_TRUE(rebuilt.ok()) << rebuilt.status().to_string();
  ASSERT_EQ(rebuilt->published.size(), 1U);
  EXPECT_FALSE(rebuilt->published[0].operation);
  ASSERT_EQ(rebuilt->published[0].finished_operations.size(), 1U);
  EXPECT_EQ(rebuilt->published[0].finished_operations[0].state, metadata::OperationState::kCancelled);

  // A number that no log has come to leaves no room for the next.
  record.operation.reset();
  record.committed_seq = std::uint64_t{1} << 62;
  put_marker();
  rebuilt = rebuild_catalog(context_.cold);
  ASSERT_TRUE(rebuilt.ok()) << rebuilt.status().to_string();
  EXPECT_TRUE(rebuilt->published.empty());
  ASSERT_EQ(rebuilt->skipped.size(), 1U);
  EXPECT_NE(rebuilt->skipped[0].reason.find("4611686018427387904"), std::string::npos) << rebuilt->skipped[0].reason;
}

TEST_F(RepairTest, WhatIsCountedWithoutANameStaysCounted) {
  ObjectFindings all;
  all.complete = true;
  for (std::uint32_t object = 0; object < kObjects; ++object) all.damaged.push_back(key(object));
  auto recorded = record_findings(context_, record_, all, stop_);
  ASSERT_TRUE(recorded.ok());
  EXPECT_EQ(recorded->damage.count, kObjects);
  EXPECT_EQ(recorded->damage.objects.size(), limits::kDamagedNamedMax);
  recorded = record_findings(context_, *recorded, {.damaged = {}, .whole = {key(0)}}, stop_);
  EXPECT_EQ(recorded->damage.count, kObjects - 1);
  EXPECT_EQ(recorded->damage.objects.size(), limits::kDamagedNamedMax - 1);
  // One more, which may be among the unnamed: it is named, and not counted twice.
  recorded = record_findings(context_, *recorded, {.damaged = {key(kObjects - 1)}}, stop_);
  EXPECT_EQ(recorded->damage.count, kObjects - 1);
  EXPECT_EQ(recorded->damage.objects.size(), limits::kDamagedNamedMax);
  recorded = record_findings(context_, *recorded, {.damaged = {}, .complete = true}, stop_);
  EXPECT_EQ(recorded->availability, Availability::kReady);
}

TEST_F(RepairTest, AFindingThatARepairOvertookIsNotRecorded) {
  // Somebody else recorded the same damage and repaired it since this reader began.
  ASSERT_TRUE(record_findings(context_, record_, {.damaged = {key(3)}}, stop_).ok());
  ASSERT_TRUE(record_findings(context_, now(), {.damaged = {}, .whole = {key(3)}}, stop_).ok());
  const std::uint64_t generation = now().metadata_generation;
  ASSERT_TRUE(record_findings(context_, record_, {.damaged = {key(3)}}, stop_).ok());
  EXPECT_EQ(now().metadata_generation, generation);
  EXPECT_EQ(now().availability, Availability::kReady);
  // What is damaged still is recorded all the same, and a complete look does not take back what others have found.
  remove(5);
  ASSERT_TRUE(record_findings(context_, record_, {.damaged = {key(3), key(5)}}, stop_).ok());
  EXPECT_EQ(now().damage.objects, std::vector<std::string>{key(5)});
  ASSERT_TRUE(record_findings(context_, record_, {.damaged = {}, .complete = true}, stop_).ok());
  EXPECT_EQ(now().damage.objects, std::vector<std::string>{key(5)});
}

TEST_F(RepairTest, MoreObjectsThanARecordNames) {
  ObjectFindings all;
  all.complete = true;
  for (std::uint32_t object = 0; object < kObjects; ++object) {
    if (object % 2 == 0) remove(object);
    all.damaged.push_back(key(object));
  }
  ASSERT_TRUE(record_findings(context_, record_, all, stop_).ok());
  const auto failed = repair(false);
  EXPECT_EQ(failed.code(), Code::kCorrupt);
  EXPECT_EQ(now().damage.count, kObjects / 2) << "the others were read and are whole";
  const auto repaired = repair(true);
  ASSERT_TRUE(repaired.ok()) << repaired.status().to_string();
  EXPECT_EQ(repaired->restored_objects, kObjects / 2);
  EXPECT_EQ(now().availability, Availability::kReady);
  ASSERT_EQ(now().finished_operations.size(), 2U);
  EXPECT_EQ(now().finished_operations[0].state, metadata::OperationState::kFailed);
  EXPECT_EQ(now().finished_operations[1].state, metadata::OperationState::kDone);
  auto buffers = ReadBuffers::allocate(kMiB);
  for (std::uint32_t object = 0; object < kObjects; ++object) {
    const auto bad = check_object(context_, attempt_of(record_), manifest_, object, *buffers);
    ASSERT_TRUE(bad.ok());
    EXPECT_FALSE(bad->has_value()) << object;
  }
}

TEST_F(RepairTest, NothingIsLeftOfTheRevision) {
  ObjectFindings gone;
  gone.complete = gone.none_is_there = true;
  for (std::uint32_t object = 0; object < kObjects; ++object) {
    remove(object);
    gone.damaged.push_back(key(object));
  }
  const auto recorded = record_findings(context_, record_, gone, stop_);
  ASSERT_TRUE(recorded.ok());
  EXPECT_EQ(recorded->residency, metadata::Residency::kAbsent);
  ASSERT_TRUE(repair(true).ok());
  EXPECT_EQ(now().availability, Availability::kReady);
  EXPECT_EQ(now().residency, metadata::Residency::kCold);
}

TEST_F(RepairTest, ADeleteEndsIt) {
  remove(0);
  ASSERT_TRUE(record_findings(context_, record_, {.damaged = {key(0)}}, stop_).ok());
  runtime_.on("repair.before_replace", [&] {
    metadata::DeleteWeightRevision command;
    command.identity = record_.identity;
    command.expected_metadata_generation = now().metadata_generation;
    ASSERT_TRUE(context_.catalog.delete_weight_revision(command).ok());
  });
  const auto repaired = repair(true);
  EXPECT_EQ(repaired.code(), Code::kNotReady) << repaired.status().to_string();
  EXPECT_NE(repaired.status().message().find("was deleted, and the repair has ended"), std::string::npos);
  EXPECT_EQ(now().availability, Availability::kDeleting);
}

TEST_F(RepairTest, ACancelEndsIt) {
  remove(0);
  runtime_.on("repair.before_replace",
              [&] { ASSERT_TRUE(context_.catalog.cancel_operation({now().operation->operation_id}).ok()); });
  const auto repaired = repair(true);
  EXPECT_EQ(repaired.code(), Code::kConflict) << repaired.status().to_string();
  EXPECT_NE(repaired.status().message().find("the repair of m@main#1 was cancelled"), std::string::npos);
  EXPECT_NE(repaired.status().hint().find("`steelyard repair m@main#1` starts another"), std::string::npos);
}

TEST_F(RepairTest, ADiskThatCannotBeReadNowProvesNothing) {
  remove(0);
  ASSERT_TRUE(record_findings(context_, record_, {.damaged = {key(0)}}, stop_).ok());
  const auto keys = payload_index_of(record_.identity, key(7));
  EXPECT_EQ(keys, 7U);
  EXPECT_FALSE(payload_index_of(record_.identity, record_.manifest_key));
  EXPECT_FALSE(payload_index_of(record_.identity, key(7) + "0"));
  runtime_.arm("tier.open_read", EIO);
  const auto repaired = repair(true);
  runtime_.disarm();
  EXPECT_NE(repaired.code(), Code::kOk);
  EXPECT_NE(repaired.code(), Code::kCorrupt) << repaired.status().to_string();
  EXPECT_EQ(now().damage.count, 1U);
  ASSERT_TRUE(repair(true).ok());
}

TEST_F(RepairTest, ARecordThatMovesBeforeTheStartIsReadAgain) {
  remove(5);
  bool moved = false;
  runtime_.on("tier.list", [&] {
    if (std::exchange(moved, true)) return;
    ASSERT_TRUE(record_findings(context_, now(), {.damaged = {key(5)}}, stop_).ok());
  });
  const auto repaired = repair(true);
  ASSERT_TRUE(repaired.ok()) << repaired.status().to_string();
  EXPECT_TRUE(moved);
  EXPECT_EQ(repaired->restored_objects, 1U);
  EXPECT_EQ(now().availability, Availability::kReady);
}

TEST_F(RepairTest, TheSameFenceGoesOnWithTheRepairThatItStarted) {
  remove(5);
  const std::uint64_t generation = now().metadata_generation;
  runtime_.on("repair.after_start", [&] { cancel_.store(true); });
  RepairRequest request;
  request.target.ref = {"m", "main", 1};
  request.expected_generation = generation;
  const auto source = open_source(at("src"), false).value();
  ASSERT_TRUE(is_cancelled(run_repair(context_, request, source.get(), silent_, cancel_).status()));
  runtime_.on("repair.after_start", [] {});
  cancel_.store(false);
  const auto repaired = run_repair(context_, request, source.get(), silent_, cancel_);
  ASSERT_TRUE(repaired.ok()) << repaired.status().to_string();
  EXPECT_EQ(repaired->restored_objects, 1U);
  // A request whose answer was lost is answered again.
  const auto again = run_repair(context_, request, source.get(), silent_, cancel_);
  ASSERT_TRUE(again.ok()) << again.status().to_string();
  EXPECT_EQ(again->operation, repaired->operation);
  EXPECT_EQ(again->restored_objects, 1U);
  request.expected_generation = generation + 1;
  EXPECT_EQ(run_repair(context_, request, source.get(), silent_, cancel_).code(), Code::kStaleGeneration);
}

TEST_F(RepairTest, AFindingOfWholenessThatOthersOvertookIsJudgedAgain) {
  const auto found = record_findings(context_, record_, {.damaged = {key(3), key(4)}}, stop_);
  ASSERT_TRUE(found.ok());
  // This reader saw both whole, and before it can say so another finds one of them gone.
  remove(4);
  ASSERT_TRUE(record_findings(context_, *found, {.damaged = {key(9)}}, stop_).ok());
  const auto recorded = record_findings(context_, *found, {.damaged = {}, .whole = {key(3), key(4)}}, stop_);
  ASSERT_TRUE(recorded.ok()) << recorded.status().to_string();
  EXPECT_EQ(recorded->damage.objects, (std::vector<std::string>{key(4), key(9)}));
}

TEST_F(RepairTest, AReadThatADeleteOvertookSaysSo) {
  delete_at_open(2);
  CatRequest cat;
  cat.source.ref = {"m", "main", 1};
  cat.path = "w.bin";
  Context context = reader();
  expect_told(run_cat(
      context, cat, [](ByteView) { return Status(); }, cancel_));
}

TEST_F(RepairTest, AReadOvertakenBeforeItsManifestSaysSo) {
  delete_at_open(1);
  CatRequest cat;
  cat.source.ref = {"m", "main", 1};
  cat.path = "w.bin";
  Context context = reader();
  expect_told(run_cat(
      context, cat, [](ByteView) { return Status(); }, cancel_));
}

TEST_F(RepairTest, AMaterialisationThatADeleteOvertookLeavesNothing) {
  delete_at_open(2);
  MaterializeRequest request;
  request.source.ref = {"m", "main", 1};
  request.target = at("out");
  request.allow_degraded = true;
  Context context = reader();
  expect_told(run_materialize(context, request, silent_, cancel_).status());
  EXPECT_FALSE(fs::exists(at("out")));
}

TEST_F(RepairTest, AVerifyThatADeleteOvertookSaysSo) {
  delete_at_open(2);
  Selector selector;
  selector.ref = {"m", "main", 1};
  Context context = reader();
  expect_told(run_verify(context, selector, silent_, cancel_).status());
}

TEST_F(RepairTest, AllThatAReadFoundIsRecordedAtOnce) {
  for (const std::uint32_t object : {3U, 5U, 8U}) remove(object);
  const std::vector<BadObject> bad = {{ProblemKind::kMissingObject, 5, {}, {}, {}, {}},
                                      {ProblemKind::kMissingObject, 3, {}, {}, {}, {}},
                                      {ProblemKind::kMissingObject, 5, {}, {}, {}, {}},
                                      {ProblemKind::kMissingObject, 8, {}, {}, {}, {}}};
  record_bad_objects(context_, record_, manifest_, bad, stop_);
  EXPECT_EQ(now().damage.objects, (std::vector<std::string>{key(3), key(5), key(8)}));
  EXPECT_EQ(now().metadata_generation, record_.metadata_generation + 1);
}

}  // namespace
}  // namespace steelyard::store
