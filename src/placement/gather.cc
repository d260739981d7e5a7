#include "placement/gather.h"

#include <fmt/format.h>

#include <algorithm>

#include "placement/errors.h"
#include "placement/validate.h"

namespace steelyard::placement {

Status TensorGatherer::add(const TensorDescriptorRow& row) {
  const Path tensors("tensors");
  const Path path(&tensors, columns_.size());
  SY_RETURN_IF_ERROR(check_tensor(row, path));
  const std::uint32_t number = names_.intern(row.tensor_id);
  if (const std::uint32_t before = row_of(number); before != kUnknown) {
    return contract_error(Path(&path, "tensor_id"),
                          fmt::format("duplicate tensor_id {}, also tensors[{}]", shown(row.tensor_id), before));
  }
  if (number >= rows_of_numbers_.size()) rows_of_numbers_.resize(names_.size(), kUnknown);
  rows_of_numbers_[number] = static_cast<std::uint32_t>(columns_.size());
  numbers_of_rows_.push_back(number);
  columns_.add(row);
  return {};
}

Status TensorGatherer::add(const TensorArrays& arrays) {
  SY_RETURN_IF_ERROR(check_arrays(arrays));
  const auto optional = [](std::span<const std::int64_t> column, std::size_t row) {
    return column.empty() || column[row] == -1 ? std::nullopt : std::optional(column[row]);
  };
  reserve(columns_.size() + arrays.tensor_id.size());
  for (std::size_t i = 0; i < arrays.tensor_id.size(); ++i) {
    TensorDescriptorRow row;
    row.tensor_id = arrays.tensor_id.at(i);
    row.global_shape = arrays.global_shape.at(i);
    row.dtype = arrays.dtype.at(i);
    row.itemsize = arrays.itemsize[i];
    row.partition_dim = optional(arrays.partition_dim, i);
    row.layout_fingerprint = arrays.layout_fingerprint.at(i);
    row.layer_id = optional(arrays.layer_id, i);
    row.expert_id = optional(arrays.expert_id, i);
    if (arrays.shard_dims) row.shard_dims = arrays.shard_dims->at(i);
    SY_RETURN_IF_ERROR(add(row));
  }
  return {};
}

Status TensorGatherer::resolve(BoxColumns& boxes) const {
  const Path fragments("fragments");
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    const Path path(&fragments, i);
    const std::uint32_t row = row_of(boxes.tensor(i));
    if (row == kUnknown) {
      return contract_error(
          Path(&path, "tensor_id"),
          fmt::format("fragment of an unknown tensor: there is no tensor {}", shown(names_.at(boxes.tensor(i)))));
    }
    SY_RETURN_IF_ERROR(check_box(columns_.row(row), boxes.offset(i), boxes.shape(i), boxes.nbytes(i), path));
  }
  boxes.renumber_tensors(rows_of_numbers_);
  return {};
}

Result<std::vector<std::uint32_t>> sorted_distinct(const StringColumn& ids, std::string_view field,
                                                   std::string_view words) {
  std::vector<std::uint32_t> order = sorted_order(ids);
  // Equal ids stand in the order in which they came. The first row that repeats one is what a reader meets first.
  std::optional<std::pair<std::uint32_t, std::uint32_t>> repeat;
  for (std::size_t i = 1; i < order.size(); ++i) {
    if (ids.at(order[i - 1]) != ids.at(order[i])) continue;
    if (!repeat || order[i] < repeat->second) repeat = {order[i - 1], order[i]};
  }
  if (!repeat) return order;
  const Path fragments("fragments");
  const Path path(&fragments, repeat->second);
  return contract_error(Path(&path, field),
                        fmt::format("{} {}, also fragments[{}]", words, shown(ids.at(repeat->second)), repeat->first));
}

std::vector<std::string_view> sorted(std::vector<std::string_view> texts) {
  std::ranges::sort(texts);
  return texts;
}

bool is_identity(std::span<const std::uint32_t> order) {
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (order[i] != i) return false;
  }
  return true;
}

}  // namespace steelyard::placement
