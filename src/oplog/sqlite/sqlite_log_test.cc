#include "oplog/sqlite/sqlite_log.h"

#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

#include "base/log.h"
#include "oplog/open.h"
#include "oplog/replay.h"
#include "oplog/sqlite/filesystem.h"
#include "tests/conformance/op_log_conformance.h"

namespace steelyard::oplog::testing {
namespace {

namespace fs = std::filesystem;

class TempFolder {
 public:
  TempFolder() {
    std::string folder = (fs::temp_directory_path() / "oplog-test-XXXXXX").string();
    SY_CHECK(mkdtemp(folder.data()) != nullptr, "mkdtemp");
    path_ = folder;
    fs::permissions(path_, fs::perms::all);
  }
  ~TempFolder() {
    std::error_code error;
    fs::permissions(path_, fs::perms::all, error);
    fs::remove_all(path_, error);
  }
  std::string db() const { return (path_ / "catalog.db").string(); }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

SqliteOptions options_for(const TempFolder& folder, bool create = true) {
  return SqliteOptions{folder.db(), "store-1", create, false};
}

/// The real runtime with fault points that a test sets.
class FaultyRuntime final : public Runtime {
 public:
  FaultyRuntime() { faults_armed_ = true; }
  std::int64_t mono_ms() override { return real_runtime().mono_ms(); }
  std::int64_t mono_ns() override { return real_runtime().mono_ns(); }
  std::int64_t wall_ms() override { return real_runtime().wall_ms(); }
  const std::string& epoch() override { return real_runtime().epoch(); }
  void fill_random(ByteSpan out) override { real_runtime().fill_random(out); }
  void sleep_ms(std::int64_t duration_ms) override { real_runtime().sleep_ms(duration_ms); }
  std::unique_ptr<Event> make_event() override { return real_runtime().make_event(); }
  std::unique_ptr<Task> spawn(std::string_view name, std::function<void()> body) override {
    return real_runtime().spawn(name, std::move(body));
  }
  const ProcessIdentity& self() override { return real_runtime().self(); }
  bool provably_gone(const ProcessIdentity& process) override { return real_runtime().provably_gone(process); }

  std::map<std::string, int> errors;      ///< errno by point, on every pass
  std::map<std::string, int> kill_after;  ///< SIGKILL at this pass of the point
  std::map<std::string, int> passes;
  std::map<std::string, std::function<void()>> meanwhile;  ///< done once, at the next pass of the point
  std::string stop_at;                                     ///< SIGSTOP at every pass of this point

