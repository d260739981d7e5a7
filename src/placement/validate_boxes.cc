#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "geometry/disjoint.h"
#include "placement/validate.h"

namespace steelyard::placement {
namespace {

Status check_dimensions(const TensorDescriptorRow& tensor, std::span<const std::int64_t> list, const Path& path) {
  if (list.size() == tensor.global_shape.size()) return {};
  return contract_error(
      path, fmt::format("fragment rank mismatch: tensor {} has {} dimensions, {} has {}", shown(tensor.tensor_id),
                        tensor.global_shape.size(), path.name(), list.size()));
}

/// A tensor that may not be cut.
Status check_replica(const TensorDescriptorRow& tensor, std::span<const std::int64_t> offset,
                     std::span<const std::int64_t> shape, const Path& path) {
  if (std::ranges::any_of(offset, [](std::int64_t number) { return number != 0; })) {
    return contract_error(Path(&path, "global_offset"),
                          fmt::format("replicated fragment has an offset: found {}; tensor {} has no shard dimensions",
                                      shown(offset), shown(tensor.tensor_id)));
  }
  if (!std::ranges::equal(shape, tensor.global_shape)) {
    return contract_error(Path(&path, "local_shape"),
                          fmt::format("replicated fragment is incomplete: found {}; tensor {} has no shard dimensions "
                                      "and the shape {}",
                                      shown(shape), shown(tensor.tensor_id), shown(tensor.global_shape)));
  }
  return {};
}

class DisjointBoxes {
 public:
  DisjointBoxes(const TensorColumns& tensors, const BoxColumns& boxes,
                const std::function<std::size_t(std::size_t)>& input_row)
      : tensors_(tensors), boxes_(boxes), input_row_(input_row) {}

  /// Fragments of one tensor and rank.
  Status check(std::span<const std::uint32_t> rows) {
    SY_RETURN_IF_ERROR(check_repeats(rows));
    const std::size_t rank = boxes_.shape(rows[0]).size();
    begins_.clear();
    ends_.clear();
    for (const std::uint32_t row : rows) {
      for (std::size_t d = 0; d < rank; ++d) {
        begins_.push_back(boxes_.offset(row)[d]);
        ends_.push_back(boxes_.offset(row)[d] + boxes_.shape(row)[d]);
      }
    }
    const auto pair = geometry::find_overlapping_pair(rank, begins_, ends_, rows.size());
    if (!pair) return {};
    return refusal("logical fragment boxes overlap", rows[pair->first], rows[pair->second]);
  }

 private:
  Status check_repeats(std::span<const std::uint32_t> rows) {
    const auto compare = [this](std::uint32_t a, std::uint32_t b) {
      const auto offsets = std::lexicographical_compare_three_way(boxes_.offset(a).begin(), boxes_.offset(a).end(),
                                                                  boxes_.offset(b).begin(), boxes_.offset(b).end());
      if (offsets != 0) return offsets;
      return std::lexicographical_compare_three_way(boxes_.shape(a).begin(), boxes_.shape(a).end(),
                                                    boxes_.shape(b).begin(), boxes_.shape(b).end());
    };
    order_.assign(rows.begin(), rows.end());
    std::ranges::sort(order_, [&](std::uint32_t a, std::uint32_t b) {
      const auto order = compare(a, b);
      return order != 0 ? order < 0 : a < b;
    });
    for (std::size_t i = 1; i < order_.size(); ++i) {
      if (compare(order_[i - 1], order_[i]) != 0) continue;
      return refusal("duplicate logical fragment for tensor and parallel rank", order_[i - 1], order_[i]);
    }
    return {};
  }

  Status refusal(std::string_view words, std::uint32_t a, std::uint32_t b) const {
    std::size_t first = input_row_(a);
    std::size_t second = input_row_(b);
    if (second < first) std::swap(first, second), std::swap(a, b);
    const ParallelRank& rank = boxes_.rank(a);
    const Path fragments("fragments");
    return contract_error(
        Path(&fragments, second),
        fmt::format(
            "{}: tensor {}, rank dp={} tp={} pp={} ep={}: offset {} shape {} and fragments[{}] offset {} shape {}",
            words, shown(tensors_.tensor_id(boxes_.tensor(a))), rank.dp, rank.tp, rank.pp, rank.ep,
            shown(boxes_.offset(b)), shown(boxes_.shape(b)), first, shown(boxes_.offset(a)), shown(boxes_.shape(a))));
  }

  const TensorColumns& tensors_;
  const BoxColumns& boxes_;
  const std::function<std::size_t(std::size_t)>& input_row_;
  std::vector<std::int64_t> begins_;
  std::vector<std::int64_t> ends_;
  std::vector<std::uint32_t> order_;
};

}  // namespace

Status check_box(const TensorDescriptorRow& tensor, std::span<const std::int64_t> offset,
                 std::span<const std::int64_t> shape, std::uint64_t nbytes, const Path& path) {
  const auto whole = tensor.global_shape;
  SY_RETURN_IF_ERROR(check_dimensions(tensor, offset, Path(&path, "global_offset")));
  SY_RETURN_IF_ERROR(check_dimensions(tensor, shape, Path(&path, "local_shape")));
  for (std::size_t d = 0; d < whole.size(); ++d) {
    if (offset[d] <= whole[d] && shape[d] <= whole[d] - offset[d]) continue;
    const Path field(&path, "local_shape");
    return contract_error(Path(&field, d),
                          fmt::format("fragment is out of bounds: offset {} and shape {} in dimension {}, where tensor "
                                      "{} has {}",
                                      offset[d], shape[d], d, shown(tensor.tensor_id), whole[d]));
  }
  const auto dims = effective_shard_dims(tensor);
  if (dims.empty()) {
    SY_RETURN_IF_ERROR(check_replica(tensor, offset, shape, path));
  } else {
    for (std::size_t d = 0; d < whole.size(); ++d) {
      if (offset[d] == 0 && shape[d] == whole[d]) continue;
      if (std::ranges::find(dims, static_cast<std::int64_t>(d)) != dims.end()) continue;
      return contract_error(path,
                            fmt::format("fragment offset/shape uses a non-shard axis: dimension {} of tensor {}, whose "
                                        "shard_dims are {}",
                                        d, shown(tensor.tensor_id), shown(dims)));
    }
  }
  // The box is inside of a tensor whose bytes fit in 63 bits.
  std::int64_t wanted = tensor.itemsize;
  for (const std::int64_t extent : shape) wanted *= extent;
  if (nbytes == static_cast<std::uint64_t>(wanted)) return {};
  return contract_error(Path(&path, "nbytes"),
                        fmt::format("fragment byte size mismatch: found {}; shape {} of {} bytes each is {}", nbytes,
                                    shown(shape), tensor.itemsize, wanted));
}

Status check_boxes_disjoint(const TensorColumns& tensors, const BoxColumns& boxes, const FragmentsOfTensors& by_tensor,
                            const std::function<std::size_t(std::size_t)>& input_row) {
  DisjointBoxes disjoint(tensors, boxes, input_row);
  for (std::size_t tensor = 0; tensor < tensors.size(); ++tensor) {
    const auto rows = by_tensor.of(tensor);
    for (std::size_t begin = 0; begin < rows.size();) {
      std::size_t end = begin + 1;
      while (end < rows.size() && boxes.rank_number(rows[end]) == boxes.rank_number(rows[begin])) ++end;
      if (end - begin > 1) SY_RETURN_IF_ERROR(disjoint.check(rows.subspan(begin, end - begin)));
      begin = end;
    }
  }
  return {};
}

}  // namespace steelyard::placement
