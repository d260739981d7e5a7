#include "store/runner_keeper.h"

#include <algorithm>
#include <utility>

#include "base/workers.h"
#include "store/lease_guard.h"
#include "store/writer_keeper.h"

namespace steelyard::store {
namespace {

constexpr std::int64_t kLookEveryMs = 200;
constexpr std::int64_t kTellEveryMs = 2'000;
constexpr std::int64_t kTellFarEveryMs = 500;
constexpr std::uint64_t kFarPart = 10;  ///< one part of so many is worth telling soon

}  // namespace

metadata::RunnerGrant runner_grant(Runtime& runtime, std::int64_t ttl_ms) {
  metadata::RunnerGrant grant;
  grant.token = runtime.random_hex(16);
  grant.holder = holder_of(runtime);
  grant.process = runtime.self();
  grant.ttl_ms = ttl_ms;
  return grant;
}

RunnerKeeper::RunnerKeeper(Runtime& runtime, catalog::Catalog& catalog, const metadata::RevisionRecord& record,
                           metadata::RunnerToken token, Amount done, std::int64_t ttl_ms, StopSignal& stop)
    : runtime_(runtime),
      catalog_(catalog),
      identity_(record.identity),
      token_(std::move(token)),
      total_{record.operation->total_members, record.operation->total_bytes},
      ttl_ms_(ttl_ms),
      stop_(stop),
      members_(done.members),
      bytes_(done.bytes),
      ended_(runtime.make_event()) {
  auto task = try_spawn(runtime_, "runner-renewal", [this] { renew_until_ended(); });
  if (task.ok()) {
    task_ = std::move(task).value();
  } else {
    stop_.fail(task.status());
  }
}

RunnerKeeper::~RunnerKeeper() {
  ended_->set();
  if (task_) task_->join();
  if (!give_back_) return;
  metadata::ReportOperation last = report();
  last.give_back = true;
  catalog_.report_operation(last).status().ignore("the token ends by itself after its time to live");
}

void RunnerKeeper::set_left(Amount left) {
  members_.store(total_.members - std::min(total_.members, left.members));
  bytes_.store(total_.bytes - std::min(total_.bytes, left.bytes));
}

void RunnerKeeper::add(std::uint64_t members, std::uint64_t bytes) {
  members_.fetch_add(members);
  bytes_.fetch_add(bytes);
}

metadata::ReportOperation RunnerKeeper::report() const {
  metadata::ReportOperation command;
  command.identity = identity_;
  command.token = token_;
  command.processed_members = members_.load();
  command.processed_bytes = bytes_.load();
  const std::lock_guard lock(mutex_);
  command.message = message_;
  return command;
}

void RunnerKeeper::set_message(std::string message) {
  const std::lock_guard lock(mutex_);
  message_ = std::move(message);
}

/// A read of the log, and no turn in it. What cannot be read now is so until a report says otherwise.
bool RunnerKeeper::is_runner() {
  const auto found = catalog_.query_operation(token_.operation_id);
  if (!found.ok()) return true;
  return found->operation.state == metadata::OperationState::kRunning && found->runner &&
         found->runner->token == token_.token;
}

void RunnerKeeper::renew_until_ended() {
  const std::int64_t sign_every_ms = ttl_ms_ / 4;
  const std::int64_t tell_every_ms = std::min(kTellEveryMs, sign_every_ms);
  const std::int64_t tell_far_every_ms = std::min(kTellFarEveryMs, sign_every_ms);
  const std::int64_t look_every_ms = std::min(kLookEveryMs, sign_every_ms);
  std::int64_t reported_ms = runtime_.mono_ms();
  std::int64_t tried_ms = reported_ms;
  metadata::ReportOperation reported = report();
  while (!ended_->wait_until(runtime_.mono_ms() + look_every_ms)) {
    const metadata::ReportOperation command = report();
    const std::int64_t now_ms = runtime_.mono_ms();
    const bool news = command.processed_members != reported.processed_members ||
                      command.processed_bytes != reported.processed_bytes || command.message != reported.message;
    const bool far = command.processed_members - reported.processed_members > total_.members / kFarPart ||
                     command.processed_bytes - reported.processed_bytes > total_.bytes / kFarPart;
    const bool is_due = now_ms - tried_ms >= (far ? tell_far_every_ms : tell_every_ms) &&
                        (news || now_ms - reported_ms >= sign_every_ms);
    if (!is_due && is_runner()) continue;
    tried_ms = now_ms;
    const auto renewed = catalog_.report_operation(command);
    // Only an answer of the rules ends the work, or that the store is gone; a log that cannot be reached now is tried
    // again in time.
    const Status lost = is_lost(renewed.status()) || renewed.ok() ? renewed.status() : catalog_.check_place();
    if (!lost.ok()) {
      stop_.fail(lost);
      return;
    }
    if (!renewed.ok()) continue;
    reported_ms = now_ms;
    reported = command;
  }
}

Result<metadata::RevisionRecord> RunnerKeeper::end(std::string message, std::optional<metadata::Observation> seen) {
  metadata::EndOperation command;
  command.state = metadata::OperationState::kDone;
  return end_as(std::move(command), std::move(message), std::move(seen));
}

Result<metadata::RevisionRecord> RunnerKeeper::fail(const Status& why, std::string message,
                                                    std::optional<metadata::Observation> seen) {
  metadata::EndOperation command;
  command.state = metadata::OperationState::kFailed;
  command.failed_with = code_name(why.code());
  return end_as(std::move(command), std::move(message), std::move(seen));
}

Result<metadata::RevisionRecord> RunnerKeeper::end_as(metadata::EndOperation command, std::string message,
                                                      std::optional<metadata::Observation> seen) {
  command.identity = identity_;
  command.token = token_;
  command.processed_members = members_.load();
  command.processed_bytes = bytes_.load();
  command.message = std::move(message);
  command.seen = std::move(seen);
  auto ended = catalog_.end_operation(command);
  if (ended.ok()) give_back_ = false;
  return ended;
}

}  // namespace steelyard::store
