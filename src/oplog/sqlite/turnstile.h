// The turnstile: processes that want to write take turns, so that none starves.
//
// Two flocks. A process first takes `next`, waits with it for `turn`, and gives `next` back when it has `turn`: so at
// most one process waits for `turn`, and whoever has just had a turn must pass `next` again, behind those who wait for
// it. Who of them is next is chance, but everybody's chance is the same. It is advice for fairness alone: SQLite's own
// locks keep the log correct where flock does nothing, and a turn that does not come (a process that holds a lock was
// stopped) is given up after ten seconds.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/runtime.h"
#include "base/status.h"

namespace steelyard::oplog::sqlite {

/// Thread-compatible; one per log.
class Turnstile {
 public:
  /// After ten seconds whoever holds a lock counts as stuck. A commit takes a millisecond, on a busy disk some
  /// hundreds.
  static constexpr std::int64_t kWaitMs = 10'000;

  /// `base` is the database's name without its extension: `<base>.turn` and `<base>.next` are the lock files, in the
  /// folder that is open as `folder` and stays so.
  Turnstile(Runtime& runtime, int folder, const std::string& base, std::int64_t wait_ms = kWaitMs);
  Turnstile(const Turnstile&) = delete;
  Turnstile& operator=(const Turnstile&) = delete;
  ~Turnstile();

  /// Waits for the turn, calling `while_waiting` often, if it is given. Goes on without one where the lock files cannot
  /// be made or the holder is stuck.
  void enter(const std::function<void()>& while_waiting = {});
  void leave();
  /// Whether the last enter() got its turn; for tests.
  bool held() const { return held_; }

 private:
  Runtime& runtime_;
  int folder_;
  std::string turn_name_;
  std::string next_name_;
  std::int64_t wait_ms_;
  int turn_fd_ = -1;
  int next_fd_ = -1;
  bool held_ = false;
};

}  // namespace steelyard::oplog::sqlite
