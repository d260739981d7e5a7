// OperationRun: what all operations have in common. One is started, or taken over from a runner that is gone; its
// runner is kept alive while it works; its end is told. Whoever is asked for the same again goes on with it.
//
//   1. The record, and what is to be done (look).
//   2. Where nothing is to be done that is published, and there is no operation.
//   3. The operation is started with its totals and its runner, in one append.
//   4. The work (repair.cc, rehydrate.cc, evict.cc).
//   5. The operation ends: DONE, or FAILED where nobody could do better later. After any other error it stays RUNNING
//      without a runner.
//
// Killed anywhere, the operation stays RUNNING, and the same command, or a reconcile, takes it over.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "formats/stored_manifest.h"
#include "store/context.h"
#include "store/runner_keeper.h"
#include "store/stop_signal.h"

namespace steelyard::store {

class OperationRun {
 public:
  OperationRun(const OperationRun&) = delete;
  OperationRun& operator=(const OperationRun&) = delete;
  virtual ~OperationRun() = default;

 protected:
  /// What a verb was asked for.
  struct Asked {
    metadata::OperationKind kind = metadata::OperationKind::kNone;
    metadata::Residency target = metadata::Residency::kCold;
    std::optional<std::uint32_t> ratio_millionths;
    Selector selector;
    std::optional<std::uint64_t> expected_generation;  ///< absent: whatever the record has
    bool wait = true;                                  ///< false: the operation is started and left for others to run
    bool wait_for_others = false;                      ///< for another process that carries out the same operation
  };
  OperationRun(Context& context, Asked asked, Observer& observer, const CancelFlag& cancel)
      : context_(context), asked_(std::move(asked)), observer_(observer), stop_(cancel) {}

  /// What the verb does; record_ and operation_ are the answer. BUSY while another operation runs. A record that moved
  /// between being read and the start, without the caller's fence, is read again.
  Status run();

  /// Finds out what is to be done.
  virtual Status look() = 0;
  /// Whether that is nothing; it may publish what was seen and read the record again to find out.
  virtual Result<bool> is_done() = 0;
  /// An error where what is to be done cannot be begun.
  virtual Status check_room() { return {}; }
  virtual metadata::RunnerGrant grant() const;
  /// Of an operation that is started: its totals, and the plan that they follow from.
  virtual void describe(metadata::StartOperation& command) const = 0;
  /// What this runner has to do of the operation's totals.
  virtual Amount left() const = 0;
  virtual Status work(RunnerKeeper& keeper) = 0;
  /// After the work: what no later runner would do better.
  virtual bool can_never_go_on(const Status& why) const = 0;
  /// Ends as FAILED what can never go on.
  virtual Status fail(RunnerKeeper& keeper, const Status& why) = 0;
  /// Takes back what would be of no use to whoever comes next: the revision is deleted.
  virtual void clear_up() {}
  /// Of the end of what is DONE.
  virtual std::string done_message() const = 0;
  virtual Result<metadata::RevisionRecord> end_as_done(RunnerKeeper& keeper) { return keeper.end(done_message()); }
  virtual const char* noun() const = 0;  ///< "the repair"
  /// What the verb needs beside command_of() to go on with the operation, with a space before it.
  virtual std::string arguments() const { return {}; }
  /// Fault points.
  virtual void after_start() = 0;
  virtual void after_end() = 0;

  std::string ref() const;
  std::string same_command() const;
  /// Whether the operation that runs is the one that was asked for.
  bool is_own() const;
  /// What the log would say to the start, or the taking over, while the record has an operation; for a look that takes
  /// long.
  Status check_free() const;
  /// Fills manifest_. Where it is damaged nothing can be done for the revision, and an operation that is under way to
  /// the same end has FAILED.
  Status load();

  Context& context_;
  const Asked asked_;
  Observer& observer_;
  StopSignal stop_;
  metadata::RevisionRecord record_;
  std::optional<metadata::Operation> operation_;  ///< the last one; absent: there was nothing to do
  formats::StoredManifest manifest_;
  std::string instance_;         ///< of a move: the memory instance to work in
  metadata::RunnerToken token_;  ///< this run's; empty where it runs nothing
  std::string known_source_;     ///< the operation's: this run's, or that of a runner before it
  bool moved_ = false;           ///< the record is another by now, so what stood in the way may do so no more

 private:
  Status run_on_record();
  Status wait_for(const std::string& operation_id);
  bool is_answered_by(const metadata::Operation& awaited) const;
  Status answer_of(const metadata::Operation& awaited);
  const metadata::Operation* done_before() const;
  Status check_expected() const;
  Status start();
  metadata::StartOperation start_command() const;
  Status take();
  metadata::TakeOperation take_command() const;
  Status begun(const metadata::Answer& answer);
  Status remember(const metadata::RevisionRecord& record);
  RunnerKeeper keeper(Amount done);
  Status carry_out();
  bool is_as_done(const metadata::Operation& ended, const metadata::RevisionRecord& record) const;
  Status was_cancelled(const metadata::Operation& ended, std::string_view what) const;
  Status stopped(RunnerKeeper& keeper, Status why);

  bool said_that_it_waits_ = false;
};

}  // namespace steelyard::store
