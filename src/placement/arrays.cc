#include "placement/arrays.h"

#include <fmt/format.h>

#include <algorithm>

namespace steelyard::placement {
namespace {

/// Ends ascend and the last one is not beyond `values`.
Status check_ends(std::span<const std::uint64_t> ends, std::size_t values, const Path& path) {
  std::uint64_t last = 0;
  for (const std::uint64_t end : ends) {
    if (end < last) return contract_error(path, fmt::format("column ends must ascend, found {} after {}", end, last));
    last = end;
  }
  if (last <= values) return {};
  return contract_error(path, fmt::format("column ends at {}, but has {} values", last, values));
}

Status check_optional(std::size_t size, std::size_t rows, const Path& path) {
  return size == 0 ? Status() : check_array(size, rows, path);
}

}  // namespace

void TextListArray::list(std::size_t row, std::vector<std::string_view>& out) const {
  out.clear();
  if (ends.empty()) return;
  for (std::uint64_t i = row == 0 ? 0 : ends[row - 1]; i < ends[row]; ++i) out.push_back(strings.at(i));
}

Status check_array(std::size_t size, std::size_t rows, const Path& path) {
  if (size == rows) return {};
  return contract_error(path, fmt::format("column has {} rows, wanted {}", size, rows));
}

Status check_array(const TextArray& array, std::size_t rows, const Path& path) {
  SY_RETURN_IF_ERROR(check_array(array.size(), rows, path));
  SY_RETURN_IF_ERROR(check_ends(array.ends, array.text.size(), path));
  if (!array.codes || array.codes->empty()) return {};
  const std::uint32_t largest = std::ranges::max(*array.codes);
  if (largest < array.ends.size()) return {};
  return contract_error(path, fmt::format("column has code {}, but {} strings", largest, array.ends.size()));
}

Status check_array(const ListArray& array, std::size_t rows, const Path& path) {
  SY_RETURN_IF_ERROR(check_array(array.size(), rows, path));
  if (!array.ends.empty()) return check_ends(array.ends, array.values.size(), path);
  if (array.width == 0 || rows <= array.values.size() / array.width) return {};
  return contract_error(
      path, fmt::format("column has {} values, wanted {} rows of {}", array.values.size(), rows, array.width));
}

Status check_array(const TextListArray& array, std::size_t rows, const Path& path) {
  if (array.ends.empty()) return {};
  SY_RETURN_IF_ERROR(check_array(array.strings, array.strings.size(), path));
  SY_RETURN_IF_ERROR(check_array(array.ends.size(), rows, path));
  return check_ends(array.ends, array.strings.size(), path);
}

Status check_arrays(const TensorArrays& arrays) {
  const std::size_t rows = arrays.tensor_id.size();
  SY_RETURN_IF_ERROR(check_array(arrays.tensor_id, rows, Path("tensor_id")));
  SY_RETURN_IF_ERROR(check_array(arrays.global_shape, rows, Path("global_shape")));
  SY_RETURN_IF_ERROR(check_array(arrays.dtype, rows, Path("dtype")));
  SY_RETURN_IF_ERROR(check_array(arrays.itemsize.size(), rows, Path("itemsize")));
  SY_RETURN_IF_ERROR(check_optional(arrays.partition_dim.size(), rows, Path("partition_dim")));
  SY_RETURN_IF_ERROR(check_array(arrays.layout_fingerprint, rows, Path("layout_fingerprint")));
  SY_RETURN_IF_ERROR(check_optional(arrays.layer_id.size(), rows, Path("layer_id")));
  SY_RETURN_IF_ERROR(check_optional(arrays.expert_id.size(), rows, Path("expert_id")));
  return arrays.shard_dims ? check_array(*arrays.shard_dims, rows, Path("shard_dims")) : Status();
}

Status check_arrays(const BoxArrays& arrays, std::size_t tensors) {
  const std::size_t rows = arrays.tensor.size();
  const Path tensor("tensor");
  for (std::size_t i = 0; i < rows; ++i) {
    if (arrays.tensor[i] < tensors) continue;
    return contract_error(Path(&tensor, i),
                          fmt::format("unknown tensor number {}; there are {}", arrays.tensor[i], tensors));
  }
  SY_RETURN_IF_ERROR(check_array(arrays.global_offset, rows, Path("global_offset")));
  SY_RETURN_IF_ERROR(check_array(arrays.local_shape, rows, Path("local_shape")));
  SY_RETURN_IF_ERROR(check_array(arrays.nbytes.size(), rows, Path("nbytes")));
  if (!arrays.rank.empty() && (arrays.rank.size() % 4 != 0 || arrays.rank.size() / 4 != rows)) {
    return contract_error(Path("rank"),
                          fmt::format("column has {} numbers, wanted 4 for each of {} rows", arrays.rank.size(), rows));
  }
  return check_array(arrays.aliases, rows, Path("aliases"));
}

Status check_arrays(const PlaceArrays& arrays, std::size_t rows) {
  SY_RETURN_IF_ERROR(check_array(arrays.address.size(), rows, Path("address")));
  SY_RETURN_IF_ERROR(check_array(arrays.worker_id, rows, Path("worker_id")));
  SY_RETURN_IF_ERROR(check_array(arrays.endpoint, rows, Path("endpoint")));
  return check_array(arrays.device, rows, Path("device"));
}

}  // namespace steelyard::placement
