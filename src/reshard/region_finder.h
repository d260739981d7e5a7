// The planner's core: which regions fill a target fragment, and which source each is read from. Internal. Not
// thread-safe; one finder serves one pass over the target fragments.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "geometry/box.h"
#include "reshard/plan_inputs.h"
#include "reshard/regions.h"

namespace steelyard::reshard {

class RegionFinder {
 public:
  explicit RegionFinder(const PlanInputs& inputs) : inputs_(inputs), rank_bytes_(inputs.source->ranks().size()) {}

  /// Finds and chooses the regions of the next target fragment, in canonical order. Choices depend on the fragments
  /// asked for before. INVALID_ARGUMENT names the tensor, the fragment and the first box that no source has.
  Status find(std::size_t target_fragment);
  /// Number of regions found last.
  std::size_t found() const { return hits_.size(); }
  /// Appends them; gives their number of segments.
  std::uint64_t append_to(RegionTable& regions) const;

 private:
  struct Hit {
    std::int64_t target_base = 0;
    std::uint64_t bytes = 0;
    std::uint32_t target_piece = 0;
    std::uint32_t group = 0;
    std::uint32_t source_piece = 0;
    bool chosen = false;
    std::size_t box = 0;  ///< in dims_: offsets, then extents
  };
  struct Candidate {
    std::uint32_t piece = 0;
    std::uint32_t distance = 0;
    std::uint64_t key = 0;  ///< bytes of its rank so far, or its rank
    bool operator<(const Candidate& other) const {
      if (distance != other.distance) return distance < other.distance;
      if (key != other.key) return key < other.key;
      return piece < other.piece;
    }
  };

  /// Distinct boxes are disjoint: every one that meets the piece gives one region.
  Status cover_disjoint(std::uint32_t piece);
  /// They overlap: from the piece's first element on, each region is as much as the chosen source has of what is left.
  Status cover_overlapping(std::uint32_t piece);
  void add_hit(std::uint32_t piece, std::uint32_t group, std::span<const std::int64_t> offset,
               std::span<const std::int64_t> extent);
  Candidate choose(std::uint32_t group, std::uint32_t target_rank) const;
  Status missing(std::uint32_t piece) const;

  const PlanInputs& inputs_;
  std::vector<std::uint64_t> rank_bytes_;
  std::uint64_t bytes_ = 0;  ///< of all regions found; every sum of bytes or of segments is at most this
  std::vector<Hit> hits_;
  std::vector<std::int64_t> dims_;
  std::vector<std::uint32_t> groups_;
  std::vector<std::int64_t> offset_;
  std::vector<std::int64_t> extent_;
};

}  // namespace steelyard::reshard
