#include "store/store.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <mutex>

#include "base/limits.h"
#include "base/test_files.h"
#include "store/payload_pipeline.h"
#include "tiers/directory/test_folder.h"

namespace steelyard::store {
namespace {

namespace fs = std::filesystem;
using limits::kMiB;
using test_files::pattern;
using test_files::read;
using test_files::tree;
using test_files::write;

class Recorder final : public Observer {
 public:
  void progress(const Progress& progress) override {
    if (!events.empty() && events.back().phase == progress.phase) {
      EXPECT_EQ(events.back().bytes_total, progress.bytes_total) << "the total of a phase never changes";
      EXPECT_EQ(events.back().files_total, progress.files_total);
      EXPECT_GE(progress.bytes_done, events.back().bytes_done);
      EXPECT_GE(progress.files_done, events.back().files_done);
    } else {
      for (const Progress& event : events) EXPECT_NE(event.phase, progress.phase) << "a phase comes once";
    }
    events.push_back(progress);
  }
  void warning(const std::string& message) override { warnings.push_back(message); }

  std::vector<Progress> events;
  std::vector<std::string> warnings;
};

class StoreTest : public testing::Test {
 protected:
  StoreTest() {
    options_.path = at("store");
    options_.cold_reserve_free = 0;
    options_.io_memory = limits::kIoMemoryMin;
    options_.jobs = 2;
    selector_.ref.resource_id = "m";
    selector_.ref.revision = "main";
  }

  std::string at(const std::string& name) const { return root_.path() + "/" + name; }
  /// The file of a payload object, made writable.
  std::string object_file(std::uint32_t index) const {
    char name[16];
    std::snprintf(name, sizeof name, "%08u", index);
    for (const auto& entry : fs::recursive_directory_iterator(at("store/cold/groups"))) {
      if (entry.path().filename() != name) continue;
      EXPECT_EQ(chmod(entry.path().c_str(), 0644), 0);
      return entry.path().native();
    }
    ADD_FAILURE() << "no object " << name;
    return {};
  }
  static void flip(const std::string& path, std::uint64_t offset) {
    std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
    file.seekg(static_cast<std::streamoff>(offset));
    const char was = static_cast<char>(file.get());
    file.seekp(static_cast<std::streamoff>(offset));
    file.put(static_cast<char>(was ^ 1));
  }

  std::unique_ptr<Store> open(OpenMode mode = OpenMode::kCreate) {
    auto store = Store::open(runtime_, options_, mode);
    EXPECT_TRUE(store.ok()) << store.status().to_string();
    return store.ok() ? std::move(store).value() : nullptr;
  }
  ImportRequest request(const std::string& source) const {
    ImportRequest request;
    request.source = source;
    request.target = selector_;
    request.chunk_bytes = kMiB;
    return request;
  }
  Result<ImportResult> import(Store& store, const ImportRequest& request) {
    Recorder recorder;
    auto result = store.import(request, recorder, cancel_);
    recorded_ = std::move(recorder.events);
    return result;
  }
  Result<VerifyReport> verify(Store& store) {
    Recorder recorder;
    return store.verify(selector_, recorder, cancel_);
  }
  Result<MaterializeResult> materialize(Store& store, const std::string& target, bool force = false) {
    Recorder recorder;
    return store.materialize({selector_, target, force, false, {}}, recorder, cancel_);
  }
  Result<std::string> cat(Store& store, const std::string& path, std::optional<std::uint64_t> first = {},
                          std::optional<std::uint64_t> last = {}) {
    std::string out;
    const auto sink = [&](ByteView bytes) {
      out += as_text(bytes);
      return Status();
    };
    SY_RETURN_IF_ERROR(store.cat({selector_, path, first, last, false}, sink, cancel_));
    return out;
  }
  void make_source() {
    write(at("src/model.bin"), pattern(3 * kMiB + 17, 1));
    write(at("src/config.json"), "{}");
    write(at("src/empty.txt"), "");
    write(at("src/deep/er/tokens.txt"), "a b c");
  }

