// A client: one process with a store of its own, and the calls it makes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "catalog/catalog.h"
#include "sim/workload/bench.h"
#include "store/group_observer.h"
#include "store/open_store.h"

namespace steelyard::sim {

/// Lives inside the fibres of its process.
class Client {
 public:
  Client(Bench& bench, Process& process, const Profile& profile, std::uint64_t seed);
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  /// Makes random calls until they are `calls`, or the process is dead.
  void play(std::uint64_t calls);

  // Each call judges its answer, and repeats where a person would.
  Status import(const std::string& resource, std::optional<std::int64_t> generation, std::size_t checkpoint,
                bool source_changes, std::int64_t wait_ms);
  void list(bool all);
  void inspect(const metadata::Identity& identity);
  Status verify(const metadata::Identity& identity);
  /// `exact`: names the generation, rather than leaving it to the store.
  Status cat(const metadata::Identity& identity, const std::string& path, bool exact);
  void lease(const metadata::Identity& identity);
  /// Begins an import without a source, renews it, and gives it back or aborts it.
  void begin_only(const std::string& resource);
  void abort(const metadata::Identity& identity);
  /// Publishes a revision step by step, and repeats its Commit.
  void publish_by_hand(const std::string& resource);

 private:
  bool alive() const { return process_.alive(); }
  Operation& start(const std::string& what);
  void end(const Operation& operation, const Status& status);
  std::optional<metadata::Identity> some_revision(bool published);
  void check_cat(const Operation& operation, const metadata::Identity& identity, const std::string& path, bool exact,
                 std::uint64_t first, std::uint64_t last, const std::string& bytes, const Status& status);
  void pause(std::int64_t ms_max);
  Result<metadata::GroupSummary> put_note(const metadata::RevisionRecord& record);
  void commit_and_repeat(const metadata::CommitWeightImport& command, std::size_t checkpoint);
  oplog::LogFaultPlan log_faults();
  std::unique_ptr<tiers::Tier> make_tier();

  Bench& bench_;
  Process& process_;
  const Profile profile_;
  Random random_;
  std::unique_ptr<oplog::OpLog> log_;
  std::shared_ptr<tiers::Tier> disk_;
  store::StoreOptions options_;
  std::unique_ptr<store::Store> store_;
  // The catalog by itself, for the calls that no verb of the store makes.
  std::unique_ptr<tiers::Tier> tier_;
  oplog::FaultInjectingLog catalog_log_;
  store::TierObserver observer_;
  catalog::Catalog catalog_;
};

}  // namespace steelyard::sim
