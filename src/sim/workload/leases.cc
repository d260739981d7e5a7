// Leases that a client takes, renews and gives back by hand.
#include <fmt/format.h>

#include <string>

#include "base/limits.h"
#include "metadata/validate.h"
#include "sim/workload/calls.h"
#include "sim/workload/client.h"

namespace steelyard::sim {

void Client::lease(const metadata::Identity& identity) {
  const std::string holder = "reader of " + process_.name();
  const std::string nonce = process_.runtime().random_hex(4);
  const std::string id = metadata::lease_id_of(identity, holder, nonce);
  const std::int64_t ttl_ms = random_.between(limits::kLeaseTtlMsMin, 2 * profile_.lease_ttl_ms);
  bool held = false;
  for (int tries = 0; tries < kTriesMax && alive() && !held; ++tries) {
    const Operation& operation = start(fmt::format("lease acquire {} ({})", text_of(identity), nonce));
    const auto answer = store_->acquire_lease(selector_of(identity), holder, nonce, ttl_ms, true);
    end(operation, answer.status());
    if (!alive()) return;
    bench_.model.lease_acquired(operation, identity, answer);
    held = answer.ok();
    if (held && answer->lease_id != id) bench_.model.violated("a repeated acquire gives another lease");
    if (!held && !may_try_again(answer.status())) return;
  }
  // As the verb does.
  if (held && has_hot() && random_.per_mille(300)) follow_policy(identity);
  for (std::uint64_t renewals = random_.below(4); held && renewals > 0 && alive(); --renewals) {
    pause(ttl_ms);
    const Operation& operation = start("lease renew " + id);
    const auto answer = store_->renew_lease(id, ttl_ms);
    end(operation, answer.status());
    if (!alive()) return;
    bench_.model.lease_renewed(operation, id, answer);
    held = answer.ok() || may_try_again(answer.status());
  }
  if (random_.per_mille(300)) return;  // it runs out
  bool released = false;
  for (int tries = 0; tries < kTriesMax && alive(); ++tries) {
    Operation& operation = start("lease release " + id);
    operation.releases = id;
    const Status status = store_->release_lease(id);
    end(operation, status);
    if (!alive()) return;
    bench_.model.lease_released(operation, id, status);
    if (may_try_again(status)) continue;
    if (released && !status.ok()) bench_.model.violated("a repeated release is refused: " + status.to_string());
    if (released || !status.ok() || random_.per_mille(500)) return;
    released = true;  // the same request again is answered as the first was
  }
}

}  // namespace steelyard::sim
