#include "store/progress_meter.h"

#include <algorithm>

namespace steelyard::store {
namespace {

/// At least every 200 ms while bytes move; twice as often leaves room for a slow block.
constexpr std::int64_t kReportEveryNs = 100'000'000;

}  // namespace

ProgressMeter::ProgressMeter(Runtime& runtime, Observer& observer, std::string phase, std::uint64_t bytes_total,
                             std::uint64_t files_total)
    : runtime_(runtime),
      observer_(observer),
      totals_{.phase = std::move(phase), .bytes_total = bytes_total, .files_total = files_total} {
  report(true);
}

void ProgressMeter::add_bytes(std::uint64_t bytes) {
  bytes_.fetch_add(bytes, std::memory_order_relaxed);
  report(false);
}

void ProgressMeter::add_file() {
  files_.fetch_add(1, std::memory_order_relaxed);
  report(false);
}

void ProgressMeter::finish() {
  bytes_ = totals_.bytes_total;
  files_ = totals_.files_total;
  report(true);
}

void ProgressMeter::report(bool always) {
  const std::int64_t now = runtime_.mono_ns();
  if (!always && now < next_report_ns_.load(std::memory_order_relaxed)) return;
  const std::lock_guard lock(mutex_);
  if (!always && now < next_report_ns_.load(std::memory_order_relaxed)) return;
  next_report_ns_ = now + kReportEveryNs;
  Progress progress = totals_;
  progress.bytes_done = std::min(bytes_.load(), totals_.bytes_total);
  progress.files_done = std::min(files_.load(), totals_.files_total);
  observer_.progress(progress);
}

}  // namespace steelyard::store
