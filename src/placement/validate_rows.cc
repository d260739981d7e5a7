#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/checked.h"
#include "base/utf8.h"
#include "placement/validate.h"

namespace steelyard::placement {
namespace {

bool is_ascii(std::string_view text) {
  std::uint64_t all = 0;
  std::size_t i = 0;
  for (; i + 8 <= text.size(); i += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, text.data() + i, 8);
    all |= word;
  }
  for (; i < text.size(); ++i) all |= static_cast<unsigned char>(text[i]);
  return (all & 0x8080808080808080U) == 0;
}

Status check_minimum(std::int64_t value, std::int64_t minimum, const Path& path) {
  if (value >= minimum) return {};
  return below_minimum(path, minimum, std::to_string(value));
}

Status check_list(std::span<const std::int64_t> values, std::int64_t minimum, const Path& path) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i] < minimum) return below_minimum(Path(&path, i), minimum, std::to_string(values[i]));
  }
  return {};
}

/// The product of `shape` (each at least 1) and `itemsize`.
std::optional<std::int64_t> checked_bytes(std::span<const std::int64_t> shape, std::int64_t itemsize) {
  std::optional<std::int64_t> product = itemsize;
  for (const std::int64_t extent : shape) {
    product = checked_mul(*product, extent);
    if (!product) return std::nullopt;
  }
  return product;
}

Status check_shard_dims(const TensorDescriptorRow& row, const Path& path) {
  const auto rank = static_cast<std::int64_t>(row.global_shape.size());
  if (row.partition_dim && (*row.partition_dim < 0 || *row.partition_dim >= rank)) {
    return contract_error(
        Path(&path, "partition_dim"),
        fmt::format("partition_dim is out of range: found {}, the tensor has {} dimensions", *row.partition_dim, rank));
  }
  if (!row.shard_dims) return {};
  const auto dims = *row.shard_dims;
  const Path field(&path, "shard_dims");
  if (!std::ranges::is_sorted(dims)) return contract_error(field, "shard_dims must be sorted, found " + shown(dims));
  if (std::ranges::adjacent_find(dims) != dims.end()) {
    return contract_error(field, "shard_dims must not contain duplicates, found " + shown(dims));
  }
  if (!dims.empty() && (dims.front() < 0 || dims.back() >= rank)) {
    return contract_error(field, fmt::format("shard_dims contains an out-of-range dimension: found {}, the tensor has "
                                             "{} dimensions",
                                             shown(dims), rank));
  }
  if (row.partition_dim && !std::ranges::equal(dims, std::span(&*row.partition_dim, 1))) {
    return contract_error(
        Path(&path, "partition_dim"),
        fmt::format("partition_dim conflicts with shard_dims: {} and {}", *row.partition_dim, shown(dims)));
  }
  return {};
}

/// What placed and runtime fragments have in common.
template <typename Row>
Status check_box_fields(const Row& row, const Path& path) {
  SY_RETURN_IF_ERROR(check_text(row.tensor_id, Path(&path, "tensor_id")));
  SY_RETURN_IF_ERROR(check_list(row.global_offset, 0, Path(&path, "global_offset")));
  const Path shape(&path, "local_shape");
  SY_RETURN_IF_ERROR(check_list(row.local_shape, 1, shape));
  if (!checked_bytes(row.local_shape, 1)) return beyond_63_bits(shape, shown(row.local_shape) + " elements");
  if (row.global_offset.size() == row.local_shape.size()) {
    for (std::size_t d = 0; d < row.local_shape.size(); ++d) {
      if (checked_add(row.global_offset[d], row.local_shape[d])) continue;
      return contract_error(Path(&shape, d), fmt::format("global_offset and local_shape must fit in 63 bits: {} + {}",
                                                         row.global_offset[d], row.local_shape[d]));
    }
  }
  if (row.nbytes < 1) return below_minimum(Path(&path, "nbytes"), 1, "0");
  return check_rank(row.rank, Path(&path, "rank"));
}

Status check_place(const MemoryPlace& place, std::uint64_t nbytes, const Path& path) {
  if (place.address < 1) return below_minimum(Path(&path, "address"), 1, "0");
  if (nbytes < 1) return below_minimum(Path(&path, "nbytes"), 1, "0");
  if (!checked_add(place.address, nbytes)) {
    return contract_error(path, fmt::format("address range must fit in an unsigned 64-bit integer: {} bytes at {}",
                                            nbytes, place.address));
  }
  SY_RETURN_IF_ERROR(check_text(place.worker_id, Path(&path, "worker_id")));
  SY_RETURN_IF_ERROR(check_text(place.endpoint, Path(&path, "endpoint")));
  return check_text(place.device, Path(&path, "device"));
}

