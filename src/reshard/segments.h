// Segments: the single runs of bytes of a plan's regions, in bulk. Thread-compatible.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/runtime.h"
#include "reshard/regions.h"

namespace steelyard::reshard {

/// Where segments are written to. The spans have one length; one that is empty is not wanted.
struct SegmentColumns {
  std::span<std::uint32_t> region;
  std::span<std::uint64_t> source_offset;  ///< from the source fragment's first byte
  std::span<std::uint64_t> target_offset;
  std::span<std::uint64_t> bytes;
};

/// Walks the segments of the regions [begin, end), in their order and row-major inside of a region. `regions` must
/// outlive this.
class SegmentCursor {
 public:
  SegmentCursor(const RegionTable& regions, std::size_t begin, std::size_t end);

  /// Writes the next segments, at most `count`, and gives how many; 0 at the end.
  std::size_t fill(const SegmentColumns& columns, std::size_t count);

  /// Goes past the next segments, at most `count`, without a step for each.
  void skip(std::uint64_t count);

 private:
  void enter_region();
  /// Steps the loops outside of the innermost one; false at the region's end.
  bool step_outer();

  const RegionTable& regions_;
  std::size_t region_;
  std::size_t end_;
  RegionRow row_;
  std::vector<std::uint64_t> turns_;  ///< done, per loop
  std::uint64_t source_ = 0;          ///< of the first turn of the innermost loop
  std::uint64_t target_ = 0;
};

/// Number of segments of the regions [begin, end).
std::uint64_t count_segments(const RegionTable& regions, std::size_t begin, std::size_t end);

/// Writes all of them, by at most `threads` threads. Each span has count_segments() elements or none. `runtime` is for
/// the threads; null: the process's own.
void fill_segments(const RegionTable& regions, std::size_t begin, std::size_t end, const SegmentColumns& columns,
                   std::size_t threads, Runtime* runtime = nullptr);

}  // namespace steelyard::reshard
