#include "oplog/sqlite/turnstile.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace steelyard::oplog::sqlite {
namespace {

/// After this the holder of the turn counts as stuck. A commit takes a millisecond, on a busy disk some hundreds.
constexpr std::int64_t kTurnWaitMs = 10'000;
constexpr long kPollNsMin = 20'000;
constexpr long kPollNsMax = 1'000'000;

int open_lock(const std::string& path) { return open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666); }

bool lock(int fd, int operation) {
  while (flock(fd, operation) != 0) {
    if (errno != EINTR) return false;
  }
  return true;
}

}  // namespace

Turnstile::Turnstile(Runtime& runtime, const std::string& base)
    : runtime_(runtime), turn_path_(base + ".turn"), next_path_(base + ".next") {}

Turnstile::~Turnstile() {
  if (turn_fd_ >= 0) close(turn_fd_);
  if (next_fd_ >= 0) close(next_fd_);
}

void Turnstile::enter() {
  if (turn_fd_ < 0) turn_fd_ = open_lock(turn_path_);
  if (next_fd_ < 0) next_fd_ = open_lock(next_path_);
  if (turn_fd_ < 0 || next_fd_ < 0) return;
  if (!lock(next_fd_, LOCK_EX)) return;
  // Polled, because flock cannot be given a deadline; only the one process that holds `next` polls.
  const std::int64_t deadline = runtime_.mono_ms() + kTurnWaitMs;
  long pause_ns = kPollNsMin;
  while (!(held_ = lock(turn_fd_, LOCK_EX | LOCK_NB))) {
    if (errno != EWOULDBLOCK || runtime_.mono_ms() >= deadline) break;
    const timespec pause{0, pause_ns};
    ppoll(nullptr, 0, &pause, nullptr);
    pause_ns = std::min(2 * pause_ns, kPollNsMax);
  }
  lock(next_fd_, LOCK_UN);
}

void Turnstile::leave() {
  if (held_) lock(turn_fd_, LOCK_UN);
  held_ = false;
}

}  // namespace steelyard::oplog::sqlite
