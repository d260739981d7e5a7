// Helpers for the authors of adapters: which boxes of a tensor a rank holds, from the words in which frameworks say it.
// Pure functions, safe to call from several threads; nothing here knows a framework. Numbers count elements.
// INVALID_ARGUMENT names the argument that does not fit.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "steelyard/status.h"

namespace steelyard {

/// A box of a tensor: global_offset and local_shape of a fragment.
struct TensorBox {
  std::vector<std::int64_t> offset = {};
  std::vector<std::int64_t> shape = {};
  bool operator==(const TensorBox&) const = default;
};

/// What one dimension of a device mesh does with a tensor.
struct MeshPlacement {
  enum class Kind : unsigned char {
    kReplicate,  ///< every rank along it holds the same
    kShard,      ///< `dim` is cut into as many pieces as the mesh dimension is long, as torch.chunk does
    /// `dim` is cut as if a later mesh dimension had cut it into `split_factor` pieces first (FSDP over tensor
    /// parallelism)
    kStridedShard,
  };
  Kind kind = Kind::kReplicate;
  std::int64_t dim = 0;  ///< a negative one counts from the back
  std::int64_t split_factor = 1;
  bool operator==(const MeshPlacement&) const = default;
};

/// The boxes that the rank at `coordinate` of the mesh holds, in row-major order: none when it holds nothing, more than
/// one only after kStridedShard. One placement and one coordinate per mesh dimension.
Result<std::vector<TensorBox>> boxes_from_mesh(std::span<const std::int64_t> global_shape,
                                               std::span<const std::int64_t> mesh_shape,
                                               std::span<const MeshPlacement> placements,
                                               std::span<const std::int64_t> coordinate);

/// The elements [start, stop) of the flattened tensor (FSDP's flat parameters) as the fewest boxes of which each is one
/// run of the flat range, and so one fragment with one address; in ascending order, at most 2 * dimensions - 1.
Result<std::vector<TensorBox>> boxes_from_flat_range(std::span<const std::int64_t> global_shape, std::int64_t start,
                                                     std::int64_t stop);

/// Sizes of the pieces of `extent`, as torch.chunk makes them, filled up with zeros; all but the last a multiple of
/// `align`.
Result<std::vector<std::int64_t>> split_sizes(std::int64_t extent, std::int64_t parts, std::int64_t align = 1);

/// One part of a fused tensor: `extent` rows of the fused dimension. With `drop_dim` the view has no such dimension
/// (one expert of a stack, extent 1).
struct FusedPart {
  std::string tensor_id = {};
  std::int64_t extent = 1;
  bool drop_dim = false;
};

/// A box of the fused tensor, and where it lies in the view.
struct TensorViewPiece {
  TensorBox box = {};
  std::vector<std::int64_t> view_offset = {};
  bool operator==(const TensorViewPiece&) const = default;
};

/// A tensor that lies inside of another one; for PlanOptions.
struct TensorView {
  std::string tensor_id = {};
  std::string base_tensor_id = {};
  std::vector<std::int64_t> global_shape = {};
  std::vector<std::uint32_t> axes = {};  ///< for each dimension of the view the base's, ascending
  std::vector<TensorViewPiece> pieces = {};
  std::string layout_fingerprint = {};  ///< empty: the base's
  bool operator==(const TensorView&) const = default;
};

/// The parts of a tensor that was fused along `dim` (query, key and value; gate and up; stacked experts), in their
/// order there; they must fill it. With `groups` above 1 the order repeats so many times and extents are those of one
/// group (grouped-query heads).
Result<std::vector<TensorView>> fused_views(std::string_view base_tensor_id, std::span<const std::int64_t> global_shape,
                                            std::span<const FusedPart> parts, std::int64_t dim = 0,
                                            std::int64_t groups = 1);
/// The same for a tensor that is itself a part: the result are views of the base (gate and up of one expert).
Result<std::vector<TensorView>> fused_views(const TensorView& view, std::span<const FusedPart> parts,
                                            std::int64_t dim = 0, std::int64_t groups = 1);

}  // namespace steelyard
