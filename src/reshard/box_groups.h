// The source's side of the question "who has this box?": pieces of every tensor, those of one box together, and a tree
// over the distinct boxes. Thread-compatible; read-only once built.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "reshard/pieces.h"

namespace steelyard::reshard {

/// Distinct boxes of the pieces of a table, by tensor. Groups are numbered by (tensor, offset, extent), so those of one
/// tensor are consecutive.
class BoxGroups {
 public:
  /// `preference[fragment]` orders the members of a group; ties go to the smaller piece number. `pieces` must outlive
  /// this.
  BoxGroups(const PieceTable& pieces, std::size_t tensors, std::span<const std::uint32_t> preference);

  /// Pieces of one box, in order of preference.
  std::span<const std::uint32_t> members(std::size_t group) const {
    return {members_.data() + member_begin_[group], member_begin_[group + 1] - member_begin_[group]};
  }
  std::span<const std::int64_t> offset(std::size_t group) const {
    return pieces_.offset(members_[member_begin_[group]]);
  }
  std::span<const std::int64_t> extent(std::size_t group) const {
    return pieces_.extent(members_[member_begin_[group]]);
  }
  std::pair<std::uint32_t, std::uint32_t> groups_of(std::size_t tensor) const {
    return {group_begin_[tensor], group_begin_[tensor + 1]};
  }
  /// No two distinct boxes of the tensor share an element.
  bool disjoint(std::size_t tensor) const { return disjoint_[tensor] != 0; }

  /// Appends the groups of a tensor that share an element with the box, ascending.
  void find(std::size_t tensor, std::span<const std::int64_t> offset, std::span<const std::int64_t> extent,
            std::vector<std::uint32_t>& found) const;

 private:
  /// A node of a tensor's tree: its bounds, and either two nodes or a few groups.
  struct Node {
    std::uint32_t left = 0;  ///< of the tree's nodes; 0: a leaf
    std::uint32_t right = 0;
    std::uint32_t begin = 0;  ///< in tree_order_
    std::uint32_t end = 0;
    std::size_t bounds = 0;  ///< in bounds_: begins, then ends
  };

  void build_tree(std::size_t tensor);
  std::uint32_t build_node(std::uint32_t begin, std::uint32_t end, std::size_t rank);
  bool has_overlap(std::size_t tensor) const;
  bool meets(std::size_t group, std::span<const std::int64_t> offset, std::span<const std::int64_t> extent) const;

  const PieceTable& pieces_;
  std::vector<std::uint32_t> members_;
  std::vector<std::uint32_t> member_begin_;
  std::vector<std::uint32_t> group_begin_;
  std::vector<std::uint8_t> disjoint_;
  std::vector<std::uint32_t> root_;  ///< per tensor; 0: few groups, no tree
  std::vector<Node> nodes_;
  std::vector<std::uint32_t> tree_order_;
  std::vector<std::int64_t> bounds_;
};

}  // namespace steelyard::reshard
