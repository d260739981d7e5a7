// Pairs of mutations through the catalog, against bare SQLite transactions of the same bytes: Begin and Commit of an
// import, or acquire and release of a lease.
//
//   catalog_bench FOLDER imports
//   catalog_bench FOLDER leases
//
// A pair is two durable appends. For leases, then 16 processes at once for 3 s, of one revision. The peer writes the
// bytes of those appends, once for the log row and once for the state rows, in bare `BEGIN IMMEDIATE; INSERT; COMMIT`
// of a table of its own. Interleaved rounds, medians.
#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/runtime.h"
#include "catalog/catalog.h"
#include "formats/identity.h"
#include "oplog/open.h"

namespace steelyard {
namespace {

constexpr int kRounds = 21;
constexpr int kPairsPerRound = 200;
constexpr int kProcesses = 16;
constexpr std::int64_t kTogetherMs = 3'000;

/// Finds exactly what Commit promises: the payload is not what is measured here.
class AgreeingObserver final : public catalog::GroupObserver {
 public:
  metadata::GroupSummary summary;
  Result<catalog::GroupObservation> observe(const metadata::Identity& /*identity*/,
                                            std::uint32_t /*attempt*/) override {
    catalog::GroupObservation seen;
    seen.payload_count = summary.payload_count;
    seen.logical_bytes = summary.logical_bytes;
    seen.payload_keys_sha256 = summary.payload_keys_sha256;
    seen.manifests = 1;
    seen.manifest_sha256 = summary.manifest_sha256;
    seen.flushed = true;
    return seen;
  }
};

double seconds_since(std::int64_t start_ns) { return static_cast<double>(real_runtime().mono_ns() - start_ns) / 1e9; }

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

metadata::Identity import_pair(catalog::Catalog& catalog, AgreeingObserver& observer, int number) {
  Runtime& runtime = real_runtime();
  metadata::BeginWeightImport begin;
  begin.lineage = {"default", "default", "organisation/model-" + std::to_string(number), "main"};
  begin.token = runtime.random_hex(16);
  begin.holder = "bench";
  begin.process = runtime.self();
  begin.ttl_ms = 60'000;
  const auto begun = catalog.begin_weight_import(begin);
  SY_CHECK(begun.ok(), begun.status().to_string());
  const metadata::RevisionRecord& record = *begun->record;

  observer.summary.payload_count = 42;
  observer.summary.logical_bytes = 1U << 31;
  observer.summary.manifest_sha256 = std::string(64, 'a');
  observer.summary.payload_keys_sha256 = formats::payload_keys_sha256(record.identity, 42);
  metadata::CommitWeightImport commit;
  commit.identity = record.identity;
  commit.token = begin.token;
  commit.import_attempt = record.import_attempt;
  commit.expected_metadata_generation = record.metadata_generation;
  commit.summary = observer.summary;
  const auto committed = catalog.commit_weight_import(commit);
  SY_CHECK(committed.ok(), committed.status().to_string());
  return record.identity;
}

void lease_pair(catalog::Catalog& catalog, const metadata::Identity& identity) {
  metadata::AcquireLease acquire;
  acquire.identity = identity;
  acquire.holder = "bench";
  acquire.nonce = real_runtime().random_hex(16);
  acquire.ttl_ms = 30'000;
  acquire.process = real_runtime().self();
  const auto acquired = catalog.acquire_lease(acquire);
  SY_CHECK(acquired.ok(), acquired.status().to_string());
  const Status released = catalog.release_lease({acquired->lease->lease_id});
  SY_CHECK(released.ok(), released.to_string());
}

/// Bytes of the entries of an append after that one, on average.
std::size_t bytes_per_append(oplog::OpLog& log, std::uint64_t after) {
  const auto appends = log.read(after, 1000);
  SY_CHECK(appends.ok() && !appends->empty(), "the log has appends");
  std::size_t bytes = 0;
  for (const oplog::Append& append : *appends) {
    for (const oplog::Entry& entry : append.entries) bytes += entry.bytes.size();
  }
  return bytes / appends->size();
}

double bare_rate(sqlite3* db, std::size_t bytes, int transactions) {
  const std::string payload(bytes, 'v');
  sqlite3_stmt* statements[3] = {};
  const char* texts[] = {"BEGIN IMMEDIATE", "INSERT INTO bare(payload) VALUES(?)", "COMMIT"};
  for (int i = 0; i < 3; ++i) sqlite3_prepare_v2(db, texts[i], -1, &statements[i], nullptr);
  const std::int64_t start = real_runtime().mono_ns();
  for (int i = 0; i < transactions; ++i) {
    sqlite3_bind_blob(statements[1], 1, payload.data(), static_cast<int>(payload.size()), SQLITE_STATIC);
    for (sqlite3_stmt* statement : statements) {
      SY_CHECK(sqlite3_step(statement) == SQLITE_DONE, sqlite3_errmsg(db));
      sqlite3_reset(statement);
    }
  }
  const double rate = transactions / seconds_since(start);
  for (sqlite3_stmt* statement : statements) sqlite3_finalize(statement);
  return rate;
}

std::unique_ptr<oplog::OpLog> open_log(const std::string& folder) {
  auto log = oplog::open_sqlite(real_runtime(), {folder + "/catalog.db", std::string(32, 'b'), true, false});
  SY_CHECK(log.ok(), log.status().to_string());
  return *std::move(log);
}

/// Each has a catalog of its own, and counts its pairs.
void measure_together(const std::string& folder, const metadata::Identity& identity) {
  Runtime& runtime = real_runtime();
  const std::int64_t begin = runtime.mono_ms() + 500;
  std::vector<std::pair<pid_t, int>> children;
  for (int p = 0; p < kProcesses; ++p) {
    int ends[2];
    SY_CHECK(pipe(ends) == 0, "pipe");
    const pid_t child = fork();
    if (child == 0) {
      const auto log = open_log(folder);
      AgreeingObserver observer;
      catalog::Catalog catalog(runtime, *log, observer, {});
      std::uint64_t pairs = 0;
      runtime.sleep_ms(begin - runtime.mono_ms());
      for (; runtime.mono_ms() < begin + kTogetherMs; ++pairs) lease_pair(catalog, identity);
      _exit(::write(ends[1], &pairs, sizeof pairs) == sizeof pairs ? 0 : 1);
    }
    close(ends[1]);
    children.emplace_back(child, ends[0]);
  }
  std::vector<double> counts;
  for (const auto& [child, fd] : children) {
    std::uint64_t pairs = 0;
    const bool told = ::read(fd, &pairs, sizeof pairs) == sizeof pairs;
    waitpid(child, nullptr, 0);
    close(fd);
    SY_CHECK(told, "every process counts its pairs");
    counts.push_back(static_cast<double>(pairs));
  }
  const double total = std::accumulate(counts.begin(), counts.end(), 0.0);
  std::printf("%d processes: %.0f pairs/s, slowest / mean %.2f\n", kProcesses, total * 1000 / kTogetherMs,
              *std::min_element(counts.begin(), counts.end()) * kProcesses / total);
}

/// The first call of `pair` shows how many bytes an append has.
void measure_pairs(oplog::OpLog& log, const std::string& folder, std::uint64_t after,
                   const std::function<void()>& pair) {
  sqlite3* db = nullptr;
  SY_CHECK(sqlite3_open((folder + "/bare.db").c_str(), &db) == SQLITE_OK, "open bare.db");
  sqlite3_exec(db,
               "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; CREATE TABLE bare(id INTEGER PRIMARY KEY, payload)",
               nullptr, nullptr, nullptr);
  pair();
  const std::size_t bytes = 2 * bytes_per_append(log, after);

  std::vector<double> pairs;
  std::vector<double> bare;
  std::vector<double> ratios;
  for (int round = 0; round < kRounds; ++round) {
    const std::int64_t start = real_runtime().mono_ns();
    for (int i = 0; i < kPairsPerRound; ++i) pair();
    pairs.push_back(kPairsPerRound / seconds_since(start));
    bare.push_back(bare_rate(db, bytes, 2 * kPairsPerRound));
    ratios.push_back(pairs.back() / bare.back());
  }
  sqlite3_close(db);
  std::printf("pairs: %.0f/s, bare SQLite: %.0f/s of %zu bytes, ratio %.3f (bare spread %.0f..%.0f)\n", median(pairs),
              median(bare), bytes, median(ratios), *std::min_element(bare.begin(), bare.end()),
              *std::max_element(bare.begin(), bare.end()));
  std::fflush(stdout);
}

int run(const std::string& folder, bool leases) {
  std::optional<metadata::Identity> published;
  {
    const auto log = open_log(folder);
    AgreeingObserver observer;
    catalog::Catalog catalog(real_runtime(), *log, observer, {});
    int number = 0;
    if (!leases) {
      measure_pairs(*log, folder, 0, [&] { import_pair(catalog, observer, number++); });
      return 0;
    }
    published = import_pair(catalog, observer, number);
    const auto before = log->read(0, 1000);
    SY_CHECK(before.ok() && !before->empty(), "an import is in the log");
    measure_pairs(*log, folder, before->back().sequence, [&] { lease_pair(catalog, *published); });
  }
  measure_together(folder, *published);
  return 0;
}

}  // namespace
}  // namespace steelyard

int main(int argc, char** argv) {
  const std::string_view what = argc == 3 ? argv[2] : "";
  if (what != "imports" && what != "leases") {
    std::fprintf(stderr, "usage: catalog_bench FOLDER imports|leases\n");
    return 2;
  }
  return steelyard::run(argv[1], what == "leases");
}