  tiers::TestFolder root_;
  tiers::FaultRuntime runtime_;
  StoreOptions options_;
  Selector selector_;
  CancelFlag cancel_{false};
  std::vector<Progress> recorded_;
};

TEST_F(StoreTest, WhatWasImportedComesBackBitForBit) {
  make_source();
  const auto store = open();
  const auto imported = import(*store, request(at("src")));
  ASSERT_TRUE(imported.ok()) << imported.status().to_string();
  EXPECT_EQ(imported->files, 4U);
  EXPECT_EQ(imported->payload_objects, 6U);
  EXPECT_EQ(imported->logical_bytes, 3 * kMiB + 17 + 2 + 5);
  EXPECT_EQ(imported->written_bytes + imported->reused_bytes, imported->logical_bytes);
  EXPECT_EQ(imported->record.availability, metadata::Availability::kReady);
  ASSERT_FALSE(recorded_.empty());
  EXPECT_EQ(recorded_.back().bytes_done, imported->logical_bytes);

  const auto report = verify(*store);
  ASSERT_TRUE(report.ok()) << report.status().to_string();
  EXPECT_TRUE(report->problems.empty());
  EXPECT_EQ(report->checked_objects, 7U);
  ASSERT_TRUE(materialize(*store, at("out")).ok());
  EXPECT_EQ(tree(at("out")), tree(at("src")));
  EXPECT_EQ(runtime_.passes("materialize.sync"), 3U) << "deep/er, deep and the target itself";
  EXPECT_EQ(*cat(*store, "deep/er/tokens.txt", 2, 3), "b ");
  EXPECT_EQ(*cat(*store, "model.bin"), pattern(3 * kMiB + 17, 1));
  EXPECT_EQ(*cat(*store, "model.bin", kMiB - 1, kMiB), pattern(3 * kMiB + 17, 1).substr(kMiB - 1, 2));
  EXPECT_EQ(*cat(*store, "empty.txt"), "");
  EXPECT_EQ(cat(*store, "config.json", 2).code(), Code::kInvalidArgument);
  EXPECT_EQ(cat(*store, "config.jso").code(), Code::kNotFound);
  EXPECT_EQ(*store->active_leases(report->record.identity), 0U);
}

TEST_F(StoreTest, TheSameContentIsNotWrittenAgain) {
  make_source();
  const auto store = open();
  ASSERT_TRUE(import(*store, request(at("src"))).ok());
  selector_.ref.revision = "other";
  const auto again = import(*store, request(at("src")));
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->written_bytes, 0U);
}

TEST_F(StoreTest, EqualObjectsUnderWayTogetherAreWrittenOnce) {
  for (const unsigned jobs : {1U, 2U}) {
    options_.jobs = jobs;
    options_.path = at("store-" + std::to_string(jobs));
    const std::string data = pattern(2 * kMiB, jobs);
    // Beside each other in one file, and in files that two workers take at once.
    write(at("src/a.bin"), data + data);
    write(at("src/b.bin"), data + data);
    write(at("src/c.bin"), data);
    ImportRequest equal = request(at("src"));
    equal.chunk_bytes = 2 * kMiB;
    const auto store = open();
    const auto imported = import(*store, equal);
    ASSERT_TRUE(imported.ok()) << imported.status().to_string();
    EXPECT_EQ(imported->written_bytes, 2 * kMiB) << jobs << " workers";
    EXPECT_EQ(imported->reused_bytes, 8 * kMiB);
    EXPECT_TRUE(verify(*store)->problems.empty());
  }
}

TEST_F(StoreTest, EqualSmallFilesOfAnImportAreWrittenOnce) {
  for (const unsigned jobs : {1U, 2U}) {
    options_.jobs = jobs;
    options_.path = at("small-" + std::to_string(jobs));
    const std::string data = pattern(5000, jobs);
    for (int i = 0; i < 8; ++i) write(at("small/" + std::to_string(i) + ".bin"), data);
    const auto store = open();
    const auto imported = import(*store, request(at("small")));
    ASSERT_TRUE(imported.ok()) << imported.status().to_string();
    EXPECT_EQ(imported->written_bytes, data.size()) << jobs << " workers";
    EXPECT_EQ(imported->reused_bytes, 7 * data.size());
    EXPECT_TRUE(verify(*store)->problems.empty());
  }
}

TEST_F(StoreTest, AFailedPutLeavesNobodyWaiting) {
  options_.io_memory = 64 * kMiB;
  const std::string data = pattern(2 * kMiB, 1);
  for (int i = 0; i < 6; ++i) write(at("src/" + std::to_string(i) + ".bin"), data);
  const auto store = open();
  runtime_.arm("tier.write", EIO);
  EXPECT_EQ(import(*store, request(at("src"))).code(), Code::kUnavailable);
  runtime_.disarm();
  EXPECT_TRUE(import(*store, request(at("src"))).ok());
}

TEST_F(StoreTest, WhatAWorkerTakesStaysInsideTheBudget) {
  for (const std::uint64_t budget : {limits::kIoMemoryMin, 37 * kMiB, 512 * kMiB}) {
    for (const std::uint64_t object : {kMiB, 5 * kMiB, 64 * kMiB, 4096 * kMiB}) {
      for (const bool read_back : {false, true}) {
        const auto memory = PayloadPipeline::memory_of_worker(budget, object, read_back);
        EXPECT_LE(memory.total(), budget) << budget << " " << object << " " << read_back;
        EXPECT_GE(memory.buffer_bytes, limits::kBlockBytes);
        EXPECT_EQ(memory.stream_bytes == 0, memory.buffer_bytes == object);
        EXPECT_EQ(memory.read_back_bytes > 0, read_back);
      }
    }
  }
}

TEST_F(StoreTest, ObjectsLargerThanTheBudgetAreReadTwiceAndWrittenOnce) {
  write(at("src/model.bin"), pattern(20 * kMiB + 5, 1));
  ImportRequest large = request(at("src"));
  large.chunk_bytes = 9 * kMiB;
  const auto store = open();
  const auto imported = import(*store, large);
  ASSERT_TRUE(imported.ok()) << imported.status().to_string();
  EXPECT_EQ(imported->payload_objects, 3U);
  EXPECT_EQ(imported->written_bytes, 20 * kMiB + 5);
  EXPECT_TRUE(verify(*store)->problems.empty());
  selector_.ref.revision = large.target.ref.revision = "other";
  EXPECT_EQ(import(*store, large)->written_bytes, 0U);
}

TEST_F(StoreTest, AFileThatChangesBetweenTheTwoReadsIsRefused) {
  write(at("src/model.bin"), pattern(10 * kMiB, 1));
  ImportRequest large = request(at("src"));
  large.chunk_bytes = 10 * kMiB;
  const auto store = open();
  runtime_.on("tier.open_tmp", [&] { flip(at("src/model.bin"), 3 * kMiB); });
  const auto imported = import(*store, large);
  ASSERT_EQ(imported.code(), Code::kCorrupt);
  EXPECT_NE(imported.status().message().find("changed while it was read"), std::string::npos);
  EXPECT_NE(imported.status().message().find("model.bin"), std::string::npos);
}

TEST_F(StoreTest, VerifyAfterWriteFindsWhatTheDiskLost) {
  make_source();
  ImportRequest checked = request(at("src"));
  checked.verify_after_write = true;
  const auto store = open();
  std::once_flag once;
  runtime_.on("import.after_object_put", [&] {
    std::call_once(once, [&] {
      for (const auto& entry : fs::recursive_directory_iterator(at("store/cold/groups"))) {
        if (!entry.is_regular_file() || entry.path().parent_path().filename() != "p") continue;
        EXPECT_EQ(chmod(entry.path().c_str(), 0644), 0);
        flip(entry.path().native(), 0);
      }
    });
  });
  const auto imported = import(*store, checked);
  ASSERT_EQ(imported.code(), Code::kCorrupt) << imported.status().to_string();
  EXPECT_NE(imported.status().message().find("read back"), std::string::npos);
  metadata::ListQuery query;
  query.tenant_id = selector_.tenant_id;
  query.namespace_id = selector_.namespace_id;
  query.all = true;
  const auto page = store->list(query);
  ASSERT_TRUE(page.ok());
  ASSERT_EQ(page->records.size(), 1U);
  EXPECT_EQ(page->records[0].availability, metadata::Availability::kImporting);
}

TEST_F(StoreTest, VerifyNamesAnObjectThatHasGrown) {
  make_source();
  const auto store = open();
  ASSERT_TRUE(import(*store, request(at("src"))).ok());
  std::ofstream(object_file(5), std::ios::binary | std::ios::app) << "x";
  const auto report = verify(*store);
  ASSERT_TRUE(report.ok());
  ASSERT_EQ(report->problems.size(), 1U);
  EXPECT_EQ(report->problems[0].kind, ProblemKind::kObjectSize);
  EXPECT_EQ(report->problems[0].file, "model.bin");
  EXPECT_EQ(report->problems[0].expected, "17 bytes");
  EXPECT_EQ(report->problems[0].actual, "18 bytes");
  EXPECT_EQ(report->record.availability, metadata::Availability::kDegraded);
}

TEST_F(StoreTest, DamageIsPublishedAndWithdrawn) {
  make_source();
  const auto store = open();
  ASSERT_TRUE(import(*store, request(at("src"))).ok());
  const std::string file = object_file(3);
  flip(file, 5);
  const auto bad = verify(*store);
  ASSERT_TRUE(bad.ok());
  ASSERT_EQ(bad->problems.size(), 1U);
  EXPECT_EQ(bad->problems[0].kind, ProblemKind::kObjectChecksum);
  EXPECT_EQ(bad->problems[0].file, "model.bin");
  EXPECT_EQ(bad->problems[0].offset, 0U);
  EXPECT_EQ(bad->record.availability, metadata::Availability::kDegraded);
  EXPECT_EQ(materialize(*store, at("out")).code(), Code::kNotReady);
  EXPECT_FALSE(fs::exists(at("out")));
  flip(file, 5);
  const auto good = verify(*store);
  ASSERT_TRUE(good.ok());
  EXPECT_TRUE(good->problems.empty());
  EXPECT_EQ(good->record.availability, metadata::Availability::kReady);
}

TEST_F(StoreTest, AnErrorOfTheDiskIsNoDamageAndDoesNotHideAny) {
  options_.jobs = 1;
  make_source();
  const auto store = open();
  ASSERT_TRUE(import(*store, request(at("src"))).ok());
  ASSERT_TRUE(verify(*store).ok());
  const auto before = static_cast<int>(runtime_.passes("tier.read"));
  const auto intact = verify(*store);
  ASSERT_TRUE(intact.ok());
  const int reads = static_cast<int>(runtime_.passes("tier.read")) - before;

  runtime_.arm("tier.read", EIO, 1, reads - 1);
  const auto transient = verify(*store);
  EXPECT_EQ(transient.code(), Code::kUnavailable);
  EXPECT_NE(transient.status().message().find("1 object could not be read now: "), std::string::npos)
      << transient.status().message();
  EXPECT_EQ(store->resolve(selector_, false)->availability, metadata::Availability::kReady) << "nothing was proved";

  flip(object_file(3), 5);
  runtime_.arm("tier.read", EIO, 1, reads - 1);
  const auto both = verify(*store);
  ASSERT_TRUE(both.ok()) << both.status().to_string();
  EXPECT_EQ(both->problems.size(), 2U);
  EXPECT_EQ(both->record.availability, metadata::Availability::kDegraded);
  EXPECT_EQ(both->record.damage.count, 1U) << "what was proved";
}

TEST_F(StoreTest, AGroupThatIsGoneIsAbsent) {
  make_source();
  const auto store = open();
  ASSERT_TRUE(import(*store, request(at("src"))).ok());
  fs::remove_all(at("store/cold/groups"));
  const auto report = verify(*store);
  ASSERT_TRUE(report.ok()) << report.status().to_string();
  EXPECT_EQ(report->record.availability, metadata::Availability::kDegraded);
  EXPECT_EQ(report->record.residency, metadata::Residency::kAbsent);
}

TEST_F(StoreTest, ADamagedRevisionMaterialisesNothing) {
  make_source();
  const auto store = open();
  ASSERT_TRUE(import(*store, request(at("src"))).ok());
  flip(object_file(3), 5);
  const auto made = materialize(*store, at("out"));
  EXPECT_EQ(made.code(), Code::kCorrupt);
  EXPECT_NE(made.status().message().find("model.bin"), std::string::npos) << made.status().message();
  EXPECT_FALSE(fs::exists(at("out")));
  const auto record = store->resolve(selector_, true);
  ASSERT_TRUE(record.ok());
  EXPECT_EQ(record->availability, metadata::Availability::kDegraded) << "whoever meets damage records it";
  EXPECT_EQ(record->damage.count, 1U);
  EXPECT_EQ(cat(*store, "config.json").code(), Code::kNotReady);
}

TEST_F(StoreTest, TheStoreIsNoTarget) {
  make_source();
  const auto store = open();
  ASSERT_TRUE(import(*store, request(at("src"))).ok());
  for (const std::string target : {"store", "store/", "store/cold", "store/cold/groups", "."}) {
    EXPECT_EQ(materialize(*store, at(target), true).code(), Code::kInvalidArgument) << target;
  }
  EXPECT_TRUE(verify(*store)->problems.empty());
}

TEST_F(StoreTest, AnInterruptedImportIsResumedUnderItsGeneration) {
  make_source();
  const auto store = open();
  cancel_ = true;
  const auto stopped = import(*store, request(at("src")));
  EXPECT_TRUE(is_cancelled(stopped.status())) << stopped.status().to_string();
  cancel_ = false;
  EXPECT_EQ(verify(*store).code(), Code::kNotFound);
  const auto resumed = import(*store, request(at("src")));
  ASSERT_TRUE(resumed.ok()) << resumed.status().to_string();
  EXPECT_EQ(resumed->record.identity.weight_generation, 1);
  EXPECT_EQ(resumed->record.import_attempt, 2U);
}

TEST_F(StoreTest, ANewGenerationTakesTheChunkSizeOfTheOneBefore) {
  make_source();
  const auto store = open();
  ImportRequest first = request(at("src"));
  first.chunk_bytes = 2 * kMiB;
  ASSERT_TRUE(import(*store, first).ok());
  flip(object_file(3), 5);
  ASSERT_EQ(verify(*store)->record.availability, metadata::Availability::kDegraded);
  write(at("src/config.json"), "{ }");
  ImportRequest second = request(at("src"));
  second.chunk_bytes.reset();
  const auto imported = import(*store, second);
  ASSERT_TRUE(imported.ok()) << imported.status().to_string();
  EXPECT_EQ(imported->record.identity.weight_generation, 2);
  EXPECT_EQ(store->inspect(selector_)->manifest->chunk_bytes, 2 * kMiB);
}

TEST_F(StoreTest, WhereTheSourceMightNotFitItIsScannedOnce) {
  make_source();
  const auto store = open();
  ASSERT_TRUE(import(*store, request(at("src"))).ok());
  // All of the filesystem is reserved: only what is linked fits.
  options_.cold_reserve_free = std::uint64_t{1} << 60;
  const auto full = open(OpenMode::kWrite);
  ImportRequest again = request(at("src"));
  again.target.ref.revision = "other";
  const auto linked = import(*full, again);
  ASSERT_TRUE(linked.ok()) << linked.status().to_string();
  EXPECT_EQ(linked->written_bytes, 0U);
  write(at("src/config.json"), "{\"new\":1}");
  again.target.ref.revision = "third";
  const auto refused = import(*full, again);
  EXPECT_EQ(refused.code(), Code::kNoSpace);
  EXPECT_NE(refused.status().message().find("needs 9B"), std::string::npos) << refused.status().message();
}

}  // namespace
}  // namespace steelyard::store