 protected:
  int point_armed(const char* name) override {
    const int pass = ++passes[name];
    if (const auto kill = kill_after.find(name); kill != kill_after.end() && kill->second == pass) raise(SIGKILL);
    if (stop_at == name) raise(SIGSTOP);
    if (auto others = meanwhile.extract(name); !others.empty()) others.mapped()();
    const auto error = errors.find(name);
    return error == errors.end() ? 0 : error->second;
  }
};

std::int64_t number_in(const std::string& path, const std::string& sql) {
  sqlite3* db = nullptr;
  sqlite3_stmt* statement = nullptr;
  EXPECT_EQ(sqlite3_open(path.c_str(), &db), SQLITE_OK);
  EXPECT_EQ(sqlite3_prepare_v2(db, sql.c_str(), -1, &statement, nullptr), SQLITE_OK) << sqlite3_errmsg(db);
  EXPECT_EQ(sqlite3_step(statement), SQLITE_ROW);
  const std::int64_t number = sqlite3_column_int64(statement, 0);
  sqlite3_finalize(statement);
  sqlite3_close(db);
  return number;
}

void run_sql(const std::string& path, const std::string& sql) {
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open(path.c_str(), &db), SQLITE_OK);
  char* message = nullptr;
  EXPECT_EQ(sqlite3_exec(db, sql.c_str(), nullptr, nullptr, &message), SQLITE_OK)
      << (message != nullptr ? message : "");
  sqlite3_close(db);
}

/// Runs `body` in a child, as an unprivileged user when `drop`; its exit code, or minus its signal.
int in_child(bool drop, const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    if (drop && (setgid(65534) != 0 || setuid(65534) != 0)) _exit(99);
    const int code = body();
    _exit(code);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

class SqliteFixture final : public LogFixture {
 public:
  SqliteFixture() { reopen(); }
  OpLog& log() override { return *log_; }
  void reopen() override {
    log_.reset();
    auto opened = open_sqlite(real_runtime(), options_for(folder_), plain_codec());
    SY_CHECK(opened.ok(), opened.status().to_string());
    log_ = std::move(*opened);
  }

 private:
  TempFolder folder_;
  std::unique_ptr<OpLog> log_;
};

INSTANTIATE_TEST_SUITE_P(Sqlite, OpLogConformance,
                         ::testing::Values(OpLogFactory{"Sqlite", [] { return std::make_unique<SqliteFixture>(); },
                                                        Capabilities{true, false, false, "sqlite"}}),
                         factory_name);

class Sqlite : public ::testing::Test {
 protected:
  std::unique_ptr<OpLog> open(Runtime& runtime = real_runtime()) {
    auto opened = open_sqlite(runtime, options_for(folder_), plain_codec());
    EXPECT_TRUE(opened.ok()) << opened.status().to_string();
    return opened.ok() ? std::move(*opened) : nullptr;
  }
  Status open_status(SqliteOptions options) {
    auto opened = open_sqlite(real_runtime(), options, plain_codec());
    return std::move(opened).status();
  }
  Status open_status() { return open_status(options_for(folder_)); }
  std::int64_t folded() const { return number_in(folder_.db(), "SELECT value FROM meta WHERE name = 'folded'"); }
  /// Brings the whole log into the state table.
  void fold() {
    const Status rebuilt = rebuild_sqlite_state(real_runtime(), options_for(folder_), plain_codec());
    ASSERT_TRUE(rebuilt.ok()) << rebuilt.to_string();
  }
  void fill(int steps) {
    const auto log = open();
    for (int i = 0; i < steps; ++i) ASSERT_TRUE(write_step(*log, "w").ok());
  }
  static std::uint64_t steps_in(OpLog& log) {
    std::uint64_t steps = 0;
    const Status status = log.view([&](const StateView& view) -> Status {
      SY_ASSIGN_OR_RETURN(const auto row, view.get("step"));
      steps = row ? std::stoull(*row) : 0;
      EXPECT_EQ(steps, view.sequence());
      return Status();
    });
    EXPECT_TRUE(status.ok()) << status.to_string();
    return steps;
  }

  TempFolder folder_;
  FaultyRuntime runtime_;
};

TEST_F(Sqlite, ACleanCloseLeavesAnEmptyWal) {
  fill(3);
  EXPECT_EQ(fs::file_size(folder_.db() + "-wal"), 0U);
  EXPECT_EQ(steps_in(*open()), 3U);
}

TEST_F(Sqlite, AbsentIsNotFoundUnlessItMayBeMade) {
  EXPECT_EQ(open_status(options_for(folder_, false)).code(), Code::kNotFound);
  EXPECT_FALSE(fs::exists(folder_.db()));
  EXPECT_TRUE(open_status().ok());
}

TEST_F(Sqlite, WhatIsNotOursIsAnErrorAndStaysAsItIs) {
  const auto expect_corrupt = [&](const std::string& words) {
    const Status status = open_status();
    EXPECT_EQ(status.code(), Code::kCorrupt) << status.to_string();
    EXPECT_NE(status.message().find(words), std::string::npos) << status.to_string();
    EXPECT_FALSE(status.hint().empty());
  };
  std::ofstream(folder_.db()).close();
  expect_corrupt("0 bytes");
  std::ofstream(folder_.db()) << std::string(5000, 'x');
  expect_corrupt("not a SQLite database");
  fs::remove(folder_.db());
  fs::create_directory(folder_.db());
  expect_corrupt("folder");
  fs::remove(folder_.db());
  std::ofstream(folder_.db() + "-wal") << "frames";
  expect_corrupt("is missing, but its log");
  fs::remove(folder_.db() + "-wal");
  run_sql(folder_.db(), "CREATE TABLE theirs(x); PRAGMA application_id = 7;");
  expect_corrupt("another program");
}

TEST_F(Sqlite, CutOffAtAnySizeIsCorrupt) {
  fill(50);
  const auto whole = fs::file_size(folder_.db());
  for (const auto size : {std::uintmax_t{50}, std::uintmax_t{100}, std::uintmax_t{4096}, whole / 2, whole - 1}) {
    fs::copy_file(folder_.db(), folder_.db() + ".keep", fs::copy_options::overwrite_existing);
    fs::resize_file(folder_.db(), size);
    EXPECT_EQ(open_status().code(), Code::kCorrupt) << size;
    fs::rename(folder_.db() + ".keep", folder_.db());
  }
  EXPECT_TRUE(open_status().ok());
}

TEST_F(Sqlite, NewerLayoutsAndOtherStoresAreNamed) {
  fill(1);
  SqliteOptions other = options_for(folder_);
  other.store_id = "store-2";
  EXPECT_EQ(open_status(other).code(), Code::kCorrupt);
  EXPECT_NE(open_status(other).message().find("belongs to store store-1"), std::string::npos);
  run_sql(folder_.db(), "PRAGMA user_version = 2");
  EXPECT_EQ(open_status().code(), Code::kUnavailable);
}

TEST_F(Sqlite, DamagedRowsAreNamed) {
  fill(3);
  fold();
  run_sql(folder_.db(), "UPDATE state SET value = x'39' WHERE key = x'73746570'");
  run_sql(folder_.db(), "UPDATE log SET batch = batch || x'00' WHERE seq = 2");
  const auto log = open();
  const Status state = log->view([](const StateView& view) { return view.get("step").status(); });
  EXPECT_EQ(state.code(), Code::kCorrupt);
  EXPECT_NE(state.message().find("state row step"), std::string::npos);
  EXPECT_FALSE(state.hint().empty());
  const auto rows = log->read(0, 10);
  EXPECT_EQ(rows.code(), Code::kCorrupt);
  EXPECT_NE(rows.status().message().find("log row 2"), std::string::npos);
  run_sql(folder_.db(), "DELETE FROM log WHERE seq = 2");
  EXPECT_NE(log->read(0, 10).status().message().find("log row 2 is missing"), std::string::npos);
}

TEST_F(Sqlite, ADamagedRowOfTheTailIsNamed) {
  fill(3);
  ASSERT_EQ(folded(), 0);
  run_sql(folder_.db(), "UPDATE log SET batch = batch || x'00' WHERE seq = 2");
  const auto log = open();
  const auto written = write_step(*log, "w");
  EXPECT_EQ(written.code(), Code::kCorrupt);
  EXPECT_NE(written.status().message().find("log row 2"), std::string::npos) << written.status().to_string();
  const Status state = log->view([](const StateView& view) { return view.get("step").status(); });
  EXPECT_EQ(state.code(), Code::kCorrupt);
  EXPECT_NE(state.message().find("log row 2"), std::string::npos) << state.to_string();
  run_sql(folder_.db(), "UPDATE meta SET value = 9 WHERE name = 'folded'");
  EXPECT_NE(write_step(*log, "w").status().message().find("holds appends up to 9, the log ends at 3"),
            std::string::npos);
}

TEST_F(Sqlite, AWriterAloneFoldsItsTailWhenItIsLong) {
  const auto log = open();
  const auto most = static_cast<int>(sqlite::Tail::kAppendsMax);
  for (int i = 1; i < most; ++i) ASSERT_TRUE(write_step(*log, "w").ok());
  EXPECT_EQ(folded(), 0);
  EXPECT_EQ(number_in(folder_.db(), "SELECT count(*) FROM state"), 0);
  EXPECT_EQ(steps_in(*log), sqlite::Tail::kAppendsMax - 1);
  EXPECT_EQ(steps_in(*open()), sqlite::Tail::kAppendsMax - 1);
  ASSERT_TRUE(write_step(*log, "w").ok());
  EXPECT_EQ(folded(), most);
  EXPECT_EQ(number_in(folder_.db(), "SELECT count(*) FROM state"), most + 1);
  ASSERT_TRUE(write_step(*log, "w").ok());
  EXPECT_EQ(folded(), most);
  EXPECT_TRUE(verify_state(*log, plain_codec()).ok());
  EXPECT_TRUE(verify_state(*open(), plain_codec()).ok());
}

TEST_F(Sqlite, LargeAppendsAreFoldedBeforeTheyAreMany) {
  const auto log = open();
  const std::string value(sqlite::Tail::kBytesMax / 2, 'v');
  for (const char* key : {"one", "two"}) {
    const auto written = log->write([&](const StateView&, const Now&) -> Result<std::vector<Entry>> {
      return std::vector<Entry>{put(key, value)};
    });
    ASSERT_TRUE(written.ok()) << written.status().to_string();
  }
  EXPECT_EQ(folded(), 2);
}

TEST_F(Sqlite, AWriterFoldsWhatItHadToReadOfOthers) {
  const auto one = open();
  const auto two = open();
  const auto most = static_cast<int>(sqlite::Tail::kReadMax);
  for (int i = 1; i < most; ++i) ASSERT_TRUE(write_step(*one, "one").ok());
  ASSERT_TRUE(write_step(*two, "two").ok());
  EXPECT_EQ(folded(), 0);
  ASSERT_TRUE(write_step(*one, "one").ok());
  ASSERT_TRUE(write_step(*two, "two").ok());
  EXPECT_EQ(folded(), most + 2);
  EXPECT_EQ(steps_in(*one), static_cast<std::uint64_t>(most) + 2);
  ASSERT_TRUE(write_step(*one, "one").ok());
  EXPECT_EQ(steps_in(*two), static_cast<std::uint64_t>(most) + 3);
  EXPECT_TRUE(verify_state(*two, plain_codec()).ok());
}

TEST_F(Sqlite, AFoldThatIsRolledBackIsMadeAgain) {
  const auto log = open(runtime_);
  for (std::uint64_t i = 1; i < sqlite::Tail::kAppendsMax; ++i) ASSERT_TRUE(write_step(*log, "w").ok());
  runtime_.errors["log.before_commit"] = EIO;
  EXPECT_EQ(write_step(*log, "w").code(), Code::kDurabilityFailed);
  EXPECT_EQ(folded(), 0);
  EXPECT_EQ(steps_in(*log), sqlite::Tail::kAppendsMax - 1);
  runtime_.errors.clear();
  ASSERT_TRUE(write_step(*log, "w").ok());
  EXPECT_EQ(folded(), static_cast<std::int64_t>(sqlite::Tail::kAppendsMax));
  EXPECT_TRUE(verify_state(*log, plain_codec()).ok());
}

TEST_F(Sqlite, TrimmingFoldsWhatItRemoves) {
  fill(3);
  const auto log = open();
  ASSERT_TRUE(log->save_snapshot().ok());
  EXPECT_EQ(folded(), 0);
  ASSERT_TRUE(log->trim(2).ok());
  EXPECT_EQ(folded(), 3);
  EXPECT_EQ(steps_in(*open()), 3U);
}

TEST_F(Sqlite, AFasterWritersNewerSnapshotIsTheAnswer) {
  for (const char* point : {"log.snapshot.part", "log.snapshot.read_back", "log.snapshot.before_complete"}) {
    const auto slow = open(runtime_);
    const auto fast = open();
    ASSERT_TRUE(write_step(*slow, "slow").ok());
    std::uint64_t newer = 0;
    runtime_.meanwhile[point] = [&] {
      ASSERT_TRUE(write_step(*fast, "fast").ok());
      const auto saved = fast->save_snapshot();
      ASSERT_TRUE(saved.ok()) << saved.status().to_string();
      newer = *saved;
    };
    const auto saved = slow->save_snapshot();
    ASSERT_TRUE(saved.ok()) << point << ": " << saved.status().to_string();
    EXPECT_EQ(*saved, newer) << point;
    EXPECT_EQ(*slow->length(), 0U);
    EXPECT_EQ(number_in(folder_.db(), "SELECT count(*) FROM snapshot"), 1) << point;
    EXPECT_EQ(number_in(folder_.db(), "SELECT count(*) FROM snapshot_part WHERE id NOT IN (SELECT id FROM snapshot)"),
              0)
        << point;
    EXPECT_EQ(
        number_in(folder_.db(), "SELECT count(*) FROM snapshot_section WHERE id NOT IN (SELECT id FROM snapshot)"), 0)
        << point;
  }
}

TEST_F(Sqlite, OneSnapshotIsBegunAtATime) {
  const auto slow = open(runtime_);
  const auto other = open();
  fill(3);
  EXPECT_EQ(*other->length(), 3U);
  std::uint64_t meanwhile = 9;
  runtime_.meanwhile["log.snapshot.part"] = [&] { meanwhile = *other->length(); };
  ASSERT_TRUE(slow->save_snapshot().ok());
  EXPECT_EQ(meanwhile, 0U);
}

TEST_F(Sqlite, AStateThatTheLogDoesNotImplyIsFoundAndRebuilt) {
  fill(5);
  {
    const auto log = open();
    ASSERT_TRUE(log->save_snapshot().ok());
    ASSERT_TRUE(log->trim(4).ok());
    ASSERT_TRUE(write_step(*log, "w").ok());
  }
  run_sql(folder_.db(), "DELETE FROM state WHERE key = x'62792d33'");
  EXPECT_EQ(verify_state(*open(), plain_codec()).code(), Code::kCorrupt);
  const Status rebuilt = rebuild_sqlite_state(real_runtime(), options_for(folder_), plain_codec());
  EXPECT_TRUE(rebuilt.ok()) << rebuilt.to_string();
  EXPECT_TRUE(verify_state(*open(), plain_codec()).ok());
}

TEST_F(Sqlite, AnotherSchemaOfTheStateIsRebuiltAtOpen) {
  fill(5);
  run_sql(folder_.db(),
          "DROP TABLE state; CREATE TABLE state(old); UPDATE meta SET value = 0 WHERE name = 'state_schema'");
  const auto log = open();
  ASSERT_NE(log, nullptr);
  EXPECT_EQ(steps_in(*log), 5U);
  EXPECT_TRUE(verify_state(*log, plain_codec()).ok());
}

TEST_F(Sqlite, ACommitThatOnlySeemsToFailIsASuccess) {
  const auto log = open(runtime_);
  runtime_.errors["log.commit"] = EIO;
  const auto written = write_step(*log, "w");
  EXPECT_TRUE(written.ok()) << written.status().to_string();
  EXPECT_EQ(steps_in(*log), 1U);
  EXPECT_EQ(log->read(0, 10)->size(), 1U);
}

TEST_F(Sqlite, ACommitThatFailsIsNotWritten) {
  const auto log = open(runtime_);
  runtime_.errors["log.before_commit"] = EIO;
  EXPECT_EQ(write_step(*log, "w").code(), Code::kDurabilityFailed);
  runtime_.errors["log.before_commit"] = ENOSPC;
  EXPECT_EQ(write_step(*log, "w").code(), Code::kNoSpace);
  EXPECT_EQ(steps_in(*log), 0U);
  runtime_.errors.clear();
  EXPECT_TRUE(write_step(*log, "w").ok());
}

TEST_F(Sqlite, ACommitThatCannotBeReadAgainIsUnknown) {
  const auto log = open(runtime_);
  runtime_.errors["log.commit"] = EIO;
  runtime_.errors["log.reread"] = EIO;
  EXPECT_EQ(write_step(*log, "w").code(), Code::kUnknownOutcome);
  runtime_.errors.clear();
  EXPECT_EQ(steps_in(*log), 1U);
  EXPECT_TRUE(write_step(*log, "w").ok());
}

TEST_F(Sqlite, TwoLogsOverOneFileSeeEachOther) {
  const auto one = open();
  const auto two = open();
  EXPECT_TRUE(write_step(*one, "one").ok());
  EXPECT_TRUE(write_step(*two, "two").ok());
  EXPECT_EQ(steps_in(*one), 2U);
  const auto task = real_runtime().spawn("writer", [&] { EXPECT_TRUE(write_step(*two, "two").ok()); });
  EXPECT_TRUE(*one->watch(2, real_runtime().mono_ms() + 60'000, nullptr));
}

TEST_F(Sqlite, ALogThatDoesNotLieWhereItWasOpenedIsNamed) {
  const auto log = open();
  ASSERT_TRUE(write_step(*log, "w").ok());
  const fs::path elsewhere = folder_.path().string() + "-elsewhere";
  fs::rename(folder_.path(), elsewhere);
  const auto expect_gone = [&](const std::string& found) {
    const Status gone = log->check_place();
    EXPECT_EQ(gone.code(), Code::kUnavailable);
    EXPECT_NE(gone.message().find(found), std::string::npos) << gone.message();
    EXPECT_FALSE(gone.hint().empty());
    EXPECT_EQ(log->watch(1, real_runtime().mono_ms() + 600'000, nullptr).status().to_string(), gone.to_string());
    const Status written = write_step(*log, "w").status();
    EXPECT_EQ(written.code(), Code::kDurabilityFailed);
    EXPECT_NE(written.message().find(found), std::string::npos) << written.message();
  };
  expect_gone("is not there any more: its catalog is in " + elsewhere.string() + " now");
  fs::create_directory(folder_.path());
  fill(3);  // another log at its path
  expect_gone("was replaced: another catalog lies there than the one that was opened, which is in " +
              elsewhere.string() + " now");
  EXPECT_EQ(steps_in(*log), 1U) << "what is open is read on";
  fs::remove_all(elsewhere);
  expect_gone("which was removed");
  fs::remove_all(folder_.path());
  expect_gone("its catalog was removed");
}

TEST_F(Sqlite, BesideAnotherCatalogNothingIsMade) {
  const auto log = open();
  const fs::path elsewhere = folder_.path().string() + "-elsewhere";
  fs::rename(folder_.path(), elsewhere);
  fs::create_directory(folder_.path());
  fs::copy_file(elsewhere / "catalog.db", folder_.path() / "catalog.db");
  const Status written = write_step(*log, "w").status();
  EXPECT_NE(written.message().find("was replaced"), std::string::npos) << written.to_string();
  for (const auto& entry : fs::directory_iterator(folder_.path())) {
    EXPECT_EQ(entry.path().filename(), "catalog.db") << "of the log that was opened before";
  }
  fs::remove_all(elsewhere);
}

TEST_F(Sqlite, ALogThatIsBackGoesOn) {
  const auto log = open();
  const fs::path elsewhere = folder_.path().string() + "-elsewhere";
  fs::rename(folder_.path(), elsewhere);
  EXPECT_FALSE(log->check_place().ok());
  fs::rename(elsewhere, folder_.path());
  EXPECT_TRUE(log->check_place().ok());
  EXPECT_TRUE(write_step(*log, "w").ok());
}

TEST_F(Sqlite, KilledAtAnyPointAcknowledgedIsThere) {
  const std::vector<std::string> points = {"log.create.begin",
                                           "log.create.before_link",
                                           "log.create.after_link",
                                           "log.turn",
                                           "log.prepared",
                                           "log.before_commit",
                                           "log.commit",
                                           "log.after_commit",
                                           "log.snapshot.part",
                                           "log.snapshot.read_back",
                                           "log.snapshot.before_complete",
                                           "log.snapshot.after_complete",
                                           "log.trim",
                                           "log.close"};
  for (const std::string& point : points) {
    for (const int pass : {1, 3}) {
      const TempFolder folder;
      const fs::path acknowledged = folder.path() / "acknowledged";
      const int ended = in_child(false, [&] {
        FaultyRuntime runtime;
        runtime.kill_after[point] = pass;
        for (int round = 0; round < 3; ++round) {
          auto log = open_sqlite(runtime, options_for(folder), plain_codec());
          if (!log.ok()) return 1;
          for (int i = 0; i < 3; ++i) {
            const auto number = write_step(**log, "child");
            if (!number.ok()) return 2;
            std::ofstream(acknowledged, std::ios::app) << *number << std::endl;
          }
          const auto snapshot = (*log)->save_snapshot();
          if (!snapshot.ok() || !(*log)->trim(*snapshot - 1).ok()) return 3;
        }
        return 0;
      });
      if (pass == 1) {
        EXPECT_EQ(ended, -SIGKILL) << point;
      }
      std::uint64_t promised = 0;
      std::uint64_t line = 0;
      for (std::ifstream in(acknowledged); in >> line;) promised = line;
      auto log = open_sqlite(real_runtime(), options_for(folder), plain_codec());
      ASSERT_TRUE(log.ok()) << point << ": " << log.status().to_string();
      const std::uint64_t found = steps_in(**log);
      EXPECT_GE(found, promised) << point;
      EXPECT_LE(found, promised + 1) << point;
      const Status verified = verify_state(**log, plain_codec());
      EXPECT_TRUE(verified.ok()) << point << ": " << verified.to_string();
      EXPECT_TRUE(write_step(**log, "after").ok());
      for (const auto& entry : fs::directory_iterator(folder.path())) {
        if (pass != 1 || !point.starts_with("log.create")) break;
        EXPECT_EQ(entry.path().filename().string().find(".new-"), std::string::npos) << point;
      }
    }
  }
}

TEST_F(Sqlite, KilledInAStormOfWritersAcknowledgedIsThere) {
  fill(1);
  for (int round = 0; round < 8; ++round) {
    const fs::path acknowledged = folder_.path() / "acknowledged";
    fs::remove(acknowledged);
    const std::uint64_t before = steps_in(*open());
    const std::uint64_t kill_at = before + 5 + static_cast<std::uint64_t>(round) * 7;
    std::vector<pid_t> children;
    for (int c = 0; c < 3; ++c) {
      const pid_t child = fork();
      if (child == 0) {
        auto log = open_sqlite(real_runtime(), options_for(folder_), plain_codec());
        while (log.ok()) {
          const auto number = write_step(**log, "child");
          if (!number.ok()) break;
          std::ofstream(acknowledged, std::ios::app) << (std::to_string(*number) + "\n") << std::flush;
        }
        _exit(1);
      }
      children.push_back(child);
    }
    {
      const auto log = open();
      EXPECT_TRUE(*log->watch(kill_at, real_runtime().mono_ms() + 60'000, nullptr));
    }
    for (const pid_t child : children) kill(child, SIGKILL);
    for (const pid_t child : children) waitpid(child, nullptr, 0);
    const auto log = open();
    const std::uint64_t found = steps_in(*log);
    std::uint64_t number = 0;
    for (std::ifstream in(acknowledged); in >> number;) EXPECT_LE(number, found);
    EXPECT_GT(found, kill_at);
    EXPECT_TRUE(verify_state(*log, plain_codec()).ok());
  }
}

/// A process stopped inside its transaction, until this object ends.
class StoppedWriter {
 public:
  StoppedWriter(const SqliteOptions& options, const std::string& point) {
    child_ = fork();
    if (child_ == 0) {
      FaultyRuntime runtime;
      runtime.stop_at = point;
      auto log = open_sqlite(runtime, options, plain_codec());
      if (log.ok()) write_step(**log, "stopped").status().ignore("it is ended");
      _exit(0);
    }
    int status = 0;
    waitpid(child_, &status, WUNTRACED);
    EXPECT_TRUE(WIFSTOPPED(status));
  }
  ~StoppedWriter() {
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
  }
  StoppedWriter(const StoppedWriter&) = delete;
  StoppedWriter& operator=(const StoppedWriter&) = delete;
  pid_t pid() const { return child_; }

 private:
  pid_t child_ = -1;
};

TEST_F(Sqlite, AWriterThatStandsStillIsNamed) {
  fill(1);
  SqliteOptions options = options_for(folder_);
  options.write_wait_ms = 100;
  options.warn_after_ms = 10;
  for (const char* point : {"log.prepared", "log.before_commit"}) {
    std::vector<std::string> warnings;
    const LogSink before = set_log_sink([&](LogLevel, std::string_view line) { warnings.emplace_back(line); });
    {
      const StoppedWriter stopped(options, point);
      const std::string pid = std::to_string(stopped.pid());
      auto log = open_sqlite(real_runtime(), options, plain_codec());
      ASSERT_TRUE(log.ok()) << log.status().to_string();
      for (int i = 0; i < 2; ++i) {
        const Status status = write_step(**log, "w").status();
        EXPECT_EQ(status.code(), Code::kBusy) << point;
        EXPECT_NE(status.message().find("(pid " + pid + ") has been writing for "), std::string::npos)
            << status.to_string();
        EXPECT_NE(status.hint().find("kill -CONT " + pid), std::string::npos) << status.to_string();
      }
      EXPECT_EQ(steps_in(**log), 1U);  // reads go on
      ASSERT_EQ(warnings.size(), 1U);  // once for the same holder
      EXPECT_NE(warnings[0].find("waiting for " + real_runtime().self().host + " (pid " + pid + ")"), std::string::npos)
          << warnings[0];
    }
    set_log_sink(before);
    EXPECT_EQ(steps_in(*open()), 1U);
  }
  EXPECT_TRUE(write_step(*open(), "after").ok());
}

class SqliteReadOnly : public Sqlite {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "needs root, to become somebody else";
  }
  /// As an unprivileged user: opens, reads the steps, is refused a write. 0 when all is as it should be.
  int read_as_nobody(std::uint64_t wanted) {
    return in_child(true, [&] {
      auto log = open_sqlite(real_runtime(), options_for(folder_), plain_codec());
      if (!log.ok()) {
        std::fprintf(stderr, "%s\n", log.status().to_string().c_str());
        return 1;
      }
      if (!(*log)->capabilities().read_only) return 2;
      std::uint64_t steps = 0;
      const Status status = (*log)->view([&](const StateView& view) -> Status {
        SY_ASSIGN_OR_RETURN(const auto row, view.get("step"));
        steps = row ? std::stoull(*row) : 0;
        return Status();
      });
      if (!status.ok()) {
        std::fprintf(stderr, "%s\n", status.to_string().c_str());
        return 3;
      }
      if (steps != wanted) return 4;
      return write_step(**log, "nobody").code() == Code::kUnauthorized ? 0 : 5;
    });
  }
  void take_write_permission(bool with_folder = true) {
    for (const auto& entry : fs::directory_iterator(folder_.path())) fs::permissions(entry.path(), fs::perms(0444));
    if (with_folder) fs::permissions(folder_.path(), fs::perms(0555));
  }
  std::size_t copies() {
    std::size_t count = 0;
    for (const auto& entry : fs::directory_iterator(fs::temp_directory_path())) {
      count += entry.path().filename().string().starts_with("steelyard-catalog-") ? 1 : 0;
    }
    return count;
  }
};

TEST_F(SqliteReadOnly, AfterACleanClose) {
  fill(4);
  take_write_permission();
  const auto before = copies();
  EXPECT_EQ(read_as_nobody(4), 0);
  EXPECT_EQ(copies(), before);
}

TEST_F(SqliteReadOnly, WithAWalAndWithoutSharedMemory) {
  fill(1);
  in_child(false, [&] {
    auto log = open_sqlite(real_runtime(), options_for(folder_), plain_codec());
    for (int i = 0; i < 3; ++i) write_step(**log, "w").status().ignore("counted below");
    raise(SIGKILL);
    return 0;
  });
  ASSERT_GT(fs::file_size(folder_.db() + "-wal"), 0U);
  take_write_permission();
  EXPECT_EQ(read_as_nobody(4), 0);
  fs::remove(folder_.db() + "-shm");
  EXPECT_EQ(read_as_nobody(4), 0);
}

TEST_F(SqliteReadOnly, BesideALiveWriter) {
  const auto log = open();
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(write_step(*log, "w").ok());
  take_write_permission(false);
  EXPECT_EQ(read_as_nobody(3), 0);
  ASSERT_TRUE(write_step(*log, "w").ok());
  EXPECT_EQ(read_as_nobody(4), 0);
}

TEST_F(SqliteReadOnly, NobodyMakesNoStore) {
  fs::permissions(folder_.path(), fs::perms(0555));
  EXPECT_EQ(in_child(true, [&] { return open_status().code() == Code::kUnauthorized ? 0 : 1; }), 0);
}

TEST(Filesystem, NetworkUserSpaceAndVirtualOnesAreRefused) {
  EXPECT_EQ(sqlite::find_refused_filesystem(0x6969), "NFS");
  EXPECT_EQ(sqlite::find_refused_filesystem(0x65735546), "FUSE");
  EXPECT_EQ(sqlite::find_refused_filesystem(0x0BD00BD0), "Lustre");
  EXPECT_EQ(sqlite::find_refused_filesystem(0xFFFFFFFFFF534D42ULL), "CIFS");  // sign-extended by statfs
  EXPECT_EQ(sqlite::find_refused_filesystem(0x9FA0), "proc");
  for (const std::uint64_t local : {0xEF53, 0x58465342, 0x01021994, 0x794C7630}) {  // ext4, xfs, tmpfs, overlayfs
    EXPECT_EQ(sqlite::find_refused_filesystem(local), std::nullopt);
  }
  const Status refused = sqlite::check_filesystem("/proc");
  EXPECT_EQ(refused.code(), Code::kUnavailable);
  EXPECT_EQ(refused.hint(), "put the store on a local disk and set cold.path to the shared folder");
}

}  // namespace
}  // namespace steelyard::oplog::testing
