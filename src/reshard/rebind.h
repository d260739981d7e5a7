// A plan and the addresses of one step. Planning is done once per layout; this once per step.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "placement/placement_manifest.h"
#include "placement/runtime_manifest.h"
#include "reshard/execute.h"
#include "reshard/transfer_plan.h"

namespace steelyard::reshard {

/// A plan with memory on both sides. An immutable value; keeps the bindings, and with them the owners of the memory,
/// alive. Safe to read from several threads.
class BoundPlan {
 public:
  const TransferPlan& plan() const { return plan_; }
  /// Absent for a stored source.
  const std::optional<placement::RuntimeBindingManifest>& source_binding() const { return source_binding_; }
  const placement::RuntimeBindingManifest& target_binding() const { return target_binding_; }
  /// By the plan's numbers of fragments.
  const std::vector<FragmentMemory>& source_memory() const { return source_memory_; }
  const std::vector<FragmentMemory>& target_memory() const { return target_memory_; }

 private:
  friend Result<BoundPlan> rebind(const TransferPlan&, const placement::RuntimeBindingManifest*,
                                  const placement::RuntimeBindingManifest&, const placement::PlacementManifest*,
                                  const placement::PlacementManifest*);
  BoundPlan(TransferPlan plan, placement::RuntimeBindingManifest target_binding)
      : plan_(std::move(plan)), target_binding_(std::move(target_binding)) {}

  TransferPlan plan_;
  std::optional<placement::RuntimeBindingManifest> source_binding_;
  placement::RuntimeBindingManifest target_binding_;
  std::vector<FragmentMemory> source_memory_;
  std::vector<FragmentMemory> target_memory_;
};

/// Puts ready bindings under a plan; nothing is planned. `source` is null exactly when the plan's source is stored.
///
/// A binding must be of the plan's own placement, by model, revision, placement_id and digest; or, where a side's
/// placement is given (another revision), that placement must have the plan's layout_digest and the binding must carry
/// its names. Every fragment is bound, with the plan's number of bytes. INVALID_ARGUMENT says what differs.
Result<BoundPlan> rebind(const TransferPlan& plan, const placement::RuntimeBindingManifest* source,
                         const placement::RuntimeBindingManifest& target,
                         const placement::PlacementManifest* source_placement = nullptr,
                         const placement::PlacementManifest* target_placement = nullptr);

/// The lease and the generation that a side must still have.
struct ExpectedFence {
  std::string_view lease_id;
  std::uint64_t generation = 0;
};

/// execute() over a bound plan. The bindings are compared with the fences given before the first byte moves; a binding
/// of another lease or generation is INVALID_ARGUMENT. options.fence is asked as well.
Result<ExecuteReport> execute(const BoundPlan& bound, const std::optional<ExpectedFence>& source,
                              const std::optional<ExpectedFence>& target, const ExecuteOptions& options = {});

}  // namespace steelyard::reshard
