#include "store/operation_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "formats/ref.h"
#include "store/cancel_operation.h"
#include "store/damage_record.h"
#include "store/manifest_file.h"
#include "store/operation_text.h"
#include "store/resolve.h"
#include "store/writer_keeper.h"

namespace steelyard::store {
namespace {

using metadata::OperationState;
using metadata::RevisionRecord;

/// Between reading a record and starting an operation on it others may change it.
constexpr int kTriesMax = 5;
constexpr std::int64_t kPauseMs = 100;
/// Whether a runner that is waited for is alive.
constexpr std::int64_t kLookMs = 500;

bool is_deleted(Context& context, const RevisionRecord& record) {
  return check_not_deleted(context, record, "meanwhile").code() == Code::kNotReady;
}

}  // namespace

Status OperationRun::run() {
  SY_ASSIGN_OR_RETURN(record_, resolve(context_.catalog, asked_.selector, Purpose::kReadDegraded));
  if (const metadata::Operation* before = done_before()) {
    operation_ = *before;
    return {};
  }
  SY_RETURN_IF_ERROR(check_expected());
  const Selector same = selector_of(record_.identity);
  for (int tries = 1;;) {
    moved_ = false;
    Status done = run_on_record();
    if (done.ok() || !token_.token.empty()) return done;
    // Waiting helps where somebody else runs the same operation, and not where a lease or another operation is in the
    // way.
    const bool busy = done.code() == Code::kBusy && asked_.wait && asked_.wait_for_others;
    const bool moved = (done.code() == Code::kStaleGeneration || moved_) && !asked_.expected_generation;
    if (!busy && !moved) return done;
    SY_RETURN_IF_ERROR(stop_.status(noun()));
    const bool was_running = record_.operation.has_value();
    const std::optional<metadata::Operation> awaited = is_own() ? record_.operation : std::nullopt;
    SY_ASSIGN_OR_RETURN(record_, resolve(context_.catalog, same, Purpose::kReadDegraded));
    if (!busy) {
      if (tries++ == kTriesMax) return done;
      continue;
    }
    if (awaited && is_answered_by(*awaited)) return answer_of(*awaited);
    const bool somebody_works = is_own() || (was_running && !record_.operation);
    if (!somebody_works) return done;
    if (!std::exchange(said_that_it_waits_, true)) observer_.warning("waiting: " + done.message());
    if (awaited) {
      SY_RETURN_IF_ERROR(wait_for(awaited->operation_id));
    } else {
      context_.runtime.sleep_ms(kPauseMs);
    }
    SY_ASSIGN_OR_RETURN(record_, resolve(context_.catalog, same, Purpose::kReadDegraded));
    if (awaited && is_answered_by(*awaited)) return answer_of(*awaited);
  }
}

/// Until no live process carries it out. The log wakes it; a runner that dies says nothing, so it is looked for now and
/// then.
Status OperationRun::wait_for(const std::string& operation_id) {
  for (bool is_first = true;; is_first = false) {
    SY_RETURN_IF_ERROR(stop_.status(noun()));
    SY_ASSIGN_OR_RETURN(const std::uint64_t now, context_.catalog.sequence());
    SY_ASSIGN_OR_RETURN(const RevisionRecord record, context_.catalog.get_weight_revision(record_.identity));
    if (!record.operation || record.operation->operation_id != operation_id) return {};
    SY_ASSIGN_OR_RETURN(const bool runs, context_.catalog.is_being_run(record_.identity));
    if (!runs) {
      // Something else was in the way, and nothing tells when it is not.
      if (is_first) context_.runtime.sleep_ms(kPauseMs);
      return {};
    }
    catalog::WatchQuery query;
    query.identity = record_.identity;
    query.after = now;
    query.deadline_mono_ms = context_.runtime.mono_ms() + kLookMs;
    query.cancel = &stop_.flag();
    SY_RETURN_IF_ERROR(context_.catalog.watch_weight_revisions(query).status());
  }
}

/// Whether its end tells what this run would come to: somebody did not want it; it met damage, which this one would
/// meet after reading everything again; or it is done, and something else runs by now.
bool OperationRun::is_answered_by(const metadata::Operation& awaited) const {
  const metadata::Operation* ended = metadata::find_operation(record_, awaited.operation_id);
  if (ended == nullptr || ended->hot_instance != instance_) return false;
  if (ended->state == OperationState::kCancelled) return true;
  if (ended->state == OperationState::kFailed) return ended->failed_with == code_name(Code::kCorrupt);
  return ended->state == OperationState::kDone && record_.operation;
}

Status OperationRun::answer_of(const metadata::Operation& awaited) {
  const metadata::Operation& ended = *metadata::find_operation(record_, awaited.operation_id);
  operation_ = ended;
  if (ended.state == OperationState::kDone) return {};
  if (ended.state == OperationState::kCancelled) return was_cancelled(ended, ", which was waited for,");
  return {
      Code::kCorrupt,
      fmt::format("{} that was waited for has failed (operation {}): {}", noun(), ended.operation_id, ended.message),
      fmt::format("repair it: steelyard repair {}", ref())};
}

Status OperationRun::run_on_record() {
  operation_.reset();
  SY_RETURN_IF_ERROR(look());
  if (!record_.operation) {
    SY_ASSIGN_OR_RETURN(const bool done, is_done());
    if (done) return {};
    SY_RETURN_IF_ERROR(check_room());
  }
  SY_RETURN_IF_ERROR(start());
  after_start();
  return token_.token.empty() ? Status() : carry_out();
}

std::string OperationRun::ref() const { return formats::format_ref(record_.identity); }

std::string OperationRun::same_command() const {
  return command_of(asked_.kind, asked_.ratio_millionths, ref()) + arguments();
}

bool OperationRun::is_own() const {
  const auto& running = record_.operation;
  return running && running->kind == asked_.kind && running->target == asked_.target &&
         running->ratio_millionths == asked_.ratio_millionths;
}

/// The operation that this request started, where its answer was lost: the last one that was started at the expected
/// generation, to the same end.
const metadata::Operation* OperationRun::done_before() const {
  if (!asked_.expected_generation || *asked_.expected_generation == record_.metadata_generation) return nullptr;
  const auto& ended = record_.finished_operations;
  const auto own = std::find_if(ended.rbegin(), ended.rend(), [&](const metadata::Operation& operation) {
    return operation.request.expected_generation == *asked_.expected_generation;
  });
  const bool same = own != ended.rend() && own->kind == asked_.kind && own->target == asked_.target &&
                    own->ratio_millionths == asked_.ratio_millionths && own->state == OperationState::kDone;
  return same ? &*own : nullptr;
}

/// An operation that was started at the expected generation is this one, interrupted.
Status OperationRun::check_expected() const {
  if (!asked_.expected_generation || *asked_.expected_generation == record_.metadata_generation) return {};
  if (is_own() && record_.operation->request.expected_generation == *asked_.expected_generation) return {};
  return {Code::kStaleGeneration,
          fmt::format("{}: metadata generation {} was expected, the current one is {}", ref(),
                      *asked_.expected_generation, record_.metadata_generation),
          "read the record again, and repeat the request if it still makes sense"};
}

Status OperationRun::load() {
  auto manifest = load_manifest(context_.cold, record_);
  if (manifest.ok()) {
    manifest_ = std::move(manifest).value();
    return {};
  }
  if (manifest.code() != Code::kCorrupt) return std::move(manifest).status();
  SY_RETURN_IF_ERROR(check_not_deleted(context_, record_, fmt::format("before {} could read it", noun())));
  record_bad_manifest(context_, record_, stop_);
  if (is_own()) {
    SY_RETURN_IF_ERROR(take());
    if (!token_.token.empty()) {
      RunnerKeeper runner = keeper({});
      SY_RETURN_IF_ERROR(fail(runner, manifest.status()));
    }
  }
  return std::move(manifest).status().with_hint(
      "nothing else holds a manifest, and without it no object can be used; import the source again as a new "
      "generation");
}

metadata::RunnerGrant OperationRun::grant() const {
  return runner_grant(context_.runtime, context_.options.writer_ttl_ms);
}

/// Starts the operation, or takes over the one that nobody runs. Whatever else runs, the log says what can be done
/// about it.
Status OperationRun::start() {
  if (is_own()) return take();
  metadata::StartOperation command = start_command();
  if (asked_.wait) command.runner = grant();
  token_.operation_id = command.operation_id;
  SY_ASSIGN_OR_RETURN(const metadata::Answer started, context_.catalog.start_operation(command));
  return asked_.wait ? begun(started) : remember(*started.record);
}

metadata::StartOperation OperationRun::start_command() const {
  metadata::StartOperation command;
  command.identity = record_.identity;
  command.expected_metadata_generation = asked_.expected_generation.value_or(record_.metadata_generation);
  command.operation_id = context_.runtime.random_hex(16);
  command.kind = asked_.kind;
  command.target = asked_.target;
  command.ratio_millionths = asked_.ratio_millionths;
  describe(command);
  if (metadata::moves_replicas(asked_.kind)) {
    command.hot_instance = instance_;
    command.hot_boot_id = context_.runtime.epoch();
  }
  return command;
}

Status OperationRun::take() {
  token_.operation_id = record_.operation->operation_id;
  // One of another memory is ended first, as nobody here could go on with it.
  if (!asked_.wait && record_.operation->hot_instance == instance_) return remember(record_);
  SY_ASSIGN_OR_RETURN(const metadata::Answer taken, context_.catalog.take_operation(take_command()));
  return begun(taken);
}

metadata::TakeOperation OperationRun::take_command() const {
  metadata::TakeOperation command;
  command.identity = record_.identity;
  command.operation_id = record_.operation->operation_id;
  command.runner = grant();
  command.hot_instance = instance_;
  command.hot_boot_id = context_.runtime.epoch();
  return command;
}

Status OperationRun::check_free() const {
  if (!record_.operation) return {};
  if (!is_own()) return context_.catalog.check_start(start_command());
  // What is left to others may be carried out by them already.
  return asked_.wait ? context_.catalog.check_take(take_command()) : Status();
}

Status OperationRun::begun(const metadata::Answer& answer) {
  SY_CHECK(answer.runner.has_value(), "who becomes the runner is told so");
  token_.token = answer.runner->token;
  token_.run_attempt = answer.runner->run_attempt;
  known_source_ = answer.runner->source;
  return remember(*answer.record);
}

Status OperationRun::remember(const RevisionRecord& record) {
  record_ = record;
  operation_ = record.operation;
  return {};
}

RunnerKeeper OperationRun::keeper(Amount done) {
  return {context_.runtime, context_.catalog, record_, token_, done, context_.options.writer_ttl_ms, stop_};
}

Status OperationRun::carry_out() {
  // What the runners before this one did is done, however much of it they told.
  const Amount todo = left();
  const Amount all{operation_->total_members, operation_->total_bytes};
  RunnerKeeper runner =
      keeper({all.members - std::min(all.members, todo.members), all.bytes - std::min(all.bytes, todo.bytes)});
  Status status = work(runner);
  const bool worked = status.ok();
  if (worked) {
    auto ended = end_as_done(runner);
    if (!ended.ok()) {
      // Its answer may have been lost, and a renewal have met the end.
      auto found = context_.catalog.query_operation(token_.operation_id);
      if (found.ok() && is_as_done(found->operation, found->record)) ended = std::move(found->record);
    }
    if (ended.ok()) {
      after_end();
      record_ = std::move(ended).value();
      operation_ = ended_operation(*operation_, OperationState::kDone, record_);
      return {};
    }
    status = std::move(ended).status();
  }
  if (is_deleted(context_, record_)) {
    clear_up();
    return {Code::kNotReady, fmt::format("{} was deleted, and {} has ended with it", ref(), noun()),
            "there is nothing to be done for it any more"};
  }
  if (!worked && can_never_go_on(status) && fail(runner, status).ok()) return status;
  return stopped(runner, std::move(status));
}

/// It is DONE by this run, or by another one and nothing was begun since.
bool OperationRun::is_as_done(const metadata::Operation& ended, const RevisionRecord& record) const {
  if (ended.state != OperationState::kDone) return false;
  if (ended.ended_by.empty() || ended.ended_by == token_.token) return true;
  return !record.operation && record.finished_operations.back().operation_id == ended.operation_id;
}

Status OperationRun::was_cancelled(const metadata::Operation& ended, std::string_view what) const {
  return {Code::kConflict,
          fmt::format("{} of {}{} was {} (operation {}); what it did stays", noun(), ref(), what, ended.message,
                      ended.operation_id),
          fmt::format("`{}` starts another, if it is still wanted", same_command())};
}

/// The operation runs on without this runner, or was ended by others.
Status OperationRun::stopped(RunnerKeeper& runner, Status why) {
  runner.set_message(text_kept_of(why));
  const auto found = context_.catalog.query_operation(token_.operation_id);
  if (found.ok() && found->operation.state == OperationState::kCancelled) {
    if (metadata::moves_replicas(asked_.kind)) record_what_stays(context_, found->record, stop_);
    return was_cancelled(found->operation, "");
  }
  // What is not known to be the end is not known, whatever a renewal met.
  if (stop_.stopped() && why.code() != Code::kUnknownOutcome) why = stop_.status(noun());
  // Whoever took it over takes away what this one works on before a renewal tells it.
  if (why.code() == Code::kUnavailable && !is_cancelled(why)) {
    metadata::ReportOperation sign;
    sign.identity = record_.identity;
    sign.token = token_;
    const Status renewed = context_.catalog.report_operation(sign).status();
    if (is_lost(renewed)) why = renewed;
  }
  const bool is_over =
      found.ok() && found->operation.state != OperationState::kRunning && found->operation.ended_by != token_.token;
  const std::string next =
      is_over ? fmt::format("another process has ended the operation; `{}` starts another", same_command())
              : fmt::format("the operation goes on with `{}`", same_command());
  const std::string hint = why.hint().empty() || is_cancelled(why) ? next : why.hint() + "; " + next;
  return std::move(why).with_hint(hint);
}

}  // namespace steelyard::store
