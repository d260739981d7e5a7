// What a plan costs, and a picture of it. Thread-compatible values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "placement/types.h"
#include "reshard/transfer_plan.h"

namespace steelyard::reshard {

/// How a region is best moved by a transport that pays per segment.
enum class Way : std::uint8_t {
  kDirect,    ///< one run
  kGather,    ///< a list of runs
  kFullPull,  ///< so many runs that it is cheaper to read everything from the first byte to the last, and cut it there
};
std::string_view way_name(Way way);

/// Regions of one way, one length of run and one number of runs.
struct RegionClass {
  Way way = Way::kDirect;
  std::uint64_t inner_bytes = 0;
  std::uint64_t segments_each = 0;
  std::uint64_t regions = 0;
  std::uint64_t bytes = 0;
  std::uint64_t extra_bytes = 0;  ///< that a full pull reads beside
  std::uint32_t tensor = 0;       ///< of the first region
};

struct RankBytes {
  placement::ParallelRank rank;
  std::uint64_t bytes = 0;
};

struct StridedRegion {
  std::size_t region = 0;
  std::uint64_t segments = 0;
  std::uint64_t bytes = 0;
};

struct PlanExplanation {
  std::uint64_t bytes = 0;
  std::uint64_t regions = 0;
  std::uint64_t segments = 0;
  std::vector<RankBytes> source_ranks;  ///< ascending; every rank of the manifest
  std::vector<RankBytes> target_ranks;
  std::optional<StridedRegion> largest_strided;  ///< most bytes among those of more than one segment
  std::vector<RegionClass> classes;              ///< most bytes first
};

/// Regions of more segments than this are advised to be pulled whole.
inline constexpr std::uint64_t kFullPullSegments = 4096;

PlanExplanation explain(const TransferPlan& plan, std::uint64_t full_pull_segments = kFullPullSegments);
/// The same as text, a fact a line.
std::string explain_text(const TransferPlan& plan, const PlanExplanation& explanation);

/// An SVG of one tensor: the boxes of the source, those of the target, and the target again with its regions, each in
/// the colour of the source rank that it is read from. Of a tensor of more than two dimensions the two that are cut the
/// most are shown. INVALID_ARGUMENT for a tensor that the plan does not have.
Result<std::string> render_svg(const TransferPlan& plan, std::string_view tensor_id);

}  // namespace steelyard::reshard
