#include "store/lease_guard.h"

#include <fmt/format.h>

#include "base/limits.h"
#include "base/log.h"
#include "base/units.h"
#include "base/workers.h"
#include "formats/ref.h"
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
                                                        const LeaseTerms& terms, StopSignal& stop) {
  std::unique_ptr<LeaseGuard> guard(new LeaseGuard(context, stop, record));
  if (context.read_only && !terms.required) return guard;
  metadata::AcquireLease& command = guard->command_;
  command.identity = record.identity;
  command.holder = terms.holder.empty() ? holder_of(context.runtime) : terms.holder;
  command.nonce = context.runtime.random_hex(16);
  command.ttl_ms = terms.ttl_ms.value_or(context.options.lease_ttl_ms);
  command.allow_degraded = terms.allow_degraded;
  command.process = context.runtime.self();
  auto granted = acquire_lease(context, record, command);
  if (granted.ok()) {
    guard->lease_id_ = granted->lease_id;
    guard->set_end(*granted);
  } else if (!terms.required && guard->may_do_without(granted.status())) {
    log_warning("{} is read without a lease ({}); a delete would not wait for this read, which would then fail",
                formats::format_ref(record.identity), granted.status().message());
  } else {
    return std::move(granted).status();
  }
  guard->ended_ = context.runtime.make_event();
  SY_ASSIGN_OR_RETURN(guard->task_,
                      try_spawn(context.runtime, "lease-renewal", [raw = guard.get()] { raw->renew_until_ended(); }));
  return guard;
}

LeaseGuard::~LeaseGuard() {
  if (task_) {
    ended_->set();
    task_->join();
  }
  if (lease_id_.empty()) return;
  context_.catalog.release_lease({.lease_id = lease_id_}).ignore("it ends by itself after its time to live");
}

Status LeaseGuard::check() const {
  const std::int64_t over_ms = context_.runtime.mono_ms() - expires_mono_ms_;
  if (over_ms < 0) return {};
  return {Code::kLeaseExpired,
          fmt::format("the lease on {} ended {} ago and was not renewed in time", formats::format_ref(record_.identity),
                      format_age(over_ms)),
          "open the revision again, and read again what was read since"};
}

/// What is there to read must not be taken away by a disk or a process that only stops writing: every block is checked
/// anyway. BUSY may also be the rules' own answer, which stands: the revision has too many leases.
bool LeaseGuard::may_do_without(const Status& refusal) const {
  switch (refusal.code()) {
    case Code::kNoSpace:
    case Code::kDurabilityFailed:
    case Code::kUnknownOutcome:
      return true;
    case Code::kBusy:
      break;
    default:
      return false;
  }
  const auto live = context_.catalog.list_leases(record_.identity);
  return live.ok() && live->size() < limits::kLeasesPerRevisionMax;
}

void LeaseGuard::renew_until_ended() {
  const std::int64_t every_ms = command_.ttl_ms / 3;
  while (!ended_->wait_until(context_.runtime.mono_ms() + every_ms)) {
    if (lease_id_.empty()) {
      acquire_late();
      continue;
    }
    const auto renewed = context_.catalog.renew_lease({.lease_id = lease_id_, .ttl_ms = command_.ttl_ms});
    if (renewed.ok()) {
      set_end(*renewed);
      continue;
    }
    // Only an answer of the rules loses the lease; a log that cannot be reached now is tried again in time.
    if (renewed.code() == Code::kLeaseExpired || renewed.code() == Code::kNotFound) {
      // One that ended and was removed meanwhile is not known any more; NOT_FOUND would speak of the revision.
      stop_.fail({Code::kLeaseExpired, renewed.status().message(),
                  "the process stood still for longer than its lease; run the same command again"});
      return;
    }
  }
}

void LeaseGuard::acquire_late() {
  // What was found damaged since this read began does not end it, as it would not with a lease.
  command_.allow_degraded = true;
  auto granted = acquire_lease(context_, record_, command_);
  if (granted.ok()) {
    lease_id_ = granted->lease_id;
    set_end(*granted);
  } else if (granted.code() == Code::kNotReady || granted.code() == Code::kNotFound) {
    stop_.fail(std::move(granted).status());
  }
}

}  // namespace steelyard::store
