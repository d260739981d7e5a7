// RunnerKeeper: renews an operation's runner token while it works, tells how far it is, and gives the token back when
// the runner ends before the operation does.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "catalog/catalog.h"
#include "store/stop_signal.h"

namespace steelyard::store {

/// Who is to run an operation: this process, with a fresh token.
metadata::RunnerGrant runner_grant(Runtime& runtime, std::int64_t ttl_ms);

struct Amount {
  std::uint64_t members = 0;
  std::uint64_t bytes = 0;
};

/// Reports progress every 2 seconds, or twice a second while each report is of a tenth of the whole at least; at a
/// quarter of the time to live in any case. Looks five times a second whether the operation still runs: one that was
/// cancelled or taken over stops the work through `stop`.
class RunnerKeeper {
 public:
  /// `record` has the operation, of which `done` was done before this runner.
  RunnerKeeper(Runtime& runtime, catalog::Catalog& catalog, const metadata::RevisionRecord& record,
               metadata::RunnerToken token, Amount done, std::int64_t ttl_ms, StopSignal& stop);
  ~RunnerKeeper();  ///< stops; gives the token back unless the operation ended

  /// What is left to do, by a newer look than the one that `done` was of.
  void set_left(Amount left);
  void add(std::uint64_t members, std::uint64_t bytes);
  Amount done() const { return {members_.load(), bytes_.load()}; }
  /// Shown by the operation while it runs: what it waits for, or why its last runner stopped.
  void set_message(std::string message);
  /// Ends the operation as DONE, with what was seen of the revision where the rules want that.
  Result<metadata::RevisionRecord> end(std::string message, std::optional<metadata::Observation> seen = std::nullopt);
  /// Ends it as FAILED, with the code of `why`.
  Result<metadata::RevisionRecord> fail(const Status& why, std::string message,
                                        std::optional<metadata::Observation> seen = std::nullopt);

 private:
  Result<metadata::RevisionRecord> end_as(metadata::EndOperation command, std::string message,
                                          std::optional<metadata::Observation> seen);
  bool is_runner();
  void renew_until_ended();
  metadata::ReportOperation report() const;

  Runtime& runtime_;
  catalog::Catalog& catalog_;
  const metadata::Identity identity_;
  const metadata::RunnerToken token_;
  const Amount total_;
  const std::int64_t ttl_ms_;
  StopSignal& stop_;
  bool give_back_ = true;
  mutable std::mutex mutex_;
  std::string message_;  ///< guarded by mutex_
  std::atomic<std::uint64_t> members_;
  std::atomic<std::uint64_t> bytes_;
  std::unique_ptr<Event> ended_;
  std::unique_ptr<Task> task_;
};

}  // namespace steelyard::store
