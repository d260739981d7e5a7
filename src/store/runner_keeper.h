// RunnerKeeper: renews an operation's runner token while it works, tells how far it is, and gives the token back when
// the runner ends before the operation does.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "catalog/catalog.h"
#include "store/stop_signal.h"

namespace steelyard::store {

/// Who is to run an operation: this process, with a fresh token.
metadata::RunnerGrant runner_grant(Runtime& runtime, std::int64_t ttl_ms);

/// An operation that was ended, as its record retains it; `now` may be later than the end. Without a trace there, when
/// enough later ones have ended: as it began, with its last state.
metadata::Operation ended_operation(const metadata::Operation& begun, metadata::OperationState state,
                                    const metadata::RevisionRecord& now);

/// What an operation keeps of an error's text.
std::string text_kept_of(const Status& status);

/// The verb that goes on with an operation of this kind.
std::string_view verb_of(metadata::OperationKind kind);

/// The whole command that goes on with the operation: `steelyard rehydrate m@main#1 --ratio 0.5`. `source`: that of a
/// repair; may be empty.
std::string command_of(const metadata::Operation& operation, const std::string& ref, const std::string& source);

struct Amount {
  std::uint64_t members = 0;
  std::uint64_t bytes = 0;
};

/// Reports progress every 2 seconds, or twice a second while each report is of a tenth of the whole at least; at a
/// quarter of the time to live in any case. Looks every 2 seconds whether the operation still runs: one that was
/// cancelled or taken over stops the work through `stop`.
class RunnerKeeper {
 public:
  /// `record` has the operation, of which `done` was done before this runner.
  RunnerKeeper(Runtime& runtime, catalog::Catalog& catalog, const metadata::RevisionRecord& record,
               metadata::RunnerToken token, Amount done, std::int64_t ttl_ms, StopSignal& stop);
  ~RunnerKeeper();  ///< stops; gives the token back unless the operation ended

  void add(std::uint64_t members, std::uint64_t bytes);
  Amount done() const { return {members_.load(), bytes_.load()}; }
  /// Shown by the operation while it runs: what it waits for, or why its last runner stopped.
  void set_message(std::string message);
  /// Ends the operation as DONE or FAILED, with what was seen of the revision where the rules want that.
  Result<metadata::RevisionRecord> end(metadata::OperationState state, std::string message,
                                       std::optional<metadata::Observation> seen = std::nullopt);

 private:
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
