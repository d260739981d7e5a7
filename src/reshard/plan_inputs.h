// What a planner has made of its arguments: two sides that agree, in columns. Internal to the planner. Immutable once
// made, so safe to read from several threads.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "reshard/box_groups.h"
#include "reshard/pieces.h"
#include "reshard/plan_options.h"
#include "reshard/plan_side.h"

namespace steelyard::reshard {

/// A tensor that is planned; its number is its place in the target's tensors() order.
struct PlannedTensor {
  std::string_view id;
  std::span<const std::int64_t> shape;
  std::int64_t itemsize = 0;
};

struct PlanInputs {
  PlanOptions options;
  std::optional<PlanSide> source;
  std::optional<PlanSide> target;
  std::vector<PlannedTensor> tensors;
  PieceTable source_pieces;
  PieceTable target_pieces;
  /// Pieces of target fragment f: from target_piece_begin[f] to target_piece_begin[f + 1].
  std::vector<std::uint32_t> target_piece_begin;
  std::optional<BoxGroups> groups;
  /// Some element has more than one source.
  bool has_choice = false;
  /// By rank number: equal numbers are one worker, one endpoint; 0 is not known. Empty without locality.
  struct Place {
    std::uint32_t worker = 0;
    std::uint32_t endpoint = 0;
  };
  std::vector<Place> source_places;
  std::vector<Place> target_places;

  PlanInputs() = default;
  PlanInputs(const PlanInputs&) = delete;
  PlanInputs& operator=(const PlanInputs&) = delete;
};

/// Compares the two sides and fills in the rest; `inputs` has its options and sides. INVALID_ARGUMENT names the tensor,
/// what differs and both values.
Status match_sides(PlanInputs& inputs);

/// INVALID_ARGUMENT when a cut of either side does not fall on a block of options.co_plan, or a target rank has a part
/// of a weight without its scales. After match_sides.
Status check_co_plans(const PlanInputs& inputs);

}  // namespace steelyard::reshard
