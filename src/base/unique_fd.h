// UniqueFd: owns a file descriptor and closes it.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <utility>

namespace steelyard {

/// The destructor and reset() ignore errors: whoever writes syncs first, or asks close(); a reader has nothing to lose.
class UniqueFd {
 public:
  UniqueFd() noexcept = default;
  explicit UniqueFd(int fd) noexcept : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) reset(std::exchange(other.fd_, -1));
    return *this;
  }
  UniqueFd(const UniqueFd&) = delete;
  UniqueFd& operator=(const UniqueFd&) = delete;
  ~UniqueFd() { reset(); }

  bool valid() const noexcept { return fd_ >= 0; }
  int get() const noexcept { return fd_; }
  /// Gives the descriptor away.
  int release() noexcept { return std::exchange(fd_, -1); }
  /// 0 or -errno; the descriptor is gone either way.
  int close() noexcept {
    const int fd = release();
    // After EINTR the descriptor is gone on Linux; calling again could close somebody else's.
    return fd < 0 || ::close(fd) == 0 || errno == EINTR ? 0 : -errno;
  }
  void reset(int fd = -1) noexcept {
    static_cast<void>(close());
    fd_ = fd;
  }

 private:
  int fd_ = -1;
};

}  // namespace steelyard
