// ResidencyRun: what rehydrations and evictions have in common beside the frame of all operations (operation_run.h):
// the memory that is mounted here and what of the revision lies there, the set that a ratio gives, which is found again
// by whoever resumes the operation, and an end that tells what was seen.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "metadata/mixed_plan.h"
#include "store/hot_tier.h"
#include "store/operation_run.h"
#include "store/residency.h"
#include "store/verified_reader.h"

namespace steelyard::store {

/// The whole of a revision in memory, or the set that a ratio gives; a request of the operation that runs on a record.
ResidencyRequest request_of(const metadata::RevisionRecord& record);

class ResidencyRun : public OperationRun {
 public:
  /// While a live runner has an operation of the same target, it is waited for.
  Result<ResidencyResult> run(Begin begin);

 protected:
  /// `whole_target`: without a ratio.
  ResidencyRun(Context& context, const ResidencyRequest& request, Observer& observer, const CancelFlag& cancel,
               metadata::OperationKind kind, metadata::Residency whole_target);

  /// The memory to work in: fills tier_.
  virtual Status mount() = 0;
  /// Whether nothing is to be moved.
  virtual Result<bool> is_there() = 0;
  virtual Amount totals() const = 0;
  virtual Status move_objects(RunnerKeeper& keeper) = 0;

  std::uint32_t objects() const { return static_cast<std::uint32_t>(manifest_.objects.size()); }
  /// Whether the object is to be in memory at the end.
  bool wanted_hot(std::uint32_t object) const {
    return plan_ ? static_cast<bool>(plan_->hot[object]) : asked_.target == metadata::Residency::kHot;
  }
  tiers::AttemptName made_here() const;
  /// Finds hot_, under the group's lock: nobody is just removing what is counted.
  Status look_at_hot();
  Status judge_suspect(const Status& why);
  void look_again_at_damage();

  const ResidencyRequest& request_;
  std::optional<metadata::MixedPlan> plan_;  ///< with a ratio
  std::shared_ptr<tiers::Tier> tier_;
  HotReplicas hot_;
  ResidencyResult result_;
  bool no_room_ = false;                  ///< what is under way has no room, and ends as FAILED
  std::optional<std::uint32_t> suspect_;  ///< the cold object whose bytes, it seems, ended the move

 private:
  Status look() final;
  Result<bool> is_done() final;
  void describe(metadata::StartOperation& command) const final;
  Status work(RunnerKeeper& keeper) final;
  bool can_never_go_on(const Status& why) const final;
  Status fail(RunnerKeeper& keeper, const Status& why) final;
  Result<metadata::RevisionRecord> end_as_done(RunnerKeeper& keeper) final;
  void after_start() final { SY_POINT(context_.runtime, "residency.after_start"); }
  void after_end() final { SY_POINT(context_.runtime, "residency.after_end"); }

  Status plan();
  Status check_operation();

  Begin begin_ = Begin::kWhereNoneRuns;
  std::optional<BadObject> bad_;  ///< what `suspect_` was found to be
  bool never_to_go_on_ = false;   ///< the operation's memory or plan is not the one here
};

}  // namespace steelyard::store
