// StopSignal: why the workers of a verb should stop: cancelled, a lost lease, or the first error of one of them.
#pragma once

#include <atomic>
#include <mutex>

#include "base/status.h"
#include "store/store.h"

namespace steelyard::store {

/// Thread-safe. The first failure wins.
class StopSignal {
 public:
  explicit StopSignal(const CancelFlag& cancel) : cancel_(cancel) {}

  const CancelFlag& flag() const { return cancel_; }
  bool stopped() const { return failed_.load(std::memory_order_acquire) || cancel_.load(std::memory_order_relaxed); }

  void fail(Status status) {
    const std::lock_guard lock(mutex_);
    if (status_.ok()) status_ = std::move(status);
    failed_.store(true, std::memory_order_release);
  }

  /// OK while nothing stopped; else the first failure, or cancelled(what).
  Status status(const char* what) const {
    const std::lock_guard lock(mutex_);
    if (!status_.ok()) return status_;
    return cancel_.load() ? cancelled(what) : Status();
  }

 private:
  const CancelFlag& cancel_;
  std::atomic<bool> failed_{false};
  mutable std::mutex mutex_;
  Status status_;
};

}  // namespace steelyard::store
