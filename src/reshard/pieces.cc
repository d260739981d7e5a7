#include "reshard/pieces.h"

#include "base/check.h"

namespace steelyard::reshard {

void PieceTable::reserve(std::size_t pieces, std::size_t dimensions) {
  tensors_.reserve(pieces);
  fragments_.reserve(pieces);
  bases_.reserve(pieces);
  dims_end_.reserve(pieces);
  dims_.reserve(3 * dimensions);
}

void PieceTable::add(std::uint32_t tensor, std::uint32_t fragment, std::int64_t base,
                     std::span<const std::int64_t> offset, std::span<const std::int64_t> extent,
                     std::span<const std::int64_t> stride) {
  SY_CHECK(offset.size() == extent.size() && extent.size() == stride.size(), "a piece of several ranks");
  tensors_.push_back(tensor);
  fragments_.push_back(fragment);
  bases_.push_back(base);
  dims_.insert(dims_.end(), offset.begin(), offset.end());
  dims_.insert(dims_.end(), extent.begin(), extent.end());
  dims_.insert(dims_.end(), stride.begin(), stride.end());
  dims_end_.push_back(dims_.size());
}

}  // namespace steelyard::reshard
