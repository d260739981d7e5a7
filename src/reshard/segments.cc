#include "reshard/segments.h"

#include <algorithm>
#include <atomic>

#include "base/check.h"
#include "base/workers.h"

namespace steelyard::reshard {
namespace {

/// What a thread takes at once: a few MiB of columns.
constexpr std::uint64_t kBlockSegments = 1 << 17;
constexpr std::size_t kThreadsMax = 1024;

/// Where a block of segments begins.
struct Block {
  std::size_t region = 0;
  std::uint64_t skipped = 0;  ///< segments of that region that belong to earlier blocks
};

std::vector<Block> cut_into_blocks(const RegionTable& regions, std::size_t begin, std::size_t end) {
  std::vector<Block> blocks;
  std::uint64_t room = 0;  // what the last block still takes
  for (std::size_t region = begin; region < end; ++region) {
    const std::uint64_t all = regions.row(region).segments();
    std::uint64_t taken = std::min(all, room);
    room -= taken;
    while (taken < all) {
      blocks.push_back({region, taken});
      const std::uint64_t now = std::min(all - taken, kBlockSegments);
      taken += now;
      room = kBlockSegments - now;
    }
  }
  return blocks;
}

template <typename T>
std::span<T> from(std::span<T> column, std::size_t begin) {
  return column.empty() ? column : column.subspan(begin);
}

}  // namespace

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

void SegmentCursor::skip(std::uint64_t count) {
  while (count > 0 && region_ < end_) {
    std::uint64_t done = 0;
    for (std::size_t loop = 0; loop < turns_.size(); ++loop) done = done * row_.loop_count[loop] + turns_[loop];
    const std::uint64_t left = row_.segments() - done;
    if (count >= left) {
      count -= left;
      ++region_;
      enter_region();
      continue;
    }
    done += count;
    count = 0;
    source_ = row_.source_base;
    target_ = row_.target_base;
    for (std::size_t loop = turns_.size(); loop-- > 0;) {
      turns_[loop] = done % row_.loop_count[loop];
      done /= row_.loop_count[loop];
      if (loop + 1 == turns_.size()) continue;
      source_ += turns_[loop] * row_.source_stride[loop];
      target_ += turns_[loop] * row_.target_stride[loop];
    }
  }
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

std::uint64_t count_segments(const RegionTable& regions, std::size_t begin, std::size_t end) {
  SY_CHECK(begin <= end && end <= regions.size(), "segments of regions that are not there");
  std::uint64_t count = 0;
  for (std::size_t region = begin; region < end; ++region) count += regions.row(region).segments();
  return count;
}

void fill_segments(const RegionTable& regions, std::size_t begin, std::size_t end, const SegmentColumns& columns,
                   std::size_t threads, Runtime* runtime) {
  const std::vector<Block> blocks = cut_into_blocks(regions, begin, end);
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t block = next.fetch_add(1); block < blocks.size(); block = next.fetch_add(1)) {
      const std::size_t at = block * kBlockSegments;
      SegmentCursor cursor(regions, blocks[block].region, end);
      cursor.skip(blocks[block].skipped);
      cursor.fill({from(columns.region, at), from(columns.source_offset, at), from(columns.target_offset, at),
                   from(columns.bytes, at)},
                  kBlockSegments);
    }
  };
  if (runtime == nullptr) runtime = &real_runtime();
  const std::size_t at_once = std::max<std::size_t>(std::min({threads, blocks.size(), kThreadsMax}), 1);
  const auto tasks = spawn_workers(*runtime, "reshard-segments", at_once - 1, work);
  work();
  for (const auto& task : tasks) task->join();
}

}  // namespace steelyard::reshard
