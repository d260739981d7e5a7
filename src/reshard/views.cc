#include "reshard/views.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/checked.h"

namespace steelyard::reshard {
namespace {

/// Bounds the pieces that groups make of one part.
constexpr std::int64_t kGroupsMax = 1 << 13;

Status refuse(std::string message) { return Status(Code::kInvalidArgument, std::move(message)); }

std::string numbered(std::string_view name, std::size_t index) {
  return std::string(name) + "[" + std::to_string(index) + "]";
}

Status check_parts(std::span<const FusedPart> parts, std::int64_t extent, std::int64_t groups) {
  std::set<std::string_view> names;
  std::int64_t rows = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const FusedPart& part = parts[i];
    const std::string path = numbered("parts", i);
    if (part.tensor_id.empty()) return refuse(path + ".tensor_id: tensor_id must be a non-empty string");
    if (!names.insert(part.tensor_id).second) {
      return refuse(path + ".tensor_id: \"" + part.tensor_id + "\" is the name of an earlier part");
    }
    if (part.extent < 1) return refuse(path + ".extent: extent must be at least 1");
    if (part.drop_dim && (part.extent != 1 || groups != 1)) {
      return refuse(path + ": only a part of extent 1 in one group can drop the fused dimension");
    }
    const auto next = checked_add(rows, part.extent);
    if (!next) return refuse(path + ".extent: the extents add up to more than 63 bits count");
    rows = *next;
  }
  const auto all = checked_mul(rows, groups);
  if (!all || *all != extent) {
    return refuse("parts: " + std::to_string(groups) + " groups of " + std::to_string(rows) +
                  " rows do not fill the fused dimension of " + std::to_string(extent));
  }
  return {};
}

/// Appends what `piece`, a piece of a part of `view`, is in the base: one piece for each of the view's that it meets.
void append_in_base(const TensorView& view, const TensorView& part, const ViewPiece& piece,
                    std::vector<ViewPiece>& out) {
  for (const ViewPiece& outer : view.pieces) {
    geometry::Box seen{outer.view_offset, {}};
    for (const std::uint32_t axis : view.axes) seen.extent.push_back(outer.box.extent[axis]);
    const auto shared = geometry::intersection(piece.box, seen);
    if (!shared) continue;
    ViewPiece found{outer.box, piece.view_offset};
    for (std::size_t d = 0; d < view.axes.size(); ++d) {
      found.box.offset[view.axes[d]] += shared->offset[d] - outer.view_offset[d];
      found.box.extent[view.axes[d]] = shared->extent[d];
    }
    for (std::size_t d = 0; d < part.axes.size(); ++d) {
      found.view_offset[d] += shared->offset[part.axes[d]] - piece.box.offset[part.axes[d]];
    }
    out.push_back(std::move(found));
  }
}

}  // namespace

Result<std::vector<TensorView>> fused_views(std::string_view base_tensor_id, std::span<const std::int64_t> global_shape,
                                            std::span<const FusedPart> parts, std::int64_t dim, std::int64_t groups) {
  const auto rank = static_cast<std::int64_t>(global_shape.size());
  if (dim < -rank || dim >= rank) {
    return refuse("dim: dimension " + std::to_string(dim) + " is out of range for a tensor of " + std::to_string(rank) +
                  " dimensions");
  }
  const auto fused = static_cast<std::size_t>(dim < 0 ? dim + rank : dim);
  if (groups < 1 || groups > global_shape[fused]) {
    return refuse("groups: found " + std::to_string(groups) + "; wanted 1 to the " +
                  std::to_string(global_shape[fused]) + " rows of the fused dimension");
  }
  if (groups > kGroupsMax) {
    return refuse("groups: found " + std::to_string(groups) + ", at most " + std::to_string(kGroupsMax) +
                  " are supported");
  }
  SY_RETURN_IF_ERROR(check_parts(parts, global_shape[fused], groups));

  std::vector<TensorView> views;
  const std::int64_t group_rows = global_shape[fused] / groups;
  std::int64_t row = 0;
  for (const FusedPart& part : parts) {
    TensorView view{
        part.tensor_id, std::string(base_tensor_id), {global_shape.begin(), global_shape.end()}, {}, {}, {}};
    view.global_shape[fused] = part.extent * groups;
    for (std::int64_t group = 0; group < groups; ++group) {
      ViewPiece piece{geometry::whole(global_shape), std::vector<std::int64_t>(global_shape.size(), 0)};
      piece.box.offset[fused] = group * group_rows + row;
      piece.box.extent[fused] = part.extent;
      piece.view_offset[fused] = group * part.extent;
      if (part.drop_dim) piece.view_offset.erase(piece.view_offset.begin() + static_cast<std::ptrdiff_t>(fused));
      view.pieces.push_back(std::move(piece));
      // A part that fills its group is in one piece.
      if (part.extent == group_rows) {
        view.pieces.back().box = geometry::whole(global_shape);
        break;
      }
    }
    for (std::size_t d = 0; d < global_shape.size(); ++d) {
      if (!part.drop_dim || d != fused) view.axes.push_back(static_cast<std::uint32_t>(d));
    }
    if (part.drop_dim) view.global_shape.erase(view.global_shape.begin() + static_cast<std::ptrdiff_t>(fused));
    row += part.extent;
    views.push_back(std::move(view));
  }
  return views;
}

