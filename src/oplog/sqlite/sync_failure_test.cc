// What the SQLite log answers when the disk refuses a sync in the middle of a commit.
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include "oplog/open.h"
#include "oplog/replay.h"
#include "tests/conformance/op_log_conformance.h"

namespace {

std::atomic<int> failing_syncs{0};

int sync_or_fail(long call, int fd) {
  int left = failing_syncs.load();
  while (left > 0 && !failing_syncs.compare_exchange_weak(left, left - 1)) {
  }
  if (left > 0) {
    errno = EIO;
    return -1;
  }
  return static_cast<int>(syscall(call, fd));
}

}  // namespace

// Stand before the C library's, for SQLite as well.
extern "C" int fsync(int fd) { return sync_or_fail(SYS_fsync, fd); }
extern "C" int fdatasync(int fd) { return sync_or_fail(SYS_fdatasync, fd); }

namespace steelyard::oplog::testing {
namespace {

namespace fs = std::filesystem;

class SyncFailure : public ::testing::Test {
 protected:
  SyncFailure() {
    std::string folder = (fs::temp_directory_path() / "oplog-sync-XXXXXX").string();
    SY_CHECK(mkdtemp(folder.data()) != nullptr, "mkdtemp");
    folder_ = folder;
  }
  ~SyncFailure() override {
    failing_syncs = 0;
    fs::remove_all(folder_);
  }
  std::unique_ptr<OpLog> open(const std::string& name = "catalog.db") {
    auto log =
        open_sqlite(real_runtime(), SqliteOptions{(folder_ / name).string(), "store-1", true, false}, plain_codec());
    SY_CHECK(log.ok(), log.status().to_string());
    return std::move(*log);
  }
  static std::uint64_t sequence_of(OpLog& log) {
    std::uint64_t sequence = 0;
    const Status status = log.view([&](const StateView& view) {
      sequence = view.sequence();
      return Status();
    });
    EXPECT_TRUE(status.ok()) << status.to_string();
    return sequence;
  }
  /// The log as it is found after a power cut that keeps every byte written.
  std::uint64_t sequence_after_crash() {
    fs::copy_file(folder_ / "catalog.db", folder_ / "crashed.db");
    fs::copy_file(folder_ / "catalog.db-wal", folder_ / "crashed.db-wal");
    const auto log = open("crashed.db");
    EXPECT_TRUE(verify_state(*log, plain_codec()).ok());
    return sequence_of(*log);
  }

  fs::path folder_;
};

TEST_F(SyncFailure, WhatIsFoundAfterwardsIsMadeDurable) {
  const auto log = open();
  ASSERT_TRUE(write_step(*log, "w").ok());
  failing_syncs = 1;
  const auto written = write_step(*log, "w");
  EXPECT_EQ(failing_syncs, 0);
  // Nobody else had the database open, so opening it again recovered the commit from the WAL.
  EXPECT_TRUE(written.ok()) << written.status().to_string();
  EXPECT_EQ(sequence_of(*log), 2U);
  EXPECT_EQ(sequence_after_crash(), 2U);
}

TEST_F(SyncFailure, WhatIsNotFoundNeverComesBack) {
  const auto log = open();
  ASSERT_TRUE(write_step(*log, "w").ok());
  const auto other = open();
  // A view held open keeps the other connection, and with it what everybody agrees is in the WAL.
  const Status status = other->view([&](const StateView&) {
    failing_syncs = 1;
    const auto written = write_step(*log, "w");
    EXPECT_EQ(failing_syncs, 0);
    EXPECT_EQ(written.code(), Code::kDurabilityFailed) << written.status().to_string();
    return Status();
  });
  EXPECT_TRUE(status.ok()) << status.to_string();
  EXPECT_EQ(sequence_after_crash(), 1U);
  EXPECT_TRUE(write_step(*log, "w").ok());
  EXPECT_EQ(sequence_of(*other), 2U);
}

TEST_F(SyncFailure, ADiskThatSyncsNoMoreGivesUnknown) {
  const auto log = open();
  ASSERT_TRUE(write_step(*log, "w").ok());
  failing_syncs = 1'000'000;
  EXPECT_EQ(write_step(*log, "w").code(), Code::kUnknownOutcome);
  failing_syncs = 0;
  EXPECT_TRUE(write_step(*log, "w").ok());
  EXPECT_TRUE(verify_state(*log, plain_codec()).ok());
}

}  // namespace
}  // namespace steelyard::oplog::testing
