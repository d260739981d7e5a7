#include "store/evict.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/limits.h"
#include "formats/identity.h"
#include "formats/ref.h"
#include "store/damage_record.h"
#include "store/progress_meter.h"
#include "store/residency_run.h"

namespace steelyard::store {
namespace {

using metadata::OperationKind;
using metadata::Residency;

/// What is removed with one permission: enough that the log is not asked often, little enough that a lease waits for
/// nothing, and a runner that is killed has read little in vain.
constexpr std::uint64_t kBatchBytes = 256ULL << 20;
constexpr std::size_t kBatchObjects = 1024;
constexpr std::int64_t kPauseMs = 100;
constexpr std::int64_t kPauseMsMax = 1'000;

class Eviction final : public ResidencyRun {
 public:
  Eviction(Context& context, const ResidencyRequest& request, Observer& observer, const CancelFlag& cancel)
      : ResidencyRun(context, request, observer, cancel, OperationKind::kEvicting, Residency::kCold) {}

 private:
  Status mount() override {
    const auto& running = record_.operation;
    const bool moves = running && metadata::moves_replicas(running->kind);
    SY_ASSIGN_OR_RETURN(
        tier_, mount_beside(context_, moves ? metadata::instance_of(*running) : metadata::instance_of(record_)));
    return {};
  }

  /// What the record says about memory is first made what is seen there.
  Result<bool> is_there() override {
    if (record_.hot_members != hot_.members || record_.hot_instance != hot_.instance) {
      SY_ASSIGN_OR_RETURN(record_, record_findings(context_, record_, {}, stop_));
    }
    if (!plan_ && is_stray(context_, record_, hot_)) {
      SY_RETURN_IF_ERROR(remove_strays());
      return true;
    }
    const bool done = outside().members == 0 && record_.hot_members <= (plan_ ? plan_->hot_members : 0);
    const auto view = metadata::view_of_instance(metadata::instance_of(record_), {instance_, context_.runtime.epoch()});
    if (!done && instance_.empty() && view != metadata::InstanceView::kElsewhere) {
      return Status(Code::kUnavailable, "what of " + ref() + " lies in memory could not be seen",
                    "run the same command again; steelyard doctor says what is in the way");
    }
    return done;
  }

  /// Of what lies in memory and is not wanted there.
  Amount outside() const {
    Amount sum;
    for (std::uint32_t object = 0; object < objects(); ++object) {
      if (wanted_hot(object) || !hot_.has(object)) continue;
      ++sum.members;
      sum.bytes += manifest_.objects[object].bytes;
    }
    return sum;
  }

  /// Everything outside the set, as a permission counts its members, whoever resumes the operation.
  Amount totals() const override {
    const std::uint64_t kept_members = plan_ ? plan_->hot_members : 0;
    const std::uint64_t kept_bytes = plan_ ? plan_->hot_bytes : 0;
    return {objects() - kept_members, record_.summary.logical_bytes - kept_bytes};
  }
  /// What has left memory before is counted when it is passed.
  Amount left() const override { return totals(); }

  Status move_objects(RunnerKeeper& keeper) override {
    SY_RETURN_IF_ERROR(check_permission(keeper.done()));
    return remove_all(&keeper);
  }

  /// Without an operation and its permissions. These order a removal against leases and against what the record counts,
  /// so that no reader misses what it was told of; the record tells nobody of these replicas, and who opened them while
  /// it did reads on from the cold ones, which are read back here as well (decision 18).
  Status remove_strays() {
    Status removed = remove_all(nullptr);
    if (removed.ok() || !suspect_) return removed;
    removed = judge_suspect(removed);
    look_again_at_damage();
    return removed;
  }

  /// `keeper`: of the operation; null: what goes is stray.
  Status remove_all(RunnerKeeper* keeper) {
    const Amount leaving = outside();
    std::vector<formats::ObjectRange> segments;
    for (std::uint32_t object = 0; object < objects(); ++object) {
      if (!wanted_hot(object) && hot_.has(object)) segments.push_back({object, 0, manifest_.objects[object].bytes});
    }
    SY_RETURN_IF_ERROR(note_cold());
    // What is read a second time needs some too.
    SY_ASSIGN_OR_RETURN(ReadBuffers buffers,
                        ReadBuffers::allocate(read_piece_bytes(context_.io_budget - 2 * limits::kBlockBytes, 1)));
    VerifiedReader reader(context_.cold, attempt_of(record_), manifest_.objects, std::move(segments), buffers);
    ProgressMeter progress(context_.runtime, observer_, "evict", leaving.bytes, leaving.members);
    Batch batch;
    for (std::uint32_t object = 0; object < objects(); ++object) {
      if (wanted_hot(object)) continue;
      ++batch.members_before_and_in_it;
      batch.bytes += manifest_.objects[object].bytes;
      if (hot_.has(object)) {
        SY_RETURN_IF_ERROR(read_back(reader, progress));
        SY_POINT(context_.runtime, "evict.after_read_back");
        batch.objects.push_back(object);
        progress.add_file();
      }
      if (batch.bytes >= kBatchBytes || batch.objects.size() >= kBatchObjects) {
        SY_RETURN_IF_ERROR(remove(keeper, batch, false));
      }
    }
    SY_RETURN_IF_ERROR(remove(keeper, batch, true));
    progress.finish();
    return {};
  }

