#include "store/residency.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/limits.h"
#include "base/units.h"
#include "base/utf8.h"
#include "formats/identity.h"
#include "formats/ref.h"
#include "store/damage_record.h"
#include "store/hot_tier.h"
#include "store/manifest_file.h"
#include "store/progress_meter.h"
#include "store/resolve.h"
#include "store/runner_keeper.h"
#include "tiers/fill.h"

namespace steelyard::store {
namespace {

using metadata::OperationKind;
using metadata::OperationState;
using metadata::RevisionRecord;

/// Between reading a record and starting an operation on it others may change it.
constexpr int kTriesMax = 5;
constexpr std::int64_t kPauseMs = 100;

/// What an operation keeps of an error's text.
std::string kept(const Status& status) {
  constexpr std::size_t kBytesMax = 1000;
  std::string text = status.message().substr(0, kBytesMax);
  while (!is_valid_utf8(text)) text.pop_back();
  return text;
}

class Rehydration {
 public:
  Rehydration(Context& context, const ResidencyRequest& request, Observer& observer, const CancelFlag& cancel)
      : context_(context), request_(request), observer_(observer), stop_(cancel) {}

  /// A record that moved between being read and the start, without the caller's fence, is read again.
  Result<ResidencyResult> run() {
    if (context_.hot == nullptr) return Status(Code::kUnavailable, "this store has no memory tier");
    SY_ASSIGN_OR_RETURN(record_, resolve(context_.catalog, request_.target, Purpose::kReadDegraded));
    SY_RETURN_IF_ERROR(check_expected());
    const Selector same = selector_of(record_.identity);
    for (int tries = 1;;) {
      Result<ResidencyResult> done = run_on_record();
      if (done.ok() || !token_.token.empty()) return done;
      const bool busy = done.code() == Code::kBusy && request_.wait;
      const bool moved = done.code() == Code::kStaleGeneration && !request_.expected_generation;
      if (!busy && !moved) return done;
      SY_RETURN_IF_ERROR(stop_.status("the rehydration"));
      SY_ASSIGN_OR_RETURN(record_, resolve(context_.catalog, same, Purpose::kReadDegraded));
      if (busy && record_.operation && !is_rehydrating()) return done;
      if (busy) {
        context_.runtime.sleep_ms(kPauseMs);
      } else if (tries++ == kTriesMax) {
        return done;
      }
    }
  }

 private:
  Result<ResidencyResult> run_on_record() {
    SY_ASSIGN_OR_RETURN(manifest_, load());
    SY_ASSIGN_OR_RETURN(const auto tier, context_.hot->make());
    tier_ = tier;
    SY_ASSIGN_OR_RETURN(hot_, find_hot(context_, record_, manifest_));
    if (hot_.tier != tier_) return Status(Code::kUnavailable, "the memory tier was replaced meanwhile", kAgain);
    if (!record_.operation && hot_.members == manifest_.objects.size()) {
      // Nothing to bring; the record may not know it yet.
      SY_ASSIGN_OR_RETURN(result_.record, record_findings(context_, record_, {}, stop_));
      return std::move(result_);
    }
    SY_RETURN_IF_ERROR(start());
    SY_POINT(context_.runtime, "rehydrate.after_start");
    if (!request_.wait) return std::move(result_);
    return bring();
  }

  std::uint64_t missing_bytes() const { return record_.summary.logical_bytes - hot_.bytes; }
  std::string ref() const { return formats::format_ref(record_.identity); }

  bool is_rehydrating() const { return record_.operation && record_.operation->kind == OperationKind::kRehydrating; }

  /// A rehydration that was started at the expected generation is this one, interrupted.
  Status check_expected() const {
    if (!request_.expected_generation || *request_.expected_generation == record_.metadata_generation) return {};
    if (is_rehydrating() && record_.operation->request.expected_generation == *request_.expected_generation) return {};
    return {Code::kStaleGeneration,
            fmt::format("{}: metadata generation {} was expected, the current one is {}", ref(),
                        *request_.expected_generation, record_.metadata_generation),
            "read the record again, and repeat the request if it still makes sense"};
  }

