// Small placements for this room's tests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "geometry/box.h"
#include "placement/placement_manifest.h"
#include "placement/runtime_manifest.h"
#include "reshard/execute.h"
#include "reshard/plan_side.h"

namespace steelyard::reshard::testing {

using Numbers = std::vector<std::int64_t>;

struct TestTensor {
  std::string id;
  Numbers shape;
  std::int64_t itemsize = 2;
  std::string dtype = "bf16";
  std::string layout = "f";
};

struct TestFragment {
  std::string id;
  std::string tensor;
  Numbers offset;
  Numbers shape;
  placement::ParallelRank rank;
  std::vector<std::string> aliases = {};
};

struct TestModel {
  std::vector<TestTensor> tensors;
  std::vector<TestFragment> fragments;
  std::string model_id = "m";
  std::string revision = "r";

  Result<placement::PlacementManifest> build() const {
    placement::PlacementBuilder builder(model_id, revision);
    for (const TestTensor& tensor : tensors) {
      Numbers all(tensor.shape.size());
      std::iota(all.begin(), all.end(), 0);
      SY_RETURN_IF_ERROR(builder.add_tensor({.tensor_id = tensor.id,
                                             .global_shape = tensor.shape,
                                             .dtype = tensor.dtype,
                                             .itemsize = tensor.itemsize,
                                             .partition_dim = std::nullopt,
                                             .layout_fingerprint = tensor.layout,
                                             .layer_id = std::nullopt,
                                             .expert_id = std::nullopt,
                                             .shard_dims = all}));
    }
    for (const TestFragment& fragment : fragments) {
      std::uint64_t bytes = 0;
      for (const TestTensor& tensor : tensors) {
        if (tensor.id == fragment.tensor) bytes = static_cast<std::uint64_t>(tensor.itemsize);
      }
      for (const std::int64_t size : fragment.shape) bytes *= static_cast<std::uint64_t>(size);
      SY_RETURN_IF_ERROR(builder.add_fragment({fragment.id,
                                               fragment.tensor,
                                               fragment.offset,
                                               fragment.shape,
                                               bytes,
                                               fragment.rank,
                                               {fragment.aliases.begin(), fragment.aliases.end()}}));
    }
    return std::move(builder).build();
  }
};

/// One tensor cut evenly along a dimension over tensor-parallel ranks; `dp` such replicas.
inline TestModel sharded(const std::string& prefix, const Numbers& shape, std::size_t dim, std::int64_t tp,
                         std::int64_t dp = 1) {
  TestModel model;
  model.tensors.push_back({"w", shape});
  for (std::int64_t d = 0; d < dp; ++d) {
    for (std::int64_t t = 0; t < tp; ++t) {
      TestFragment fragment{
          prefix + std::to_string(d) + "." + std::to_string(t), "w", Numbers(shape.size(), 0), shape, {d, t, 0, 0}};
      fragment.offset[dim] = shape[dim] * t / tp;
      fragment.shape[dim] = shape[dim] * (t + 1) / tp - fragment.offset[dim];
      model.fragments.push_back(std::move(fragment));
    }
  }
  return model;
}

/// Memory for every fragment of one side.
class TestMemory {
 public:
  explicit TestMemory(const PlanSide& side) {
    for (std::size_t f = 0; f < side.fragments(); ++f) {
      blocks_.emplace_back(side.fragment_bytes(f), std::byte{0xee});
    }
  }
  std::vector<std::byte>& block(std::size_t fragment) { return blocks_[fragment]; }
  std::vector<FragmentMemory> ranges() const {
    std::vector<FragmentMemory> out;
    for (const auto& block : blocks_) out.push_back({reinterpret_cast<std::uint64_t>(block.data()), block.size()});
    return out;
  }

 private:
  std::vector<std::vector<std::byte>> blocks_;
};

/// Byte `byte` of element `number` of a tensor, different for almost all.
inline std::byte content(std::size_t tensor, std::int64_t number, std::int64_t byte) {
  const std::uint64_t mixed =
      (static_cast<std::uint64_t>(number) * 8 + static_cast<std::uint64_t>(byte) + tensor * 977 + 1) *
      0x9e3779b97f4a7c15ULL;
  return static_cast<std::byte>(mixed >> 40);
}

/// Calls visit(local element, global element) for all elements of a box, in local row-major order.
template <typename Visit>
void for_each_element(const Numbers& global_shape, const Numbers& offset, const Numbers& shape, const Visit& visit) {
  const std::int64_t count = geometry::volume({offset, shape});
  for (std::int64_t local = 0; local < count; ++local) {
    Numbers position = geometry::element_position(shape, local);
    for (std::size_t d = 0; d < position.size(); ++d) position[d] += offset[d];
    visit(local, geometry::element_number(global_shape, position));
  }
}

}  // namespace steelyard::reshard::testing
