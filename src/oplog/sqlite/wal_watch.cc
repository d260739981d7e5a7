#include "oplog/sqlite/wal_watch.h"

#include <poll.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>

namespace steelyard::oplog::sqlite {
namespace {

constexpr int kLookMs = 250;
constexpr int kAfterWriteMs = 1;

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

void WalWatch::wait(std::int64_t deadline_mono_ms) {
  const std::int64_t left = deadline_mono_ms - runtime_.mono_ms();
  if (left <= 0) return;
  const int timeout = static_cast<int>(std::min<std::int64_t>(left, fd_ < 0 ? kLookMs : pause_ms_));
  pollfd waited{fd_, POLLIN, 0};
  if (poll(&waited, fd_ < 0 ? 0 : 1, timeout) > 0) {
    char events[4096];
    while (::read(fd_, events, sizeof events) > 0) {
    }
    pause_ms_ = kAfterWriteMs;
  } else {
    pause_ms_ = std::min(2 * pause_ms_, kLookMs);
  }
}

}  // namespace steelyard::oplog::sqlite
