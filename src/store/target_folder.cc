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

#include "base/log.h"
#include "formats/checkpoint_files.h"
#include "hash/sha256.h"

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
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    if (entry.path() == own || !entry.path().filename().native().starts_with(prefix)) continue;
    const UniqueFd fd = open_folder(entry.path());
    if (!fd.valid() || flock(fd.get(), LOCK_EX | LOCK_NB) != 0) continue;
    std::error_code ignored;
    fs::remove_all(entry.path(), ignored);
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
  std::vector<fs::path> entries;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) entries.push_back(entry.path());
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

}  // namespace

Result<std::unique_ptr<TargetFolder>> TargetFolder::prepare(Runtime& runtime, const std::string& target, bool force) {
  std::error_code error;
  fs::path path = fs::absolute(target, error).lexically_normal();
  if (error || target.empty()) {
    return Status(Code::kInvalidArgument, fmt::format("\"{}\" is not a path to materialise to", target));
  }
  if (!path.has_filename() && path.has_parent_path()) path = path.parent_path();  // a trailing slash
  error.clear();
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
    folder->in_place_ = is_mount_root(path) || !may_hold_sibling(path);
    SY_ASSIGN_OR_RETURN(const auto content, content_of(path, folder->in_place_));
    if (!content.empty() && !force) {
      return Status(Code::kConflict, fmt::format("{} is not empty", path.native()),
                    "name another folder, or replace this one with --force");
    }
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
    return fsync(fd.get()) == 0 || errno == EINVAL ? Status() : errno_status(errno, "fsync", relative);
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

Status TargetFolder::publish_by_rename() {
  const fs::path target(path_);
  if (const int fault = runtime_.point("materialize.rename"); fault != 0) return errno_status(fault, "rename", path_);
  const auto rename_with = [&](unsigned flags) {
    return renameat2(AT_FDCWD, staging_path_.c_str(), AT_FDCWD, path_.c_str(), flags) == 0;
  };
  std::error_code error;
  const bool exchange = force_ && fs::exists(target, error) && !fs::is_empty(target, error);
  // rename(2) replaces an empty folder and nothing else; a folder that was filled meanwhile is not overwritten.
  const bool renamed = exchange ? rename_with(RENAME_EXCHANGE) : rename(staging_path_.c_str(), path_.c_str()) == 0;
  if (!renamed && (errno == ENOTEMPTY || errno == EEXIST)) {
    return filled_meanwhile();
  }
  if (!renamed) return errno_status(errno, "rename", path_);
  SY_RETURN_IF_ERROR(sync_folder(target.parent_path()));
  SY_POINT(runtime_, "materialize.after_publish");
  const std::string replaced = std::exchange(staging_path_, {});
  return exchange ? remove_tree(replaced).annotate("removing", "what was replaced") : Status();
}

Status TargetFolder::publish_in_place() {
  const fs::path target(path_);
  SY_ASSIGN_OR_RETURN(const std::vector<fs::path> old, content_of(target, true));
  if (!old.empty() && !force_) return filled_meanwhile();
  for (const fs::path& entry : old) SY_RETURN_IF_ERROR(remove_tree(entry));
  SY_ASSIGN_OR_RETURN(std::vector<fs::path> made, entries_of(staging_path_));
  std::sort(made.begin(), made.end());
  std::stable_partition(made.begin(), made.end(), [](const fs::path& entry) {
    const std::string name = entry.filename().native();
    return !name.ends_with(".index.json") && !formats::is_safetensors_index(name);
  });
  for (const fs::path& entry : made) {
    if (rename(entry.c_str(), (target / entry.filename()).c_str()) != 0) {
      return errno_status(errno, "rename", entry.native());
    }
  }
  SY_RETURN_IF_ERROR(remove_tree(std::exchange(staging_path_, {})));
  return sync_folder(target);
}

}  // namespace steelyard::store
