// A log that fails as logs fail: a decorator over another one, for tests and simulation.
//
// Fault model. Each call of write() meets at most one fault, chosen by the script if it has a line left, else drawn
// from the seed at the plan's rates:
//   * before: the append certainly did not happen; DURABILITY_FAILED.
//   * lost answer: the append happened and its answer was lost. As a real log does, this one then reads itself again:
//     the caller sees the truth (OK); if that read fails as well, UNKNOWN_OUTCOME.
//   * lost request: the append did not happen and neither did an answer come. Read again, the truth is
//     DURABILITY_FAILED; if that read fails as well, UNKNOWN_OUTCOME.
//   * crash before, crash after: `on_crash` is called with the place, where a simulation ends the process. If it
//   returns
//     the call goes on.
// Reads (view, read, watch, newest_snapshot, length) may be UNAVAILABLE. Every call may be late by a drawn latency.
// What the inner log acknowledged is never changed, torn or forgotten: that is the model of the storage under a log,
// and belongs to the crash tests of the real one.
#pragma once

#include <deque>
#include <functional>
#include <mutex>
#include <string_view>

#include "oplog/op_log.h"

namespace steelyard::oplog {

enum class LogFault : std::uint8_t {
  kNone,
  kBefore,
  kLostAnswer,
  kLostAnswerUnreadable,
  kLostRequest,
  kLostRequestUnreadable,
  kCrashBefore,
  kCrashAfter,
};

/// Rates are per mille of calls.
struct LogFaultPlan {
  std::uint64_t seed = 0;
  std::uint32_t before = 0;
  std::uint32_t lost_answer = 0;
  std::uint32_t lost_request = 0;
  std::uint32_t unreadable_after_loss = 0;  ///< of the lost ones: the second read fails too
  std::uint32_t crash = 0;
  std::uint32_t read_unavailable = 0;
  std::int64_t latency_ms_max = 0;                       ///< each call sleeps 0..this, drawn
  std::function<void(std::string_view place)> on_crash;  ///< "log.crash_before", "log.crash_after"
};

/// Thread-safe as the log within. Deterministic for calls in one order.
class FaultInjectingLog final : public OpLog {
 public:
  /// `inner` must outlive this.
  FaultInjectingLog(Runtime& runtime, OpLog& inner, LogFaultPlan plan)
      : runtime_(runtime), inner_(inner), plan_(std::move(plan)), random_(plan_.seed) {}

  /// The next writes meet these faults, in this order, before any is drawn.
  void script(std::deque<LogFault> faults);
  /// Every read is UNAVAILABLE while this is on.
  void set_reads_unavailable(bool on);

  Result<std::uint64_t> write(const Prepare& prepare) override;
  Status view(const std::function<Status(const StateView& view)>& read) override;
  Result<std::vector<Append>> read(std::uint64_t after, std::size_t limit) override;
  Result<bool> watch(std::uint64_t after, std::int64_t deadline_mono_ms, const std::atomic<bool>* cancel) override;
  Result<std::uint64_t> save_snapshot() override;
  Result<std::string> newest_snapshot() override;
  Status trim(std::uint64_t sequence) override;
  Result<std::uint64_t> length() override;
  Status restore(const Snapshot& snapshot) override;
  Capabilities capabilities() const override { return inner_.capabilities(); }

 private:
  std::uint64_t draw(std::uint64_t below);
  bool chance(std::uint32_t per_mille) { return per_mille > 0 && draw(1000) < per_mille; }
  LogFault next_fault();
  void delay();
  Status read_fault();

  Runtime& runtime_;
  OpLog& inner_;
  const LogFaultPlan plan_;
  std::mutex mutex_;  ///< guards what follows; never held across a call of the inner log
  std::uint64_t random_;
  std::deque<LogFault> script_;
  bool reads_unavailable_ = false;
};

}  // namespace steelyard::oplog
