// The logs with the codec of weight metadata: all views of one history are equal.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "base/limits.h"
#include "metadata/rules.h"
#include "oplog/open.h"
#include "oplog/replay.h"

namespace steelyard::oplog {
namespace {

namespace fs = std::filesystem;

Status run(OpLog& log, const metadata::Command& command) {
  return log
      .write([&](const StateView& view, const Now& now) -> Result<std::vector<Entry>> {
        SY_ASSIGN_OR_RETURN(auto prepared, metadata::WeightMetadataStore::prepare(view, command, now));
        return std::move(prepared.entries);
      })
      .status();
}

metadata::BeginWeightImport begin(std::int64_t generation, char token) {
  metadata::BeginWeightImport command;
  command.lineage.tenant_id = "default";
  command.lineage.namespace_id = "production";
  command.lineage.resource_id = "llama-70b";
  command.lineage.revision = "step-100";
  command.weight_generation = generation;
  command.token = std::string(32, token);
  command.holder = "host (pid 12)";
  command.ttl_ms = limits::kWriterTtlMs;
  command.labels = {{"team", "search"}};
  return command;
}

std::string exported(OpLog& log) {
  std::string out;
  const Status status = log.view([&](const StateView& view) -> Status {
    SY_ASSIGN_OR_RETURN(out, metadata::export_canonical(view));
    return Status();
  });
  EXPECT_TRUE(status.ok()) << status.to_string();
  return out;
}

class Weights : public ::testing::Test {
 protected:
  Weights() {
    std::string folder = (fs::temp_directory_path() / "oplog-weights-XXXXXX").string();
    SY_CHECK(mkdtemp(folder.data()) != nullptr, "mkdtemp");
    folder_ = folder;
  }
  ~Weights() override { fs::remove_all(folder_); }
  std::unique_ptr<OpLog> open(const std::string& name) {
    auto log = open_sqlite(real_runtime(), SqliteOptions{(folder_ / name).string(), "store-1", true, false});
    SY_CHECK(log.ok(), log.status().to_string());
    return std::move(*log);
  }
  fs::path folder_;
};

TEST_F(Weights, RowsReplayAndSnapshotsAgree) {
  auto log = open("catalog.db");
  for (std::int64_t generation = 1; generation <= 3; ++generation) {
    const Status begun = run(*log, begin(generation, 'a'));
    ASSERT_TRUE(begun.ok()) << begun.to_string();
    EXPECT_EQ(run(*log, begin(generation, 'b')).code(), Code::kBusy);
  }
  Status verified = verify_state(*log);
  EXPECT_TRUE(verified.ok()) << verified.to_string();
  const auto snapshot_at = log->save_snapshot();
  ASSERT_TRUE(snapshot_at.ok()) << snapshot_at.status().to_string();
  ASSERT_TRUE(log->trim(*snapshot_at).ok());
  ASSERT_TRUE(run(*log, begin(4, 'a')).ok());
  verified = verify_state(*log);
  EXPECT_TRUE(verified.ok()) << verified.to_string();
  ASSERT_TRUE(log->save_snapshot().ok());
  const std::string wanted = exported(*log);
  const auto encoded = log->newest_snapshot();
  ASSERT_TRUE(encoded.ok()) << encoded.status().to_string();
  const auto snapshot = decode_snapshot(*encoded);
  ASSERT_TRUE(snapshot.ok()) << snapshot.status().to_string();

  const auto memory = open_memory(real_runtime());
  ASSERT_TRUE(memory->restore(*snapshot).ok());
  EXPECT_EQ(exported(*memory), wanted);
  const auto restored = open("restored.db");
  ASSERT_TRUE(restored->restore(*snapshot).ok());
  EXPECT_EQ(exported(*restored), wanted);
  log.reset();
  EXPECT_EQ(exported(*open("catalog.db")), wanted);
}

TEST_F(Weights, ADamagedSectionRestoresNothing) {
  const auto log = open("catalog.db");
  ASSERT_TRUE(run(*log, begin(1, 'a')).ok());
  ASSERT_TRUE(log->save_snapshot().ok());
  auto snapshot = decode_snapshot(*log->newest_snapshot());
  ASSERT_TRUE(snapshot.ok());
  std::string& section = snapshot->sections.at(std::string(metadata::kSnapshotSection));
  const std::string whole = section;
  const auto target = open("target.db");
  const std::string empty = exported(*target);
  for (std::size_t at = 0; at < whole.size(); at += 1 + whole.size() / 40) {
    section = whole;
    section[at] = static_cast<char>(section[at] ^ 0x20);
    EXPECT_FALSE(target->restore(*snapshot).ok()) << at;
    EXPECT_EQ(exported(*target), empty) << at;
  }
  section = whole;
  EXPECT_TRUE(target->restore(*snapshot).ok());
  EXPECT_EQ(exported(*target), exported(*log));
}

}  // namespace
}  // namespace steelyard::oplog
