#include "store/store_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cerrno>
#include <cstdint>
#include <fstream>
#include <set>
#include <sstream>
#include <utility>

#include "base/utf8.h"

namespace steelyard::store {
namespace {

constexpr std::int64_t kRecoveryWaitMs = 3'000;
constexpr std::int64_t kRecoveryStepMs = 50;

UniqueFd open_folder(const std::string& folder) {
  return UniqueFd(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

/// The processes that hold a flock on the file, by `/proc/locks`: "1: FLOCK  ADVISORY  READ 1234 fe:00:131 0 EOF".
/// Those of other pid namespaces have no number there.
std::set<long> holders_of(int fd) {
  std::set<long> holders;
  struct stat info {};
  if (fstat(fd, &info) != 0) return holders;
  const std::string file = fmt::format("{:02x}:{:02x}:{}", major(info.st_dev), minor(info.st_dev), info.st_ino);
  std::ifstream locks("/proc/locks");
  for (std::string line; std::getline(locks, line);) {
    std::istringstream words(line);
    std::string number, kind, advisory, access, place;
    long pid = 0;
    if (words >> number >> kind >> advisory >> access >> pid >> place && kind == "FLOCK" && place == file && pid > 0) {
      holders.insert(pid);
    }
  }
  return holders;
}

std::string names_of_holders(int fd) {
  std::string numbers;
  for (const long pid : holders_of(fd)) numbers += fmt::format("{}{}", numbers.empty() ? "" : ", ", pid);
  return numbers.empty() ? "a process that cannot be seen from here" : "process " + numbers;
}

}  // namespace

Result<UniqueFd> share_store(Runtime& runtime, const std::string& folder, bool may_write) {
  UniqueFd fd = open_folder(folder);
  if (!fd.valid()) {
    if (!may_write || errno == ENOENT || errno == ENOTDIR) return fd;
    return errno_status(errno, "open", folder);
  }
  // A recovery of a small store takes a moment.
  const std::int64_t deadline = runtime.mono_ms() + kRecoveryWaitMs;
  int error = 0;
  for (;;) {
    error = runtime.point("store.share");
    if (error == 0 && flock(fd.get(), LOCK_SH | LOCK_NB) != 0) error = errno;
    if (error == 0) return fd;
    if (error != EWOULDBLOCK || runtime.mono_ms() >= deadline) break;
    runtime.sleep_ms(kRecoveryStepMs);
  }
  if (error != EWOULDBLOCK) {
    if (!may_write || error == ENOSYS || error == EOPNOTSUPP) return UniqueFd();
    return errno_status(error, "lock", folder);
  }
  return Status(Code::kBusy,
                fmt::format("{} is locked by {}, as `steelyard recover` does while it replaces the catalog",
                            printable(folder), names_of_holders(fd.get())),
                "run the same command again when it has ended; end it where it stands still");
}

Result<UniqueFd> own_store(const std::string& folder) {
  UniqueFd fd = open_folder(folder);
  if (!fd.valid()) return errno_status(errno, "open", folder);
  if (flock(fd.get(), LOCK_EX | LOCK_NB) == 0) return fd;
  if (errno != EWOULDBLOCK) return errno_status(errno, "lock", folder);
  return Status(Code::kBusy, fmt::format("{} is open: {} uses it", printable(folder), names_of_holders(fd.get())),
                "end it, then run the same command again");
}

}  // namespace steelyard::store
