#include "oplog/sqlite/place.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <optional>
#include <system_error>

#include "base/utf8.h"

namespace steelyard::oplog::sqlite {
namespace {

namespace fs = std::filesystem;

bool is_same(const struct stat& a, const struct stat& b) { return a.st_dev == b.st_dev && a.st_ino == b.st_ino; }

/// The folder in which the open file lies now; absent where it was removed, or lies nowhere that can be seen from here.
std::optional<std::string> folder_now(int fd) {
  std::error_code error;
  const fs::path path = fs::read_symlink("/proc/self/fd/" + std::to_string(fd), error);
  struct stat opened {};
  struct stat there {};
  if (error || fstat(fd, &opened) != 0 || stat(path.c_str(), &there) != 0) return std::nullopt;
  if (!is_same(opened, there)) return std::nullopt;
  return path.parent_path().string();
}

}  // namespace

Place::Place(const std::string& path) : path_(path) {
  const fs::path file(path);
  const fs::path folder = file.has_parent_path() ? file.parent_path() : fs::path(".");
  folder_ = UniqueFd(::open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  fd_ = UniqueFd(openat(folder_.get(), file.filename().c_str(), O_PATH | O_CLOEXEC));
  if (fstat(fd_.get(), &opened_) != 0) fd_.reset();
}

Status Place::check() const {
  struct stat there {};
  if (!fd_.valid()) return {};
  const bool is_there = stat(path_.c_str(), &there) == 0;
  if (!is_there && errno != ENOENT && errno != ENOTDIR) return {};
  if (is_there && is_same(there, opened_)) return {};
  // An overlay gives the file other numbers with the first write.
  struct stat opened {};
  if (fstat(fd_.get(), &opened) != 0 || (is_there && is_same(there, opened))) return {};
  const std::string store = printable(fs::path(path_).parent_path().string());
  const std::string what = "the store at " + store +
                           (is_there ? " was replaced: another catalog lies there than the one "
                                       "that was opened, which "
                                     : " is not there any more: its catalog ");
  const auto now = folder_now(fd_.get());
  if (now) {
    return {Code::kUnavailable, what + "is in " + printable(*now) + " now",
            "run it again with --store " + printable(*now) +
                (is_there ? ", or as it was for the store that lies there now" : "")};
  }
  return {Code::kUnavailable, what + "was removed or is mounted here no more",
          is_there ? "run it again, for the store that lies there now"
                   : "bring the store back, or name another one with --store DIR or STEELYARD_STORE, and run it again"};
}

}  // namespace steelyard::oplog::sqlite
