// The tail under random histories of two writers on one file, against a log that has none.
#include "oplog/sqlite/tail.h"

#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "oplog/open.h"
#include "oplog/replay.h"
#include "tests/conformance/op_log_conformance.h"

namespace steelyard::oplog::testing {
namespace {

namespace fs = std::filesystem;

constexpr int kHistories = 6;
constexpr int kSteps = 80;
constexpr int kKeys = 12;

/// The real runtime, whose fault points fail and call as they are told; never two at once.
class PointedRuntime final : public Runtime {
 public:
  PointedRuntime() { faults_armed_ = true; }
  std::int64_t mono_ms() override { return real_runtime().mono_ms(); }
  std::int64_t mono_ns() override { return real_runtime().mono_ns(); }
  std::int64_t wall_ms() override { return real_runtime().wall_ms(); }
  const std::string& epoch() override { return real_runtime().epoch(); }
  void fill_random(ByteSpan out) override { real_runtime().fill_random(out); }
  void sleep_ms(std::int64_t duration_ms) override { real_runtime().sleep_ms(duration_ms); }
  std::unique_ptr<Event> make_event() override {
    if (queued_ != nullptr) queued_->set();
    return real_runtime().make_event();
  }
  std::unique_ptr<Task> spawn(std::string_view name, std::function<void()> body) override {
    return real_runtime().spawn(name, std::move(body));
  }
  const ProcessIdentity& self() override { return real_runtime().self(); }
  bool provably_gone(const ProcessIdentity& process) override { return real_runtime().provably_gone(process); }

  /// Calls what waits behind the writer who has the turn. Returns once that one will be in the same group.
  std::unique_ptr<Task> spawn_into_group(std::function<void()> body) {
    // A log makes an event for who is to wait, in the hold of the mutex under which it puts it into the queue.
    queued_ = real_runtime().make_event();
    auto task = spawn("waits", std::move(body));
    queued_->wait_until(std::numeric_limits<std::int64_t>::max());
    return task;
  }

  std::map<std::string, int> errors;  ///< errno by point, once
  std::function<void()> at_turn;      ///< once, before the group is taken

 protected:
  int point_armed(const char* name) override {
    if (std::string_view(name) == "log.turn" && at_turn) std::exchange(at_turn, nullptr)();
    const auto error = errors.extract(name);
    return error.empty() ? 0 : error.mapped();
  }

 private:
  std::unique_ptr<Event> queued_;
};

std::string exported(OpLog& log) {
  std::string out;
  const Status status = log.view([&](const StateView& view) -> Status {
    SY_ASSIGN_OR_RETURN(out, plain_codec().export_canonical(view));
    return Status();
  });
  EXPECT_TRUE(status.ok()) << status.to_string();
  return out;
}

/// Two logs on one file, each with a few connections in its pool, and the plain one.
class TailHistory {
 public:
  explicit TailHistory(std::uint64_t seed) : dice_(seed) {
    std::string folder = (fs::temp_directory_path() / "oplog-tail-XXXXXX").string();
    SY_CHECK(mkdtemp(folder.data()) != nullptr, "mkdtemp");
    folder_ = folder;
    for (std::size_t i = 0; i < logs_.size(); ++i) open(i);
  }
  ~TailHistory() {
    for (auto& log : logs_) log.reset();
    fs::remove_all(folder_);
  }
  TailHistory(const TailHistory&) = delete;
  TailHistory& operator=(const TailHistory&) = delete;

  /// Before the first step: what another log held comes into this one, on a connection that has read it before.
  void restore() {
    check();
    const auto source = open_memory(real_runtime(), false, plain_codec());
    for (int i = 0; i < 3; ++i) {
      const auto written = write_step(*source, "before");
      EXPECT_TRUE(written.ok()) << written.status().to_string();
    }
    EXPECT_TRUE(source->save_snapshot().ok());
    const auto snapshot = decode_snapshot(*source->newest_snapshot());
    ASSERT_TRUE(snapshot.ok()) << snapshot.status().to_string();
    const Status plainly = plain_->restore(*snapshot);
    EXPECT_TRUE(plainly.ok()) << plainly.to_string();
    const Status restored = logs_[0]->restore(*snapshot);
    EXPECT_TRUE(restored.ok()) << restored.to_string();
    check();
  }

  /// Returns what was done.
  std::string step() {
    const std::size_t which = below(logs_.size());
    OpLog& log = *logs_[which];
    const std::string name = "log " + std::to_string(which) + ": ";
    const std::uint64_t die = below(100);
    if (die < 46) return name + write(log, some_entries());
    if (die < 49) return name + write_many(log);
    if (die < 59) return name + refuse(which, die < 53);
    if (die < 67) return name + fail(which, "log.before_commit", false);
    if (die < 75) return name + fail(which, "log.commit", true);
    if (die < 82) return name + save(log);
    if (die < 87) return name + trim(log);
    if (die < 90) return name + reopen(which);
    return name + read_nested(which);
  }

