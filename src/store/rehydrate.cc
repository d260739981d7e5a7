#include "store/rehydrate.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "base/limits.h"
#include "formats/ref.h"
#include "metadata/turn.h"
#include "store/damage_record.h"
#include "store/make_room.h"
#include "store/progress_meter.h"
#include "store/residency_run.h"
#include "tiers/fill.h"

namespace steelyard::store {
namespace {

using metadata::OperationKind;
using metadata::Residency;

class Rehydration final : public ResidencyRun {
 public:
  Rehydration(Context& context, const ResidencyRequest& request, Observer& observer, const CancelFlag& cancel)
      : ResidencyRun(context, request, observer, cancel, OperationKind::kRehydrating, Residency::kHot) {}

  /// A failure, with what went for it all the same.
  Status told(Status failed) const {
    if (result_.evicted.empty()) return failed;
    const std::string went = fmt::format("evicted to make room: {}", fmt::join(result_.evicted, ", "));
    const std::string hint = failed.hint().empty() ? went : failed.hint() + "; " + went;
    return std::move(failed).with_hint(hint);
  }

 private:
  Status mount() override {
    SY_ASSIGN_OR_RETURN(tier_, context_.hot->make());
    return {};
  }

  Result<std::uint64_t> room() {
    return room_for(*tier_, manifest_, hot_, [this](std::uint32_t object) { return wanted_hot(object); });
  }

  /// Nothing is started that cannot fit; room is made first where that was asked for. What is evicted may have held
  /// content that this one would have shared.
  Status find_room() {
    constexpr int kRoundsMax = 5;
    for (int round = 0; request_.make_room && round < kRoundsMax; ++round) {
      SY_ASSIGN_OR_RETURN(const std::uint64_t wanted, room());
      SY_ASSIGN_OR_RETURN(const tiers::Room now, tier_->room());
      if (now.check(wanted).ok()) break;
      SY_RETURN_IF_ERROR(make_room(context_, record_.identity, wanted, observer_, stop_.flag(), result_.evicted));
    }
    return {};
  }

  /// The record may not know it yet.
  Result<bool> is_there() override {
    if (missing().members > 0) {
      // Nobody goes for one that is refused.
      SY_RETURN_IF_ERROR(metadata::check_policy_allows(record_, asked_.kind, asked_.target, asked_.ratio_millionths));
      SY_RETURN_IF_ERROR(find_room());
      return false;
    }
    SY_ASSIGN_OR_RETURN(record_, record_findings(context_, record_, {}, stop_));
    // A record that is of another memory follows a rehydration, and no mere look.
    if (!record_.hot_instance.empty() && record_.hot_instance != hot_.instance) return false;
    if (record_.hot_members >= (plan_ ? plan_->hot_members : objects())) return true;
    SY_RETURN_IF_ERROR(check_not_deleted(context_, record_, "while it was to be brought into memory"));
    // Others removed some of it between the look and the record.
    moved_ = true;
    return Status(Code::kUnavailable, "what of " + ref() + " lies in memory could not be seen to its end",
                  "run the same command again");
  }

  /// Everything counts, as whoever resumes the operation cannot know what was missing when it began; and what was there
  /// may go before it is counted again.
  Amount totals() const override {
    if (plan_) return {plan_->hot_members, plan_->hot_bytes};
    return {objects(), record_.summary.logical_bytes};
  }
  Amount left() const override { return missing(); }

  /// Nothing is started that cannot fit. Where there is no room because another process has begun the same, that is
  /// waited for.
  Status check_room() override {
    SY_ASSIGN_OR_RETURN(const std::uint64_t wanted, room());
    Status full = tier_->check_fits(wanted);
    if (full.code() != Code::kNoSpace) return full;
    full = refuse_for_room(context_, record_.identity, wanted, std::move(full));
    const auto now = context_.catalog.get_weight_revision(record_.identity);
    moved_ = now.ok() && now->metadata_generation != record_.metadata_generation;
    return std::move(full).annotate("rehydrating", ref());
  }

  Amount missing() const {
    Amount sum;
    for (std::uint32_t object = 0; object < objects(); ++object) {
      if (!wanted_hot(object) || hot_.has(object)) continue;
      ++sum.members;
      sum.bytes += manifest_.objects[object].bytes;
    }
    return sum;
  }