  Result<formats::StoredManifest> load() {
    auto manifest = load_manifest(context_.cold, record_);
    if (manifest.code() == Code::kCorrupt) record_bad_manifest(context_, record_, stop_);
    return manifest;
  }

  /// Starts the operation, or takes over the one that nobody runs.
  Status start() {
    if (record_.operation) {
      if (!is_rehydrating()) {
        return {Code::kBusy,
                fmt::format("{} has the running {} operation {}", ref(), name_of(record_.operation->kind),
                            record_.operation->operation_id),
                "wait for it, or end it: steelyard operation cancel " + record_.operation->operation_id};
      }
      token_.operation_id = record_.operation->operation_id;
      if (!request_.wait) return remember(record_);
      metadata::TakeOperation command;
      command.identity = record_.identity;
      command.operation_id = token_.operation_id;
      command.runner = runner_grant(context_.runtime, context_.options.writer_ttl_ms);
      command.hot_instance = hot_.instance;
      command.hot_boot_id = context_.runtime.epoch();
      SY_ASSIGN_OR_RETURN(const metadata::Answer taken, context_.catalog.take_operation(command));
      return begun(taken);
    }
    metadata::StartOperation command;
    command.identity = record_.identity;
    command.expected_metadata_generation = record_.metadata_generation;
    command.operation_id = context_.runtime.random_hex(16);
    command.kind = OperationKind::kRehydrating;
    command.target = metadata::Residency::kHot;
    command.total_members = manifest_.objects.size() - hot_.members;
    command.total_bytes = missing_bytes();
    command.hot_instance = hot_.instance;
    command.hot_boot_id = context_.runtime.epoch();
    if (request_.wait) command.runner = runner_grant(context_.runtime, context_.options.writer_ttl_ms);
    token_.operation_id = command.operation_id;
    SY_ASSIGN_OR_RETURN(const metadata::Answer started, context_.catalog.start_operation(command));
    if (!request_.wait) return remember(*started.record);
    return begun(started);
  }

  Status begun(const metadata::Answer& answer) {
    SY_CHECK(answer.runner.has_value(), "who becomes the runner is told so");
    token_.token = answer.runner->token;
    token_.run_attempt = answer.runner->run_attempt;
    return remember(*answer.record);
  }

  Status remember(const RevisionRecord& record) {
    record_ = record;
    result_.record = record;
    result_.operation = record.operation;
    return {};
  }

  Result<ResidencyResult> bring() {
    RunnerKeeper keeper(context_.runtime, context_.catalog, record_.identity, token_, context_.options.writer_ttl_ms,
                        stop_);
    Status status = bring_objects(keeper);
    SY_POINT(context_.runtime, "rehydrate.after_objects");
    if (status.ok()) {
      metadata::Observation seen = observation();
      auto ended = keeper.end(OperationState::kDone, "every object is in memory", std::move(seen));
      if (ended.ok()) {
        SY_POINT(context_.runtime, "rehydrate.after_end");
        result_.record = std::move(ended).value();
        result_.operation = ended_operation(*result_.operation, OperationState::kDone, result_.record);
        return std::move(result_);
      }
      status = std::move(ended).status();
    } else if (!check_not_deleted(context_, record_).ok()) {
      tier_->remove_attempt(made_here()).ignore("the next gc frees it");
    } else if (can_never_go_on(status)) {
      tier_->remove_attempt(made_here()).ignore("the next gc frees it");
      auto ended = keeper.end(OperationState::kFailed, kept(status), observation());
      if (!ended.ok()) keeper.set_message(kept(status));
      return status;
    }
    keeper.set_message(kept(status));
    return stop_.stopped() ? stop_.status("the rehydration") : status;
  }

  bool can_never_go_on(const Status& status) const {
    return status.code() == Code::kNoSpace || status.code() == Code::kCorrupt || of_another_instance_;
  }

  /// Of the operation's end: the damage stays what is recorded, as nothing but what was read is known.
  metadata::Observation observation() {
    if (const auto now = context_.catalog.get_weight_revision(record_.identity); now.ok()) record_ = *now;
    metadata::Observation seen;
    seen.damage = record_.damage;
    seen.cold_readable = record_.residency != metadata::Residency::kAbsent;
    see_hot(context_, record_, seen);
    return seen;
  }

