// TensorGatherer: the tensors of a manifest that is being built. Fragments may name a tensor before it comes.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "placement/arrays.h"
#include "placement/columns.h"
#include "placement/types.h"

namespace steelyard::placement {

class TensorGatherer {
 public:
  static constexpr std::uint32_t kUnknown = UINT32_MAX;

  void reserve(std::size_t tensors) { columns_.reserve(tensors, 0); }
  /// Checks the row; its id must be new.
  Status add(const TensorDescriptorRow& row);
  Status add(const TensorArrays& columns);

  /// A number for a tensor's name, known or not.
  std::uint32_t number_of_name(std::string_view tensor_id) { return names_.intern(tensor_id); }
  /// The same for tensor `row` of columns().
  std::uint32_t number_of_row(std::size_t row) const { return numbers_of_rows_[row]; }
  std::string_view name(std::uint32_t number) const { return names_.at(number); }
  /// Row of the tensor of this name, or kUnknown.
  std::uint32_t row_of(std::uint32_t number) const {
    return number < rows_of_numbers_.size() ? rows_of_numbers_[number] : kUnknown;
  }
  /// Every fragment's tensor, so far the number of a name, becomes its row; each box fits its tensor.
  Status resolve(BoxColumns& boxes) const;

  const TensorColumns& columns() const { return columns_; }
  TensorColumns take() { return std::move(columns_); }

 private:
  NamePool names_;
  std::vector<std::uint32_t> rows_of_numbers_;
  std::vector<std::uint32_t> numbers_of_rows_;
  TensorColumns columns_;
};

/// Sorts ids and refuses equal ones: "fragments[5].<field>: <words> "id"…".
Result<std::vector<std::uint32_t>> sorted_distinct(const StringColumn& ids, std::string_view field,
                                                   std::string_view words);
std::vector<std::string_view> sorted(std::vector<std::string_view> texts);
/// The numbers 0, 1, 2, …
bool is_identity(std::span<const std::uint32_t> order);

/// Row `row` of checked columns into a fragment's row, but for the ids.
template <typename Row>
void fill_box(const BoxArrays& arrays, std::size_t row, Row& out) {
  out.global_offset = arrays.global_offset.at(row);
  out.local_shape = arrays.local_shape.at(row);
  out.nbytes = arrays.nbytes[row];
  out.rank = {};
  if (!arrays.rank.empty()) {
    const auto rank = arrays.rank.subspan(row * 4, 4);
    out.rank = {rank[0], rank[1], rank[2], rank[3]};
  }
  arrays.aliases.list(row, out.aliases);
}
inline MemoryPlace place_at(const PlaceArrays& arrays, std::size_t row) {
  return {arrays.address[row], arrays.worker_id.at(row), arrays.endpoint.at(row), arrays.device.at(row)};
}

}  // namespace steelyard::placement
