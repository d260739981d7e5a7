// ProgressMeter: adds up what workers have done and tells the observer, not more often than useful.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <utility>

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

/// Where several revisions are worked on one after another each has its phases to itself. As thread-safe as the
/// observer behind it, which must outlive it.
class PhaseOfRevision final : public Observer {
 public:
  PhaseOfRevision(Observer& observer, std::string ref) : observer_(observer), ref_(std::move(ref)) {}
  void progress(const Progress& progress) override {
    Progress of_revision = progress;
    of_revision.ref = ref_;
    observer_.progress(of_revision);
  }
  void warning(const std::string& message) override { observer_.warning(message); }

 private:
  Observer& observer_;
  const std::string ref_;
};

/// For who has nobody to tell.
class NoObserver final : public Observer {
 public:
  void progress(const Progress& /*progress*/) override {}
  void warning(const std::string& /*message*/) override {}
};

}  // namespace steelyard::store
