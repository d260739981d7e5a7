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

UniqueFd open_folder(const std::string& path) {
  return UniqueFd(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

}  // namespace

ScratchFolder::ScratchFolder(Runtime& runtime, std::string parent, std::string_view prefix)
    : parent_(std::move(parent)),
      prefix_(prefix),
      path_((fs::path(parent_) / (prefix_ + runtime.random_hex(kNameBytes))).native()) {}

ScratchFolder::~ScratchFolder() {
  if (!lock_.valid()) return;
  std::error_code error;
  fs::remove_all(path_, error);
}

Status ScratchFolder::make() {
  remove_leftovers();
  if (mkdir(path_.c_str(), 0777) != 0) return errno_status(errno, "mkdir", path_);
  lock_ = open_folder(path_);
  if (!lock_.valid()) return errno_status(errno, "open", path_);
  // Where a filesystem knows no locks, another process may take this for a leftover; nothing of value is lost.
  flock(lock_.get(), LOCK_EX | LOCK_NB);
  return {};
}

void ScratchFolder::remove_leftovers() const {
  std::error_code error;
  std::vector<std::string> left;
  for (const fs::directory_entry& entry : fs::directory_iterator(parent_, error)) {
    if (entry.path().filename().native().starts_with(prefix_)) left.push_back(entry.path().native());
  }
  for (const std::string& path : left) {
    const UniqueFd fd = open_folder(path);
    if (fd.valid() && flock(fd.get(), LOCK_EX | LOCK_NB) == 0) fs::remove_all(path, error);
  }
}

}  // namespace steelyard::store