  /// Reads the next object of the cold tier.
  Status read_back(VerifiedReader& reader, ProgressMeter& progress) {
    VerifiedReader::Piece piece;
    do {
      SY_RETURN_IF_ERROR(stop_.status(noun()));
      SY_RETURN_IF_ERROR(reader.next(piece).status());
      if (piece.bad) return refuse(*piece.bad);
      result_.read_bytes += piece.bytes.size();
      progress.add_bytes(piece.bytes.size());
    } while (!piece.last_of_segment);
    return {};
  }

  struct Batch {
    std::vector<std::uint32_t> objects;  ///< that lie in memory
    std::uint64_t members_before_and_in_it = 0;
    std::uint64_t members_before = 0;
    std::uint64_t bytes = 0;
  };

  static Status paused(const Status& refused) {
    return {Code::kBusy, "paused: " + refused.message(), "the next reconcile goes on with it"};
  }

  /// Who does not wait asks before it reads anything back.
  Status check_permission(const Amount& done) {
    if (request_.wait_for_others) return {};
    const Status refused = context_.catalog.check_removal({.identity = record_.identity,
                                                           .token = token_,
                                                           .members = operation_->total_members,
                                                           .processed_members = done.members,
                                                           .processed_bytes = done.bytes});
    return refused.code() == Code::kBusy ? paused(refused) : refused;
  }

  Status remove(RunnerKeeper* keeper, Batch& batch, bool last) {
    if (batch.members_before_and_in_it == batch.members_before && !last) return {};
    SY_RETURN_IF_ERROR(keeper != nullptr ? remove_when_permitted(*keeper, batch, last)
                                         : try_remove(nullptr, batch, last));
    SY_POINT(context_.runtime, "evict.after_removal");
    const std::uint64_t members = batch.members_before_and_in_it;
    batch = {};
    batch.members_before = batch.members_before_and_in_it = members;
    return {};
  }

  /// Waits for the permission, as long as it takes.
  Status remove_when_permitted(RunnerKeeper& keeper, const Batch& batch, bool last) {
    for (std::int64_t pause_ms = kPauseMs;;) {
      SY_RETURN_IF_ERROR(stop_.status(noun()));
      Status refused = try_remove(&keeper, batch, last);
      if (refused.ok()) break;
      if (refused.code() != Code::kBusy) return refused;
      if (!request_.wait_for_others) return paused(refused);
      if (!std::exchange(said_that_it_is_paused_, true)) observer_.warning("waiting: " + refused.message());
      // The text stands in the log, so it is one that does not change with the time.
      keeper.set_message("paused: somebody reads it (steelyard lease list " + ref() + "), or counts what is in memory");
      SY_POINT(context_.runtime, "evict.paused");
      context_.runtime.sleep_ms(pause_ms);
      pause_ms = std::min(2 * pause_ms, kPauseMsMax);
    }
    keeper.set_message({});
    keeper.add(batch.members_before_and_in_it - batch.members_before, batch.bytes);
    return {};
  }

  /// BUSY while a lease lives, or somebody else has the group's lock. It is held from before the permission to the end
  /// of the removals, and not while this waits.
  Status try_remove(const RunnerKeeper* keeper, const Batch& batch, bool last) {
    SY_ASSIGN_OR_RETURN(const auto lock, lock_to_remove(context_, *tier_, record_, &stop_.flag()));
    SY_RETURN_IF_ERROR(keeper != nullptr ? get_permission(keeper->done(), batch) : check_still_stray());
    SY_POINT(context_.runtime, "evict.after_permission");
    SY_RETURN_IF_ERROR(check_still_whole(batch));
    return remove_replicas(batch, last);
  }

  Status get_permission(const Amount& done, const Batch& batch) {
    SY_ASSIGN_OR_RETURN(metadata::Answer permitted,
                        context_.catalog.permit_removal({.identity = record_.identity,
                                                         .token = token_,
                                                         .members = batch.members_before_and_in_it,
                                                         .processed_members = done.members,
                                                         .processed_bytes = done.bytes}));
    record_ = *std::move(permitted.record);
    return {};
  }

  /// For who holds the lock. A record that is as it was: no operation has begun that would read or adopt them. What
  /// lies there is not more than before: who counted it before the lock publishes nothing of it, and who counts it
  /// after the lock sees what is left.
  Status check_still_stray() {
    // A log whose store was moved away, or replaced, is read on as if nothing had happened.
    SY_RETURN_IF_ERROR(context_.catalog.check_place());
    SY_ASSIGN_OR_RETURN(const auto now, context_.catalog.get_weight_revision(record_.identity));
    SY_ASSIGN_OR_RETURN(const HotReplicas there, find_hot(context_, now, manifest_));
    const bool as_it_was = now.metadata_generation == record_.metadata_generation && there.tier == tier_;
    if (as_it_was && (there.members == 0 || is_stray(context_, now, there))) return {};
    return {Code::kStaleGeneration, ref() + " was moved by others while what lies in memory here was to go",
            "run the same command again"};
  }

