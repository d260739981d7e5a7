#include "store/residency_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/units.h"
#include "formats/ref.h"
#include "store/damage_record.h"
#include "store/manifest_file.h"
#include "store/resolve.h"

namespace steelyard::store {
namespace {

using metadata::OperationState;
using metadata::Residency;
using metadata::RevisionRecord;

/// Between reading a record and starting an operation on it others may change it.
constexpr int kTriesMax = 5;
constexpr std::int64_t kPauseMs = 100;

}  // namespace

ResidencyRequest request_of(const RevisionRecord& record) {
  ResidencyRequest request;
  request.target = selector_of(record.identity);
  if (record.operation) request.ratio_millionths = record.operation->ratio_millionths;
  return request;
}

Result<ResidencyResult> ResidencyRun::run(Begin begin) {
  if (context_.hot == nullptr) return Status(Code::kUnavailable, "this store has no memory tier");
  SY_ASSIGN_OR_RETURN(record_, resolve(context_.catalog, request_.target, Purpose::kReadDegraded));
  if (const metadata::Operation* before = done_before()) {
    result_.record = record_;
    result_.operation = *before;
    return std::move(result_);
  }
  SY_RETURN_IF_ERROR(check_expected());
  const Selector same = selector_of(record_.identity);
  for (int tries = 1;;) {
    moved_ = false;
    Result<ResidencyResult> done = run_on_record(begin);
    if (done.ok() || !token_.token.empty()) return done;
    // Waiting helps where somebody else runs the same operation, and not where a lease or another operation is in the
    // way.
    const bool busy = done.code() == Code::kBusy && request_.wait && request_.wait_for_others;
    const bool moved = (done.code() == Code::kStaleGeneration || moved_) && !request_.expected_generation;
    if (!busy && !moved) return done;
    SY_RETURN_IF_ERROR(stop_.status(noun()));
    const bool was_running = record_.operation.has_value();
    SY_ASSIGN_OR_RETURN(record_, resolve(context_.catalog, same, Purpose::kReadDegraded));
    const bool somebody_works = is_own_kind() || (was_running && !record_.operation);
    if (busy && !somebody_works) return done;
    if (busy) {
      if (!std::exchange(said_that_it_waits_, true)) observer_.warning("waiting: " + done.status().message());
      context_.runtime.sleep_ms(kPauseMs);
    } else if (tries++ == kTriesMax) {
      return done;
    }
  }
}

Result<ResidencyResult> ResidencyRun::run_on_record(Begin begin) {
  result_.operation.reset();
  SY_RETURN_IF_ERROR(load());
  SY_RETURN_IF_ERROR(look());
  if (!record_.operation) {
    // One that this run had to end, as it could not go on, is started anew.
    const bool ended_by_others = begin == Begin::kNothing && !never_to_go_on_;
    SY_ASSIGN_OR_RETURN(const bool done, ended_by_others ? Result<bool>(true) : is_there());
    if (done) {
      result_.record = record_;
      return std::move(result_);
    }
    SY_RETURN_IF_ERROR(check_space());
  }
  SY_RETURN_IF_ERROR(start());
  SY_POINT(context_.runtime, "residency.after_start");
  if (token_.token.empty()) return std::move(result_);
  return carry_out();
}

/// Nothing is started that cannot fit. Where there is no room because another process has begun the same, that is
/// waited for.
Status ResidencyRun::check_space() {
  Status room = check_room();
  if (room.code() != Code::kNoSpace && room.code() != Code::kBusy) return room;
  const auto now = context_.catalog.get_weight_revision(record_.identity);
  moved_ = now.ok() && now->metadata_generation != record_.metadata_generation;
  return std::move(room).annotate(verb(), ref());
}

std::string ResidencyRun::ref() const { return formats::format_ref(record_.identity); }

Residency ResidencyRun::target() const { return request_.ratio_millionths ? Residency::kMixed : whole_target(); }

bool ResidencyRun::is_own_kind() const {
  return record_.operation && record_.operation->kind == kind_ && record_.operation->target == target() &&
         record_.operation->ratio_millionths == request_.ratio_millionths;
}

/// The operation that this request started, where its answer was lost: the last one that was started at the expected
/// generation, to the same end.
const metadata::Operation* ResidencyRun::done_before() const {
  if (!request_.expected_generation || *request_.expected_generation == record_.metadata_generation) return nullptr;
  const auto& ended = record_.finished_operations;
  const auto own = std::find_if(ended.rbegin(), ended.rend(), [&](const metadata::Operation& operation) {
    return operation.request.expected_generation == *request_.expected_generation;
  });
  const bool same = own != ended.rend() && own->kind == kind_ && own->target == target() &&
                    own->ratio_millionths == request_.ratio_millionths && own->state == OperationState::kDone;
  return same ? &*own : nullptr;
}

/// An operation that was started at the expected generation is this one, interrupted.
Status ResidencyRun::check_expected() const {
  if (!request_.expected_generation || *request_.expected_generation == record_.metadata_generation) return {};
  if (is_own_kind() && record_.operation->request.expected_generation == *request_.expected_generation) return {};
  return {Code::kStaleGeneration,
          fmt::format("{}: metadata generation {} was expected, the current one is {}", ref(),
                      *request_.expected_generation, record_.metadata_generation),
          "read the record again, and repeat the request if it still makes sense"};
}

Status ResidencyRun::load() {
  auto manifest = load_manifest(context_.cold, record_);
  if (manifest.code() == Code::kCorrupt) {
    SY_RETURN_IF_ERROR(check_not_deleted(context_, record_));
    record_bad_manifest(context_, record_, stop_);
  }
  SY_ASSIGN_OR_RETURN(manifest_, std::move(manifest));
  plan_.reset();
  if (!request_.ratio_millionths) return {};
  std::vector<std::uint64_t> sizes;
  for (const formats::ObjectEntry& entry : manifest_.objects) sizes.push_back(entry.bytes);
  auto plan = metadata::plan_mixed(sizes, *request_.ratio_millionths);
  if (!plan.ok()) return plan.status().annotate("choosing the objects of", ref());
  plan_ = std::move(plan).value();
  return {};
}

/// Starts the operation, or takes over the one that nobody runs.
Status ResidencyRun::start() {
  // Whatever else runs, the log says what can be done about it.
  if (is_own_kind()) {
    token_.operation_id = record_.operation->operation_id;
    // One of another memory is ended first, as nobody here could go on with it.
    if (!request_.wait && record_.operation->hot_instance == hot_.instance) return remember(record_);
    metadata::TakeOperation command;
    command.identity = record_.identity;
    command.operation_id = token_.operation_id;
    command.runner = runner_grant(context_.runtime, context_.options.writer_ttl_ms);
    command.hot_instance = hot_.instance;
    command.hot_boot_id = context_.runtime.epoch();
    SY_ASSIGN_OR_RETURN(const metadata::Answer taken, context_.catalog.take_operation(command));
    return begun(taken);
  }
  const Totals all = totals();
  metadata::StartOperation command;
  command.identity = record_.identity;
  command.expected_metadata_generation = request_.expected_generation.value_or(record_.metadata_generation);
  command.operation_id = context_.runtime.random_hex(16);
  command.kind = kind_;
  command.target = target();
  command.ratio_millionths = request_.ratio_millionths;
  if (plan_) command.plan_digest = plan_->digest;
  command.total_members = all.members;
  command.total_bytes = all.bytes;
  command.hot_instance = hot_.instance;
  command.hot_boot_id = context_.runtime.epoch();
  if (request_.wait) command.runner = runner_grant(context_.runtime, context_.options.writer_ttl_ms);
  token_.operation_id = command.operation_id;
  SY_ASSIGN_OR_RETURN(const metadata::Answer started, context_.catalog.start_operation(command));
  if (!request_.wait) return remember(*started.record);
  return begun(started);
}

Status ResidencyRun::begun(const metadata::Answer& answer) {
  SY_CHECK(answer.runner.has_value(), "who becomes the runner is told so");
  token_.token = answer.runner->token;
  token_.run_attempt = answer.runner->run_attempt;
  return remember(*answer.record);
}

Status ResidencyRun::remember(const RevisionRecord& record) {
  record_ = record;
  result_.record = record;
  result_.operation = record.operation;
  return {};
}

/// What the operation was started for is what this runner would do.
Status ResidencyRun::check_operation() {
  const metadata::Operation& operation = *record_.operation;
  never_to_go_on_ = true;
  if (operation.hot_instance != hot_.instance) {
    return {
        Code::kUnavailable,
        fmt::format("nobody ran the operation, and the memory in which it worked is not mounted here: instance {}, {}",
                    operation.hot_instance,
                    hot_.instance.empty() ? "and there is none here" : "this one is " + hot_.instance),
        "run the same command again: it starts another operation"};
  }
  if (plan_ && operation.plan_digest != plan_->digest) {
    return {Code::kUnavailable, "the operation was started by a version that chooses other objects"};
  }
  never_to_go_on_ = false;
  return {};
}

Result<ResidencyResult> ResidencyRun::carry_out() {
  RunnerKeeper keeper(context_.runtime, context_.catalog, record_.identity, token_, context_.options.writer_ttl_ms,
                      stop_);
  Status status = check_operation();
  if (status.ok()) status = move_objects(keeper);
  SY_POINT(context_.runtime, "residency.after_objects");
  const bool moved = status.ok();
  if (moved) {
    auto ended = keeper.end(OperationState::kDone, done_message(), observation());
    if (ended.ok()) {
      SY_POINT(context_.runtime, "residency.after_end");
      result_.record = std::move(ended).value();
      result_.operation = ended_operation(*result_.operation, OperationState::kDone, result_.record);
      return std::move(result_);
    }
    status = std::move(ended).status();
  }
  if (Status deleted = check_not_deleted(context_, record_); !deleted.ok()) {
    clear_up();
    return deleted;
  }
  if (!moved && can_never_go_on(status)) {
    fail(keeper, status);
    return status;
  }
  keeper.set_message(text_kept_of(status));
  const auto found = context_.catalog.query_operation(token_.operation_id);
  if (found.ok() && found->operation.state == OperationState::kCancelled) {
    // What it did stays, and is to be known.
    record_findings(context_, found->record, {}, stop_).status().ignore("a reconcile finds it");
    return Status(
        Code::kConflict,
        fmt::format("{} of {} was cancelled (operation {}); what it did stays", noun(), ref(), token_.operation_id),
        "ask for it again if it is still wanted");
  }
  return stop_.stopped() ? stop_.status(noun()) : status;
}

/// What no later runner would do better; and what was begun for others (make_room.h, policies.h) and is paused.
bool ResidencyRun::can_never_go_on(const Status& status) const {
  return status.code() == Code::kNoSpace || status.code() == Code::kCorrupt || status.code() == Code::kUnauthorized ||
         never_to_go_on_ || no_room_ || (status.code() == Code::kBusy && request_.only_if_idle);
}

/// What was recorded while replicas might go, memory may have.
void ResidencyRun::look_again_at_damage() {
  const auto now = context_.catalog.get_weight_revision(record_.identity);
  if (!now.ok() || now->damage.objects.empty()) return;
  const ObjectFindings findings{.damaged = now->damage.objects, .whole = {}};
  record_findings(context_, *now, findings, stop_).status().ignore("it is recorded as damaged");
}

/// What is taken back goes after the record has ceased to count it, and before anybody counts again.
void ResidencyRun::fail(RunnerKeeper& keeper, const Status& why) {
  const bool takes_back = kind_ == metadata::OperationKind::kRehydrating && tier_ != nullptr;
  Result<std::unique_ptr<tiers::GroupLock>> lock{nullptr};
  if (takes_back) lock = lock_to_remove(context_, *tier_, record_);
  const bool locked = lock.ok() && *lock != nullptr;
  metadata::Observation seen;
  if (locked) {
    const auto leaving = [made = made_here()](const tiers::ObjectName& name) { return name.in == made; };
    see_hot_without(context_, record_, leaving, seen);
  } else {
    see_hot(context_, record_, seen);
  }
  const bool lowers = locked && !seen.boot_id.empty();
  const auto ended = keeper.end(OperationState::kFailed, text_kept_of(why), std::move(seen));
  if (!ended.ok()) return keeper.set_message(text_kept_of(why));
  if (lowers) clear_up();
  lock = std::unique_ptr<tiers::GroupLock>();
  if (never_to_go_on_) {
    moved_ = true;
    token_ = {};
  } else if (why.code() == Code::kCorrupt) {
    look_again_at_damage();
  }
}

Status ResidencyRun::look_at_hot() {
  hot_ = {};
  if (tier_ == nullptr) return {};
  SY_ASSIGN_OR_RETURN(const auto lock, lock_to_count(context_, *tier_, record_));
  SY_ASSIGN_OR_RETURN(hot_, find_hot(context_, record_, manifest_));
  if (hot_.tier == tier_) return {};
  return {Code::kUnavailable, "the memory tier was replaced meanwhile", "run the same command again"};
}

metadata::Observation ResidencyRun::observation() {
  metadata::Observation seen;
  see_hot(context_, record_, seen);
  return seen;
}

tiers::AttemptName ResidencyRun::made_here() const {
  tiers::AttemptName name = attempt_of(record_);
  name.operation = token_.operation_id;
  return name;
}

Status ResidencyRun::damaged(std::uint32_t object, const Status& why) {
  SY_RETURN_IF_ERROR(check_not_deleted(context_, record_));
  SY_ASSIGN_OR_RETURN(ReadBuffers buffers, ReadBuffers::allocate(read_piece_bytes(context_.io_budget, 1)));
  SY_ASSIGN_OR_RETURN(const auto bad, check_object(context_, attempt_of(record_), manifest_, object, buffers));
  if (!bad) return why;
  record_bad_objects(context_, record_, manifest_, {&*bad, 1}, stop_);
  return to_status(*bad, record_.identity);
}

}  // namespace steelyard::store
