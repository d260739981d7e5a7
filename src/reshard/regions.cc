#include "reshard/regions.h"

#include <algorithm>

namespace steelyard::reshard {
namespace {

std::size_t begin_of(const std::vector<std::uint64_t>& ends, std::size_t row) { return row == 0 ? 0 : ends[row - 1]; }

}  // namespace

std::int64_t byte_offset(const PieceTable& pieces, std::size_t piece, std::span<const std::int64_t> position) {
  const auto offset = pieces.offset(piece);
  const auto stride = pieces.stride(piece);
  std::int64_t bytes = pieces.base(piece);
  for (std::size_t d = 0; d < position.size(); ++d) bytes += (position[d] - offset[d]) * stride[d];
  return bytes;
}

std::uint64_t RegionRow::segments() const {
  std::uint64_t count = 1;
  for (const std::uint64_t turns : loop_count) count *= turns;
  return count;
}

RegionRow RegionTable::row(std::size_t region) const {
  const std::size_t box = begin_of(box_ends_, region);
  const std::size_t dims = box_ends_[region] - box;
  const std::size_t loop = begin_of(loop_ends_, region);
  const std::size_t loops = loop_ends_[region] - loop;
  return {tensors_[region],
          sources_[region],
          targets_[region],
          source_pieces_[region],
          target_pieces_[region],
          {box_offsets_.data() + box, dims},
          {box_extents_.data() + box, dims},
          source_bases_[region],
          target_bases_[region],
          inner_bytes_[region],
          {loop_counts_.data() + loop, loops},
          {source_strides_.data() + loop, loops},
          {target_strides_.data() + loop, loops}};
}

void RegionTable::reserve_times(double factor) {
  const auto grow = [factor](auto& column) {
    column.reserve(static_cast<std::size_t>(static_cast<double>(column.size()) * factor) + 1);
  };
  grow(tensors_);
  grow(sources_);
  grow(targets_);
  grow(source_pieces_);
  grow(target_pieces_);
  grow(source_bases_);
  grow(target_bases_);
  grow(inner_bytes_);
  grow(box_ends_);
  grow(box_offsets_);
  grow(box_extents_);
  grow(loop_ends_);
  grow(loop_counts_);
  grow(source_strides_);
  grow(target_strides_);
}

std::uint64_t RegionTable::add(const PieceTable& sources, std::size_t source, const PieceTable& targets,
                               std::size_t target, std::span<const std::int64_t> offset,
                               std::span<const std::int64_t> extent, std::int64_t itemsize) {
  tensors_.push_back(targets.tensor(target));
  sources_.push_back(sources.fragment(source));
  targets_.push_back(targets.fragment(target));
  source_pieces_.push_back(static_cast<std::uint32_t>(source));
  target_pieces_.push_back(static_cast<std::uint32_t>(target));
  source_bases_.push_back(static_cast<std::uint64_t>(byte_offset(sources, source, offset)));
  target_bases_.push_back(static_cast<std::uint64_t>(byte_offset(targets, target, offset)));
  box_offsets_.insert(box_offsets_.end(), offset.begin(), offset.end());
  box_extents_.insert(box_extents_.end(), extent.begin(), extent.end());
  box_ends_.push_back(box_offsets_.size());

  const auto source_stride = sources.stride(source);
  const auto target_stride = targets.stride(target);
  std::int64_t inner = itemsize;
  std::size_t d = extent.size();
  for (; d > 0; --d) {
    if (extent[d - 1] == 1) continue;
    if (source_stride[d - 1] != inner || target_stride[d - 1] != inner) break;
    inner *= extent[d - 1];
  }
  inner_bytes_.push_back(static_cast<std::uint64_t>(inner));

  const std::size_t first_loop = loop_counts_.size();
  std::uint64_t segments = 1;
  for (; d > 0; --d) {
    if (extent[d - 1] == 1) continue;
    const auto turns = static_cast<std::uint64_t>(extent[d - 1]);
    const auto from = static_cast<std::uint64_t>(source_stride[d - 1]);
    const auto to = static_cast<std::uint64_t>(target_stride[d - 1]);
    segments *= turns;
    if (loop_counts_.size() > first_loop && from == loop_counts_.back() * source_strides_.back() &&
        to == loop_counts_.back() * target_strides_.back()) {
      loop_counts_.back() *= turns;
      continue;
    }
    loop_counts_.push_back(turns);
    source_strides_.push_back(from);
    target_strides_.push_back(to);
  }
  const auto outermost_first = [first_loop](std::vector<std::uint64_t>& column) {
    std::reverse(column.begin() + static_cast<std::ptrdiff_t>(first_loop), column.end());
  };
  outermost_first(loop_counts_);
  outermost_first(source_strides_);
  outermost_first(target_strides_);
  loop_ends_.push_back(loop_counts_.size());
  return segments;
}

}  // namespace steelyard::reshard
