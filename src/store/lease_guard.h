// LeaseGuard: protects one revision while a verb reads it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "store/context.h"
#include "store/stop_signal.h"

namespace steelyard::store {

/// Acquires a lease of `record`'s revision as `command` asks, and makes up for a crash between Commit and marker: who
/// leases a revision writes the `committed` marker that it lacks (committed_marker.h). The errors are Acquire's.
Result<metadata::Lease> acquire_lease(Context& context, const metadata::RevisionRecord& record,
                                      const metadata::AcquireLease& command);

/// Takes a lease, renews it at a third of its time to live, and releases it in the end. A lease that is lost stops the
/// verb through `stop`. Unless the terms require one, a read-only store takes none, and where the catalog cannot be
/// written now (a full or failing disk, another writer that stands still), the verb reads without one, a warning says
/// what that means, and it is asked for again as often as it would be renewed.
class LeaseGuard {
 public:
  /// NOT_READY when the revision may not be read (any more); BUSY when it has as many leases as it may have.
  static Result<std::unique_ptr<LeaseGuard>> acquire(Context& context, const metadata::RevisionRecord& record,
                                                     const LeaseTerms& terms, StopSignal& stop);
  ~LeaseGuard();
  LeaseGuard(const LeaseGuard&) = delete;
  LeaseGuard& operator=(const LeaseGuard&) = delete;

  /// Of a lease whose terms require one; it is the same from the beginning to the end.
  const std::string& lease_id() const { return lease_id_; }
  /// LEASE_EXPIRED once the time is over for which the lease was granted, whoever knows of it yet: while the process
  /// stands still, or the catalog cannot be written, nothing renews it. From any thread.
  Status check() const;

 private:
  LeaseGuard(Context& context, StopSignal& stop, metadata::RevisionRecord record)
      : context_(context), stop_(stop), record_(std::move(record)) {}
  void set_end(const metadata::Lease& lease) { expires_mono_ms_ = lease.expires_mono_ms; }
  bool may_do_without(const Status& refusal) const;
  void renew_until_ended();
  void acquire_late();

  Context& context_;
  StopSignal& stop_;
  const metadata::RevisionRecord record_;
  metadata::AcquireLease command_;
  std::string lease_id_;                                  ///< empty while it reads without one
  std::atomic<std::int64_t> expires_mono_ms_{INT64_MAX};  ///< of the last grant
  std::unique_ptr<Event> ended_;
  std::unique_ptr<Task> task_;
};

/// Who a lease of this process belongs to: "host (pid 12)".
std::string holder_of(Runtime& runtime);

}  // namespace steelyard::store
