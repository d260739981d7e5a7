// What ends revisions, and frees what is left of them.
#include <fmt/format.h>

#include "sim/workload/calls.h"
#include "sim/workload/client.h"

namespace steelyard::sim {
namespace {

/// Longer than any lease of a history.
constexpr std::int64_t kPatienceMs = 24 * 3'600'000LL;

}  // namespace

void Client::clean_up() {
  const std::uint64_t die = random_.below(100);
  const auto published = some_revision(random_.per_mille(700) ? Kind::kReadable : Kind::kPublished);
  if (die < 12 && published) {
    repair(*published, random_.per_mille(700), random_.per_mille(800)).ignore("judged where it was answered");
  } else if (die < 50 && published) {
    std::optional<std::int64_t> wait_ms;
    if (random_.per_mille(500)) wait_ms = random_.between(0, 2 * profile_.lease_ttl_ms);
    erase(*published, wait_ms).ignore("judged where it was answered");
  } else if (die < 75) {
    reconcile().ignore("judged where it was answered");
  } else {
    gc(random_.per_mille(200)).ignore("judged where it was answered");
  }
}

Status Client::erase(const metadata::Identity& identity, std::optional<std::int64_t> wait_ms) {
  store::DeleteRequest request;
  request.target = selector_of(identity);
  request.wait_ms = wait_ms;
  const store::CancelFlag cancel{false};
  Status status;
  bool deleted = false;
  for (int tries = 0; tries < kTriesMax && alive(); ++tries) {
    Operation& operation = start(fmt::format("delete {}{}", text_of(identity), wait_ms ? " --wait" : ""));
    operation.may_delete = operation.finishes = true;
    operation.drains = wait_ms.has_value();
    const auto answer = store_->erase(request, cancel);
    status = answer.status();
    end(operation, status);
    if (!alive()) break;
    bench_.model.erased(operation, identity, answer);
    if (may_try_again(status)) continue;
    if (deleted && !status.ok()) bench_.model.violated("a repeated delete is refused: " + status.to_string());
    if (deleted || !status.ok() || random_.per_mille(700)) break;
    deleted = true;  // the same request again is answered as the first was
  }
  return deleted ? Status() : status;
}

void Client::abort_whole(const metadata::Identity& identity) {
  store::AbortRequest request;
  request.target = selector_of(identity);
  request.force = random_.per_mille(300);
  for (int tries = 0; tries < kTriesMax && alive(); ++tries) {
    Operation& operation =
        start(fmt::format("abort {}{} and free it", text_of(identity), request.force ? " --force" : ""));
    operation.may_abort = operation.finishes = true;
    operation.forces = request.force;
    const auto answer = store_->abort(request);
    end(operation, answer.status());
    if (!alive()) return;
    bench_.model.erased(operation, identity, answer);
    if (!may_try_again(answer.status())) return;
  }
}

void Client::finish(const metadata::Identity& identity) {
  if (!bench_.model.find(identity)->published()) return abort_whole(identity);
  if (const Status status = erase(identity, kPatienceMs); !status.ok()) {
    bench_.model.violated(text_of(identity) + " cannot be deleted in peace: " + status.to_string());
  }
}

Status Client::reconcile() {
  const store::CancelFlag cancel{false};
  Deaf deaf;
  Operation& operation = start("reconcile");
  operation.may_abort = operation.finishes = operation.operates = operation.follows = true;
  const auto answer = store_->reconcile(std::nullopt, deaf, cancel);
  end(operation, answer.status());
  if (alive()) bench_.model.passed(operation, bench_.is_short_of_room(operation), answer.status());
  if (!answer.ok()) return answer.status();
  for (const auto& left : answer->failed) {
    if (alive()) bench_.model.passed(operation, bench_.is_short_of_room(operation), left.why);
  }
  if (answer->failed.empty()) return {};
  return answer->failed.front().why;
}

Status Client::gc(bool dry_run) {
  const store::CancelFlag cancel{false};
  Operation& operation = start(dry_run ? "gc --dry-run" : "gc");
  operation.compacts = !dry_run;
  const auto answer = store_->gc(dry_run, cancel);
  end(operation, answer.status());
  if (alive()) bench_.model.passed(operation, bench_.is_short_of_room(operation), answer.status());
  return answer.status();
}

}  // namespace steelyard::sim
