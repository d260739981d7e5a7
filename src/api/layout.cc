#include "steelyard/layout.h"

#include "api/internals.h"
#include "reshard/mesh.h"
#include "reshard/views.h"

namespace steelyard {
namespace {

TensorBox from_core(geometry::Box box) { return {std::move(box.offset), std::move(box.extent)}; }

Result<std::vector<TensorBox>> from_core(Result<std::vector<geometry::Box>> boxes) {
  if (!boxes.ok()) return std::move(boxes).status();
  std::vector<TensorBox> out;
  for (geometry::Box& box : *boxes) out.push_back(from_core(std::move(box)));
  return out;
}

std::vector<reshard::FusedPart> to_core(std::span<const FusedPart> parts) {
  std::vector<reshard::FusedPart> out;
  for (const FusedPart& part : parts) out.push_back({part.tensor_id, part.extent, part.drop_dim});
  return out;
}

Result<std::vector<TensorView>> from_core(Result<std::vector<reshard::TensorView>> result) {
  SY_ASSIGN_OR_RETURN(std::vector<reshard::TensorView> views, std::move(result));
  std::vector<TensorView> out;
  for (reshard::TensorView& view : views) {
    out.push_back({std::move(view.tensor_id),
                   std::move(view.base_tensor_id),
                   std::move(view.global_shape),
                   std::move(view.axes),
                   {},
                   std::move(view.layout_fingerprint)});
    for (reshard::ViewPiece& piece : view.pieces) {
      out.back().pieces.push_back({from_core(std::move(piece.box)), std::move(piece.view_offset)});
    }
  }
  return out;
}

reshard::MeshPlacement to_core(const MeshPlacement& placement) {
  switch (placement.kind) {
    case MeshPlacement::Kind::kReplicate:
      return reshard::replicate();
    case MeshPlacement::Kind::kShard:
      return reshard::shard(placement.dim);
    case MeshPlacement::Kind::kStridedShard:
      break;
  }
  return reshard::strided_shard(placement.dim, placement.split_factor);
}

}  // namespace

Result<std::vector<TensorBox>> boxes_from_mesh(std::span<const std::int64_t> global_shape,
                                               std::span<const std::int64_t> mesh_shape,
                                               std::span<const MeshPlacement> placements,
                                               std::span<const std::int64_t> coordinate) {
  std::vector<reshard::MeshPlacement> core;
  for (const MeshPlacement& placement : placements) core.push_back(to_core(placement));
  return from_core(reshard::boxes_from_mesh(global_shape, mesh_shape, core, coordinate));
}

Result<std::vector<TensorBox>> boxes_from_flat_range(std::span<const std::int64_t> global_shape, std::int64_t start,
                                                     std::int64_t stop) {
  return from_core(reshard::boxes_from_flat_range(global_shape, start, stop));
}

Result<std::vector<std::int64_t>> split_sizes(std::int64_t extent, std::int64_t parts, std::int64_t align) {
  return reshard::split_sizes(extent, parts, align);
}

Result<std::vector<TensorView>> fused_views(std::string_view base_tensor_id, std::span<const std::int64_t> global_shape,
                                            std::span<const FusedPart> parts, std::int64_t dim, std::int64_t groups) {
  return from_core(reshard::fused_views(base_tensor_id, global_shape, to_core(parts), dim, groups));
}

Result<std::vector<TensorView>> fused_views(const TensorView& view, std::span<const FusedPart> parts, std::int64_t dim,
                                            std::int64_t groups) {
  return from_core(reshard::fused_views(to_core(view), to_core(parts), dim, groups));
}

}  // namespace steelyard
