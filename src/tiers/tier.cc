#include "tiers/tier.h"

#include <sys/mman.h>

#include <cstdlib>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/checked.h"
#include "base/units.h"

namespace steelyard::tiers {
namespace {

constexpr std::size_t kAlignment = 4096;
/// Large buffers lie on huge pages where the system gives them on request: fewer faults when they are first touched,
/// and fewer pages to pin for each direct transfer.
constexpr std::size_t kHugePage = 2 * 1024 * 1024;

}  // namespace

Status Tier::remove_attempt(const AttemptName& attempt) {
  const auto held = hold_attempt(attempt);
  if (held.code() == Code::kNotFound) return {};
  SY_RETURN_IF_ERROR(held.status());
  return remove_held(**held);
}

Result<std::vector<ContentEntry>> Tier::list_content() {
  std::vector<ContentEntry> all;
  for (unsigned first = 0; first <= 0xff; ++first) {
    SY_ASSIGN_OR_RETURN(const auto part, list_content(static_cast<std::uint8_t>(first)));
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

Status Tier::read(const ObjectName& name, std::vector<ReadRange> ranges) {
  SY_ASSIGN_OR_RETURN(auto pending, start_read(name, std::move(ranges)));
  return pending->finish();
}

Status Tier::map(const ObjectName& /*name*/, std::uint64_t /*bytes*/, const AddressRange& /*range*/,
                 std::size_t /*offset*/) {
  return {Code::kInvalidArgument, "objects of the " + traits().name + " tier cannot be mapped"};
}

Result<std::unique_ptr<Reservation>> Tier::reserve(const std::string& /*operation*/, std::uint64_t /*bytes*/) {
  return Status(Code::kInvalidArgument, "the " + traits().name + " tier takes no reservations");
}

Status Room::check(std::uint64_t wanted_bytes) const {
  if (wanted_bytes <= bytes) return {};
  const auto size = format_sizes_apart({wanted_bytes, bytes});
  return {Code::kNoSpace, where + " cannot take " + size[0] + ", " + size[1] + " are available: " + limit,
          hint.empty() ? "" : "evict what is not needed, or " + hint};
}

Result<std::uint64_t> Tier::available_bytes() {
  SY_ASSIGN_OR_RETURN(const Room now, room());
  return now.bytes;
}

Status Tier::check_fits(std::uint64_t bytes) {
  SY_ASSIGN_OR_RETURN(const Room now, room());
  return now.check(bytes);
}

Result<std::unique_ptr<GroupLock>> Tier::try_lock_group(const std::string& /*group*/, bool /*exclusive*/) {
  return Status(Code::kInvalidArgument, "groups of the " + traits().name + " tier are not locked");
}

Result<AddressRange> AddressRange::reserve(std::uint64_t bytes) {
  AddressRange range;
  if (bytes == 0) return range;
  const auto rounded = checked_mul(div_ceil<std::uint64_t>(bytes, kAlignment), std::uint64_t{kAlignment});
  void* data = MAP_FAILED;
  if (rounded) data = ::mmap(nullptr, *rounded, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) {
    return Status(Code::kUnavailable, "no address space for " + format_size(bytes) + " of mapped objects",
                  "raise the limit of this process's address space (ulimit -v)");
  }
  range.data_ = static_cast<std::byte*>(data);
  range.bytes_ = *rounded;
  return range;
}

AddressRange::AddressRange(AddressRange&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

AddressRange& AddressRange::operator=(AddressRange&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

AddressRange::~AddressRange() {
  if (data_ != nullptr) ::munmap(data_, bytes_);
}

ByteView AddressRange::view(std::size_t offset, std::size_t bytes) const {
  SY_CHECK(offset <= bytes_ && bytes <= bytes_ - offset, "a view lies inside its range");
  return {data_ + offset, bytes};
}

Result<AlignedBuffer> AlignedBuffer::allocate(std::size_t bytes) {
  AlignedBuffer buffer;
  if (bytes == 0) return buffer;
  const auto rounded = checked_mul(div_ceil(bytes, kAlignment), kAlignment);
  const bool huge = rounded && *rounded >= 2 * kHugePage && *rounded % kHugePage == 0;
  if (rounded) buffer.data_ = static_cast<std::byte*>(std::aligned_alloc(huge ? kHugePage : kAlignment, *rounded));
  if (buffer.data_ == nullptr) {
    return Status(Code::kUnavailable, "no memory for an I/O buffer of " + format_size(bytes),
                  "lower --io-memory or --jobs, or raise the memory limit of this process");
  }
  if (huge) madvise(buffer.data_, *rounded, MADV_HUGEPAGE);
  buffer.bytes_ = *rounded;
  return buffer;
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
