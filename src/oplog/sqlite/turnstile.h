// The turnstile: processes that want to write take turns in the order in which they came.
//
// Two flocks. A process first takes `next`, waits with it for `turn`, and gives `next` back when it has `turn`: so at
// most one process waits for `turn`, and whoever has just had a turn must pass `next` again, behind those who wait for
// it. It is advice for fairness alone: SQLite's own locks keep the log correct where flock does nothing, and a turn
// that does not come (its holder was stopped) is given up after a while.
#pragma once

#include <string>

#include "base/runtime.h"
#include "base/status.h"

namespace steelyard::oplog::sqlite {

/// Thread-compatible; one per log.
class Turnstile {
 public:
  /// `base` is the database's path without its extension: `<base>.turn` and `<base>.next` are the lock files.
  Turnstile(Runtime& runtime, const std::string& base);
  Turnstile(const Turnstile&) = delete;
  Turnstile& operator=(const Turnstile&) = delete;
  ~Turnstile();

  /// Waits for the turn. Goes on without one where the lock files cannot be made or the holder is stuck.
  void enter();
  void leave();

 private:
  Runtime& runtime_;
  std::string turn_path_;
  std::string next_path_;
  int turn_fd_ = -1;
  int next_fd_ = -1;
  bool held_ = false;
};

}  // namespace steelyard::oplog::sqlite
