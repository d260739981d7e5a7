#include "reshard/segments.h"

#include <algorithm>

#include "base/check.h"

namespace steelyard::reshard {

SegmentCursor::SegmentCursor(const RegionTable& regions, std::size_t begin, std::size_t end)
    : regions_(regions), region_(begin), end_(end) {
  SY_CHECK(begin <= end && end <= regions.size(), "segments of regions that are not there");
  enter_region();
}

void SegmentCursor::enter_region() {
  if (region_ == end_) return;
  row_ = regions_.row(region_);
  turns_.assign(row_.loop_count.size(), 0);
  source_ = row_.source_base;
  target_ = row_.target_base;
}

bool SegmentCursor::step_outer() {
  if (turns_.empty()) return false;
  turns_.back() = 0;
  for (std::size_t loop = turns_.size() - 1; loop-- > 0;) {
    source_ += row_.source_stride[loop];
    target_ += row_.target_stride[loop];
    if (++turns_[loop] < row_.loop_count[loop]) return true;
    source_ -= row_.loop_count[loop] * row_.source_stride[loop];
    target_ -= row_.loop_count[loop] * row_.target_stride[loop];
    turns_[loop] = 0;
  }
  return false;
}

std::size_t SegmentCursor::fill(const SegmentColumns& columns, std::size_t count) {
  std::size_t done = 0;
  while (done < count && region_ < end_) {
    const bool looped = !turns_.empty();
    const std::uint64_t turn = looped ? turns_.back() : 0;
    const std::uint64_t turns = looped ? row_.loop_count.back() : 1;
    const std::size_t now = static_cast<std::size_t>(std::min<std::uint64_t>(turns - turn, count - done));
    const auto ramp = [&](std::span<std::uint64_t> out, std::uint64_t first, std::uint64_t stride) {
      if (out.empty()) return;
      std::uint64_t* to = out.data() + done;
      for (std::size_t i = 0; i < now; ++i) to[i] = first + i * stride;
    };
    const std::uint64_t source_stride = looped ? row_.source_stride.back() : 0;
    const std::uint64_t target_stride = looped ? row_.target_stride.back() : 0;
    ramp(columns.source_offset, source_ + turn * source_stride, source_stride);
    ramp(columns.target_offset, target_ + turn * target_stride, target_stride);
    if (!columns.bytes.empty()) std::fill_n(columns.bytes.data() + done, now, row_.inner_bytes);
    if (!columns.region.empty()) {
      std::fill_n(columns.region.data() + done, now, static_cast<std::uint32_t>(region_));
    }
    done += now;
    if (turn + now < turns) {
      turns_.back() += now;
    } else if (!step_outer()) {
      ++region_;
      enter_region();
    }
  }
  return done;
}

}  // namespace steelyard::reshard
