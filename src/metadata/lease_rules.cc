// Leases of revisions.
#include <algorithm>
#include <utility>

#include "base/limits.h"
#include "base/units.h"
#include "base/utf8.h"
#include "formats/ref.h"
#include "metadata/turn.h"
#include "metadata/validate.h"

namespace steelyard::metadata {
namespace {

Status validate_acquire(const AcquireLease& command) {
  SY_RETURN_IF_ERROR(validate_holder(command.holder));
  SY_RETURN_IF_ERROR(validate_nonce(command.nonce));
  SY_RETURN_IF_ERROR(validate_process(command.process));
  return validate_ttl("lease ttl", command.ttl_ms, limits::kLeaseTtlMsMin, limits::kLeaseTtlMsMax);
}

/// OK when a lease may be taken.
Status check_leasable(const RevisionRecord& record, bool allow_degraded) {
  if (record.availability == Availability::kReady) return {};
  if (record.availability == Availability::kDegraded && allow_degraded) return {};
  const std::string found = formats::format_ref(record.identity) + " is " + state_and_since(record);
  switch (record.availability) {
    case Availability::kDegraded:
      return {Code::kNotReady,
              found + " (" + std::to_string(record.damage.count) + " damaged or missing objects), wanted READY",
              "`steelyard verify` names the damage; --allow-degraded reads what is intact"};
    case Availability::kImporting:
      return {Code::kNotReady, found + ", wanted READY", "wait for its import, or import it again"};
    case Availability::kReady:
    case Availability::kDeleting:
    case Availability::kDeleted:
      break;
  }
  return {Code::kNotReady, found + ", wanted READY", "use another generation"};
}

/// Lengthens the lease to `ttl_ms` from now; never shortens it. True when something changed.
bool extend(const Turn& turn, Lease& lease, std::int64_t ttl_ms) {
  std::int64_t until = turn.now.mono_ms + ttl_ms;
  if (lease.renewable_until_mono_ms != 0) until = std::min(until, lease.renewable_until_mono_ms);
  if (until <= lease.expires_mono_ms) return false;
  lease.expires_mono_ms = until;
  lease.ttl_ms = ttl_ms;
  return true;
}

}  // namespace

Status judge(Turn& turn, const AcquireLease& command) {
  SY_RETURN_IF_ERROR(validate_acquire(command));
  SY_ASSIGN_OR_RETURN(RevisionRecord record, get_record(turn.view, command.identity));
  const std::string id = lease_id_of(command.identity, command.holder, command.nonce);
  SY_ASSIGN_OR_RETURN(const std::vector<Lease> live, reap_expired(turn, command.identity));
  const auto mine = std::find_if(live.begin(), live.end(), [&](const Lease& lease) { return lease.lease_id == id; });
  Lease lease;
  if (mine != live.end()) {
    // A repeat renews, whatever became of the revision since.
    lease = *mine;
    if (extend(turn, lease, command.ttl_ms)) turn.put(LeasePut{lease});
  } else {
    SY_RETURN_IF_ERROR(check_leasable(record, command.allow_degraded));
    if (live.size() >= limits::kLeasesPerRevisionMax) {
      return {Code::kBusy,
              formats::format_ref(command.identity) + " has " + std::to_string(live.size()) +
                  " live leases, the cap is " + std::to_string(limits::kLeasesPerRevisionMax),
              "release leases that are no longer needed (`steelyard lease list`)"};
    }
    lease.lease_id = id;
    lease.identity = command.identity;
    lease.holder = command.holder;
    lease.nonce = command.nonce;
    lease.ttl_ms = command.ttl_ms;
    lease.epoch = turn.now.epoch;
    lease.expires_mono_ms = turn.now.mono_ms + command.ttl_ms;
    lease.process = command.process;
    // An expired one of this id was just ended; the new one takes its place.
    turn.put(LeasePut{lease});
  }
  turn.answer.record = std::move(record);
  turn.answer.lease = std::move(lease);
  return {};
}

Status judge(Turn& turn, const RenewLease& command) {
  SY_RETURN_IF_ERROR(validate_id("lease id", command.lease_id));
  SY_RETURN_IF_ERROR(validate_ttl("lease ttl", command.ttl_ms, limits::kLeaseTtlMsMin, limits::kLeaseTtlMsMax));
  SY_ASSIGN_OR_RETURN(std::optional<Lease> lease, find_lease(turn.view, command.lease_id));
  if (!lease) {
    return {Code::kNotFound,
            "lease " + command.lease_id + " is not known: it was never granted, was released, or ended and was removed",
            "acquire a new lease"};
  }
  if (!life_of(*lease, turn.epoch, turn.now).live) {
    return {Code::kLeaseExpired,
            "lease " + command.lease_id + " on " + formats::format_ref(lease->identity) + " of " +
                printable(lease->holder) + " ended " + format_age(turn.now.mono_ms - lease->expires_mono_ms) + " ago",
            "acquire a new lease, and read again what was read under the old one"};
  }
  if (extend(turn, *lease, command.ttl_ms)) turn.put(LeasePut{*lease});
  turn.answer.lease = std::move(lease);
  return {};
}

Status judge(Turn& turn, const ReleaseLease& command) {
  SY_RETURN_IF_ERROR(validate_id("lease id", command.lease_id));
  SY_ASSIGN_OR_RETURN(const std::optional<Lease> lease, find_lease(turn.view, command.lease_id));
  if (!lease) return {};
  turn.put(LeaseRemoved{lease->identity, lease->lease_id});
  const bool live = life_of(*lease, turn.epoch, turn.now).live;
  return put_access(turn, lease->identity, turn.epoch, live ? turn.now.mono_ms : last_renewal_ms(*lease));
}

Status judge(Turn& turn, const ReapLeases& command) {
  SY_ASSIGN_OR_RETURN(turn.answer.record, get_record(turn.view, command.identity));
  return reap_expired(turn, command.identity).status();
}

}  // namespace steelyard::metadata
