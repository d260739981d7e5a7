#include "store/drop_behind.h"

#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>

namespace steelyard::store {
namespace {

constexpr std::uint64_t kReadAheadBytes = 512 * limits::kKiB;
constexpr std::uint64_t kPageBytes = 4 * limits::kKiB;

}  // namespace

DropBehind::DropBehind(int fd, std::uint64_t file_bytes) : fd_(fd), file_bytes_(file_bytes) {
  static_cast<void>(::posix_fadvise(fd_, 0, 0, POSIX_FADV_RANDOM));
}

DropBehind::~DropBehind() {
  if (current_ == kNone) return;
  for (const std::uint64_t window : {current_, current_ + 1}) {
    wait_for(window);
    drop(window);
  }
}

/// What is on its way from the device cannot be dropped, and would come to stay.
void DropBehind::wait_for(std::uint64_t window) const {
  if (window >= ours_.size() || !ours_[window]) return;
  const std::uint64_t begin = window * kWindowBytes;
  const std::uint64_t end = std::min(begin + kWindowBytes, file_bytes_);
  for (std::uint64_t at = begin; at < end; at += kPageBytes) {
    std::byte byte{};
    if (::pread(fd_, &byte, 1, static_cast<off_t>(at)) != 1) return;
  }
}

std::uint64_t DropBehind::enter(std::uint64_t offset) {
  const std::uint64_t window = offset / kWindowBytes;
  if (window != current_) {
    if (current_ != kNone) {
      drop(current_);
      if (window != current_ + 1) drop(current_ + 1);
    }
    current_ = window;
    prepare(window);
    prepare(window + 1);
  }
  return (window + 1) * kWindowBytes - offset;
}

/// Reads ahead what is not there yet.
///
/// Whether a window is cached is asked of its middle, which is as good for a file that was read in one go. The question
/// is a read that may not wait: unlike mincore and cachestat it is answered for files of other users too.
void DropBehind::prepare(std::uint64_t window) {
  const std::uint64_t begin = window * kWindowBytes;
  if (begin >= file_bytes_) return;
  const std::uint64_t bytes = std::min(kWindowBytes, file_bytes_ - begin);
  if (window >= seen_.size()) {
    seen_.resize(window + 1);
    ours_.resize(window + 1);
  }
  if (!seen_[window]) {
    seen_[window] = true;
    std::byte byte{};
    const iovec into{&byte, 1};
    ours_[window] = ::preadv2(fd_, &into, 1, static_cast<off_t>(begin + bytes / 2), RWF_NOWAIT) != 1;
  }
  if (!ours_[window]) return;
  // One call reads no more than the device takes in one request.
  for (std::uint64_t at = 0; at < bytes; at += kReadAheadBytes) {
    static_cast<void>(::posix_fadvise(fd_, static_cast<off_t>(begin + at),
                                      static_cast<off_t>(std::min(kReadAheadBytes, bytes - at)), POSIX_FADV_WILLNEED));
  }
}

void DropBehind::drop(std::uint64_t window) const {
  if (window >= ours_.size() || !ours_[window]) return;
  static_cast<void>(::posix_fadvise(fd_, static_cast<off_t>(window * kWindowBytes), static_cast<off_t>(kWindowBytes),
                                    POSIX_FADV_DONTNEED));
}

}  // namespace steelyard::store
