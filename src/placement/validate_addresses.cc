#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <tuple>
#include <vector>

#include "placement/validate.h"

namespace steelyard::placement {
namespace {

/// One piece of memory under two names, said so by both: same bytes, same box, the same list of at least two names, and
/// tensors that differ in nothing but their ids. (All fragments of a manifest have one generation.)
bool declared_alias(const TensorColumns& tensors, const BoxColumns& boxes, const PlaceColumns& places, std::uint32_t a,
                    std::uint32_t b) {
  if (places.address(a) != places.address(b) || boxes.nbytes(a) != boxes.nbytes(b)) return false;
  if (boxes.alias_count(a) < 2 || boxes.alias_count(a) != boxes.alias_count(b)) return false;
  for (std::size_t i = 0; i < boxes.alias_count(a); ++i) {
    if (boxes.alias(a, i) != boxes.alias(b, i)) return false;
  }
  return std::ranges::equal(boxes.offset(a), boxes.offset(b)) && std::ranges::equal(boxes.shape(a), boxes.shape(b)) &&
         same_but_for_id(tensors.row(boxes.tensor(a)), tensors.row(boxes.tensor(b)));
}

}  // namespace

Status check_addresses_disjoint(const TensorColumns& tensors, const BoxColumns& boxes, const PlaceColumns& places) {
  std::vector<std::uint32_t> order(boxes.size());
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::sort(order, [&](std::uint32_t a, std::uint32_t b) {
    return std::tuple(places.space(a), places.address(a), a) < std::tuple(places.space(b), places.address(b), b);
  });
  for (std::size_t i = 1; i < order.size(); ++i) {
    // Whatever came before is disjoint or an alias, so the last range ends last.
    std::uint32_t a = order[i - 1];
    std::uint32_t b = order[i];
    if (places.space(a) != places.space(b) || places.address(b) - places.address(a) >= boxes.nbytes(a)) continue;
    if (declared_alias(tensors, boxes, places, a, b)) continue;
    if (b < a) std::swap(a, b);
    const Path fragments("fragments");
    return contract_error(
        Path(&fragments, b),
        fmt::format("address ranges overlap on worker {} device {}: {} bytes at {:#x} and fragments[{}], {} bytes at "
                    "{:#x}; only exact aliases that both declare may share memory",
                    shown(places.worker_id(b)), shown(places.device(b)), boxes.nbytes(b), places.address(b), a,
                    boxes.nbytes(a), places.address(a)));
  }
  return {};
}

}  // namespace steelyard::placement