  Status move_objects(RunnerKeeper& keeper) override {
    constexpr int kTriesMax = 5;
    // What was stray until the operation began may have gone since the look before it (evict.cc).
    SY_RETURN_IF_ERROR(look_at_hot());
    const Amount wanted = missing();
    keeper.set_left(wanted);
    const std::uint64_t memory_bytes = std::clamp(context_.io_budget, tiers::kFillBytesMin, tiers::kFillBytes);
    SY_ASSIGN_OR_RETURN(const auto memory, tiers::AlignedBuffer::allocate(memory_bytes));
    ProgressMeter progress(context_.runtime, observer_, "rehydrate", wanted.bytes, wanted.members);
    std::uint32_t next = 0;
    for (int tries = 1;; ++tries) {
      Status brought = bring_from(next, memory.span(), progress, keeper);
      if (brought.ok()) break;
      if (brought.code() != Code::kNoSpace) return brought;
      SY_RETURN_IF_ERROR(look_at_hot());
      if (tries == kTriesMax || !request_.make_room) return full_under_way(std::move(brought));
      // It was begun by others, or others took the room that there was.
      SY_POINT(context_.runtime, "rehydrate.before_room");
      Status found = find_room();
      if (!found.ok()) return given_up(std::move(found));
    }
    progress.finish();
    return {};
  }

  /// Goes on with the object `next`.
  Status bring_from(std::uint32_t& next, ByteSpan memory, ProgressMeter& progress, RunnerKeeper& keeper) {
    SY_ASSIGN_OR_RETURN(const std::uint64_t needed, room());
    SY_ASSIGN_OR_RETURN(const auto space, tier_->reserve(token_.operation_id, needed));
    for (; next < objects(); ++next) {
      if (!wanted_hot(next) || hot_.has(next)) continue;
      SY_RETURN_IF_ERROR(stop_.status(noun()));
      SY_RETURN_IF_ERROR(bring_one(next, memory, progress));
      progress.add_file();
      keeper.add(1, manifest_.objects[next].bytes);
      SY_POINT(context_.runtime, "rehydrate.after_object");
    }
    return {};
  }

  Status full_under_way(Status full) {
    SY_ASSIGN_OR_RETURN(const std::uint64_t wanted, room());
    return given_up(refuse_for_room(context_, record_.identity, wanted, std::move(full)));
  }

  /// What was brought must not hold the memory that others wait for, also where leases alone are in the way.
  Status given_up(Status refused) {
    no_room_ = refused.code() == Code::kBusy || refused.code() == Code::kNoSpace;
    return refused;
  }

  Status bring_one(std::uint32_t object, ByteSpan memory, ProgressMeter& progress) {
    const formats::ObjectEntry& entry = manifest_.objects[object];
    std::uint64_t told = 0;
    const auto count = [&](std::uint64_t done) {
      progress.add_bytes(done - std::exchange(told, done));
      return stop_.status(noun());
    };
    const auto filled = tiers::fill(context_.cold, *tier_,
                                    {.from = payload_of(attempt_of(record_), object),
                                     .to = payload_of(made_here(), object),
                                     .bytes = entry.bytes,
                                     .sha256 = entry.sha256,
                                     .blocks = entry.blocks},
                                    memory, count);
    if (!filled.ok()) {
      if (filled.code() != Code::kCorrupt && filled.code() != Code::kNotFound) return filled.status();
      // Another revision may have brought the same bytes meanwhile, from a cold object of its own.
      const auto linked = tier_->link(payload_of(made_here(), object), entry.sha256, entry.bytes);
      const bool is_there = linked.ok() && *linked;
      if (!is_there) {
        suspect_ = object;
        return filled.status();
      }
    }
    progress.add_bytes(entry.bytes - told);
    ++result_.moved_objects;
    if (filled.ok() && *filled == tiers::PutOutcome::kWritten) result_.read_bytes += entry.bytes;
    return {};
  }

  void clear_up() override { tier_->remove_attempt(made_here()).ignore("the next gc frees it"); }

  std::string done_message() const override {
    return plan_ ? "the objects of the ratio's set are in memory" : "every object is in memory";
  }
  const char* noun() const override { return "the rehydration"; }
};

}  // namespace

Result<ResidencyResult> rehydrate_only(Context& context, const ResidencyRequest& request, Observer& observer,
                                       const CancelFlag& cancel, Begin begin) {
  Rehydration rehydration(context, request, observer, cancel);
  auto done = rehydration.run(begin);
  if (done.ok()) return done;
  return rehydration.told(std::move(done).status());
}

}  // namespace steelyard::store
