// What a caller may say about a plan. Thread-compatible values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "placement/types.h"
#include "reshard/views.h"

namespace steelyard::reshard {

enum class Side : std::uint8_t { kSource, kTarget };

/// Which of several sources that hold the same elements is read.
enum class Choice : std::uint8_t {
  kBalance,  ///< the rank that has been given the fewest bytes so far, then the smallest fragment id
  kFirst,    ///< the smallest rank, then the smallest fragment id
};

/// Where a rank of one side runs. A source on the target's own worker comes before one behind the same endpoint, and
/// that before all others; `Choice` decides among equals.
struct Locality {
  Side side = Side::kSource;
  placement::ParallelRank rank;
  std::string worker_id;
  std::string endpoint;
};

/// A block-quantised tensor and the tensor of its scales, one per block.
struct CoPlan {
  std::string weight_id;
  std::string scale_id;
  std::vector<std::int64_t> block_shape;  ///< one number per dimension of the weight
};

struct PlanOptions {
  Choice choice = Choice::kBalance;
  std::vector<Locality> locality;  ///< any order; one per (side, rank)
  std::vector<CoPlan> co_plan;
  /// What the fingerprint `row-major` of a stored tensor counts as.
  std::optional<std::string> stored_layout;
  std::vector<TensorView> source_views;
  std::vector<TensorView> target_views;
  /// Regions cost about 150 bytes each; segments cost nothing until they are copied.
  std::uint64_t max_regions = std::uint64_t{1} << 25;
  std::uint64_t max_segments = std::uint64_t{1} << 40;
};

}  // namespace steelyard::reshard
