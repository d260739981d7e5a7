#include "placement/types.h"

#include <algorithm>

namespace steelyard::placement {

std::span<const std::int64_t> effective_shard_dims(const TensorDescriptorRow& row) {
  if (row.shard_dims) return *row.shard_dims;
  if (row.partition_dim) return {&*row.partition_dim, 1};
  return {};
}

TensorDescriptorRow canonical(const TensorDescriptorRow& row) {
  TensorDescriptorRow out = row;
  const auto dims = effective_shard_dims(row);
  out.shard_dims = dims;
  out.partition_dim = dims.size() == 1 ? std::optional(dims[0]) : std::nullopt;
  return out;
}

bool same_but_for_id(const TensorDescriptorRow& a, const TensorDescriptorRow& b) {
  return std::ranges::equal(a.global_shape, b.global_shape) && a.dtype == b.dtype && a.itemsize == b.itemsize &&
         a.layout_fingerprint == b.layout_fingerprint && a.layer_id == b.layer_id && a.expert_id == b.expert_id &&
         std::ranges::equal(effective_shard_dims(a), effective_shard_dims(b));
}

bool same_descriptor(const TensorDescriptorRow& a, const TensorDescriptorRow& b) {
  return a.tensor_id == b.tensor_id && same_but_for_id(a, b);
}

}  // namespace steelyard::placement