  tiers::AttemptName made_here() const {
    tiers::AttemptName name = attempt_of(record_);
    name.operation = token_.operation_id;
    return name;
  }

  Status bring_objects(RunnerKeeper& keeper) {
    of_another_instance_ = record_.operation->hot_instance != hot_.instance;
    if (of_another_instance_) {
      return {Code::kUnavailable, "the memory in which the operation worked is gone: instance " +
                                      record_.operation->hot_instance + ", this one is " + hot_.instance};
    }
    SY_ASSIGN_OR_RETURN(const auto space, tier_->reserve(token_.operation_id, missing_bytes()));
    const std::uint64_t memory_bytes = std::clamp(context_.io_budget, tiers::kFillBytesMin, tiers::kFillBytes);
    SY_ASSIGN_OR_RETURN(const auto memory, tiers::AlignedBuffer::allocate(memory_bytes));
    const auto objects = static_cast<std::uint32_t>(manifest_.objects.size());
    ProgressMeter progress(context_.runtime, observer_, "rehydrate", missing_bytes(), objects - hot_.members);
    for (std::uint32_t object = 0; object < objects; ++object) {
      if (hot_.has(object)) continue;
      SY_RETURN_IF_ERROR(stop_.status("the rehydration"));
      SY_RETURN_IF_ERROR(bring_one(object, memory.span(), progress));
      progress.add_file();
      keeper.add(1, manifest_.objects[object].bytes);
      SY_POINT(context_.runtime, "rehydrate.after_object");
    }
    progress.finish();
    return {};
  }

  Status bring_one(std::uint32_t object, ByteSpan memory, ProgressMeter& progress) {
    const formats::ObjectEntry& entry = manifest_.objects[object];
    std::uint64_t told = 0;
    const auto count = [&](std::uint64_t done) {
      progress.add_bytes(done - std::exchange(told, done));
      return stop_.status("the rehydration");
    };
    const auto filled = tiers::fill(context_.cold, *tier_,
                                    {.from = payload_of(attempt_of(record_), object),
                                     .to = payload_of(made_here(), object),
                                     .bytes = entry.bytes,
                                     .sha256 = entry.sha256,
                                     .blocks = entry.blocks},
                                    memory, count);
    if (!filled.ok()) {
      if (filled.code() == Code::kCorrupt || filled.code() == Code::kNotFound) return damaged(object, filled.status());
      return filled.status();
    }
    progress.add_bytes(entry.bytes - told);
    ++result_.moved_objects;
    if (*filled == tiers::PutOutcome::kWritten) result_.read_bytes += entry.bytes;
    return {};
  }

  /// What is wrong with it is found by the same look as that of every other verb, and recorded.
  Status damaged(std::uint32_t object, const Status& why) {
    SY_RETURN_IF_ERROR(check_not_deleted(context_, record_));
    SY_ASSIGN_OR_RETURN(ReadBuffers buffers, ReadBuffers::allocate(read_piece_bytes(context_.io_budget, 1)));
    SY_ASSIGN_OR_RETURN(const auto bad, check_object(context_, attempt_of(record_), manifest_, object, buffers));
    if (!bad) return why;
    record_bad_objects(context_, record_, manifest_, {&*bad, 1}, stop_);
    return to_status(*bad, record_.identity).annotate("rehydrating", ref());
  }

  static constexpr const char* kAgain = "run the same command again";

  Context& context_;
  const ResidencyRequest& request_;
  Observer& observer_;
  StopSignal stop_;
  RevisionRecord record_;
  formats::StoredManifest manifest_;
  std::shared_ptr<tiers::Tier> tier_;
  HotReplicas hot_;
  metadata::RunnerToken token_;
  bool of_another_instance_ = false;
  ResidencyResult result_;
};

}  // namespace

Result<ResidencyResult> run_rehydrate(Context& context, const ResidencyRequest& request, Observer& observer,
                                      const CancelFlag& cancel) {
  return Rehydration(context, request, observer, cancel).run();
}

}  // namespace steelyard::store
