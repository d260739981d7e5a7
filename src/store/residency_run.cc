#include "store/residency_run.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "base/log.h"
#include "store/damage_record.h"
#include "store/operation_text.h"
#include "store/resolve.h"

namespace steelyard::store {

using metadata::OperationState;
using metadata::Residency;
using metadata::RevisionRecord;

ResidencyRequest request_of(const RevisionRecord& record) {
  ResidencyRequest request;
  request.target = selector_of(record.identity);
  if (record.operation) request.ratio_millionths = record.operation->ratio_millionths;
  return request;
}

ResidencyRun::ResidencyRun(Context& context, const ResidencyRequest& request, Observer& observer,
                           const CancelFlag& cancel, metadata::OperationKind kind, Residency whole_target)
    : OperationRun(context,
                   {.kind = kind,
                    .target = request.ratio_millionths ? Residency::kMixed : whole_target,
                    .ratio_millionths = request.ratio_millionths,
                    .selector = request.target,
                    .expected_generation = request.expected_generation,
                    .wait = request.wait,
                    .wait_for_others = request.wait_for_others},
                   observer, cancel),
      request_(request) {}

Result<ResidencyResult> ResidencyRun::run(Begin begin) {
  if (context_.hot == nullptr) return Status(Code::kUnavailable, "this store has no memory tier");
  begin_ = begin;
  SY_RETURN_IF_ERROR(OperationRun::run());
  const bool ran = !token_.token.empty();
  if (ran && record_.damage.count > 0) look_again_at_damage();
  result_.record = std::move(record_);
  result_.operation = std::move(operation_);
  return std::move(result_);
}

Status ResidencyRun::look() {
  hot_ = {};
  instance_.clear();
  SY_RETURN_IF_ERROR(mount());
  if (tier_ != nullptr) {
    SY_ASSIGN_OR_RETURN(instance_, tier_->instance());
  }
  SY_RETURN_IF_ERROR(load());
  SY_RETURN_IF_ERROR(plan());
  return tier_ == nullptr ? Status() : look_at_hot();
}

Status ResidencyRun::plan() {
  plan_.reset();
  if (!request_.ratio_millionths) return {};
  std::vector<std::uint64_t> sizes;
  for (const formats::ObjectEntry& entry : manifest_.objects) sizes.push_back(entry.bytes);
  auto plan = metadata::plan_mixed(sizes, *request_.ratio_millionths);
  if (!plan.ok()) return plan.status().annotate("choosing the objects of", ref());
  plan_ = std::move(plan).value();
  return {};
}

/// Under the group's lock: nobody is just removing what is counted.
Status ResidencyRun::look_at_hot() {
  SY_ASSIGN_OR_RETURN(const auto lock, lock_to_count(context_, *tier_, record_, &stop_.flag()));
  SY_ASSIGN_OR_RETURN(hot_, find_hot(context_, record_, manifest_));
  if (hot_.tier == tier_ && hot_.instance == instance_) return {};
  return {Code::kUnavailable, "the memory tier was replaced meanwhile", "run the same command again"};
}

Result<bool> ResidencyRun::is_done() {
  // One that this run had to end, as it could not go on, is started anew.
  if (begin_ == Begin::kNothing && !never_to_go_on_) return true;
  return is_there();
}

void ResidencyRun::describe(metadata::StartOperation& command) const {
  const Amount all = totals();
  command.total_members = all.members;
  command.total_bytes = all.bytes;
  if (plan_) command.plan_digest = plan_->digest;
}

/// What the operation was started for is what this runner would do.
Status ResidencyRun::check_operation() {
  const metadata::Operation& operation = *record_.operation;
  never_to_go_on_ = true;
  if (operation.hot_instance != instance_) {
    return {
        Code::kUnavailable,
        fmt::format("nobody ran the operation, and the memory in which it worked is not mounted here: instance {}, "
                    "{}",
                    operation.hot_instance, instance_.empty() ? "and there is none here" : "this one is " + instance_),
        "run the same command again: it starts another operation"};
  }
  if (plan_ && operation.plan_digest != plan_->digest) {
    return {Code::kUnavailable, "the operation was started by a version that chooses other objects",
            "run the same command again: it starts another operation"};
  }
  never_to_go_on_ = false;
  return {};
}

Status ResidencyRun::work(RunnerKeeper& keeper) {
  Status status = check_operation();
  if (status.ok()) status = move_objects(keeper);
  if (!status.ok() && suspect_) status = judge_suspect(status);
  SY_POINT(context_.runtime, "residency.after_objects");
  return status;
}

/// What is wrong with a cold object is found by the same look as that of every other verb, and recorded: of an eviction
/// once it has ended, since memory still has what it could not read back. The move has given its buffers back by now.
Status ResidencyRun::judge_suspect(const Status& why) {
  const std::uint32_t object = *std::exchange(suspect_, std::nullopt);
  SY_RETURN_IF_ERROR(check_not_deleted(context_, record_, "while it was moved"));
  SY_ASSIGN_OR_RETURN(ReadBuffers buffers, ReadBuffers::allocate(read_piece_bytes(context_.io_budget, 2)));
  SY_ASSIGN_OR_RETURN(const auto bad, check_object(context_, attempt_of(record_), manifest_, object, buffers));
  if (!bad) {
    return {Code::kUnavailable, why.message() + "; it was whole when it was read again", "run the same command again"};
  }
  buffers = {};
  bad_ = *bad;
  if (asked_.kind == metadata::OperationKind::kRehydrating) {
    record_bad_objects(context_, record_, manifest_, {&*bad_, 1}, stop_);
  }
  return to_status(*bad, record_.identity)
      .annotate(asked_.kind == metadata::OperationKind::kEvicting ? "evicting" : "rehydrating", ref());
}

/// What no later runner would do better; and what was begun for others (make_room.h, policies.h) and is paused.
bool ResidencyRun::can_never_go_on(const Status& why) const {
  return why.code() == Code::kCorrupt || why.code() == Code::kUnauthorized || never_to_go_on_ || no_room_ ||
         (why.code() == Code::kBusy && request_.only_if_idle);
}

/// What was found or recorded while replicas moved, memory may have.
void ResidencyRun::look_again_at_damage() {
  auto now = context_.catalog.get_weight_revision(record_.identity);
  if (now.ok() && bad_) {
    record_bad_objects(context_, *now, manifest_, {&*bad_, 1}, stop_);
    now = context_.catalog.get_weight_revision(record_.identity);
  }
  if (!now.ok() || now->damage.objects.empty()) return;
  const ObjectFindings findings{.damaged = now->damage.objects, .whole = {}, .is_last_look = true};
  auto recorded = record_findings(context_, *now, findings, stop_);
  if (recorded.ok()) {
    record_ = std::move(recorded).value();
  } else {
    log_info("what is damaged of {} is not looked at again: {}", ref(), recorded.status().message());
  }
}

/// What is taken back goes after the record has ceased to count it, and before anybody counts again.
Status ResidencyRun::fail(RunnerKeeper& keeper, const Status& why) {
  const bool takes_back = asked_.kind == metadata::OperationKind::kRehydrating && tier_ != nullptr;
  std::unique_ptr<tiers::GroupLock> lock;
  if (takes_back) {
    // For some seconds also where this is cancelled: what is left would be memory that nobody asked for.
    auto removing = lock_to_remove(context_, *tier_, record_);
    if (removing.ok()) lock = std::move(removing).value();
  }
  const bool may_remove = lock != nullptr;
  metadata::Observation seen;
  if (may_remove) {
    const auto leaving = [made = made_here()](const tiers::ObjectName& name) { return name.in == made; };
    see_hot_without(context_, record_, leaving, seen);
  } else {
    lock = see_hot(context_, record_, seen, {}, &stop_.flag());
  }
  const bool lowers = may_remove && !seen.boot_id.empty();
  SY_RETURN_IF_ERROR(keeper.fail(why, text_kept_of(why), std::move(seen)).status());
  if (lowers) clear_up();
  lock.reset();
  if (never_to_go_on_) {
    moved_ = true;
    token_ = {};
  } else {
    look_again_at_damage();
  }
  return {};
}

Result<RevisionRecord> ResidencyRun::end_as_done(RunnerKeeper& keeper) {
  metadata::Observation seen;
  const auto lock = see_hot(context_, record_, seen, {}, &stop_.flag());
  SY_POINT(context_.runtime, "residency.before_end");
  return keeper.end(done_message(), std::move(seen));
}

tiers::AttemptName ResidencyRun::made_here() const {
  tiers::AttemptName name = attempt_of(record_);
  name.operation = token_.operation_id;
  return name;
}

}  // namespace steelyard::store
