#include "reshard/mesh.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/checked.h"

namespace steelyard::reshard {
namespace {

/// What is left of one dimension: half-open intervals of it, ascending and disjoint, that lie behind one another in
/// local memory.
struct Interval {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};
using Intervals = std::vector<Interval>;

/// Bounds what a factor may make of one dimension.
constexpr std::int64_t kIntervalsMax = 1 << 13;

Status refuse(std::string message) { return Status(Code::kInvalidArgument, std::move(message)); }

std::string element_of(std::string_view name, std::size_t index) {
  return std::string(name) + "[" + std::to_string(index) + "]";
}

Status check_at_least(const std::string& name, std::int64_t value, std::int64_t minimum) {
  if (value >= minimum) return {};
  return refuse(name + ": " + name + " must be at least " + std::to_string(minimum) + ", found " +
                std::to_string(value));
}

std::int64_t length(const Intervals& intervals) {
  std::int64_t sum = 0;
  for (const Interval& part : intervals) sum += part.end - part.begin;
  return sum;
}

/// Appends the elements [begin, end) of what the intervals hold, counted through them.
void append_slice(const Intervals& intervals, std::int64_t begin, std::int64_t end, Intervals& out) {
  std::int64_t at = 0;
  for (const Interval& part : intervals) {
    const std::int64_t size = part.end - part.begin;
    const std::int64_t from = std::max<std::int64_t>(begin - at, 0);
    const std::int64_t to = std::min(end - at, size);
    if (from < to) {
      if (!out.empty() && out.back().end == part.begin + from) {
        out.back().end = part.begin + to;
      } else {
        out.push_back({part.begin + from, part.begin + to});
      }
    }
    at += size;
    if (at >= end) break;
  }
}

std::int64_t ceil_of(std::int64_t a, std::int64_t b) { return a / b + (a % b != 0 ? 1 : 0); }

/// Piece `index` of `parts` of a range of `extent` elements.
Interval chunk(std::int64_t extent, std::int64_t parts, std::int64_t index) {
  const std::int64_t size = ceil_of(extent, parts);
  if (size == 0 || index >= ceil_of(extent, size)) return {extent, extent};
  const std::int64_t begin = size * index;
  return {begin, size >= extent - begin ? extent : begin + size};
}

Intervals cut(const Intervals& intervals, const MeshPlacement& placement, std::int64_t parts, std::int64_t index) {
  const std::int64_t extent = length(intervals);
  Intervals out;
  const std::int64_t outer = placement.kind == MeshPlacement::Kind::kStridedShard ? placement.split_factor : 1;
  for (std::int64_t i = 0; i < outer; ++i) {
    const Interval slab = chunk(extent, outer, i);
    if (slab.begin == slab.end) break;
    const Interval piece = chunk(slab.end - slab.begin, parts, index);
    append_slice(intervals, slab.begin + piece.begin, slab.begin + piece.end, out);
  }
  return out;
}

Status check_mesh(std::span<const std::int64_t> mesh_shape, std::span<const MeshPlacement> placements,
                  std::span<const std::int64_t> coordinate) {
  if (placements.size() != mesh_shape.size()) {
    return refuse("placements: the mesh has " + std::to_string(mesh_shape.size()) + " dimensions and there are " +
                  std::to_string(placements.size()) + " placements; there must be one per mesh dimension");
  }
  if (coordinate.size() != mesh_shape.size()) {
    return refuse("coordinate: the mesh has " + std::to_string(mesh_shape.size()) + " dimensions and the coordinate " +
                  std::to_string(coordinate.size()) + "; there must be one number per mesh dimension");
  }
  for (std::size_t m = 0; m < mesh_shape.size(); ++m) {
    SY_RETURN_IF_ERROR(check_at_least(element_of("mesh_shape", m), mesh_shape[m], 1));
    SY_RETURN_IF_ERROR(check_at_least(element_of("coordinate", m), coordinate[m], 0));
    if (coordinate[m] >= mesh_shape[m]) {
      return refuse(element_of("coordinate", m) + ": " + std::to_string(coordinate[m]) + " is outside of a mesh of " +
                    std::to_string(mesh_shape[m]) + " there");
    }
  }
  return {};
}

/// Every combination of one interval per dimension; the last dimension is the fastest.
std::vector<geometry::Box> product(const std::vector<Intervals>& dimensions) {
  std::vector<geometry::Box> boxes(1);
  for (const Intervals& intervals : dimensions) {
    std::vector<geometry::Box> next;
    next.reserve(boxes.size() * intervals.size());
    for (const geometry::Box& box : boxes) {
      for (const Interval& part : intervals) {
        next.push_back(box);
        next.back().offset.push_back(part.begin);
        next.back().extent.push_back(part.end - part.begin);
      }
    }
    boxes = std::move(next);
  }
  return boxes;
}

}  // namespace

Result<std::vector<geometry::Box>> boxes_from_mesh(std::span<const std::int64_t> global_shape,
                                                   std::span<const std::int64_t> mesh_shape,
                                                   std::span<const MeshPlacement> placements,
                                                   std::span<const std::int64_t> coordinate) {
  SY_RETURN_IF_ERROR(check_mesh(mesh_shape, placements, coordinate));
  if (auto volume = geometry::checked_volume(global_shape); !volume.ok()) {
    return refuse("global_shape: " + volume.status().message());
  }
  std::vector<Intervals> dimensions;
  for (const std::int64_t extent : global_shape) {
    dimensions.push_back(extent == 0 ? Intervals{} : Intervals{{0, extent}});
  }
  const auto rank = static_cast<std::int64_t>(global_shape.size());
  for (std::size_t m = 0; m < placements.size(); ++m) {
    const MeshPlacement& placement = placements[m];
    if (placement.kind == MeshPlacement::Kind::kReplicate) continue;
    const std::string path = element_of("placements", m);
    if (placement.dim < -rank || placement.dim >= rank) {
      return refuse(path + ".dim: dimension " + std::to_string(placement.dim) + " is out of range for a tensor of " +
                    std::to_string(rank) + " dimensions");
    }
    if (placement.kind == MeshPlacement::Kind::kStridedShard) {
      SY_RETURN_IF_ERROR(check_at_least(path + ".split_factor", placement.split_factor, 1));
    }
    const auto dim = static_cast<std::size_t>(placement.dim < 0 ? placement.dim + rank : placement.dim);
    Intervals& intervals = dimensions[dim];
    if (std::min(placement.split_factor, length(intervals)) > kIntervalsMax) {
      return refuse(path + ".split_factor: found " + std::to_string(placement.split_factor) + ", at most " +
                    std::to_string(kIntervalsMax) + " pieces are supported");
    }
    intervals = cut(intervals, placement, mesh_shape[m], coordinate[m]);
  }
  std::int64_t boxes = 1;
  for (const Intervals& intervals : dimensions) {
    const auto next = checked_mul(boxes, static_cast<std::int64_t>(intervals.size()));
    if (!next || *next > kIntervalsMax) {
      return refuse("placements: the rank would hold more than " + std::to_string(kIntervalsMax) + " boxes");
    }
    boxes = *next;
  }
  return product(dimensions);
}

Result<std::vector<geometry::Box>> boxes_from_flat_range(std::span<const std::int64_t> global_shape, std::int64_t start,
                                                         std::int64_t stop) {
  const auto volume = geometry::checked_volume(global_shape);
  if (!volume.ok()) return refuse("global_shape: " + volume.status().message());
  SY_RETURN_IF_ERROR(check_at_least("start", start, 0));
  if (stop < start || stop > volume.value()) {
    return refuse("stop: the range [" + std::to_string(start) + ", " + std::to_string(stop) +
                  ") does not lie in a tensor of " + std::to_string(volume.value()) + " elements");
  }
  return geometry::boxes_of_flat_range(global_shape, start, stop);
}

Result<std::vector<std::int64_t>> split_sizes(std::int64_t extent, std::int64_t parts, std::int64_t align) {
  SY_RETURN_IF_ERROR(check_at_least("extent", extent, 0));
  SY_RETURN_IF_ERROR(check_at_least("parts", parts, 1));
  SY_RETURN_IF_ERROR(check_at_least("align", align, 1));
  if (parts > kIntervalsMax) {
    return refuse("parts: found " + std::to_string(parts) + ", at most " + std::to_string(kIntervalsMax) +
                  " are supported");
  }
  const auto size = checked_mul(ceil_of(ceil_of(extent, parts), align), align).value_or(extent);
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(parts));
  for (std::int64_t& piece : sizes) {
    piece = std::min(size, extent);
    extent -= piece;
  }
  return sizes;
}

}  // namespace steelyard::reshard
