// LeaseGuard: protects one revision while a verb reads it.
#pragma once

#include <memory>
#include <optional>

#include "store/context.h"
#include "store/stop_signal.h"

namespace steelyard::store {

/// Acquires a lease of `record`'s revision as `command` asks, and makes up for a crash between Commit and marker: who
/// leases a revision writes the `committed` marker that it lacks (committed_marker.h). The errors are Acquire's.
Result<metadata::Lease> acquire_lease(Context& context, const metadata::RevisionRecord& record,
                                      const metadata::AcquireLease& command);

/// Takes a lease, renews it at a third of its time to live, and releases it in the end. A lease that is lost stops the
/// verb through `stop`. A read-only store takes none.
class LeaseGuard {
 public:
  /// NOT_READY when the revision may not be read (any more).
  static Result<std::unique_ptr<LeaseGuard>> acquire(Context& context, const metadata::RevisionRecord& record,
                                                     bool allow_degraded, StopSignal& stop);
  ~LeaseGuard();
  LeaseGuard(const LeaseGuard&) = delete;
  LeaseGuard& operator=(const LeaseGuard&) = delete;

 private:
  LeaseGuard(Context& context, StopSignal& stop) : context_(context), stop_(stop) {}
  void renew_until_ended();

  Context& context_;
  StopSignal& stop_;
  std::string lease_id_;
  std::unique_ptr<Event> ended_;
  std::unique_ptr<Task> task_;
};

/// Who a lease of this process belongs to: "host (pid 12)".
std::string holder_of(Runtime& runtime);

}  // namespace steelyard::store
