#include "oplog/fault_injecting.h"

namespace steelyard::oplog {

void FaultInjectingLog::script(std::deque<LogFault> faults) {
  const std::lock_guard lock(mutex_);
  script_ = std::move(faults);
}

void FaultInjectingLog::set_reads_unavailable(bool on) {
  const std::lock_guard lock(mutex_);
  reads_unavailable_ = on;
}

std::uint64_t FaultInjectingLog::draw(std::uint64_t below) {
  const std::lock_guard lock(mutex_);
  // splitmix64: one addition and a mix per number, the same everywhere.
  random_ += 0x9e3779b97f4a7c15ULL;
  std::uint64_t z = random_;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return (z ^ (z >> 31)) % below;
}

LogFault FaultInjectingLog::next_fault() {
  {
    const std::lock_guard lock(mutex_);
    if (!script_.empty()) {
      const LogFault fault = script_.front();
      script_.pop_front();
      return fault;
    }
  }
  if (chance(plan_.before)) return LogFault::kBefore;
  if (chance(plan_.lost_answer)) {
    return chance(plan_.unreadable_after_loss) ? LogFault::kLostAnswerUnreadable : LogFault::kLostAnswer;
  }
  if (chance(plan_.lost_request)) {
    return chance(plan_.unreadable_after_loss) ? LogFault::kLostRequestUnreadable : LogFault::kLostRequest;
  }
  if (chance(plan_.crash)) return chance(500) ? LogFault::kCrashBefore : LogFault::kCrashAfter;
  return LogFault::kNone;
}

void FaultInjectingLog::delay() {
  if (plan_.latency_ms_max <= 0) return;
  const auto late = static_cast<std::int64_t>(draw(static_cast<std::uint64_t>(plan_.latency_ms_max) + 1));
  if (late > 0) runtime_.sleep_ms(late);
}

Status FaultInjectingLog::read_fault() {
  delay();
  bool unavailable = false;
  {
    const std::lock_guard lock(mutex_);
    unavailable = reads_unavailable_;
  }
  if (unavailable || chance(plan_.read_unavailable)) {
    return Status(Code::kUnavailable, "injected: the log cannot be read", "try again");
  }
  return Status();
}

Result<std::uint64_t> FaultInjectingLog::write(const Prepare& prepare) {
  delay();
  const Status not_written(Code::kDurabilityFailed, "injected: the append was not written", "try again");
  const Status unknown(Code::kUnknownOutcome, "injected: the answer was lost and the log cannot be read",
                       "read the log before trying again");
  const LogFault fault = next_fault();
  switch (fault) {
    case LogFault::kBefore:
    case LogFault::kLostRequest:
      return not_written;
    case LogFault::kLostRequestUnreadable:
      return unknown;
    case LogFault::kCrashBefore:
      if (plan_.on_crash) plan_.on_crash("log.crash_before");
      break;
    default:
      break;
  }
  auto written = inner_.write(prepare);
  if (fault == LogFault::kCrashAfter && plan_.on_crash) plan_.on_crash("log.crash_after");
  if (fault == LogFault::kLostAnswerUnreadable && written.ok()) return unknown;
  return written;
}

Status FaultInjectingLog::view(const std::function<Status(const StateView& view)>& read) {
  SY_RETURN_IF_ERROR(read_fault());
  return inner_.view(read);
}

Result<std::vector<Append>> FaultInjectingLog::read(std::uint64_t after, std::size_t limit) {
  SY_RETURN_IF_ERROR(read_fault());
  return inner_.read(after, limit);
}

Result<bool> FaultInjectingLog::watch(std::uint64_t after, std::int64_t deadline_mono_ms,
                                      const std::atomic<bool>* cancel) {
  SY_RETURN_IF_ERROR(read_fault());
  return inner_.watch(after, deadline_mono_ms, cancel);
}

Result<std::uint64_t> FaultInjectingLog::save_snapshot() {
  SY_RETURN_IF_ERROR(read_fault());
  return inner_.save_snapshot();
}

Result<std::string> FaultInjectingLog::newest_snapshot() {
  SY_RETURN_IF_ERROR(read_fault());
  return inner_.newest_snapshot();
}

Status FaultInjectingLog::trim(std::uint64_t sequence) {
  delay();
  return inner_.trim(sequence);
}

Result<std::uint64_t> FaultInjectingLog::length() {
  SY_RETURN_IF_ERROR(read_fault());
  return inner_.length();
}

Status FaultInjectingLog::restore(const Snapshot& snapshot) {
  delay();
  return inner_.restore(snapshot);
}

}  // namespace steelyard::oplog