Result<std::vector<TensorView>> fused_views(const TensorView& view, std::span<const FusedPart> parts, std::int64_t dim,
                                            std::int64_t groups) {
  // The base's own shape is not known here; the smallest that has all pieces is as good to check the view by.
  std::vector<std::int64_t> base_shape;
  if (!view.pieces.empty()) base_shape.resize(view.pieces[0].box.offset.size());
  for (const ViewPiece& piece : view.pieces) {
    const std::size_t dims = std::min(piece.box.offset.size(), piece.box.extent.size());
    for (std::size_t d = 0; d < std::min(dims, base_shape.size()); ++d) {
      base_shape[d] = std::max(base_shape[d], checked_add(piece.box.offset[d], piece.box.extent[d]).value_or(0));
    }
  }
  SY_RETURN_IF_ERROR(check_view(view, base_shape));
  SY_ASSIGN_OR_RETURN(std::vector<TensorView> found,
                      fused_views(view.base_tensor_id, view.global_shape, parts, dim, groups));
  for (TensorView& part : found) {
    std::vector<ViewPiece> pieces;
    for (const ViewPiece& piece : part.pieces) append_in_base(view, part, piece, pieces);
    part.pieces = std::move(pieces);
    for (std::uint32_t& axis : part.axes) axis = view.axes[axis];
    part.layout_fingerprint = view.layout_fingerprint;
  }
  return found;
}

Status check_view(const TensorView& view, std::span<const std::int64_t> base_shape) {
  const std::string name = "view \"" + view.tensor_id + "\" of \"" + view.base_tensor_id + "\"";
  if (view.axes.size() != view.global_shape.size()) {
    return refuse(name + ".axes: " + std::to_string(view.axes.size()) + " axes for " +
                  std::to_string(view.global_shape.size()) + " dimensions");
  }
  for (std::size_t d = 0; d < view.axes.size(); ++d) {
    if (view.axes[d] >= base_shape.size() || (d > 0 && view.axes[d] <= view.axes[d - 1])) {
      return refuse(name + "." + numbered("axes", d) + ": " + std::to_string(view.axes[d]) +
                    " is no dimension of the base, or not after the one before it");
    }
  }
  std::vector<geometry::Box> in_base;
  std::vector<geometry::Box> in_view;
  for (std::size_t i = 0; i < view.pieces.size(); ++i) {
    const ViewPiece& piece = view.pieces[i];
    const std::string path = name + "." + numbered("pieces", i);
    if (Status inside = geometry::check_box(piece.box, base_shape); !inside.ok()) {
      return refuse(path + ".box: " + inside.message());
    }
    std::size_t next_axis = 0;
    geometry::Box seen{piece.view_offset, {}};
    for (std::size_t d = 0; d < base_shape.size(); ++d) {
      if (next_axis < view.axes.size() && view.axes[next_axis] == d) {
        ++next_axis;
        seen.extent.push_back(piece.box.extent[d]);
      } else if (piece.box.extent[d] != 1) {
        return refuse(path + ".box: its extent in dimension " + std::to_string(d) + ", which the view drops, is " +
                      std::to_string(piece.box.extent[d]) + "; wanted 1");
      }
    }
    if (Status inside = geometry::check_box(seen, view.global_shape); !inside.ok()) {
      return refuse(path + ".view_offset: " + inside.message());
    }
    in_base.push_back(piece.box);
    in_view.push_back(std::move(seen));
  }
  if (const auto pair = geometry::find_overlap(in_base)) {
    return refuse(name + "." + numbered("pieces", pair->second) + ": it shares elements of the base with " +
                  numbered("pieces", pair->first));
  }
  if (geometry::check_exact_cover(geometry::whole(view.global_shape), in_view)) {
    return refuse(name + ".pieces: they do not fill the view exactly");
  }
  return {};
}

}  // namespace steelyard::reshard
