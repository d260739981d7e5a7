// A catalog of many revisions in SQLite, in process: what reads cost, and what grows with the number of revisions.
//
//   reads_bench make FOLDER REVISIONS
//   reads_bench FOLDER REVISIONS
//
// The first makes the state by the rules and restores it from a snapshot; the second, a process of its own for the sake
// of its peak, measures. Every read looks first whether another process has
// written. One thread. Best of rounds for reads, once for what goes through all revisions.
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

#include "base/runtime.h"
#include "catalog/catalog.h"
#include "metadata/made_history.h"
#include "oplog/open.h"

namespace steelyard {
namespace {

constexpr int kRounds = 9;
constexpr std::uint64_t kGets = 20'000;
constexpr std::size_t kPage = 1'000;

class NoObserver final : public catalog::GroupObserver {
 public:
  Result<catalog::GroupObservation> observe(const metadata::Identity& /*identity*/,
                                            std::uint32_t /*attempt*/) override {
    return Status(Code::kUnavailable, "nothing is imported here");
  }
};

template <typename Body>
double seconds(const Body& body) {
  const std::int64_t begun = real_runtime().mono_ns();
  body();
  return static_cast<double>(real_runtime().mono_ns() - begun) / 1e9;
}

template <typename Body>
double best_seconds(const Body& body) {
  double best = 1e9;
  for (int round = 0; round < kRounds; ++round) best = std::min(best, seconds(body));
  return best;
}

long peak_mib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss / 1024;
}

std::unique_ptr<oplog::OpLog> open_log(const std::string& folder, bool create) {
  auto log = oplog::open_sqlite(real_runtime(), {folder + "/catalog.db", std::string(32, 'b'), create, false});
  SY_CHECK(log.ok(), log.status().to_string());
  return *std::move(log);
}

void restore(const std::string& folder, std::uint64_t revisions) {
  metadata::MadeHistory history;
  for (std::uint64_t i = 0; i < revisions; ++i) history.publish(i);
  oplog::Snapshot snapshot{history.state.sequence(), {}};
  snapshot.sections.emplace(metadata::kSnapshotSection, metadata::save_section(history.state).value());
  const Status restored = open_log(folder, true)->restore(snapshot);
  SY_CHECK(restored.ok(), restored.to_string());
}

int measure(const std::string& folder, std::uint64_t revisions) {
  const auto log = open_log(folder, false);
  NoObserver observer;
  catalog::Catalog catalog(real_runtime(), *log, observer, {});

  const auto gets = [&](std::uint64_t step) {
    std::uint64_t number = revisions / 2;
    return static_cast<double>(kGets) / best_seconds([&] {
             for (std::uint64_t i = 0; i < kGets; ++i) {
               number = (number + step) % revisions;
               const auto record = catalog.get_weight_revision(metadata::MadeHistory::identity_of(number));
               SY_CHECK(record.ok(), record.status().to_string());
             }
           });
  };
  std::printf("get of one: %.0f/s, here and there: %.0f/s\n", gets(0), gets(7919));

  metadata::ListQuery query;
  query.tenant_id = "default";
  query.namespace_id = "production";
  query.limit = kPage;
  const auto page = [&] {
    auto listed = catalog.list_weight_revisions(query);
    SY_CHECK(listed.ok(), listed.status().to_string());
    return *std::move(listed);
  };
  std::printf("page of %zu: %.2f ms\n", kPage, best_seconds([&] { page(); }) * 1e3);
  std::size_t listed = 0;
  const double all = seconds([&] {
    do {
      metadata::ListPage some = page();
      listed += some.records.size();
      query.page_token = std::move(some.next_page_token);
    } while (!query.page_token.empty());
  });
  SY_CHECK(listed == revisions, "every revision is listed once");
  std::printf("all pages: %.3f s\n", all);
  std::printf("peak of readers: %ld MiB\n", peak_mib());

  const double saved = seconds([&] {
    const auto begun = catalog.begin_weight_import([] {
      metadata::BeginWeightImport begin;
      begin.lineage = {"default", "production", "one-more", "main"};
      begin.token = real_runtime().random_hex(16);
      begin.holder = "bench";
      begin.process = real_runtime().self();
      begin.ttl_ms = 60'000;
      return begin;
    }());
    SY_CHECK(begun.ok(), begun.status().to_string());
    const Status status = catalog.save_snapshot();
    SY_CHECK(status.ok(), status.to_string());
  });
  std::printf("a snapshot: %.3f s, peak %ld MiB\n", saved, peak_mib());
  return 0;
}

}  // namespace
}  // namespace steelyard

int main(int argc, char** argv) {
  const bool making = argc == 4 && std::string_view(argv[1]) == "make";
  if (argc != 3 && !making) {
    std::fprintf(stderr, "usage: reads_bench [make] FOLDER REVISIONS\n");
    return 2;
  }
  const std::uint64_t revisions = std::strtoull(argv[argc - 1], nullptr, 10);
  if (making) {
    steelyard::restore(argv[2], revisions);
    return 0;
  }
  return steelyard::measure(argv[1], revisions);
}
