// Regions: the copies that a plan consists of, in columns.
//
// A region is a box of one tensor that goes from one source fragment to one target fragment. In bytes it is a nest of
// loops around one run: `inner_bytes` bytes, repeated `loop_count` times per loop, every loop with a stride on each
// side. The form is canonical: the run takes in dimensions from the back for as long as both sides stay contiguous,
// loops of one turn are left out and two loops that are one on both sides are one, outermost first.
//
// Thread-compatible values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "reshard/pieces.h"

namespace steelyard::reshard {

/// One region as a view of the columns.
struct RegionRow {
  std::uint32_t tensor = 0;
  std::uint32_t source = 0;  ///< fragment
  std::uint32_t target = 0;  ///< fragment
  std::uint32_t source_piece = 0;
  std::uint32_t target_piece = 0;
  std::span<const std::int64_t> offset;
  std::span<const std::int64_t> extent;
  std::uint64_t source_base = 0;  ///< bytes from the fragment's first byte
  std::uint64_t target_base = 0;
  std::uint64_t inner_bytes = 0;
  std::span<const std::uint64_t> loop_count;
  std::span<const std::uint64_t> source_stride;  ///< bytes, per loop
  std::span<const std::uint64_t> target_stride;

  /// Number of runs; fits, since it is at most the tensor's elements.
  std::uint64_t segments() const;
  std::uint64_t bytes() const { return segments() * inner_bytes; }
};

class RegionTable {
 public:
  std::size_t size() const { return tensors_.size(); }
  bool empty() const { return tensors_.empty(); }
  RegionRow row(std::size_t region) const;

  /// The columns, for bulk readers. Box and loop numbers of region i are those from begin to ends()[i], where begin is
  /// ends()[i - 1], or 0.
  std::span<const std::uint32_t> tensors() const { return tensors_; }
  std::span<const std::uint32_t> sources() const { return sources_; }
  std::span<const std::uint32_t> targets() const { return targets_; }
  std::span<const std::uint64_t> source_bases() const { return source_bases_; }
  std::span<const std::uint64_t> target_bases() const { return target_bases_; }
  std::span<const std::uint64_t> inner_bytes() const { return inner_bytes_; }
  std::span<const std::uint64_t> box_ends() const { return box_ends_; }
  std::span<const std::int64_t> box_offsets() const { return box_offsets_; }
  std::span<const std::int64_t> box_extents() const { return box_extents_; }
  std::span<const std::uint64_t> loop_ends() const { return loop_ends_; }
  std::span<const std::uint64_t> loop_counts() const { return loop_counts_; }
  std::span<const std::uint64_t> source_strides() const { return source_strides_; }
  std::span<const std::uint64_t> target_strides() const { return target_strides_; }

  /// Makes room for `factor` times as many regions as there are.
  void reserve_times(double factor);
  /// Appends the region of the box (offset, extent), which lies in both pieces, of elements of `itemsize` bytes. Gives
  /// its number of segments.
  std::uint64_t add(const PieceTable& sources, std::size_t source, const PieceTable& targets, std::size_t target,
                    std::span<const std::int64_t> offset, std::span<const std::int64_t> extent, std::int64_t itemsize);

  bool operator==(const RegionTable&) const = default;

 private:
  std::vector<std::uint32_t> tensors_;
  std::vector<std::uint32_t> sources_;
  std::vector<std::uint32_t> targets_;
  std::vector<std::uint32_t> source_pieces_;
  std::vector<std::uint32_t> target_pieces_;
  std::vector<std::uint64_t> source_bases_;
  std::vector<std::uint64_t> target_bases_;
  std::vector<std::uint64_t> inner_bytes_;
  std::vector<std::uint64_t> box_ends_;
  std::vector<std::int64_t> box_offsets_;
  std::vector<std::int64_t> box_extents_;
  std::vector<std::uint64_t> loop_ends_;
  std::vector<std::uint64_t> loop_counts_;
  std::vector<std::uint64_t> source_strides_;
  std::vector<std::uint64_t> target_strides_;
};

/// Byte offset, in the fragment's memory, of an element of a piece.
std::int64_t byte_offset(const PieceTable& pieces, std::size_t piece, std::span<const std::int64_t> position);

}  // namespace steelyard::reshard
