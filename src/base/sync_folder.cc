#include "base/sync_folder.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "base/unique_fd.h"

namespace steelyard {

Status sync_folder(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid()) return errno_status(errno, "open", path);
  return sync_open_folder(fd.get(), path);
}

Status sync_open_folder(int fd, const std::string& shown) {
  if (::fsync(fd) == 0 || errno == EINVAL) return {};
  return errno_status(errno, "fsync", shown);
}

}  // namespace steelyard
