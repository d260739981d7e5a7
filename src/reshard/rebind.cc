#include "reshard/rebind.h"

#include <string>
#include <utility>

#include "placement/bind.h"
#include "reshard/plan_side.h"

namespace steelyard::reshard {
namespace {

Status refuse(std::string message) { return Status(Code::kInvalidArgument, std::move(message)); }

/// Checks one side and gives the memory of its fragments.
Result<std::vector<FragmentMemory>> bind_side(const placement::PlacementManifest& planned,
                                              const placement::PlacementManifest* other,
                                              const placement::RuntimeBindingManifest& binding, std::string_view side) {
  if (other != nullptr && other->layout_digest() != planned.layout_digest()) {
    return refuse(std::string(side) + ": the layout digests differ: the plan's is " + planned.layout_digest() +
                  ", that of revision \"" + other->revision() + "\" is " + other->layout_digest());
  }
  const placement::PlacementManifest& own = other != nullptr ? *other : planned;
  if (Status status = placement::check_binding_of(own, binding); !status.ok()) {
    return std::move(status).annotate("rebinding", side);
  }
  // Both are sorted by the same ids, so a complete binding agrees row by row.
  const placement::PlacementFragments& fragments = own.fragments();
  const placement::BindingFragments& bound = binding.fragments();
  std::vector<FragmentMemory> memory(fragments.size());
  bool agrees = fragments.ids == bound.placement_ids;
  for (std::size_t f = 0; f < memory.size() && agrees; ++f) {
    agrees = fragments.boxes.nbytes(f) == bound.nbytes[f];
    memory[f] = {bound.places.address(f), bound.nbytes[f]};
  }
  if (agrees) return memory;
  Status why = placement::bind(own, binding).status();  // says which fragment, and how
  if (why.ok()) why = Status(Code::kInternal, "a binding that fits its placement has other rows");
  return std::move(why).annotate("rebinding", side);
}

}  // namespace

Result<BoundPlan> rebind(const TransferPlan& plan, const placement::RuntimeBindingManifest* source,
                         const placement::RuntimeBindingManifest& target,
                         const placement::PlacementManifest* source_placement,
                         const placement::PlacementManifest* target_placement) {
  BoundPlan bound(plan, target);
  if (plan.source().stored() != (source == nullptr)) {
    return refuse(plan.source().stored() ? "source: the plan reads a stored revision, which has no binding"
                                         : "source: the plan reads running ranks; it needs their binding");
  }
  if (source != nullptr) {
    SY_ASSIGN_OR_RETURN(bound.source_memory_,
                        bind_side(*plan.source().placement(), source_placement, *source, "source"));
    bound.source_binding_ = *source;
  }
  SY_ASSIGN_OR_RETURN(bound.target_memory_, bind_side(*plan.target().placement(), target_placement, target, "target"));
  return bound;
}

Result<ExecuteReport> execute(const BoundPlan& bound, const std::optional<ExpectedFence>& source,
                              const std::optional<ExpectedFence>& target, const ExecuteOptions& options) {
  if (source && bound.source_binding()) {
    SY_RETURN_IF_ERROR(placement::check_fence(*bound.source_binding(), source->lease_id, source->generation));
  }
  if (target) SY_RETURN_IF_ERROR(placement::check_fence(bound.target_binding(), target->lease_id, target->generation));
  return execute(bound.plan(), bound.source_memory(), bound.target_memory(), options);
}

}  // namespace steelyard::reshard
