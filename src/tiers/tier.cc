#include "tiers/tier.h"

#include <sys/mman.h>

#include <cstdlib>
#include <utility>

#include "base/check.h"
#include "base/checked.h"

namespace steelyard::tiers {
namespace {

constexpr std::size_t kAlignment = 4096;
/// Large buffers lie on huge pages where the system gives them on request: fewer faults when they are first touched, and
/// fewer pages to pin for each direct transfer.
constexpr std::size_t kHugePage = 2 * 1024 * 1024;

}  // namespace

Status Tier::read(const ObjectName& name, std::vector<ReadRange> ranges) {
  SY_ASSIGN_OR_RETURN(auto pending, start_read(name, std::move(ranges)));
  return pending->finish();
}

AlignedBuffer::AlignedBuffer(std::size_t bytes) {
  const auto rounded = checked_mul(div_ceil(bytes, kAlignment), kAlignment);
  SY_CHECK(rounded.has_value(), "size of an aligned buffer");
  if (*rounded == 0) return;
  const bool huge = *rounded >= 2 * kHugePage && *rounded % kHugePage == 0;
  data_ = static_cast<std::byte*>(std::aligned_alloc(huge ? kHugePage : kAlignment, *rounded));
  SY_CHECK(data_ != nullptr, "out of memory for an aligned buffer");
  if (huge) madvise(data_, *rounded, MADV_HUGEPAGE);
  bytes_ = *rounded;
}

AlignedBuffer::AlignedBuffer(AlignedBuffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

AlignedBuffer& AlignedBuffer::operator=(AlignedBuffer&& other) noexcept {
  if (this != &other) {
    std::free(data_);
    data_ = std::exchange(other.data_, nullptr);
    bytes_ = std::exchange(other.bytes_, 0);
  }
  return *this;
}

AlignedBuffer::~AlignedBuffer() { std::free(data_); }

}  // namespace steelyard::tiers
