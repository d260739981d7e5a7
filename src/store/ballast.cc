#include "store/ballast.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cstdint>

#include "base/limits.h"

namespace steelyard::store {

void keep_ballast(const std::string& path) {
  // A few appends, their checkpoint and a marker take some 100 KiB.
  constexpr std::uint64_t kBytes = limits::kMiB;
  constexpr std::uint64_t kTimesFree = 16;
  struct stat info {};
  if (lstat(path.c_str(), &info) == 0 && static_cast<std::uint64_t>(info.st_blocks) * 512 >= kBytes) return;
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (file < 0) return;
  struct statvfs fs {};
  const bool room = fstatvfs(file, &fs) == 0 && std::uint64_t{fs.f_bavail} * fs.f_frsize >= kTimesFree * kBytes;
  if (!room || posix_fallocate(file, 0, kBytes) != 0) unlink(path.c_str());
  close(file);
}

bool spend_ballast(const std::string& path) { return !path.empty() && unlink(path.c_str()) == 0; }

}  // namespace steelyard::store
