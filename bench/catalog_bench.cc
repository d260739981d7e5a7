// Begin and Commit of an import through the catalog, against bare SQLite transactions of the same bytes.
//
//   catalog_bench FOLDER
//
// A pair is two durable appends. The peer writes the bytes of those appends, once for the log row and once for the
// state rows, in bare `BEGIN IMMEDIATE; INSERT; COMMIT` of a table of its own. Interleaved rounds, medians.
#include <sqlite3.h>

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <string>
#include <vector>

#include "base/runtime.h"
#include "catalog/catalog.h"
#include "formats/identity.h"
#include "oplog/open.h"

namespace steelyard {
namespace {

constexpr int kRounds = 7;
constexpr int kPairsPerRound = 200;

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

void pair(catalog::Catalog& catalog, AgreeingObserver& observer, int number) {
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
}

/// Bytes of the entries of an append, on average.
std::size_t bytes_per_append(oplog::OpLog& log) {
  const auto appends = log.read(0, 1000);
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

int run(const std::string& folder) {
  auto log = oplog::open_sqlite(real_runtime(), {folder + "/catalog.db", std::string(32, 'b'), true, false});
  SY_CHECK(log.ok(), log.status().to_string());
  AgreeingObserver observer;
  catalog::Catalog catalog(real_runtime(), **log, observer, {});

  sqlite3* db = nullptr;
  SY_CHECK(sqlite3_open((folder + "/bare.db").c_str(), &db) == SQLITE_OK, "open bare.db");
  sqlite3_exec(db,
               "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; CREATE TABLE bare(id INTEGER PRIMARY KEY, payload)",
               nullptr, nullptr, nullptr);
  int number = 0;
  pair(catalog, observer, number++);
  const std::size_t bytes = 2 * bytes_per_append(**log);

  std::vector<double> pairs;
  std::vector<double> bare;
  for (int round = 0; round < kRounds; ++round) {
    const std::int64_t start = real_runtime().mono_ns();
    for (int i = 0; i < kPairsPerRound; ++i) pair(catalog, observer, number++);
    pairs.push_back(kPairsPerRound / seconds_since(start));
    bare.push_back(bare_rate(db, bytes, 2 * kPairsPerRound));
  }
  sqlite3_close(db);
  std::printf("pairs: %.0f/s, bare SQLite: %.0f/s of %zu bytes, ratio %.3f (bare spread %.0f..%.0f)\n", median(pairs),
              median(bare), bytes, median(pairs) / median(bare), *std::min_element(bare.begin(), bare.end()),
              *std::max_element(bare.begin(), bare.end()));
  return 0;
}

}  // namespace
}  // namespace steelyard

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: catalog_bench FOLDER\n");
    return 2;
  }
  return steelyard::run(argv[1]);
}
