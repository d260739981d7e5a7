#include "reshard/box_groups.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "geometry/box.h"

namespace steelyard::reshard {
namespace {

/// Groups that are looked at one by one; more of them get a tree.
constexpr std::uint32_t kLeafGroups = 8;

int compare(std::span<const std::int64_t> a, std::span<const std::int64_t> b) {
  for (std::size_t d = 0; d < a.size(); ++d) {
    if (a[d] != b[d]) return a[d] < b[d] ? -1 : 1;
  }
  return 0;
}

bool share_an_element(std::span<const std::int64_t> a_offset, std::span<const std::int64_t> a_extent,
                      std::span<const std::int64_t> b_offset, std::span<const std::int64_t> b_extent) {
  for (std::size_t d = 0; d < a_offset.size(); ++d) {
    if (a_offset[d] >= b_offset[d] + b_extent[d] || b_offset[d] >= a_offset[d] + a_extent[d]) return false;
  }
  return true;
}

}  // namespace

BoxGroups::BoxGroups(const PieceTable& pieces, std::size_t tensors, std::span<const std::uint32_t> preference)
    : pieces_(pieces), members_(pieces.size()), group_begin_(tensors + 1), disjoint_(tensors, 1), root_(tensors, 0) {
  std::vector<std::uint32_t> begin(tensors + 1);
  for (std::size_t i = 0; i < pieces.size(); ++i) ++begin[pieces.tensor(i) + 1];
  std::partial_sum(begin.begin(), begin.end(), begin.begin());
  std::vector<std::uint32_t> next(begin.begin(), begin.end() - 1);
  for (std::size_t i = 0; i < pieces.size(); ++i) members_[next[pieces.tensor(i)]++] = static_cast<std::uint32_t>(i);

  const auto box_order = [&](std::uint32_t a, std::uint32_t b) {
    const int by_offset = compare(pieces.offset(a), pieces.offset(b));
    return by_offset != 0 ? by_offset : compare(pieces.extent(a), pieces.extent(b));
  };
  const auto before = [&](std::uint32_t a, std::uint32_t b) {
    const int by_box = box_order(a, b);
    if (by_box != 0) return by_box < 0;
    return std::pair(preference[pieces.fragment(a)], a) < std::pair(preference[pieces.fragment(b)], b);
  };
  nodes_.emplace_back();  // number 0 means none
  for (std::size_t tensor = 0; tensor < tensors; ++tensor) {
    group_begin_[tensor] = static_cast<std::uint32_t>(member_begin_.size());
    const auto from = members_.begin() + begin[tensor];
    const auto to = members_.begin() + begin[tensor + 1];
    if (!std::is_sorted(from, to, before)) std::sort(from, to, before);
    for (std::uint32_t m = begin[tensor]; m < begin[tensor + 1]; ++m) {
      if (m == begin[tensor] || box_order(members_[m - 1], members_[m]) != 0) member_begin_.push_back(m);
    }
  }
  group_begin_[tensors] = static_cast<std::uint32_t>(member_begin_.size());
  member_begin_.push_back(static_cast<std::uint32_t>(members_.size()));
  for (std::size_t tensor = 0; tensor < tensors; ++tensor) {
    build_tree(tensor);
    disjoint_[tensor] = has_overlap(tensor) ? 0 : 1;
  }
}

void BoxGroups::build_tree(std::size_t tensor) {
  const auto [first, last] = groups_of(tensor);
  if (last - first <= kLeafGroups) return;
  const auto begin = static_cast<std::uint32_t>(tree_order_.size());
  for (std::uint32_t group = first; group < last; ++group) tree_order_.push_back(group);
  root_[tensor] = build_node(begin, static_cast<std::uint32_t>(tree_order_.size()), offset(first).size());
}

std::uint32_t BoxGroups::build_node(std::uint32_t begin, std::uint32_t end, std::size_t rank) {
  const auto number = static_cast<std::uint32_t>(nodes_.size());
  const std::size_t bounds = bounds_.size();
  nodes_.push_back({0, 0, begin, end, bounds});
  bounds_.resize(bounds + 2 * rank);
  std::size_t widest = 0;
  std::int64_t widest_span = -1;
  for (std::size_t d = 0; d < rank; ++d) {
    std::int64_t low = INT64_MAX;
    std::int64_t high = 0;
    std::int64_t last_begin = 0;
    for (std::uint32_t i = begin; i < end; ++i) {
      const std::int64_t from = offset(tree_order_[i])[d];
      low = std::min(low, from);
      last_begin = std::max(last_begin, from);
      high = std::max(high, from + extent(tree_order_[i])[d]);
    }
    bounds_[bounds + d] = low;
    bounds_[bounds + rank + d] = high;
    // The dimension along which the boxes are cut the most: how far their begins spread, in box lengths.
    const std::int64_t length = std::max<std::int64_t>(extent(tree_order_[begin])[d], 1);
    const std::int64_t span = (last_begin - low) / length;
    if (span > widest_span) widest = d, widest_span = span;
  }
  if (end - begin <= kLeafGroups) return number;
  const std::uint32_t middle = begin + (end - begin) / 2;
  std::nth_element(tree_order_.begin() + begin, tree_order_.begin() + middle, tree_order_.begin() + end,
                   [&](std::uint32_t a, std::uint32_t b) {
                     return std::pair(offset(a)[widest], a) < std::pair(offset(b)[widest], b);
                   });
  const std::uint32_t left = build_node(begin, middle, rank);
  const std::uint32_t right = build_node(middle, end, rank);
  nodes_[number].left = left;
  nodes_[number].right = right;
  return number;
}

bool BoxGroups::meets(std::size_t group, std::span<const std::int64_t> box_offset,
                      std::span<const std::int64_t> box_extent) const {
  return share_an_element(offset(group), extent(group), box_offset, box_extent);
}

void BoxGroups::find(std::size_t tensor, std::span<const std::int64_t> box_offset,
                     std::span<const std::int64_t> box_extent, std::vector<std::uint32_t>& found) const {
  const auto [first, last] = groups_of(tensor);
  const std::size_t rank = box_offset.size();
  if (root_[tensor] == 0) {
    for (std::uint32_t group = first; group < last; ++group) {
      if (meets(group, box_offset, box_extent)) found.push_back(group);
    }
    return;
  }
  const std::size_t before = found.size();
  // A balanced tree over fewer than 2^32 boxes is never deeper than 32.
  std::array<std::uint32_t, 64> open{};
  std::size_t depth = 0;
  open[depth++] = root_[tensor];
  while (depth > 0) {
    const Node& node = nodes_[open[--depth]];
    bool outside = false;
    for (std::size_t d = 0; d < rank && !outside; ++d) {
      outside =
          bounds_[node.bounds + d] >= box_offset[d] + box_extent[d] || bounds_[node.bounds + rank + d] <= box_offset[d];
    }
    if (outside) continue;
    if (node.left != 0) {
      open[depth++] = node.right;
      open[depth++] = node.left;
      continue;
    }
    for (std::uint32_t i = node.begin; i < node.end; ++i) {
      if (meets(tree_order_[i], box_offset, box_extent)) found.push_back(tree_order_[i]);
    }
  }
  std::sort(found.begin() + static_cast<std::ptrdiff_t>(before), found.end());
}

bool BoxGroups::has_overlap(std::size_t tensor) const {
  const auto [first, last] = groups_of(tensor);
  if (last - first < 2) return false;
  // Boxes that follow one another along one dimension and agree in the others: the common case, in one pass.
  const std::size_t rank = offset(first).size();
  bool plain = true;
  for (std::uint32_t group = first; group + 1 < last && plain; ++group) {
    std::size_t cut = rank;
    for (std::size_t d = 0; d < rank && plain; ++d) {
      if (offset(group)[d] == offset(group + 1)[d] && extent(group)[d] == extent(group + 1)[d]) continue;
      plain = cut == rank && offset(group)[d] + extent(group)[d] <= offset(group + 1)[d];
      cut = d;
    }
    // The same dimension for all pairs: that in which the first and the last differ.
    plain = plain && cut < rank && offset(first)[cut] < offset(last - 1)[cut];
    for (std::size_t d = 0; d < rank && plain; ++d) {
      plain = d == cut || (offset(first)[d] == offset(last - 1)[d] && extent(first)[d] == extent(last - 1)[d]);
    }
  }
  if (plain) return false;
  std::vector<std::uint32_t> found;
  for (std::uint32_t group = first; group < last; ++group) {
    found.clear();
    find(tensor, offset(group), extent(group), found);
    if (found.size() > 1) return true;
  }
  return false;
}

}  // namespace steelyard::reshard
