#include "formats/fragment_boxes.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace steelyard::formats {
namespace {

std::int64_t begin_of(const FragmentEntry& fragment, std::size_t dimension) {
  return fragment.global_offset[dimension];
}
std::int64_t end_of(const FragmentEntry& fragment, std::size_t dimension) {
  return fragment.global_offset[dimension] + fragment.local_shape[dimension];
}

bool share_an_element(const FragmentEntry& a, const FragmentEntry& b) {
  for (std::size_t k = 0; k < a.global_offset.size(); ++k) {
    if (begin_of(a, k) >= end_of(b, k) || begin_of(b, k) >= end_of(a, k)) return false;
  }
  return true;
}

std::size_t widest_dimension(std::span<const FragmentEntry> fragments) {
  std::size_t widest = 0;
  std::size_t most = 0;
  std::vector<std::int64_t> offsets(fragments.size());
  for (std::size_t k = 0; k < fragments[0].global_offset.size(); ++k) {
    std::ranges::transform(fragments, offsets.begin(), [&](const FragmentEntry& f) { return begin_of(f, k); });
    std::sort(offsets.begin(), offsets.end());
    std::size_t distinct = 1;
    for (std::size_t i = 1; i < offsets.size(); ++i) distinct += offsets[i] != offsets[i - 1] ? 1 : 0;
    if (distinct > most) {
      most = distinct;
      widest = k;
    }
  }
  return widest;
}

}  // namespace

std::optional<std::pair<std::size_t, std::size_t>> find_overlap(std::span<const FragmentEntry> fragments) {
  if (fragments.size() < 2) return std::nullopt;
  if (fragments[0].global_offset.empty()) return std::pair<std::size_t, std::size_t>(0, 1);
  const std::size_t dimension = widest_dimension(fragments);
  std::vector<std::size_t> order(fragments.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return begin_of(fragments[i], dimension); });
  std::vector<std::size_t> open;
  for (const std::size_t next : order) {
    const FragmentEntry& box = fragments[next];
    std::erase_if(open, [&](std::size_t i) { return end_of(fragments[i], dimension) <= begin_of(box, dimension); });
    for (const std::size_t other : open) {
      if (share_an_element(fragments[other], box)) return std::minmax(other, next);
    }
    open.push_back(next);
  }
  return std::nullopt;
}

}  // namespace steelyard::formats
