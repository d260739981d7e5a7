#include "store/scratch_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/list_folder.h"

namespace steelyard::store {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kNameBytes = 8;
constexpr int kTriesMax = 5;
/// Where locks do nothing, a folder counts as left over when it was made a day ago.
constexpr std::int64_t kUntouchedMs = 24 * 3'600'000LL;

/// All that lies in a scratch folder: by it, and not by the name alone, one is known.
constexpr char kInside[] = "steelyard-trial";
constexpr int kDepthMax = 32;

UniqueFd open_folder(const std::string& path) {
  return UniqueFd(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

bool is_scratch_name(std::string_view name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return false;
  name.remove_prefix(prefix.size());
  return name.size() == 2 * kNameBytes && name.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

/// The names in an open folder; nothing when it cannot be read.
std::optional<std::vector<std::string>> names_in(int folder) {
  const int again = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR* stream = again < 0 ? nullptr : fdopendir(again);
  if (stream == nullptr) {
    if (again >= 0) close(again);
    return std::nullopt;
  }
  std::vector<std::string> names;
  errno = 0;
  while (const dirent* entry = readdir(stream)) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
    errno = 0;
  }
  const bool whole = errno == 0;
  closedir(stream);
  return whole ? std::optional(std::move(names)) : std::nullopt;
}

/// Whether another filesystem, or another part of this one, is mounted on the folder. What cannot be told is.
bool is_mounted(int folder) {
  struct statx info {};
  if (statx(folder, "", AT_EMPTY_PATH, STATX_TYPE, &info) != 0) return true;
  if ((info.stx_attributes_mask & STATX_ATTR_MOUNT_ROOT) != 0)
    return (info.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
  struct stat own {};
  struct stat parent {};
  return fstat(folder, &own) != 0 || fstatat(folder, "..", &parent, 0) != 0 || own.st_dev != parent.st_dev;
}

/// Removes the folder and what it holds, going on past what cannot be removed; what is mounted in it stays.
void remove_tree(int parent, const std::string& name, int depth) {
  const UniqueFd folder(openat(parent, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!folder.valid() || depth > kDepthMax || is_mounted(folder.get())) return;
  for (const std::string& inside : names_in(folder.get()).value_or(std::vector<std::string>())) {
    if (unlinkat(folder.get(), inside.c_str(), 0) != 0) remove_tree(folder.get(), inside, depth + 1);
  }
  unlinkat(parent, name.c_str(), AT_REMOVEDIR);
}

}  // namespace

ScratchFolder::ScratchFolder(Runtime& runtime, std::string parent, std::string_view prefix)
    : runtime_(runtime), parent_(std::move(parent)), prefix_(prefix) {}

ScratchFolder::~ScratchFolder() {
  if (lock_.valid()) remove(name_);
}

Status ScratchFolder::make() {
  for (int tries = 1;; ++tries) {
    bool again = false;
    Status made = try_make(again);
    if (made.ok()) break;
    if (!again || tries == kTriesMax) return made;
  }
  remove_leftovers();
  return {};
}

/// `again`: another's look for leftovers took the folder, or is about to, as nothing lay in it yet.
Status ScratchFolder::try_make(bool& again) {
  name_ = prefix_ + runtime_.random_hex(kNameBytes);
  folder_ = (fs::path(parent_) / name_).native();
  path_ = (fs::path(folder_) / kInside).native();
  if (mkdir(folder_.c_str(), 0777) != 0) return errno_status(errno, "mkdir", folder_);
  SY_POINT(runtime_, "scratch.after_folder");
  UniqueFd lock = open_folder(folder_);
  // Where locks do nothing, or are not to be had, the folder's age speaks for it.
  const bool taken = lock.valid() && flock(lock.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  if (lock.valid() && !taken && mkdirat(lock.get(), kInside, 0777) == 0) {
    lock_ = std::move(lock);
    return {};
  }
  const int error = errno;
  again = taken || error == ENOENT;
  rmdir(folder_.c_str());
  return errno_status(error, "mkdir", path_);
}

void ScratchFolder::remove(const std::string& name) const {
  const UniqueFd parent(open(parent_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (parent.valid()) remove_tree(parent.get(), name, 0);
}

/// Whether a lock keeps others out here: on some filesystems it does nothing, and every folder would look left over.
bool ScratchFolder::locks_work() const {
  const UniqueFd other = open_folder(folder_);
  return other.valid() && flock(other.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

void ScratchFolder::remove_leftovers() const {
  std::error_code error;
  std::vector<std::string> left;
  for (const fs::path& entry : list_folder(parent_, error)) {
    const std::string name = entry.filename().native();
    if (name != name_ && is_scratch_name(name, prefix_)) left.push_back(name);
  }
  const bool locks = locks_work();
  for (const std::string& name : left) {
    const UniqueFd fd = open_folder((fs::path(parent_) / name).native());
    if (!fd.valid() || is_mounted(fd.get())) continue;
    const auto inside = names_in(fd.get());
    if (!inside || (!inside->empty() && *inside != std::vector<std::string>{kInside})) continue;
    struct stat info {};
    const bool dead =
        locks ? flock(fd.get(), LOCK_EX | LOCK_NB) == 0
              : fstat(fd.get(), &info) == 0 && runtime_.wall_ms() - info.st_mtim.tv_sec * 1000 > kUntouchedMs;
    if (dead) remove(name);
  }
}

}  // namespace steelyard::store
