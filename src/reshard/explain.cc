#include "reshard/explain.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "base/checked.h"
#include "reshard/plan_side.h"

namespace steelyard::reshard {
namespace {

/// Bytes from the first that a region reads to its last.
std::uint64_t source_span(const RegionRow& row) {
  std::uint64_t span = row.inner_bytes;
  for (std::size_t loop = 0; loop < row.loop_count.size(); ++loop) {
    span += (row.loop_count[loop] - 1) * row.source_stride[loop];
  }
  return span;
}

std::vector<RankBytes> rank_rows(std::span<const placement::ParallelRank> ranks) {
  std::vector<RankBytes> rows;
  for (const placement::ParallelRank& rank : ranks) rows.push_back({rank, 0});
  return rows;
}

std::string rank_text(const placement::ParallelRank& rank) {
  return "dp " + std::to_string(rank.dp) + ", tp " + std::to_string(rank.tp) + ", pp " + std::to_string(rank.pp) +
         ", ep " + std::to_string(rank.ep);
}

}  // namespace

std::string_view way_name(Way way) {
  switch (way) {
    case Way::kDirect:
      return "direct";
    case Way::kGather:
      return "gather";
    case Way::kFullPull:
      return "full_pull";
  }
  return "";
}

PlanExplanation explain(const TransferPlan& plan, std::uint64_t full_pull_segments) {
  const RegionTable& regions = plan.regions();
  PlanExplanation out;
  out.bytes = plan.bytes();
  out.regions = regions.size();
  out.segments = plan.segments();
  out.source_ranks = rank_rows(plan.source().ranks());
  out.target_ranks = rank_rows(plan.target().ranks());
  std::map<std::tuple<Way, std::uint64_t, std::uint64_t>, RegionClass> classes;
  for (std::size_t r = 0; r < regions.size(); ++r) {
    const RegionRow row = regions.row(r);
    const std::uint64_t segments = row.segments();
    const std::uint64_t bytes = segments * row.inner_bytes;
    out.source_ranks[plan.source().rank_number(row.source)].bytes += bytes;
    out.target_ranks[plan.target().rank_number(row.target)].bytes += bytes;
    if (segments > 1 && (!out.largest_strided || bytes > out.largest_strided->bytes)) {
      out.largest_strided = StridedRegion{r, segments, bytes};
    }
    const Way way = segments == 1 ? Way::kDirect : segments > full_pull_segments ? Way::kFullPull : Way::kGather;
    const auto [at, added] = classes.try_emplace({way, row.inner_bytes, segments});
    RegionClass& group = at->second;
    if (added) group = {way, row.inner_bytes, segments, 0, 0, 0, row.tensor};
    ++group.regions;
    group.bytes += bytes;
    if (way == Way::kFullPull) {
      group.extra_bytes = checked_add(group.extra_bytes, source_span(row) - bytes).value_or(UINT64_MAX);
    }
  }
  for (const auto& entry : classes) out.classes.push_back(entry.second);
  std::stable_sort(out.classes.begin(), out.classes.end(),
                   [](const RegionClass& a, const RegionClass& b) { return a.bytes > b.bytes; });
  return out;
}

std::string explain_text(const TransferPlan& plan, const PlanExplanation& explanation) {
  std::string text = std::to_string(explanation.bytes) + " bytes in " + std::to_string(explanation.regions) +
                     " regions of " + std::to_string(explanation.segments) + " segments\n";
  for (const RankBytes& row : explanation.source_ranks) {
    text += "source " + rank_text(row.rank) + ": gives " + std::to_string(row.bytes) + " bytes\n";
  }
  for (const RankBytes& row : explanation.target_ranks) {
    text += "target " + rank_text(row.rank) + ": takes " + std::to_string(row.bytes) + " bytes\n";
  }
  if (explanation.largest_strided) {
    const RegionRow row = plan.regions().row(explanation.largest_strided->region);
    text += "largest strided region: " + std::to_string(explanation.largest_strided->bytes) + " bytes in " +
            std::to_string(explanation.largest_strided->segments) + " segments, of \"" +
            std::string(plan.tensor_id(row.tensor)) + "\"\n";
  }
  for (const RegionClass& group : explanation.classes) {
    text += std::string(way_name(group.way)) + ": " + std::to_string(group.regions) + " regions of " +
            std::to_string(group.segments_each) + " x " + std::to_string(group.inner_bytes) + " bytes, " +
            std::to_string(group.bytes) + " bytes";
    if (group.way == Way::kFullPull) text += ", and " + std::to_string(group.extra_bytes) + " more that are not needed";
    text += "; as in \"" + std::string(plan.tensor_id(group.tensor)) + "\"\n";
  }
  return text;
}

}  // namespace steelyard::reshard
