#include "reshard/execute_verify.h"

#include <algorithm>
#include <string>
#include <vector>

#include "hash/xxh3.h"
#include "reshard/plan_inputs.h"

namespace steelyard::reshard {
namespace {

/// Walks one target fragment piece by piece, in the order of the piece's elements.
class FragmentWalk {
 public:
  FragmentWalk(const TransferPlan& plan, std::span<const FragmentMemory> source, std::span<const FragmentMemory> target)
      : plan_(plan), source_(source), target_(target) {}

  bool matches(std::size_t fragment, std::size_t first_region, std::size_t last_region) {
    const PlanInputs& inputs = plan_.inputs();
    for (std::uint32_t piece = inputs.target_piece_begin[fragment]; piece < inputs.target_piece_begin[fragment + 1];
         ++piece) {
      regions_.clear();
      for (std::size_t r = first_region; r < last_region; ++r) {
        if (plan_.regions().row(r).target_piece == piece) regions_.push_back(r);
      }
      walk(fragment, piece);
    }
    return wanted_.finish() == found_.finish();
  }

 private:
  void walk(std::size_t fragment, std::uint32_t piece) {
    const PieceTable& pieces = plan_.inputs().target_pieces;
    const auto offset = pieces.offset(piece);
    const auto extent = pieces.extent(piece);
    const std::size_t rank = offset.size();
    position_.assign(offset.begin(), offset.end());
    while (true) {
      // One row: all elements along the last dimension.
      const std::int64_t row_end = rank == 0 ? 1 : offset[rank - 1] + extent[rank - 1];
      if (rank > 0) position_[rank - 1] = offset[rank - 1];
      std::int64_t at = rank == 0 ? 0 : offset[rank - 1];
      while (at < row_end) {
        const std::int64_t end = put_wanted();
        put_found(fragment, piece, end - at);
        at = end;
        if (rank > 0) position_[rank - 1] = at;
      }
      std::size_t d = rank == 0 ? 0 : rank - 1;
      while (d > 0 && ++position_[d - 1] == offset[d - 1] + extent[d - 1]) {
        position_[d - 1] = offset[d - 1];
        --d;
      }
      if (d == 0) return;
    }
  }

  /// The elements from the position to the end of the row in the source that holds them; gives where they end.
  std::int64_t put_wanted() {
    const PieceTable& pieces = plan_.inputs().source_pieces;
    const std::size_t rank = position_.size();
    for (const std::size_t r : regions_) {
      const RegionRow row = plan_.regions().row(r);
      bool inside = true;
      for (std::size_t d = 0; d < rank && inside; ++d) {
        inside = position_[d] >= row.offset[d] && position_[d] < row.offset[d] + row.extent[d];
      }
      if (!inside) continue;
      const std::int64_t from = rank == 0 ? 0 : position_[rank - 1];
      const std::int64_t end = rank == 0 ? 1 : row.offset[rank - 1] + row.extent[rank - 1];
      put(source_[row.source].address + static_cast<std::uint64_t>(byte_offset(pieces, row.source_piece, position_)),
          rank == 0 ? 0 : pieces.stride(row.source_piece)[rank - 1], end - from, row.tensor, wanted_);
      return end;
    }
    SY_CHECK(false, "a plan whose regions do not cover a target piece");
    return 0;
  }

  void put_found(std::size_t fragment, std::uint32_t piece, std::int64_t elements) {
    const PieceTable& pieces = plan_.inputs().target_pieces;
    const std::size_t rank = position_.size();
    put(target_[fragment].address + static_cast<std::uint64_t>(byte_offset(pieces, piece, position_)),
        rank == 0 ? 0 : pieces.stride(piece)[rank - 1], elements, pieces.tensor(piece), found_);
  }

  void put(std::uint64_t address, std::int64_t stride, std::int64_t elements, std::uint32_t tensor, hash::Xxh3& sum) {
    const auto itemsize = static_cast<std::size_t>(plan_.tensor_itemsize(tensor));
    const auto* from = reinterpret_cast<const std::byte*>(address);
    if (elements == 1 || static_cast<std::size_t>(stride) == itemsize) {
      sum.update({from, static_cast<std::size_t>(elements) * itemsize});
      return;
    }
    for (std::int64_t i = 0; i < elements; ++i) sum.update({from + i * stride, itemsize});
  }

  const TransferPlan& plan_;
  std::span<const FragmentMemory> source_;
  std::span<const FragmentMemory> target_;
  std::vector<std::size_t> regions_;
  std::vector<std::int64_t> position_;
  hash::Xxh3 wanted_;
  hash::Xxh3 found_;
};

}  // namespace

Result<std::uint64_t> verify_targets(const TransferPlan& plan, std::span<const FragmentMemory> source,
                                     std::span<const FragmentMemory> target) {
  FragmentWalk walk(plan, source, target);
  const auto targets = plan.regions().targets();
  std::uint64_t verified = 0;
  for (std::size_t first = 0; first < targets.size();) {
    std::size_t last = first;
    while (last < targets.size() && targets[last] == targets[first]) ++last;
    if (!walk.matches(targets[first], first, last)) {
      return Status(Code::kCorrupt,
                    "target fragment \"" + plan.target().fragment_id(targets[first]) +
                        "\": its bytes differ from the elements of its sources",
                    "something else wrote to the sources or the targets during the copy");
    }
    ++verified;
    first = last;
  }
  return verified;
}

}  // namespace steelyard::reshard
