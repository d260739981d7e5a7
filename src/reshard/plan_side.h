// One side of a plan, brought into the planner's columns: its tensors by name, its fragments, its pieces. Internal to
// the planner. Thread-compatible; views into the manifest it was made from, which it keeps alive.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/status.h"
#include "formats/stored_manifest.h"
#include "placement/placement_manifest.h"
#include "reshard/pieces.h"
#include "reshard/plan_options.h"

namespace steelyard::reshard {

/// A tensor as the two sides compare it: one of the manifest's own, or a view of one.
struct LogicalTensor {
  std::string_view id;
  std::string_view dtype;
  std::string_view layout;
  std::span<const std::int64_t> shape;
  std::int64_t itemsize = 0;       ///< 0: a stored type that is not in the table of spellings, or not of whole bytes
  std::uint64_t stored_bytes = 0;  ///< of a stored tensor
  std::uint32_t base = 0;          ///< row of the manifest's tensors
  const TensorView* view = nullptr;
};

class PlanSide {
 public:
  /// `views` must outlive this.
  static Result<PlanSide> of_placement(const placement::PlacementManifest& manifest, std::span<const TensorView> views,
                                       Side side);
  static Result<PlanSide> of_stored(std::shared_ptr<const formats::StoredManifest> manifest,
                                    std::span<const TensorView> views);

  bool stored() const { return stored_ != nullptr; }
  /// Null for a stored side.
  const placement::PlacementManifest* placement() const { return placement_ ? &*placement_ : nullptr; }
  const formats::StoredManifest* stored_manifest() const { return stored_.get(); }

  /// Ascending by id.
  std::span<const LogicalTensor> tensors() const { return tensors_; }
  std::size_t fragments() const { return placement_ ? placement_->fragments().size() : stored_fragments_.size(); }
  /// Of a stored side: the tensor's id, and the box's offset where the tensor is stored cut.
  std::string fragment_id(std::size_t fragment) const;
  std::uint64_t fragment_bytes(std::size_t fragment) const;
  /// Ascending; a stored side has one.
  std::span<const placement::ParallelRank> ranks() const;
  std::uint32_t rank_number(std::size_t fragment) const {
    return placement_ ? placement_->fragments().boxes.rank_number(fragment) : 0;
  }
  /// Where a fragment of a stored side lies in the revision's payload.
  const formats::TensorPlace& stored_place(std::size_t fragment) const { return stored_fragments_[fragment].place; }

  /// The pieces of all fragments, in the order of the fragments. `numbers[tensor]` is the number under which a tensor
  /// of tensors() is put into the table, kNone leaves it out; `shapes[tensor]`, where not empty, replaces its shape
  /// (same elements in the same order, the side's boxes being whole).
  static constexpr std::uint32_t kNone = UINT32_MAX;
  struct Use {
    std::uint32_t number = kNone;
    std::span<const std::int64_t> shape;
    std::int64_t itemsize = 0;
  };
  PieceTable pieces(std::span<const Use> uses) const;

 private:
  struct StoredFragment {
    std::uint32_t tensor = 0;  ///< row of the manifest's table
    std::uint32_t entry = 0;   ///< of the manifest's fragments; kNone: the whole tensor
    formats::TensorPlace place;
  };

  Status add_views(std::span<const TensorView> views, Side side, std::size_t base_tensors);

  std::optional<placement::PlacementManifest> placement_;
  std::shared_ptr<const formats::StoredManifest> stored_;
  std::vector<StoredFragment> stored_fragments_;
  std::vector<LogicalTensor> tensors_;
};

/// "offset (0, 4), shape (2, 8)".
std::string box_text(std::span<const std::int64_t> offset, std::span<const std::int64_t> extent);
/// "(2, 8)".
std::string tuple_text(std::span<const std::int64_t> numbers);

}  // namespace steelyard::reshard
