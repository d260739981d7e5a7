// A client: one process with a store of its own, and the calls it makes.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "catalog/catalog.h"
#include "sim/workload/bench.h"
#include "store/group_observer.h"
#include "store/open_store.h"

namespace steelyard::sim {

/// Lives inside the fibres of its process.
class Client {
 public:
  /// `container`: of whose memory its hot tier is.
  Client(Bench& bench, Process& process, const Profile& profile, std::uint64_t seed, std::size_t container);
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
  /// `wait_ms`: drains.
  Status erase(const metadata::Identity& identity, std::optional<std::int64_t> wait_ms);
  /// The store's abort, which also takes the bytes away.
  void abort_whole(const metadata::Identity& identity);
  /// Ends what is DELETING, whatever it was; leases are waited for.
  void finish(const metadata::Identity& identity);
  Status reconcile();
  /// What one watch after the other was told, each perhaps in another process.
  struct Followed {
    std::optional<std::string> resource;  ///< absent: all
    std::optional<std::uint64_t> next;
    std::uint64_t changes = 0;
    std::uint64_t anew = 0;  ///< times that the log was trimmed too far
  };
  /// Until `stop`, which is set at the latest when the process dies.
  void follow(Followed& followed, const store::CancelFlag& stop);
  /// In peace.
  void follow_to_the_end(Followed& followed);
  void keep_reconciled(const store::CancelFlag& stop);
  Status gc(bool dry_run);
  /// `with_source`: from what it was imported from, where that is known. Not `wait`: only started.
  Status repair(const metadata::Identity& identity, bool with_source, bool wait);
  /// In peace: what is damaged of it, and not its manifest, is whole afterwards.
  void make_whole(const metadata::Identity& identity, std::int64_t patience_ms);
  /// Into memory or out of it. Not `wait`: only started, for whoever comes next.
  struct Course {
    bool evicts = false;
    std::optional<std::uint32_t> ratio_millionths = std::nullopt;
    bool wait = true;
    bool make_room = false;
  };
  Status move(const metadata::Identity& identity, const Course& course);
  /// Reads here and there in a file of it, for a while.
  void read_open(const metadata::Identity& identity, std::uint64_t reads);
  /// Cancels what runs on the revision, now and then twice.
  void cancel(const metadata::Identity& identity);
  /// Starts an operation past the store, and repeats its requests, as a client of the lifecycle's interface may.
  void operate_by_hand(const metadata::Identity& identity);
  void set_policy(const metadata::Identity& identity, const metadata::Policy& policy);
  void follow_policy(const metadata::Identity& identity);
  /// In peace: no operation is left on the revision.
  void settle(const metadata::Identity& identity, std::int64_t patience_ms);
  /// In peace: it can be brought into memory, read from there, and taken out of it again.
  void warm_and_cool(const metadata::Identity& identity);
  /// Publishes a revision step by step, and repeats its Commit.
  void publish_by_hand(const std::string& resource);

 private:
  bool alive() const { return process_.alive(); }
  Operation& start(const std::string& what);
  void end(const Operation& operation, const Status& status);
  enum class Kind : std::uint8_t { kReadable, kPublished, kImporting };
  std::optional<metadata::Identity> some_revision(Kind kind);
  bool follow_once(Followed& followed, std::int64_t wait_ms, const store::CancelFlag& stop);
  /// What this process' tiers have failed it so far.
  std::uint64_t faults() const;
  void clean_up();
  void move_something();
  /// Uses some revisions one after the other, and brings the last into a memory that is full.
  void press_for_room();
  /// Has a policy bring what is read, and asks for it again right after it was evicted.
  void ask_too_soon(const metadata::Identity& identity);
  void set_some_policy(const metadata::Identity& identity);
  void check_cat(const Operation& operation, const metadata::Identity& identity, const std::string& path, bool exact,
                 std::uint64_t first, std::uint64_t last, const std::string& bytes, const Status& status);
  void pause(std::int64_t ms_max);
  Result<metadata::GroupSummary> put_note(const metadata::RevisionRecord& record);
  void commit_and_repeat(const metadata::CommitWeightImport& command, std::size_t checkpoint);
  oplog::LogFaultPlan log_faults();
  std::unique_ptr<tiers::Tier> make_tier();
  Result<std::unique_ptr<tiers::Tier>> open_hot(bool create);
  bool has_hot() const { return !bench_.memories.empty(); }
  std::string own_instance() const;
  /// What of it lies in this container's memory.
  MemoryFindings look_here(const Revision& revision);
  void run_by_hand(const metadata::Identity& identity, const metadata::RunnerGrant& grant,
                   const metadata::RunnerToken& token);

  Bench& bench_;
  Process& process_;
  const Profile profile_;
  Random random_;
  const std::size_t container_;
  std::shared_ptr<tiers::FaultCounts> faults_ = std::make_shared<tiers::FaultCounts>();
  std::uint64_t faults_before_ = 0;  ///< the running call
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
