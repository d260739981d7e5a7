// The plain columns that the planner's core works on: boxes of tensors, and where each lies in the memory of a
// fragment. Thread-compatible values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace steelyard::reshard {

/// Pieces of one side. A piece is a box of a tensor that lies in one fragment; a fragment of a tensor without views is
/// one piece. Tensors and fragments are numbers; all pieces of a tensor have its number of dimensions.
class PieceTable {
 public:
  std::size_t size() const { return tensors_.size(); }
  std::uint32_t tensor(std::size_t piece) const { return tensors_[piece]; }
  std::uint32_t fragment(std::size_t piece) const { return fragments_[piece]; }
  /// Of the box's first element in the fragment's memory, in bytes.
  std::int64_t base(std::size_t piece) const { return bases_[piece]; }
  std::size_t rank(std::size_t piece) const { return (dims_end_[piece] - dims_begin(piece)) / 3; }
  std::span<const std::int64_t> offset(std::size_t piece) const { return part(piece, 0); }
  std::span<const std::int64_t> extent(std::size_t piece) const { return part(piece, 1); }
  /// From one element to the next in each dimension, in bytes of the fragment's memory.
  std::span<const std::int64_t> stride(std::size_t piece) const { return part(piece, 2); }

  void reserve(std::size_t pieces, std::size_t dimensions);
  /// The spans are of one length. The box is not empty.
  void add(std::uint32_t tensor, std::uint32_t fragment, std::int64_t base, std::span<const std::int64_t> offset,
           std::span<const std::int64_t> extent, std::span<const std::int64_t> stride);

 private:
  std::size_t dims_begin(std::size_t piece) const { return piece == 0 ? 0 : dims_end_[piece - 1]; }
  std::span<const std::int64_t> part(std::size_t piece, std::size_t which) const {
    const std::size_t dims = rank(piece);
    return {dims_.data() + dims_begin(piece) + which * dims, dims};
  }

  std::vector<std::uint32_t> tensors_;
  std::vector<std::uint32_t> fragments_;
  std::vector<std::int64_t> bases_;
  std::vector<std::int64_t> dims_;  ///< per piece: offsets, extents, strides
  std::vector<std::size_t> dims_end_;
};

}  // namespace steelyard::reshard
