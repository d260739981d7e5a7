// ProgressMeter: adds up what workers have done and tells the observer, not more often than useful.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>

#include "base/runtime.h"
#include "store/store.h"

namespace steelyard::store {

/// Thread-safe. Totals are fixed at construction; what is done only grows and never passes the totals.
class ProgressMeter {
 public:
  ProgressMeter(Runtime& runtime, Observer& observer, std::string phase, std::uint64_t bytes_total,
                std::uint64_t files_total);

  void add_bytes(std::uint64_t bytes);
  void add_file();
  /// The last update: everything is done. Call on success only.
  void finish();

 private:
  void report(bool always);

  Runtime& runtime_;
  Observer& observer_;
  const Progress totals_;
  std::atomic<std::uint64_t> bytes_{0};
  std::atomic<std::uint64_t> files_{0};
  std::atomic<std::int64_t> next_report_ns_{0};
  std::mutex mutex_;
};

}  // namespace steelyard::store
