#include "store/target_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <vector>

#include "base/list_folder.h"
#include "base/log.h"
#include "base/sync_folder.h"
#include "base/utf8.h"
#include "formats/checkpoint_files.h"
#include "hash/sha256.h"
#include "store/overlap.h"
#include "store/target_guard.h"

namespace steelyard::store {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kStagingPrefix = ".steelyard-";
/// A staging that another process took away is made again so often.
constexpr int kStagingAttempts = 16;

std::string staging_prefix(const fs::path& target) {
  // The hash keeps the name short whatever the target is called.
  return std::string(kStagingPrefix) + hash::sha256_hex(target.filename().native()).substr(0, 16) + "-";
}

UniqueFd open_folder(const fs::path& path) {
  return UniqueFd(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

/// The lock of `own`, which the caller holds, excludes: on some filesystems flock says yes to everybody.
bool lock_excludes(const fs::path& own) {
  const UniqueFd second = open_folder(own);
  return second.valid() && flock(second.get(), LOCK_EX | LOCK_NB) != 0;
}

/// `path` still names the folder that is open as `fd`.
bool is_still_there(const fs::path& path, const UniqueFd& fd) {
  struct stat named {};
  struct stat opened {};
  return lstat(path.c_str(), &named) == 0 && fstat(fd.get(), &opened) == 0 && named.st_dev == opened.st_dev &&
         named.st_ino == opened.st_ino;
}

/// Removes stagings of the same target whose maker is gone: nobody holds their lock.
void remove_abandoned(const fs::path& folder, const std::string& prefix, const fs::path& own) {
  std::error_code error;
  for (const fs::path& entry : list_folder(folder, error)) {
    if (entry == own || !entry.filename().native().starts_with(prefix)) continue;
    const UniqueFd fd = open_folder(entry);
    if (!fd.valid() || flock(fd.get(), LOCK_EX | LOCK_NB) != 0) continue;
    std::error_code ignored;
    fs::remove_all(entry, ignored);
  }
}

bool is_mount_root(const fs::path& path) {
  struct statx info {};
  if (statx(AT_FDCWD, path.c_str(), AT_NO_AUTOMOUNT, STATX_INO, &info) != 0) return false;
  return (info.stx_attributes_mask & STATX_ATTR_MOUNT_ROOT) != 0 && (info.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
}

/// Beside `target` a folder can be made. Not where its parent may not be written: then its files come one by one.
bool may_hold_sibling(const fs::path& target) {
  return faccessat(AT_FDCWD, target.parent_path().c_str(), W_OK | X_OK, AT_EACCESS) == 0;
}

Result<std::vector<fs::path>> entries_of(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> entries = list_folder(folder, error);
  if (error) return errno_status(error.value(), "list", folder.native());
  return entries;
}

/// What a target holds for its owner: neither stagings inside it, live or abandoned, nor what a fresh filesystem has.
Result<std::vector<fs::path>> content_of(const fs::path& target, bool in_place) {
  SY_ASSIGN_OR_RETURN(std::vector<fs::path> entries, entries_of(target));
  if (!in_place) return entries;
  const std::string prefix = staging_prefix(target);
  const bool mounted = is_mount_root(target);
  std::erase_if(entries, [&](const fs::path& entry) {
    const std::string name = entry.filename().native();
    return name.starts_with(prefix) || (mounted && name == "lost+found");
  });
  return entries;
}

Status remove_tree(const fs::path& path) {
  std::error_code error;
  fs::remove_all(path, error);
  return error ? errno_status(error.value(), "remove", path.native()) : Status();
}

/// rename(2) says that this folder, or this filesystem, does not have it so; nothing is wrong otherwise.
bool is_refused(int error) {
  return error == EINVAL || error == EXDEV || error == ENOSYS || error == EOPNOTSUPP || error == ENOTSUP ||
         error == EBUSY || error == EPERM;
}

/// Says what --force would replace.
Status not_empty(const fs::path& target, std::vector<fs::path> content) {
  constexpr std::size_t kNamedMax = 5;
  std::sort(content.begin(), content.end());
  std::string names;
  for (std::size_t i = 0; i < std::min(content.size(), kNamedMax); ++i) {
    names += (i > 0 ? ", " : "") + printable(content[i].filename().native());
  }
  if (content.size() > kNamedMax) names += fmt::format(" and {} more", content.size() - kNamedMax);
  return {Code::kConflict, fmt::format("{} is not empty: it holds {}", printable(target.native()), names),
          "name another folder, or replace this one, with everything in it, with --force"};
}

}  // namespace

Result<std::unique_ptr<TargetFolder>> TargetFolder::prepare(Runtime& runtime, const std::string& target, bool force,
                                                            const std::string& home) {
  fs::path path = resolved_path(target);
  if (target.empty() || !path.is_absolute()) {
    return Status(Code::kInvalidArgument, fmt::format("\"{}\" is not a path to materialise to", printable(target)),
                  "name a folder that does not exist yet, or an empty one");
  }
  std::error_code error;
  // A target that is not there yet is an error to is_symlink().
  std::error_code absent;
  if (fs::is_symlink(path, absent)) {
    const fs::path real = fs::canonical(path, error);
    if (error) {
      return Status(Code::kInvalidArgument,
                    fmt::format("{} is a link that leads to no folder: {}", path.native(), error.message()),
                    "remove the link, or name the folder itself");
    }
    path = real;
  }

  std::unique_ptr<TargetFolder> folder(new TargetFolder(runtime, path.native(), force));
  const fs::file_status status = fs::status(path, error);
  if (fs::exists(status)) {
    if (!fs::is_directory(status)) {
      return Status(Code::kInvalidArgument, fmt::format("{} is not a folder", path.native()),
                    "name a folder that does not exist yet, or an empty one");
    }
    folder->target_exists_ = true;
    if (is_mount_root(path)) {
      folder->becomes_in_place("is a mount point");
    } else if (!may_hold_sibling(path)) {
      folder->becomes_in_place("lies in a folder that may not be written");
    } else if (is_current_folder(path.native())) {
      folder->becomes_in_place("is the current folder");
    }
    SY_ASSIGN_OR_RETURN(auto content, content_of(path, folder->in_place_));
    if (!content.empty() && !force) return not_empty(path, std::move(content));
    if (!content.empty()) SY_RETURN_IF_ERROR(check_replaceable(path.native(), home));
  } else if (status.type() == fs::file_type::none) {
    return errno_status(error.value(), "stat", path.native());
  }
  SY_RETURN_IF_ERROR(folder->make_staging());
  return folder;
}

Status TargetFolder::make_staging() {
  const fs::path target(path_);
  const fs::path parent = in_place_ ? target : target.parent_path();
  if (!in_place_) {
    std::error_code error;
    fs::create_directories(parent, error);
    if (error == std::errc::not_a_directory) {
      return {Code::kInvalidArgument, fmt::format("{}: a part of this path is not a folder", parent.native()),
              "name a folder whose parents are folders"};
    }
    if (error) return errno_status(error.value(), "mkdir", parent.native());
  }
  for (int attempt = 0;; ++attempt) {
    const std::string path = (parent / (staging_prefix(target) + runtime_.random_hex(8))).native();
    if (mkdir(path.c_str(), 0777) != 0) return errno_status(errno, "mkdir", path);
    SY_POINT(runtime_, "materialize.staging_made");
    UniqueFd fd = open_folder(path);
    const int error = fd.valid() ? 0 : errno;
    const bool locked = fd.valid() && flock(fd.get(), LOCK_EX | LOCK_NB) == 0;
    // Until it has its lock, another materialise to the same target may take it for abandoned and remove it.
    const bool lost = fd.valid() ? (!locked && errno == EWOULDBLOCK) || !is_still_there(path, fd) : error == ENOENT;
    if (lost && attempt < kStagingAttempts) continue;
    if (!fd.valid()) return errno_status(error, "open", path);
    staging_path_ = path;
    staging_fd_ = std::move(fd);
    if (locked && lock_excludes(path)) {
      remove_abandoned(parent, staging_prefix(target), path);
    } else {
      log_debug("locks do not exclude on {}: abandoned stagings are left alone", path);
    }
    return {};
  }
}

TargetFolder::~TargetFolder() {
  if (staging_path_.empty()) return;
  remove_tree(staging_path_).ignore("the next materialise to this target removes it");
}

Status TargetFolder::publish(const std::set<std::string>& folders) {
  // The files are durable: each was synced as it was written. So nothing of others on the filesystem is waited for.
  const auto sync = [&](const std::string& relative) -> Status {
    if (const int fault = runtime_.point("materialize.sync"); fault != 0) return errno_status(fault, "fsync", relative);
    SY_ASSIGN_OR_RETURN(const UniqueFd fd, open_or_make_folder(staging_fd_.get(), relative));
    return sync_open_folder(fd.get(), relative);
  };
  for (const std::string& folder : folders) SY_RETURN_IF_ERROR(sync(folder).annotate("publishing", path_));
  SY_RETURN_IF_ERROR(sync("").annotate("publishing", path_));
  SY_POINT(runtime_, "materialize.before_publish");
  return in_place_ ? publish_in_place() : publish_by_rename();
}

Status TargetFolder::filled_meanwhile() const {
  return {Code::kConflict, fmt::format("{} was filled by somebody else meanwhile", path_),
          "name another folder, or replace this one with --force"};
}

int TargetFolder::rename_to_target(unsigned flags) const {
  return renameat2(AT_FDCWD, staging_path_.c_str(), AT_FDCWD, path_.c_str(), flags) == 0 ? 0 : errno;
}

Status TargetFolder::publish_by_rename() {
  const fs::path target(path_);
  if (const int fault = runtime_.point("materialize.rename"); fault != 0) return errno_status(fault, "rename", path_);
  std::error_code error;
  const bool exists = fs::exists(target, error);
  std::string replaced;
  if (force_ && exists && !fs::is_empty(target, error)) {
    int refused = runtime_.point("materialize.exchange");
    if (refused == 0) refused = rename_to_target(RENAME_EXCHANGE);
    if (refused == 0) {
      replaced = staging_path_;
    } else if (is_refused(refused)) {
      SY_ASSIGN_OR_RETURN(replaced, replace_in_two_steps());
      if (replaced.empty()) return publish_in_place();
    } else {
      return errno_status(refused, "rename", path_);
    }
  } else if (const int refused = rename_to_target(0); refused != 0) {
    // rename(2) replaces an empty folder and nothing else; a folder that was filled meanwhile is not overwritten.
    if (refused == ENOTEMPTY || refused == EEXIST) return filled_meanwhile();
    if (!exists || !is_refused(refused)) return errno_status(refused, "rename", path_);
    becomes_in_place("cannot be replaced on its filesystem");
    return publish_in_place();
  }
  staging_path_.clear();
  SY_RETURN_IF_ERROR(sync_folder(target.parent_path()));
  SY_POINT(runtime_, "materialize.after_publish");
  if (!replaced.empty()) remove_replaced(replaced);
  return {};
}

/// Where the old folder is now; empty where it cannot be moved at all and its files must be replaced one by one.
Result<std::string> TargetFolder::replace_in_two_steps() {
  constexpr std::size_t kNameBytesMax = 200;
  const fs::path target(path_);
  const std::string name = target.filename().native().substr(0, kNameBytesMax);
  const std::string aside =
      (target.parent_path() / fmt::format("{}.replaced-{}", name, runtime_.random_hex(4))).native();
  int refused = runtime_.point("materialize.set_aside");
  if (refused == 0 && rename(path_.c_str(), aside.c_str()) != 0) refused = errno;
  if (is_refused(refused)) {
    becomes_in_place("cannot be renamed on its filesystem");
    return std::string();
  }
  if (refused != 0) return errno_status(refused, "rename", path_);
  SY_POINT(runtime_, "materialize.between_renames");
  refused = runtime_.point("materialize.second_rename");
  if (refused == 0) refused = rename_to_target(0);
  if (refused == 0) {
    notes_.push_back(
        fmt::format("{} was replaced in two steps, since its filesystem cannot exchange folders: for a "
                    "moment nothing was there",
                    printable(path_)));
    return aside;
  }
  Status status =
      refused == ENOTEMPTY || refused == EEXIST ? filled_meanwhile() : errno_status(refused, "rename", path_);
  if (rename(aside.c_str(), path_.c_str()) == 0) return status;
  return std::move(status).with_hint(fmt::format("what was there is now at {}", printable(aside)));
}

/// The target is complete: what is left of the old one is no failure of it.
void TargetFolder::remove_replaced(const std::string& replaced) {
  Status removed;
  if (const int fault = runtime_.point("materialize.remove"); fault != 0) {
    removed = errno_status(fault, "remove", replaced);
  } else {
    removed = remove_tree(replaced);
  }
  if (removed.ok()) return;
  notes_.push_back(fmt::format("what stood at {} before could not be removed and is left at {}: {}", printable(path_),
                               printable(replaced), removed.message()));
}

void TargetFolder::becomes_in_place(std::string_view why) {
  in_place_ = true;
  notes_.push_back(fmt::format("{} {} and cannot be renamed, so its files appear one by one, index files last",
                               printable(path_), why));
}

Status TargetFolder::publish_in_place() {
  const fs::path target(path_);
  SY_ASSIGN_OR_RETURN(const std::vector<fs::path> old, content_of(target, true));
  if (!old.empty() && !force_) return filled_meanwhile();
  const auto incomplete = [&](Status status) {
    return std::move(status).with_hint(
        fmt::format("{} is incomplete now; the same command again, with --force, completes it", printable(path_)));
  };
  for (const fs::path& entry : old) {
    if (Status status = remove_tree(entry); !status.ok()) return incomplete(std::move(status));
  }
  SY_ASSIGN_OR_RETURN(std::vector<fs::path> made, entries_of(staging_path_));
  std::sort(made.begin(), made.end());
  std::stable_partition(made.begin(), made.end(), [](const fs::path& entry) {
    const std::string name = entry.filename().native();
    return !name.ends_with(".index.json") && !formats::is_safetensors_index(name);
  });
  for (const fs::path& entry : made) {
    if (rename(entry.c_str(), (target / entry.filename()).c_str()) != 0) {
      return incomplete(errno_status(errno, "rename", entry.native()));
    }
  }
  remove_tree(std::exchange(staging_path_, {}))
      .ignore("it is empty, and the next materialise to this target removes it");
  return sync_folder(target);
}

}  // namespace steelyard::store
