#include "steelyard/placement.h"

#include "api/internals.h"
#include "placement/bind.h"
#include "placement/project.h"

namespace steelyard {
namespace {

std::vector<std::int64_t> list(std::span<const std::int64_t> numbers) { return {numbers.begin(), numbers.end()}; }

std::vector<std::string> texts(const std::vector<std::string_view>& views) { return {views.begin(), views.end()}; }

std::vector<std::string_view> views(const std::vector<std::string>& texts) { return {texts.begin(), texts.end()}; }

placement::TensorDescriptorRow to_core(const TensorDescriptor& tensor) {
  placement::TensorDescriptorRow row{.tensor_id = tensor.tensor_id,
                                     .global_shape = tensor.global_shape,
                                     .dtype = tensor.dtype,
                                     .itemsize = tensor.itemsize,
                                     .partition_dim = tensor.partition_dim,
                                     .layout_fingerprint = tensor.layout_fingerprint,
                                     .layer_id = tensor.layer_id,
                                     .expert_id = tensor.expert_id,
                                     .shard_dims = std::nullopt};
  if (tensor.shard_dims) row.shard_dims = *tensor.shard_dims;
  return row;
}

TensorDescriptor from_core(const placement::TensorDescriptorRow& row) {
  TensorDescriptor tensor{.tensor_id = std::string(row.tensor_id),
                          .global_shape = list(row.global_shape),
                          .dtype = std::string(row.dtype),
                          .itemsize = row.itemsize,
                          .partition_dim = row.partition_dim,
                          .layout_fingerprint = std::string(row.layout_fingerprint),
                          .layer_id = row.layer_id,
                          .expert_id = row.expert_id,
                          .shard_dims = std::nullopt};
  if (row.shard_dims) tensor.shard_dims = list(*row.shard_dims);
  return tensor;
}

}  // namespace

PlacementManifest::PlacementManifest(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

Result<PlacementManifest> PlacementManifest::make(std::string_view model_id, std::string_view revision,
                                                  std::span<const TensorDescriptor> tensors,
                                                  std::span<const PlacementFragment> fragments,
                                                  std::optional<std::string_view> placement_id) {
  placement::PlacementBuilder builder(model_id, revision, placement_id);
  builder.reserve(tensors.size(), fragments.size());
  for (const TensorDescriptor& tensor : tensors) SY_RETURN_IF_ERROR(builder.add_tensor(to_core(tensor)));
  for (const PlacementFragment& fragment : fragments) {
    SY_RETURN_IF_ERROR(builder.add_fragment({.placement_fragment_id = fragment.placement_fragment_id,
                                             .tensor_id = fragment.tensor_id,
                                             .global_offset = fragment.global_offset,
                                             .local_shape = fragment.local_shape,
                                             .nbytes = fragment.nbytes,
                                             .rank = fragment.rank,
                                             .aliases = views(fragment.aliases)}));
  }
  return ApiInternals::answer<PlacementManifest>(std::move(builder).build());
}

Result<PlacementManifest> PlacementManifest::from_json(std::string_view text) {
  return ApiInternals::answer<PlacementManifest>(placement::PlacementManifest::from_json(text));
}

std::string PlacementManifest::to_json() const { return impl_->core.to_json(); }
const std::string& PlacementManifest::model_id() const { return impl_->core.model_id(); }
const std::string& PlacementManifest::revision() const { return impl_->core.revision(); }
const std::string& PlacementManifest::placement_id() const { return impl_->core.placement_id(); }
const std::string& PlacementManifest::digest() const { return impl_->core.digest(); }
const std::string& PlacementManifest::layout_digest() const { return impl_->core.layout_digest(); }
std::size_t PlacementManifest::tensor_count() const { return impl_->core.tensors().size(); }
std::size_t PlacementManifest::fragment_count() const { return impl_->core.fragments().size(); }

TensorDescriptor PlacementManifest::tensor(std::size_t index) const {
  SY_CHECK(index < tensor_count(), "a tensor that does not exist");
  return from_core(impl_->core.tensors().row(index));
}

PlacementFragment PlacementManifest::fragment(std::size_t index) const {
  SY_CHECK(index < fragment_count(), "a fragment that does not exist");
  const placement::PlacementFragmentRow row = impl_->core.fragment(index);
  return {std::string(row.placement_fragment_id),
          std::string(row.tensor_id),
          list(row.global_offset),
          list(row.local_shape),
          row.nbytes,
          row.rank,
          texts(row.aliases)};
}

std::optional<std::size_t> PlacementManifest::find_fragment(std::string_view placement_fragment_id) const {
  return impl_->core.fragments().find(placement_fragment_id);
}

bool PlacementManifest::operator==(const PlacementManifest& other) const { return impl_->core == other.impl_->core; }

RuntimeBindingManifest::RuntimeBindingManifest(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

Result<RuntimeBindingManifest> RuntimeBindingManifest::make(const BindingHeader& header,
                                                            std::span<const BindingFragment> fragments) {
  placement::BindingBuilder builder(header);
  builder.reserve(fragments.size());
  for (const BindingFragment& fragment : fragments) {
    SY_RETURN_IF_ERROR(
        builder.add_fragment({.placement_fragment_id = fragment.placement_fragment_id,
                              .fragment_id = fragment.fragment_id,
                              .place = {fragment.address, fragment.worker_id, fragment.endpoint, fragment.device},
                              .nbytes = fragment.nbytes,
                              .owner = fragment.owner}));
  }
  return ApiInternals::answer<RuntimeBindingManifest>(std::move(builder).build());
}

BindingHeader RuntimeBindingManifest::header() const { return impl_->core.header(); }

std::size_t RuntimeBindingManifest::fragment_count() const { return impl_->core.fragments().size(); }

BindingFragment RuntimeBindingManifest::fragment(std::size_t index) const {
  SY_CHECK(index < fragment_count(), "a fragment that does not exist");
  const placement::BindingFragmentRow row = impl_->core.fragment(index);
  return {std::string(row.placement_fragment_id),
          std::string(row.fragment_id),
          row.place.address,
          row.nbytes,
          std::string(row.place.worker_id),
          std::string(row.place.endpoint),
          std::string(row.place.device),
          row.owner};
}

Status RuntimeBindingManifest::check_fence(std::string_view lease_id, std::uint64_t generation) const {
  return placement::check_fence(impl_->core, lease_id, generation);
}

bool RuntimeBindingManifest::operator==(const RuntimeBindingManifest& other) const {
  return impl_->core == other.impl_->core;
}

RuntimeManifest::RuntimeManifest(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

Result<RuntimeManifest> RuntimeManifest::make(const RuntimeHeader& header, std::span<const TensorDescriptor> tensors,
                                              std::span<const RuntimeFragment> fragments) {
  placement::RuntimeBuilder builder(header);
  builder.reserve(tensors.size(), fragments.size());
  for (const TensorDescriptor& tensor : tensors) SY_RETURN_IF_ERROR(builder.add_tensor(to_core(tensor)));
  for (const RuntimeFragment& fragment : fragments) {
    placement::RuntimeFragmentRow row{
        .fragment_id = fragment.fragment_id,
        .tensor_id = fragment.tensor_id,
        .global_offset = fragment.global_offset,
        .local_shape = fragment.local_shape,
        .place = {fragment.address, fragment.worker_id, fragment.endpoint, fragment.device},
        .nbytes = fragment.nbytes,
        .rank = fragment.rank,
        .lease_generation = fragment.lease_generation,
        .owner = fragment.owner,
        .aliases = views(fragment.aliases),
        .placement_fragment_id = std::nullopt};
    if (fragment.placement_fragment_id) row.placement_fragment_id = *fragment.placement_fragment_id;
    SY_RETURN_IF_ERROR(builder.add_fragment(row));
  }
  return ApiInternals::answer<RuntimeManifest>(std::move(builder).build());
}

Result<RuntimeManifest> RuntimeManifest::bind(const PlacementManifest& placement,
                                              const RuntimeBindingManifest& binding) {
  return ApiInternals::answer<RuntimeManifest>(
      placement::bind(ApiInternals::core(placement), ApiInternals::core(binding)));
}

RuntimeHeader RuntimeManifest::header() const { return impl_->core.header(); }

std::size_t RuntimeManifest::tensor_count() const { return impl_->core.tensors().size(); }
std::size_t RuntimeManifest::fragment_count() const { return impl_->core.fragments().size(); }

TensorDescriptor RuntimeManifest::tensor(std::size_t index) const {
  SY_CHECK(index < tensor_count(), "a tensor that does not exist");
  return from_core(impl_->core.tensors().row(index));
}

RuntimeFragment RuntimeManifest::fragment(std::size_t index) const {
  SY_CHECK(index < fragment_count(), "a fragment that does not exist");
  const placement::RuntimeFragmentRow row = impl_->core.fragment(index);
  RuntimeFragment fragment{.fragment_id = std::string(row.fragment_id),
                           .tensor_id = std::string(row.tensor_id),
                           .global_offset = list(row.global_offset),
                           .local_shape = list(row.local_shape),
                           .address = row.place.address,
                           .nbytes = row.nbytes,
                           .worker_id = std::string(row.place.worker_id),
                           .endpoint = std::string(row.place.endpoint),
                           .device = std::string(row.place.device),
                           .rank = row.rank,
                           .lease_generation = row.lease_generation,
                           .owner = row.owner,
                           .aliases = texts(row.aliases),
                           .placement_fragment_id = std::nullopt};
  if (row.placement_fragment_id) fragment.placement_fragment_id = std::string(*row.placement_fragment_id);
  return fragment;
}

Result<PlacementManifest> RuntimeManifest::placement() const {
  return ApiInternals::answer<PlacementManifest>(placement::placement_of(impl_->core));
}

Result<RuntimeBindingManifest> RuntimeManifest::binding() const {
  return ApiInternals::answer<RuntimeBindingManifest>(placement::binding_of(impl_->core));
}

bool RuntimeManifest::operator==(const RuntimeManifest& other) const { return impl_->core == other.impl_->core; }

}  // namespace steelyard
