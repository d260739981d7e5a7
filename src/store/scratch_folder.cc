#include "store/scratch_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

namespace steelyard::store {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kNameBytes = 8;
/// Where locks do nothing, a folder counts as left over when nothing was added to it for a day.
constexpr std::int64_t kUntouchedMs = 24 * 3'600'000LL;

UniqueFd open_folder(const std::string& path) {
  return UniqueFd(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

}  // namespace

ScratchFolder::ScratchFolder(Runtime& runtime, std::string parent, std::string_view prefix)
    : runtime_(runtime),
      parent_(std::move(parent)),
      prefix_(prefix),
      path_((fs::path(parent_) / (prefix_ + runtime.random_hex(kNameBytes))).native()) {}

ScratchFolder::~ScratchFolder() {
  if (!lock_.valid()) return;
  std::error_code error;
  fs::remove_all(path_, error);
}

Status ScratchFolder::make() {
  if (mkdir(path_.c_str(), 0777) != 0) return errno_status(errno, "mkdir", path_);
  lock_ = open_folder(path_);
  if (!lock_.valid()) return errno_status(errno, "open", path_);
  flock(lock_.get(), LOCK_EX | LOCK_NB);
  remove_leftovers();
  return {};
}

/// Whether a lock keeps others out here: on some filesystems it does nothing, and every folder would look left over.
bool ScratchFolder::locks_work() const {
  const UniqueFd other = open_folder(path_);
  return other.valid() && flock(other.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

void ScratchFolder::remove_leftovers() const {
  std::error_code error;
  std::vector<std::string> left;
  for (const fs::directory_entry& entry : fs::directory_iterator(parent_, error)) {
    if (entry.path() != path_ && entry.path().filename().native().starts_with(prefix_)) {
      left.push_back(entry.path().native());
    }
  }
  const bool locks = locks_work();
  for (const std::string& path : left) {
    const UniqueFd fd = open_folder(path);
    if (!fd.valid()) continue;
    struct stat info {};
    const bool dead =
        locks ? flock(fd.get(), LOCK_EX | LOCK_NB) == 0
              : fstat(fd.get(), &info) == 0 && runtime_.wall_ms() - info.st_mtim.tv_sec * 1000 > kUntouchedMs;
    if (dead) fs::remove_all(path, error);
  }
}

}  // namespace steelyard::store
