// Views of fused tensors: a framework that keeps query, key and value (or gate and up, or all experts) in one tensor
// names the parts, so that it can be planned against one that keeps them apart or fuses them in another order.
// Thread-compatible values.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "geometry/box.h"

namespace steelyard::reshard {

/// A box of the fused tensor, and where it lies in the view.
struct ViewPiece {
  geometry::Box box;
  std::vector<std::int64_t> view_offset;  ///< one number per dimension of the view
  bool operator==(const ViewPiece&) const = default;
};

/// A tensor that lies inside of another one.
struct TensorView {
  std::string tensor_id;       ///< the view's own
  std::string base_tensor_id;  ///< of the fused tensor
  std::vector<std::int64_t> global_shape;
  /// For each dimension of the view the base's dimension, ascending; a dimension of the base that is not here has
  /// extent 1 in every piece.
  std::vector<std::uint32_t> axes;
  std::vector<ViewPiece> pieces;  ///< disjoint, and together the whole view
  /// What is compared with the other side; empty: the base's.
  std::string layout_fingerprint;
  bool operator==(const TensorView&) const = default;
};

/// One part of a fused tensor: `extent` rows of the fused dimension.
struct FusedPart {
  std::string tensor_id;
  std::int64_t extent = 1;
  /// The view has no fused dimension at all (one expert of a stack); the extent must be 1.
  bool drop_dim = false;
};

/// The parts of a tensor that was fused along dimension `dim`, in their order there. With `groups` > 1 the order
/// repeats so many times and an extent is that of one group (grouped-query heads, interleaved per key-value head). The
/// parts must fill the dimension exactly. INVALID_ARGUMENT names the part otherwise.
Result<std::vector<TensorView>> fused_views(std::string_view base_tensor_id, std::span<const std::int64_t> global_shape,
                                            std::span<const FusedPart> parts, std::int64_t dim = 0,
                                            std::int64_t groups = 1);

/// The same for a tensor that is itself a part: the result are views of the base (gate and up of one expert of a
/// stack).
Result<std::vector<TensorView>> fused_views(const TensorView& view, std::span<const FusedPart> parts,
                                            std::int64_t dim = 0, std::int64_t groups = 1);

/// INVALID_ARGUMENT, with the field's path, when the view is not one of a tensor of `base_shape`: a piece outside of
/// either, pieces that overlap or leave a part of the view out, axes that are not ascending, a piece that is longer
/// than 1 in a dimension that the view drops.
Status check_view(const TensorView& view, std::span<const std::int64_t> base_shape);

}  // namespace steelyard::reshard