  /// Both logs, on each connection that a read may get, show what the plain one does.
  void check() {
    const std::string wanted = exported(*plain_);
    for (const auto& log : logs_) {
      EXPECT_EQ(exported(*log), wanted);
      const Status nested = log->view([&](const StateView&) {
        EXPECT_EQ(exported(*log), wanted) << "on another connection";
        return Status();
      });
      EXPECT_TRUE(nested.ok()) << nested.to_string();
    }
  }
  void verify() {
    for (const auto& log : logs_) {
      const Status verified = verify_state(*log, plain_codec());
      EXPECT_TRUE(verified.ok()) << verified.to_string();
    }
  }

 private:
  using Entries = std::vector<Entry>;
  using Tail = sqlite::Tail;

  std::uint64_t below(std::uint64_t bound) { return dice_() % bound; }

  void open(std::size_t which) {
    auto log = open_sqlite(runtimes_[which], SqliteOptions{(folder_ / "catalog.db").string(), "store-1", true, false},
                           plain_codec());
    SY_CHECK(log.ok(), log.status().to_string());
    logs_[which] = std::move(*log);
  }

  Entries some_entries() {
    Entries entries;
    for (std::uint64_t left = 1 + below(3); left > 0; --left) {
      const std::string key = "k" + std::to_string(below(kKeys));
      entries.push_back(below(4) == 0 ? del(key) : put(key, std::to_string(dice_() % 10'000)));
    }
    return entries;
  }

  /// What get() finds of every key, and a short scan() behind it, which need not come from where the whole state does.
  static Result<std::string> found_by_key(const StateView& view) {
    std::string out;
    for (int i = 0; i < kKeys; ++i) {
      const std::string key = "k" + std::to_string(i);
      SY_ASSIGN_OR_RETURN(const auto row, view.get(key));
      out += row.value_or("none") + " ";
      SY_RETURN_IF_ERROR(view.scan(key, "k5", false, [&](std::string_view at, std::string_view value) {
        out.append(at).append("=").append(value).append(" ");
        return at != "k4";
      }));
    }
    return out;
  }

  /// The state that it is prepared by is compared too: it is that of the writing connection.
  Result<std::uint64_t> append(OpLog& log, const Entries& entries) {
    const std::string wanted = exported(*plain_);
    std::string wanted_by_key;
    const Status plainly = plain_->view([&](const StateView& view) -> Status {
      SY_ASSIGN_OR_RETURN(wanted_by_key, found_by_key(view));
      return Status();
    });
    EXPECT_TRUE(plainly.ok()) << plainly.to_string();
    return log.write([&](const StateView& view, const Now&) -> Result<Entries> {
      SY_ASSIGN_OR_RETURN(const std::string found, plain_codec().export_canonical(view));
      EXPECT_EQ(found, wanted) << "in a write";
      SY_ASSIGN_OR_RETURN(const std::string by_key, found_by_key(view));
      EXPECT_EQ(by_key, wanted_by_key) << "in a write";
      return entries;
    });
  }

  void append_plainly(const Entries& entries) {
    const auto appended = plain_->write([&](const StateView&, const Now&) -> Result<Entries> { return entries; });
    EXPECT_TRUE(appended.ok()) << appended.status().to_string();
  }

  std::string write(OpLog& log, const Entries& entries) {
    const auto written = append(log, entries);
    EXPECT_TRUE(written.ok()) << written.status().to_string();
    append_plainly(entries);
    return "a write";
  }

  std::string write_many(OpLog& log) {
    const std::uint64_t times = Tail::kAppendsMax / 2 + below(Tail::kAppendsMax);
    for (std::uint64_t i = 0; i < times; ++i) write(log, some_entries());
    return "so many writes that the tail is folded";
  }

  /// A group of two: the second is shown what the first appends, and refuses. Where the commit fails, it is asked
  /// again, without that.
  std::string refuse(std::size_t which, bool fails) {
    OpLog& log = *logs_[which];
    PointedRuntime& runtime = runtimes_[which];
    if (fails) runtime.errors["log.before_commit"] = EIO;
    const Entries entries = some_entries();
    const std::string before = exported(*plain_);
    std::vector<std::string> shown;
    Status refused;
    std::unique_ptr<Task> second;
    runtime.at_turn = [&] {
      second = runtime.spawn_into_group([&] {
        const auto written = log.write([&](const StateView& view, const Now&) -> Result<Entries> {
          SY_ASSIGN_OR_RETURN(shown.emplace_back(), plain_codec().export_canonical(view));
          return Status(Code::kConflict, "not so");
        });
        refused = written.status();
      });
    };
    const auto written = append(log, entries);
    second->join();
    EXPECT_EQ(written.ok(), !fails) << written.status().to_string();
    EXPECT_EQ(refused.code(), Code::kConflict);
    EXPECT_EQ(shown.size(), fails ? 2U : 1U);
    EXPECT_NE(shown.front(), before);
    if (!fails) append_plainly(entries);
    EXPECT_EQ(shown.back(), exported(*plain_));
    return fails ? "a write that fails and one that refuses" : "a write and one that refuses";
  }

  std::string fail(std::size_t which, const char* point, bool is_there) {
    runtimes_[which].errors[point] = EIO;
    const Entries entries = some_entries();
    const auto written = append(*logs_[which], entries);
    EXPECT_EQ(written.ok(), is_there) << written.status().to_string();
    if (is_there) append_plainly(entries);
    return std::string("a fault at ") + point;
  }

  std::string save(OpLog& log) {
    const auto saved = log.save_snapshot();
    EXPECT_TRUE(saved.ok()) << saved.status().to_string();
    saved_ = *saved;
    return "a snapshot";
  }

  std::string trim(OpLog& log) {
    if (saved_ == 0) return "nothing to trim";
    const Status trimmed = log.trim(saved_ - below(3) % saved_);
    EXPECT_TRUE(trimmed.ok()) << trimmed.to_string();
    return "a trim";
  }

  std::string reopen(std::size_t which) {
    logs_[which].reset();
    open(which);
    return "opened again";
  }

  /// While a read goes on somebody writes, so that more connections come into the pool, and none sees the same.
  std::string read_nested(std::size_t which) {
    const std::string before = exported(*plain_);
    const Status status = logs_[which]->view([&](const StateView& view) -> Status {
      write(*logs_[below(logs_.size())], some_entries());
      SY_ASSIGN_OR_RETURN(const std::string found, plain_codec().export_canonical(view));
      EXPECT_EQ(found, before) << "a view is consistent";
      return Status();
    });
    EXPECT_TRUE(status.ok()) << status.to_string();
    return "a read beside a write";
  }

  std::mt19937_64 dice_;
  fs::path folder_;
  std::array<PointedRuntime, 2> runtimes_;
  std::array<std::unique_ptr<OpLog>, 2> logs_;
  std::unique_ptr<OpLog> plain_ = open_memory(real_runtime(), false, plain_codec());
  std::uint64_t saved_ = 0;
};

TEST(TailHistories, TwoWritersShowWhatAPlainLogDoes) {
  for (std::uint64_t seed = 1; seed <= kHistories; ++seed) {
    TailHistory history(seed);
    if (seed % 2 == 0) history.restore();
    std::string done;
    for (int i = 0; i < kSteps; ++i) {
      done += "\n  " + history.step();
      history.check();
      ASSERT_FALSE(::testing::Test::HasFailure()) << "seed " << seed << ":" << done;
    }
    history.verify();
    ASSERT_FALSE(::testing::Test::HasFailure()) << "seed " << seed;
  }
}

TEST(ReadRows, AreForgottenWhenTheyHaveBecomeMany) {
  sqlite::ReadRows rows;
  rows.add("absent", std::nullopt);
  ASSERT_NE(rows.find("absent"), nullptr);
  EXPECT_FALSE(rows.find("absent")->has_value());
  rows.add_range("a", "c", {{"b", "value"}});
  ASSERT_NE(rows.find_range("a", "c"), nullptr);
  EXPECT_EQ(rows.find_range("a", "c")->front().key, "b");
  EXPECT_EQ(rows.find_range("a", "d"), nullptr);
  EXPECT_EQ(rows.find_range("b", "c"), nullptr);
  rows.add("large by itself", std::string(200'000, 'x'));
  EXPECT_EQ(rows.find("large by itself"), nullptr);
  ASSERT_NE(rows.find("absent"), nullptr);
  for (int i = 0; i < 12; ++i) rows.add("part " + std::to_string(i), std::string(100'000, 'x'));
  EXPECT_EQ(rows.find("absent"), nullptr);
  EXPECT_EQ(rows.find("part 0"), nullptr);
  EXPECT_EQ(rows.find_range("a", "c"), nullptr);
  EXPECT_NE(rows.find("part 11"), nullptr);
}

}  // namespace
}  // namespace steelyard::oplog::testing