Status check_aliases(std::vector<std::string_view> aliases, const Path& path) {
  return sort_aliases(aliases, Path(&path, "aliases"));
}

}  // namespace

Status check_text(std::string_view text, const Path& path) {
  if (text.empty()) return not_a_string(path);
  if (is_ascii(text) || is_valid_utf8(text)) return {};
  return contract_error(path, fmt::format("{} must be valid Unicode, found {}", path.name(), shown(text)));
}

Status check_digest(std::string_view text, const Path& path) {
  const auto is_hex = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  if (text.size() == 64 && std::ranges::all_of(text, is_hex)) return {};
  return contract_error(path, fmt::format("{} must be a lowercase SHA-256 digest, found {}", path.name(), shown(text)));
}

Status sort_aliases(std::vector<std::string_view>& aliases, const Path& path) {
  for (std::size_t i = 0; i < aliases.size(); ++i) SY_RETURN_IF_ERROR(check_text(aliases[i], Path(&path, i)));
  std::ranges::sort(aliases);
  const auto repeat = std::ranges::adjacent_find(aliases);
  if (repeat == aliases.end()) return {};
  return contract_error(path,
                        fmt::format("{} must not contain duplicates, found {} twice", path.name(), shown(*repeat)));
}

Status check_rank(const ParallelRank& rank, const Path& path) {
  SY_RETURN_IF_ERROR(check_minimum(rank.dp, 0, Path(&path, "dp")));
  SY_RETURN_IF_ERROR(check_minimum(rank.tp, 0, Path(&path, "tp")));
  SY_RETURN_IF_ERROR(check_minimum(rank.pp, 0, Path(&path, "pp")));
  return check_minimum(rank.ep, 0, Path(&path, "ep"));
}

Status check_tensor(const TensorDescriptorRow& row, const Path& path) {
  SY_RETURN_IF_ERROR(check_text(row.tensor_id, Path(&path, "tensor_id")));
  const Path shape(&path, "global_shape");
  if (row.global_shape.empty()) return contract_error(shape, "global_shape must not be empty");
  SY_RETURN_IF_ERROR(check_list(row.global_shape, 1, shape));
  SY_RETURN_IF_ERROR(check_text(row.dtype, Path(&path, "dtype")));
  SY_RETURN_IF_ERROR(check_minimum(row.itemsize, 1, Path(&path, "itemsize")));
  if (!checked_bytes(row.global_shape, row.itemsize)) {
    return contract_error(shape, fmt::format("global_shape times itemsize must fit in 63 bits: {} elements of {} bytes",
                                             shown(row.global_shape), row.itemsize));
  }
  SY_RETURN_IF_ERROR(check_shard_dims(row, path));
  SY_RETURN_IF_ERROR(check_text(row.layout_fingerprint, Path(&path, "layout_fingerprint")));
  if (row.layer_id) SY_RETURN_IF_ERROR(check_minimum(*row.layer_id, 0, Path(&path, "layer_id")));
  if (row.expert_id) SY_RETURN_IF_ERROR(check_minimum(*row.expert_id, 0, Path(&path, "expert_id")));
  return {};
}

Status check_fragment(const PlacementFragmentRow& row, const Path& path) {
  SY_RETURN_IF_ERROR(check_text(row.placement_fragment_id, Path(&path, "placement_fragment_id")));
  SY_RETURN_IF_ERROR(check_box_fields(row, path));
  if (row.aliases.empty()) return {};
  return check_aliases(row.aliases, path);
}

Status check_fragment(const RuntimeFragmentRow& row, const Path& path) {
  SY_RETURN_IF_ERROR(check_text(row.fragment_id, Path(&path, "fragment_id")));
  SY_RETURN_IF_ERROR(check_box_fields(row, path));
  SY_RETURN_IF_ERROR(check_place(row.place, row.nbytes, path));
  if (row.placement_fragment_id) {
    SY_RETURN_IF_ERROR(check_text(*row.placement_fragment_id, Path(&path, "placement_fragment_id")));
  }
  if (row.aliases.empty()) return {};
  return check_aliases(row.aliases, path);
}

Status check_fragment(const BindingFragmentRow& row, const Path& path) {
  SY_RETURN_IF_ERROR(check_text(row.placement_fragment_id, Path(&path, "placement_fragment_id")));
  SY_RETURN_IF_ERROR(check_text(row.fragment_id, Path(&path, "fragment_id")));
  return check_place(row.place, row.nbytes, path);
}

}  // namespace steelyard::placement
