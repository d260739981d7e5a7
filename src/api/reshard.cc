#include "steelyard/reshard.h"

#include "api/internals.h"
#include "formats/stored_manifest.h"
#include "reshard/execute.h"
#include "reshard/explain.h"
#include "reshard/plan_side.h"

namespace steelyard {
namespace {

std::vector<reshard::TensorView> to_core(const std::vector<TensorView>& views) {
  std::vector<reshard::TensorView> out;
  for (const TensorView& view : views) out.push_back(steelyard::to_core(view));
  return out;
}

reshard::PlanOptions to_core(const PlanOptions& options) {
  reshard::PlanOptions out;
  out.choice = options.choice == SourceChoice::kFirst ? reshard::Choice::kFirst : reshard::Choice::kBalance;
  for (const RankLocality& entry : options.locality) {
    out.locality.push_back({entry.of_target ? reshard::Side::kTarget : reshard::Side::kSource, entry.rank,
                            entry.worker_id, entry.endpoint});
  }
  for (const ScaledPair& pair : options.co_plan) {
    out.co_plan.push_back({pair.weight_id, pair.scale_id, pair.block_shape});
  }
  out.stored_layout = options.stored_layout;
  out.source_views = to_core(options.source_views);
  out.target_views = to_core(options.target_views);
  out.max_regions = options.max_regions;
  out.max_segments = options.max_segments;
  return out;
}

reshard::ExecuteOptions to_core(const ExecuteOptions& options) {
  reshard::ExecuteOptions out;
  out.threads = options.threads;
  out.verify = options.verify;
  out.dry_run = options.dry_run;
  out.fence = options.fence;
  return out;
}

}  // namespace

StoredManifest::StoredManifest(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

Result<StoredManifest> StoredManifest::from_json(std::string_view text) {
  SY_ASSIGN_OR_RETURN(formats::StoredManifest manifest, formats::read_manifest(text));
  return ApiInternals::made<StoredManifest>(std::make_shared<const formats::StoredManifest>(std::move(manifest)));
}

std::size_t StoredManifest::tensor_count() const { return impl_->core->tensors.size(); }

TransferPlan::TransferPlan(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

Result<TransferPlan> TransferPlan::make(const PlacementManifest& source, const PlacementManifest& target,
                                        const PlanOptions& options) {
  return ApiInternals::answer<TransferPlan>(
      reshard::plan_transfer(ApiInternals::core(source), ApiInternals::core(target), to_core(options)));
}

Result<TransferPlan> TransferPlan::make(const StoredManifest& source, const PlacementManifest& target,
                                        const PlanOptions& options) {
  return ApiInternals::answer<TransferPlan>(
      reshard::plan_transfer(ApiInternals::core(source), ApiInternals::core(target), to_core(options)));
}

const std::string& TransferPlan::key() const { return impl_->core.key(); }
std::uint64_t TransferPlan::bytes() const { return impl_->core.bytes(); }
std::uint64_t TransferPlan::segment_count() const { return impl_->core.segments(); }
std::size_t TransferPlan::region_count() const { return impl_->core.regions().size(); }

Region TransferPlan::region(std::size_t index) const {
  SY_CHECK(index < region_count(), "a region that does not exist");
  const reshard::RegionRow row = impl_->core.regions().row(index);
  return {row.tensor,      row.source,      row.target,     row.offset,        row.extent,       row.source_base,
          row.target_base, row.inner_bytes, row.loop_count, row.source_stride, row.target_stride};
}

std::pair<std::size_t, std::size_t> TransferPlan::regions_of(std::size_t target_fragment) const {
  SY_CHECK(target_fragment < target_fragment_count(), "a fragment that does not exist");
  return impl_->core.regions_of(target_fragment);
}

std::size_t TransferPlan::tensor_count() const { return impl_->core.tensors(); }

std::string TransferPlan::tensor_id(std::size_t tensor) const {
  SY_CHECK(tensor < tensor_count(), "a tensor that does not exist");
  return std::string(impl_->core.tensor_id(static_cast<std::uint32_t>(tensor)));
}

std::size_t TransferPlan::source_fragment_count() const { return impl_->core.source().fragments(); }
std::size_t TransferPlan::target_fragment_count() const { return impl_->core.target().fragments(); }

std::string TransferPlan::source_fragment_id(std::size_t fragment) const {
  SY_CHECK(fragment < source_fragment_count(), "a fragment that does not exist");
  return impl_->core.source().fragment_id(fragment);
}

std::string TransferPlan::target_fragment_id(std::size_t fragment) const {
  SY_CHECK(fragment < target_fragment_count(), "a fragment that does not exist");
  return impl_->core.target().fragment_id(fragment);
}

std::string TransferPlan::explain() const { return reshard::explain_text(impl_->core, reshard::explain(impl_->core)); }

Result<std::string> TransferPlan::render(std::string_view tensor_id) const {
  return reshard::render_svg(impl_->core, tensor_id);
}

Result<ExecuteReport> execute(const TransferPlan& plan, std::span<const FragmentMemory> source,
                              std::span<const FragmentMemory> target, const ExecuteOptions& options) {
  return reshard::execute(ApiInternals::core(plan), source, target, to_core(options));
}

BoundPlan::BoundPlan(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

Result<BoundPlan> BoundPlan::make(const TransferPlan& plan, const RuntimeBindingManifest& source,
                                  const RuntimeBindingManifest& target, const PlacementManifest* source_placement,
                                  const PlacementManifest* target_placement) {
  SY_ASSIGN_OR_RETURN(reshard::BoundPlan bound,
                      reshard::rebind(ApiInternals::core(plan), &ApiInternals::core(source), ApiInternals::core(target),
                                      ApiInternals::core(source_placement), ApiInternals::core(target_placement)));
  return ApiInternals::made<BoundPlan>(std::move(bound), plan);
}

const TransferPlan& BoundPlan::plan() const { return impl_->plan; }

Result<ExecuteReport> BoundPlan::execute(const std::optional<Fence>& source, const std::optional<Fence>& target,
                                         const ExecuteOptions& options) const {
  const auto expected = [](const std::optional<Fence>& fence) -> std::optional<reshard::ExpectedFence> {
    if (!fence) return std::nullopt;
    return reshard::ExpectedFence{fence->lease_id, fence->generation};
  };
  return reshard::execute(impl_->core, expected(source), expected(target), to_core(options));
}

}  // namespace steelyard
