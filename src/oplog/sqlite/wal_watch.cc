#include "oplog/sqlite/wal_watch.h"

#include <poll.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>

namespace steelyard::oplog::sqlite {
namespace {

constexpr std::int64_t kAfterWriteMs = 1;
constexpr std::int64_t kIdleMs = 1000;  ///< inotify tells of writes in between
constexpr std::int64_t kBlindMs = 250;  ///< where it does not
constexpr std::int64_t kCancelHeardMs = 250;

}  // namespace

WalWatch::WalWatch(Runtime& runtime, const std::string& database_path) : runtime_(runtime), pause_ms_(kAfterWriteMs) {
  fd_ = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
  if (fd_ < 0) return;
  const std::string wal = database_path + "-wal";
  if (inotify_add_watch(fd_, wal.c_str(), IN_MODIFY) < 0) {
    close(fd_);
    fd_ = -1;
  }
}

WalWatch::~WalWatch() {
  if (fd_ >= 0) close(fd_);
}

void WalWatch::wait(std::int64_t deadline_mono_ms, const std::atomic<bool>* cancel) {
  const std::int64_t until = std::min(deadline_mono_ms, runtime_.mono_ms() + (fd_ < 0 ? kBlindMs : pause_ms_));
  for (std::int64_t left = 0; (left = until - runtime_.mono_ms()) > 0;) {
    if (cancel != nullptr && cancel->load()) return;
    pollfd waited{fd_, POLLIN, 0};
    if (poll(&waited, fd_ < 0 ? 0 : 1, static_cast<int>(std::min(left, kCancelHeardMs))) <= 0) continue;
    char events[4096];
    while (::read(fd_, events, sizeof events) > 0) {
    }
    pause_ms_ = kAfterWriteMs;
    return;
  }
  pause_ms_ = std::min(2 * pause_ms_, kIdleMs);
}

}  // namespace steelyard::oplog::sqlite
