// Processes that follow the store for a long time: one that watches the records, one that keeps them reconciled.
#include <fmt/format.h>

#include "sim/workload/calls.h"
#include "sim/workload/client.h"

namespace steelyard::sim {
namespace {

constexpr std::int64_t kWatchMsMax = 60'000;
/// Long enough for the log to be trimmed meanwhile.
constexpr std::int64_t kAwayMsMax = 200'000;

}  // namespace

bool Client::follow_once(Followed& followed, std::int64_t wait_ms, const store::CancelFlag& stop) {
  catalog::WatchQuery query;
  query.tenant_id = query.namespace_id = "default";
  query.resource_id = followed.resource;
  query.after = followed.next;
  query.deadline_mono_ms = process_.runtime().mono_ms() + wait_ms;
  const std::uint64_t begun_at = bench_.model.sequence();
  const auto batch = store_->watch(query, stop);
  if (!alive()) return false;
  if (!batch.ok()) {
    if (!stop.load() && !may_try_again(batch.status())) {
      bench_.model.violated("a watch ends: " + batch.status().to_string());
    }
    return false;
  }
  const bool early = process_.runtime().mono_ms() < query.deadline_mono_ms;
  if (batch->changes.empty() && !batch->resnapshot && early && !stop.load()) {
    bench_.model.violated("a watch tells of nothing before its deadline");
  }
  // What was trimmed stays so, and what is there now was there then.
  const bool has_next = query.after && bench_.log->read(*query.after, 1).ok();
  bench_.model.followed(query, has_next, begun_at, *batch);
  followed.changes += batch->changes.size();
  followed.anew += batch->resnapshot && followed.next ? 1 : 0;
  followed.next = batch->next;
  return true;
}

void Client::follow(Followed& followed, const store::CancelFlag& stop) {
  end(start("watch"), {});
  while (alive() && !stop.load()) {
    follow_once(followed, random_.between(0, kWatchMsMax), stop);
    pause(random_.per_mille(150) ? kAwayMsMax : profile_.pause_ms_max);
  }
}

void Client::follow_to_the_end(Followed& followed) {
  const store::CancelFlag never{false};
  while (followed.next.value_or(0) < bench_.model.sequence()) {
    if (!follow_once(followed, 0, never)) return bench_.model.violated("a watch in peace tells of nothing");
  }
}

void Client::keep_reconciled(const store::CancelFlag& stop) {
  Operation& operation = start("reconcile --watch");
  operation.may_abort = operation.finishes = operation.operates = operation.follows = true;
  Deaf deaf;
  const auto judge = [&](const store::ReconcileReport& report) {
    if (!alive()) return Status();
    for (const auto& left : report.failed) bench_.model.passed(operation, bench_.is_short_of_room(operation), left.why);
    return Status();
  };
  const Status status = store_->keep_reconciled(std::nullopt, deaf, judge, stop);
  end(operation, status);
  if (alive() && !stop.load()) bench_.model.violated("reconcile --watch ends by itself: " + status.to_string());
}

}  // namespace steelyard::sim
