#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <tuple>
#include <vector>

#include "placement/aliases.h"
#include "placement/validate.h"

namespace steelyard::placement {
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
    // All fragments of a manifest have one generation.
    if (places.address(a) == places.address(b) && declared_aliases(tensors, boxes, a, b)) continue;
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
