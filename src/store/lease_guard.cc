#include "store/lease_guard.h"

#include <fmt/format.h>

#include "base/log.h"
#include "store/committed_marker.h"

namespace steelyard::store {

std::string holder_of(Runtime& runtime) { return fmt::format("{} (pid {})", runtime.self().host, runtime.self().pid); }

Result<metadata::Lease> acquire_lease(Context& context, const metadata::RevisionRecord& record,
                                      const metadata::AcquireLease& command) {
  SY_ASSIGN_OR_RETURN(metadata::Answer answer, context.catalog.acquire_lease(command));
  if (Status status = ensure_committed_marker(context.cold, record); !status.ok()) {
    log_info("the committed marker is missing and could not be written: {}", status.to_string());
  }
  return std::move(answer.lease).value();
}

Result<std::unique_ptr<LeaseGuard>> LeaseGuard::acquire(Context& context, const metadata::RevisionRecord& record,
                                                        bool allow_degraded, StopSignal& stop) {
  std::unique_ptr<LeaseGuard> guard(new LeaseGuard(context, stop));
  if (context.read_only) return guard;
  metadata::AcquireLease command;
  command.identity = record.identity;
  command.holder = holder_of(context.runtime);
  command.nonce = context.runtime.random_hex(16);
  command.ttl_ms = context.options.lease_ttl_ms;
  command.allow_degraded = allow_degraded;
  command.process = context.runtime.self();
  auto granted = acquire_lease(context, record, command);
  if (granted.code() == Code::kNoSpace) {
    // A full disk must not take away what is there to read; as with a read-only store, every block is checked anyway.
    log_warning("read without a lease: {}", granted.status().message());
    return guard;
  }
  SY_ASSIGN_OR_RETURN(const metadata::Lease lease, std::move(granted));
  guard->lease_id_ = lease.lease_id;
  guard->ended_ = context.runtime.make_event();
  guard->task_ = context.runtime.spawn("lease-renewal", [raw = guard.get()] { raw->renew_until_ended(); });
  return guard;
}

LeaseGuard::~LeaseGuard() {
  if (!task_) return;
  ended_->set();
  task_->join();
  context_.catalog.release_lease({.lease_id = lease_id_}).ignore("it ends by itself after its time to live");
}

void LeaseGuard::renew_until_ended() {
  const std::int64_t every_ms = context_.options.lease_ttl_ms / 3;
  while (!ended_->wait_until(context_.runtime.mono_ms() + every_ms)) {
    const auto renewed = context_.catalog.renew_lease({.lease_id = lease_id_, .ttl_ms = context_.options.lease_ttl_ms});
    if (renewed.ok()) continue;
    // Only an answer of the rules loses the lease; a log that cannot be reached now is tried again in time.
    if (renewed.code() == Code::kLeaseExpired || renewed.code() == Code::kNotFound) {
      // One that ended and was removed meanwhile is not known any more; NOT_FOUND would speak of the revision.
      stop_.fail({Code::kLeaseExpired, renewed.status().message(),
                  "the process stood still for longer than its lease; run the same command again"});
      return;
    }
  }
}

}  // namespace steelyard::store
