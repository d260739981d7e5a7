#include "oplog/sqlite/turnstile.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace steelyard::oplog::sqlite {
namespace {

/// For `turn` one process polls. For `next` many may, all at one pace: who has waited for long must not look more
/// rarely than who has just come.
constexpr long kTurnPollNsMin = 20'000;
constexpr long kTurnPollNsMax = 1'000'000;
constexpr long kNextPollNs = 300'000;

int open_lock(int folder, const std::string& name) {
  return openat(folder, name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
}

void unlock(int fd) {
  while (flock(fd, LOCK_UN) != 0 && errno == EINTR) {
  }
}

/// Polled, because flock cannot be given a deadline, and a process that was stopped may hold either lock. False: not
/// had at the deadline, or not to be had here.
bool lock_until(Runtime& runtime, int fd, std::int64_t deadline, long pause_ns, long pause_ns_max,
                const std::function<void()>& while_waiting) {
  while (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK || runtime.mono_ms() >= deadline) return false;
    if (while_waiting) while_waiting();
    const timespec pause{0, pause_ns};
    ppoll(nullptr, 0, &pause, nullptr);
    pause_ns = std::min(2 * pause_ns, pause_ns_max);
  }
  return true;
}

}  // namespace

Turnstile::Turnstile(Runtime& runtime, int folder, const std::string& base, std::int64_t wait_ms)
    : runtime_(runtime), folder_(folder), turn_name_(base + ".turn"), next_name_(base + ".next"), wait_ms_(wait_ms) {}

Turnstile::~Turnstile() {
  if (turn_fd_ >= 0) close(turn_fd_);
  if (next_fd_ >= 0) close(next_fd_);
}

void Turnstile::enter(const std::function<void()>& while_waiting) {
  if (turn_fd_ < 0) turn_fd_ = open_lock(folder_, turn_name_);
  if (next_fd_ < 0) next_fd_ = open_lock(folder_, next_name_);
  if (turn_fd_ < 0 || next_fd_ < 0) return;
  // One deadline for both, so that those who wait behind a stuck process do not add their waits up.
  const std::int64_t deadline = runtime_.mono_ms() + wait_ms_;
  if (!lock_until(runtime_, next_fd_, deadline, kNextPollNs, kNextPollNs, while_waiting)) return;
  held_ = lock_until(runtime_, turn_fd_, deadline, kTurnPollNsMin, kTurnPollNsMax, while_waiting);
  unlock(next_fd_);
}

void Turnstile::leave() {
  if (held_) unlock(turn_fd_);
  held_ = false;
}

}  // namespace steelyard::oplog::sqlite
