// How fast the log is beside bare SQLite, and how fair its turns are.
//
//   oplog_bench FOLDER [PROCESSES]
//
// Writes of one log row and three state rows, against bare `BEGIN IMMEDIATE; INSERT; COMMIT` of the same bytes in a
// table of their own, interleaved, median of 7 rounds; opening and reading one row; then PROCESSES writers at once (16)
// for 3 s.
#include <fcntl.h>
#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <numeric>

#include "oplog/open.h"

namespace steelyard::oplog {
namespace {

constexpr int kRounds = 7;
constexpr int kWritesPerRound = 400;
constexpr std::size_t kValueBytes = 700;

/// Entries are "KEY VALUE"; no checks, no snapshots: this measures the log alone.
class BenchCodec final : public StateCodec {
 public:
  Result<std::vector<metadata::RowChange>> changes_of(const metadata::Entry& entry) const override {
    const auto space = entry.bytes.find(' ');
    return std::vector<metadata::RowChange>{{entry.bytes.substr(0, space), entry.bytes.substr(space + 1)}};
  }
  Result<std::vector<metadata::RowChange>> check_entries(const metadata::StateView&, std::uint64_t,
                                                         const std::vector<metadata::Entry>&) const override {
    return std::vector<metadata::RowChange>();
  }
  Result<std::string> export_canonical(const metadata::StateView&) const override { return std::string(); }
  std::string section_name() const override { return "bench"; }
  Result<std::string> save_section(const metadata::StateView&) const override { return std::string(); }
  Result<std::shared_ptr<const metadata::SortedRows>> load_section(std::string_view, std::uint64_t) const override {
    return std::make_shared<const metadata::SortedRows>();
  }
};

const BenchCodec& codec() {
  static const BenchCodec instance;
  return instance;
}

std::vector<Entry> entries_for(std::uint64_t number) {
  std::vector<Entry> entries;
  for (const char* table : {"r/", "w/", "i/"}) {
    const std::size_t bytes = table[0] == 'r' ? kValueBytes : 60;
    entries.push_back(Entry{table + std::to_string(number % 1000) + " " + std::string(bytes, 'v')});
  }
  return entries;
}

double seconds_since(std::int64_t start_ns) { return static_cast<double>(real_runtime().mono_ns() - start_ns) / 1e9; }

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

std::unique_ptr<OpLog> open_log(const std::string& path) {
  auto log = open_sqlite(real_runtime(), SqliteOptions{path, "bench", true, false}, codec());
  SY_CHECK(log.ok(), log.status().to_string());
  return std::move(*log);
}

double log_rate(OpLog& log) {
  const std::int64_t start = real_runtime().mono_ns();
  for (std::uint64_t i = 0; i < kWritesPerRound; ++i) {
    const auto written =
        log.write([&](const StateView&, const Now&) -> Result<std::vector<Entry>> { return entries_for(i); });
    SY_CHECK(written.ok(), written.status().to_string());
  }
  return kWritesPerRound / seconds_since(start);
}

double bare_rate(sqlite3* db) {
  const std::string payload(kValueBytes + 220, 'v');
  sqlite3_stmt* begin = nullptr;
  sqlite3_stmt* insert = nullptr;
  sqlite3_stmt* commit = nullptr;
  sqlite3_prepare_v2(db, "BEGIN IMMEDIATE", -1, &begin, nullptr);
  sqlite3_prepare_v2(db, "INSERT INTO bare(payload) VALUES(?)", -1, &insert, nullptr);
  sqlite3_prepare_v2(db, "COMMIT", -1, &commit, nullptr);
  const std::int64_t start = real_runtime().mono_ns();
  for (int i = 0; i < kWritesPerRound; ++i) {
    sqlite3_bind_blob(insert, 1, payload.data(), static_cast<int>(payload.size()), SQLITE_STATIC);
    for (sqlite3_stmt* statement : {begin, insert, commit}) {
      SY_CHECK(sqlite3_step(statement) == SQLITE_DONE, sqlite3_errmsg(db));
      sqlite3_reset(statement);
    }
  }
  const double rate = kWritesPerRound / seconds_since(start);
  for (sqlite3_stmt* statement : {begin, insert, commit}) sqlite3_finalize(statement);
  return rate;
}

void measure_writes(const std::string& folder) {
  const auto log = open_log(folder + "/catalog.db");
  sqlite3* db = nullptr;
  sqlite3_open((folder + "/bare.db").c_str(), &db);
  sqlite3_exec(db,
               "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; CREATE TABLE bare(id INTEGER PRIMARY KEY, payload)",
               nullptr, nullptr, nullptr);
  std::vector<double> ours;
  std::vector<double> bare;
  for (int round = 0; round < kRounds; ++round) {
    ours.push_back(log_rate(*log));
    bare.push_back(bare_rate(db));
  }
  sqlite3_close(db);
  std::printf("write: %.0f/s, bare SQLite: %.0f/s, ratio %.2f (bare spread %.0f..%.0f)\n", median(ours), median(bare),
              median(ours) / median(bare), *std::min_element(bare.begin(), bare.end()),
              *std::max_element(bare.begin(), bare.end()));
}

void measure_open(const std::string& folder) {
  std::vector<double> times;
  for (int round = 0; round < 101; ++round) {
    const std::int64_t start = real_runtime().mono_ns();
    const auto log = open_log(folder + "/catalog.db");
    const Status status = log->view([](const StateView& view) { return view.get("r/7").status(); });
    SY_CHECK(status.ok(), status.to_string());
    times.push_back(seconds_since(start));
  }
  std::printf("open and read one row: %.3f ms\n", median(times) * 1e3);
}

void measure_turns(const std::string& folder, int processes) {
  std::vector<std::pair<pid_t, int>> children;
  const std::int64_t end = real_runtime().mono_ms() + 3'500;
  for (int p = 0; p < processes; ++p) {
    int ends[2];
    SY_CHECK(pipe(ends) == 0, "pipe");
    const pid_t child = fork();
    if (child == 0) {
      const auto log = open_log(folder + "/catalog.db");
      std::uint64_t writes = 0;
      real_runtime().sleep_ms(end - 3'000 - real_runtime().mono_ms());
      while (real_runtime().mono_ms() < end) {
        const auto written =
            log->write([&](const StateView&, const Now&) -> Result<std::vector<Entry>> { return entries_for(writes); });
        if (written.ok()) ++writes;
      }
      if (::write(ends[1], &writes, sizeof writes) != sizeof writes) _exit(1);
      _exit(0);
    }
    close(ends[1]);
    children.emplace_back(child, ends[0]);
  }
  std::vector<double> counts;
  for (const auto& [child, fd] : children) {
    std::uint64_t writes = 0;
    if (::read(fd, &writes, sizeof writes) == sizeof writes) counts.push_back(static_cast<double>(writes));
    waitpid(child, nullptr, 0);
    close(fd);
  }
  const double total = std::accumulate(counts.begin(), counts.end(), 0.0);
  const double mean = total / static_cast<double>(counts.size());
  std::printf("%d processes: %.0f writes/s, slowest / mean %.2f\n", processes, total / 3,
              *std::min_element(counts.begin(), counts.end()) / mean);
}

int run(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: oplog_bench FOLDER [PROCESSES]\n");
    return 2;
  }
  const std::string folder = argv[1];
  std::filesystem::create_directories(folder);
  measure_writes(folder);
  measure_open(folder);
  measure_turns(folder, argc > 2 ? std::atoi(argv[2]) : 16);
  return 0;
}

}  // namespace
}  // namespace steelyard::oplog

int main(int argc, char** argv) { return steelyard::oplog::run(argc, argv); }
