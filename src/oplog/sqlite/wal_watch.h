// Waits until somebody writes to a WAL: inotify on the file, or a modest rate of looking where that is not to be had.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "base/runtime.h"

namespace steelyard::oplog::sqlite {

/// Thread-compatible.
class WalWatch {
 public:
  WalWatch(Runtime& runtime, const std::string& database_path);
  WalWatch(const WalWatch&) = delete;
  WalWatch& operator=(const WalWatch&) = delete;
  ~WalWatch();

  /// Returns when it is worth looking again, at the latest at the deadline, or within a moment after `cancel`, if
  /// given, was set. A write is seen before its commit is, so for a while after one the waits are short.
  void wait(std::int64_t deadline_mono_ms, const std::atomic<bool>* cancel);

 private:
  Runtime& runtime_;
  int fd_ = -1;
  std::int64_t pause_ms_;
};

}  // namespace steelyard::oplog::sqlite
