// Which boxes of a tensor a rank holds, from the words in which frameworks say it: a device mesh with one placement per
// mesh dimension, or a range of the flattened tensor. Pure functions for the authors of adapters; nothing here knows a
// framework. Thread-compatible.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "geometry/box.h"

namespace steelyard::reshard {

/// What one dimension of a mesh does with a tensor.
struct MeshPlacement {
  enum class Kind : std::uint8_t {
    kReplicate,  ///< every rank along it holds the same
    kShard,      ///< `dim` is cut into as many pieces as the mesh dimension is long
    /// `dim` is cut as if a later mesh dimension had cut it into `split_factor` pieces first: each of those is cut, and
    /// a rank holds its piece of every one of them (FSDP over tensor parallelism)
    kStridedShard,
  };
  Kind kind = Kind::kReplicate;
  std::int64_t dim = 0;  ///< a negative one counts from the back, -1 is the last
  std::int64_t split_factor = 1;
  bool operator==(const MeshPlacement&) const = default;
};

inline MeshPlacement replicate() { return {}; }
inline MeshPlacement shard(std::int64_t dim) { return {MeshPlacement::Kind::kShard, dim, 1}; }
inline MeshPlacement strided_shard(std::int64_t dim, std::int64_t split_factor) {
  return {MeshPlacement::Kind::kStridedShard, dim, split_factor};
}

/// The boxes that the rank at `coordinate` of the mesh holds, disjoint, in row-major order of their first elements.
/// Placements apply in the order of the mesh's dimensions, each to what the one before left; uneven cuts are those of
/// split_sizes. No box when the rank holds nothing; more than one only after kStridedShard. The rank's local tensor is
/// the boxes put together: along every dimension its rows are those of the boxes in ascending order.
/// INVALID_ARGUMENT, naming the argument, for numbers of dimensions that do not agree, a coordinate outside of the
/// mesh, a dimension outside of the tensor, or a factor below 1.
Result<std::vector<geometry::Box>> boxes_from_mesh(std::span<const std::int64_t> global_shape,
                                                   std::span<const std::int64_t> mesh_shape,
                                                   std::span<const MeshPlacement> placements,
                                                   std::span<const std::int64_t> coordinate);

/// The elements [start, stop) of the flattened tensor as the fewest boxes of which each is one run of the flat range,
/// in ascending order: at most 2 * dimensions - 1. No box for an empty range.
Result<std::vector<geometry::Box>> boxes_from_flat_range(std::span<const std::int64_t> global_shape, std::int64_t start,
                                                         std::int64_t stop);

/// How `extent` falls into `parts`: equal pieces of ceil(extent / parts), rounded up to a multiple of `align`, as long
/// as there is something left; the last one that is not empty may be shorter, those after it are 0. With `align` 1
/// these are the sizes of torch.chunk, filled up with zeros.
Result<std::vector<std::int64_t>> split_sizes(std::int64_t extent, std::int64_t parts, std::int64_t align = 1);

}  // namespace steelyard::reshard
