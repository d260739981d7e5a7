#include "oplog/sqlite/layout.h"

#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "base/check.h"

namespace steelyard::oplog::testing {
namespace {

namespace fs = std::filesystem;

int grow(const std::string& path, int times) {
  sqlite3* database = nullptr;
  if (sqlite3_open(path.c_str(), &database) != SQLITE_OK) return 1;
  const auto run = [&](const char* sql) { return sqlite3_exec(database, sql, nullptr, nullptr, nullptr) == SQLITE_OK; };
  if (!run("PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF; CREATE TABLE IF NOT EXISTS rows (bytes BLOB)"))
    return 1;
  for (int i = 0; i < times; ++i) {
    if (!run("INSERT INTO rows VALUES (zeroblob(200000))") || !run("PRAGMA wal_checkpoint(TRUNCATE)")) return 1;
  }
  return sqlite3_close(database) == SQLITE_OK ? 0 : 1;
}

/// A checkpoint writes the header first, then makes the file longer: between two looks both may have happened.
TEST(CheckFiles, ACheckpointBesideItIsNoDamage) {
  std::string folder = (fs::temp_directory_path() / "layout-test-XXXXXX").string();
  SY_CHECK(mkdtemp(folder.data()) != nullptr, "mkdtemp");
  const std::string path = folder + "/catalog.db";
  ASSERT_EQ(grow(path, 1), 0);
  const pid_t writer = fork();
  ASSERT_GE(writer, 0);
  if (writer == 0) _exit(grow(path, 500));
  int ended = 0;
  while (waitpid(writer, &ended, WNOHANG) == 0) {
    const Status looked = sqlite::check_files(path);
    EXPECT_TRUE(looked.ok()) << looked.to_string();
  }
  EXPECT_TRUE(WIFEXITED(ended) && WEXITSTATUS(ended) == 0);
  fs::remove_all(folder);
}

TEST(CheckFiles, AShorterFileThanItsHeaderSays) {
  std::string folder = (fs::temp_directory_path() / "layout-test-XXXXXX").string();
  SY_CHECK(mkdtemp(folder.data()) != nullptr, "mkdtemp");
  const std::string path = folder + "/catalog.db";
  ASSERT_EQ(grow(path, 2), 0);
  fs::resize_file(path, fs::file_size(path) - 1);
  EXPECT_EQ(sqlite::check_files(path).code(), Code::kCorrupt);
  fs::remove_all(folder);
}

}  // namespace
}  // namespace steelyard::oplog::testing
