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

  const TensorColumns& columns() const { return columns_; }
  TensorColumns take() { return std::move(columns_); }

 private:
  NamePool names_;
  std::vector<std::uint32_t> rows_of_numbers_;
  std::vector<std::uint32_t> numbers_of_rows_;
  TensorColumns columns_;
};

}  // namespace steelyard::placement
