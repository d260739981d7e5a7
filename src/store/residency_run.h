// ResidencyRun: what rehydrations and evictions have in common. Their operation is started or taken over, its runner
// kept alive, its plan found again by whoever resumes it, and its end told with what was seen.
//
//   1. The record, the manifest, the memory that is mounted here, and what of the revision lies there.
//   2. Where nothing is to be moved, that is published, and there is no operation.
//   3. The operation is started with its totals, its instance and its runner, in one append.
//   4. The objects are moved (rehydrate.cc, evict.cc).
//   5. What lies there is listed again, and the operation ends with that.
//
// Killed anywhere, the operation stays RUNNING, and the same command, or a reconcile, takes it over.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "metadata/mixed_plan.h"
#include "store/context.h"
#include "store/hot_tier.h"
#include "store/residency.h"
#include "store/runner_keeper.h"
#include "store/stop_signal.h"

namespace steelyard::store {

/// The whole of a revision in memory, or the set that a ratio gives; a request of the operation that runs on a record.
ResidencyRequest request_of(const metadata::RevisionRecord& record);

class ResidencyRun {
 public:
  virtual ~ResidencyRun() = default;
  /// BUSY while another operation runs; while a live runner has one of the same target, it is waited for. A record that
  /// moved between being read and the start, without the caller's fence, is read again.
  Result<ResidencyResult> run(Begin begin);

 protected:
  ResidencyRun(Context& context, const ResidencyRequest& request, Observer& observer, const CancelFlag& cancel,
               metadata::OperationKind kind)
      : context_(context), request_(request), observer_(observer), stop_(cancel), kind_(kind) {}

  struct Totals {
    std::uint64_t members = 0;
    std::uint64_t bytes = 0;
  };

  /// The memory to work in: fills tier_ and hot_.
  virtual Status look() = 0;
  /// Whether nothing is to be moved; it may publish what was seen and read the record again to find out.
  virtual Result<bool> is_there() = 0;
  virtual Totals totals() const = 0;
  /// NO_SPACE where what is to be moved cannot fit.
  virtual Status check_room() { return {}; }
  virtual Status move_objects(RunnerKeeper& keeper) = 0;
  /// Takes back what would be of no use to whoever comes next, after a failure for good.
  virtual void clear_up() = 0;
  virtual const char* done_message() const = 0;
  virtual const char* noun() const = 0;                  ///< "the rehydration"
  virtual const char* verb() const = 0;                  ///< "rehydrating"
  virtual metadata::Residency whole_target() const = 0;  ///< without a ratio

  std::string ref() const;
  std::uint32_t objects() const { return static_cast<std::uint32_t>(manifest_.objects.size()); }
  /// Whether the object is to be in memory at the end.
  bool wanted_hot(std::uint32_t object) const {
    return plan_ ? static_cast<bool>(plan_->hot[object]) : whole_target() == metadata::Residency::kHot;
  }
  /// Finds hot_, under the group's lock: nobody is just removing what is counted.
  Status look_at_hot();
  /// Of the operation's end: what lies in memory.
  metadata::Observation observation();
  tiers::AttemptName made_here() const;
  /// What is wrong with a cold object is found by the same look as that of every other verb, and recorded.
  Status damaged(std::uint32_t object, const Status& why);

  Context& context_;
  const ResidencyRequest& request_;
  Observer& observer_;
  StopSignal stop_;
  const metadata::OperationKind kind_;
  metadata::RevisionRecord record_;
  formats::StoredManifest manifest_;
  std::optional<metadata::MixedPlan> plan_;  ///< with a ratio
  std::shared_ptr<tiers::Tier> tier_;
  HotReplicas hot_;
  metadata::RunnerToken token_;
  ResidencyResult result_;
  bool no_room_ = false;  ///< what is under way has no room, and ends as FAILED

 private:
  Result<ResidencyResult> run_on_record(Begin begin);
  bool is_own_kind() const;
  metadata::Residency target() const;
  const metadata::Operation* done_before() const;
  Status check_expected() const;
  Status load();
  Status check_space();
  Status start();
  Status begun(const metadata::Answer& answer);
  Status remember(const metadata::RevisionRecord& record);
  Status check_operation();
  Result<ResidencyResult> carry_out();
  bool can_never_go_on(const Status& status) const;
  void look_again_at_damage();
  void fail(RunnerKeeper& keeper, const Status& why);

  bool moved_ = false;  ///< the record is another by now, so what stood in the way may do so no more
  bool said_that_it_waits_ = false;
  bool never_to_go_on_ = false;  ///< the operation's memory or plan is not the one here
};

}  // namespace steelyard::store