  /// The bytes behind the cold names, before the first of them is read.
  Status note_cold() {
    SY_ASSIGN_OR_RETURN(const auto members, context_.cold.list_attempt(attempt_of(record_)));
    storages_.assign(objects(), std::nullopt);
    for (const tiers::ObjectStat& member : members) {
      if (member.name.kind != tiers::ObjectKind::kPayload || member.name.index >= objects()) continue;
      storages_[member.name.index] = member.storage;
    }
    return {};
  }

  /// Of what was permitted, every cold object is still what was read back:
  ///
  /// - Somebody else may have found it bad since: that is recorded before the permission, and seen here, or after it.
  ///   Then memory had lost it anyway if the look had come a moment later.
  /// - A repair of another revision that shares it may have put other, whole bytes in its place, and a hand in the
  ///   cold tier anything or nothing: then the name leads to other bytes, which are read before the replica goes.
  /// - A repair of this revision cannot run beside its eviction. A delete cancels the eviction in its own entry, so
  ///   nothing is permitted after it; what was permitted before it, it takes away as well. gc takes nothing of a
  ///   revision that has a record.
  Status check_still_whole(const Batch& batch) {
    const metadata::DamageReport& damage = record_.damage;
    std::optional<ReadBuffers> buffers;
    for (const std::uint32_t object : batch.objects) {
      const std::string key = formats::payload_key(record_.identity, object);
      // Where more are counted than named, it may be any.
      if (damage.count > damage.objects.size() || std::ranges::count(damage.objects, key) != 0) {
        return {Code::kCorrupt, ref() + ": the cold object " + key + " was found damaged while it was to be evicted",
                "repair it: steelyard repair " + ref()};
      }
      const auto now = context_.cold.stat(payload_of(attempt_of(record_), object));
      if (now.ok() && now->storage == storages_[object] && now->bytes == manifest_.objects[object].bytes) continue;
      if (!buffers) {
        SY_ASSIGN_OR_RETURN(buffers, ReadBuffers::allocate(limits::kBlockBytes));
      }
      SY_ASSIGN_OR_RETURN(const auto bad, check_object(context_, attempt_of(record_), manifest_, object, *buffers));
      if (bad) return refuse(*bad);
    }
    return {};
  }

  /// A bad object is judged, and recorded, once the move has given its buffers back.
  Status refuse(const BadObject& bad) {
    if (bad.read_error.ok()) suspect_ = bad.object;
    return to_status(bad, record_.identity).annotate("evicting", ref());
  }

  Status remove_replicas(const Batch& batch, bool last) {
    const std::string group = attempt_of(record_).group;
    SY_ASSIGN_OR_RETURN(const auto listing, tier_->list_group(group));
    Status failed;
    const auto note = [&failed](Status status) {
      if (failed.ok()) failed = std::move(status);
    };
    for (const std::uint32_t object : batch.objects) {
      // The record counts none of them by now, so it stays true wherever this ends.
      SY_RETURN_IF_ERROR(stop_.status(noun()));
      for (const tiers::AttemptName& made : listing.by_operation) {
        note(tier_->remove({made, tiers::ObjectKind::kPayload, object}));
      }
      ++result_.moved_objects;
      ++result_.removed_objects;
    }
    if (last && !plan_) {
      // Nothing is left but what never got its name.
      for (const tiers::AttemptName& made : listing.by_operation) note(tier_->remove_attempt(made));
    }
    if (last) note(tier_->remove_empty_group(group));
    return failed.ok() ? Status() : judge_what_stays(batch, std::move(failed));
  }

  /// What is no replica, as a folder of somebody else's that has the name of one, keeps no eviction from its end.
  Status judge_what_stays(const Batch& batch, Status failed) {
    SY_ASSIGN_OR_RETURN(const HotReplicas there, find_hot(context_, record_, manifest_));
    const bool all_went = std::ranges::none_of(batch.objects, [&](std::uint32_t object) { return there.has(object); });
    if (!all_went || there.tier != tier_) return failed;
    observer_.warning("what is no replica of " + ref() + " stays in memory: " + failed.message());
    return {};
  }

  std::string done_message() const override {
    return plan_ ? "what is outside the ratio's set has left memory" : "nothing is left in memory";
  }
  const char* noun() const override { return "the eviction"; }

  bool said_that_it_is_paused_ = false;
  std::vector<std::optional<std::uint64_t>> storages_;  ///< of the cold objects, by number
};

}  // namespace

Result<ResidencyResult> evict_only(Context& context, const ResidencyRequest& request, Observer& observer,
                                   const CancelFlag& cancel, Begin begin) {
  return Eviction(context, request, observer, cancel).run(begin);
}

}  // namespace steelyard::store
