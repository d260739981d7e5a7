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

std::string staging_prefix(const fs::path& target) {
  // The hash keeps the name short whatever the target is called.
  return std::string(kStagingPrefix) + hash::sha256_hex(target.filename().native()).substr(0, 16) + "-";
}

UniqueFd open_folder(const fs::path& path) {
  return UniqueFd(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

/// Takes the lock of `own` and proves that it excludes: on some filesystems flock says yes to everybody.
bool lock_excludes(const fs::path& own, const UniqueFd& fd) {
  if (flock(fd.get(), LOCK_EX | LOCK_NB) != 0) return false;
  const UniqueFd second = open_folder(own);
  return second.valid() && flock(second.get(), LOCK_EX | LOCK_NB) != 0;
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

Status sync_folder(const fs::path& folder) {
  const UniqueFd fd(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid()) return errno_status(errno, "open", folder.native());
  if (fsync(fd.get()) != 0) return errno_status(errno, "fsync", folder.native());
  return {};
}

Result<std::vector<fs::path>> entries_of(const fs::path& folder, const fs::path& but) {
  std::error_code error;
  std::vector<fs::path> entries;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    if (entry.path() != but) entries.push_back(entry.path());
  }
  if (error) return errno_status(error.value(), "list", folder.native());
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
  if (fs::is_symlink(path, absent)) path = fs::canonical(path, error);
  if (error) return errno_status(error.value(), "resolve", path.native());

  std::unique_ptr<TargetFolder> folder(new TargetFolder(runtime, path.native(), force));
  const fs::file_status status = fs::status(path, error);
  if (fs::exists(status)) {
    if (!fs::is_directory(status)) {
      return Status(Code::kInvalidArgument, fmt::format("{} is not a folder", path.native()),
                    "name a folder that does not exist yet, or an empty one");
    }
    folder->target_exists_ = true;
    const bool empty = fs::is_empty(path, error);
    if (error) return errno_status(error.value(), "list", path.native());
    if (!empty && !force) {
      return Status(Code::kConflict, fmt::format("{} is not empty", path.native()),
                    "name another folder, or replace this one with --force");
    }
    folder->in_place_ = is_mount_root(path);
  } else if (status.type() == fs::file_type::none) {
    return errno_status(error.value(), "stat", path.native());
  }
  SY_RETURN_IF_ERROR(folder->make_staging());
  return folder;
}

Status TargetFolder::make_staging() {
  const fs::path target(path_);
  std::error_code error;
  if (!in_place_) {
    fs::create_directories(target.parent_path(), error);
    if (error) return errno_status(error.value(), "mkdir", target.parent_path().native());
  }
  for (;;) {
    const fs::path parent = in_place_ ? target : target.parent_path();
    staging_path_ = (parent / (staging_prefix(target) + runtime_.random_hex(8))).native();
    if (mkdir(staging_path_.c_str(), 0777) == 0) break;
    const bool denied = errno == EACCES || errno == EPERM || errno == EROFS;
    if (!denied || in_place_ || !target_exists_) {
      const int number = errno;
      const std::string tried = std::exchange(staging_path_, {});
      return errno_status(number, "mkdir", tried);
    }
    in_place_ = true;  // the parent may not be written, the target perhaps may
  }
  staging_fd_ = open_folder(staging_path_);
  if (!staging_fd_.valid()) return errno_status(errno, "open", staging_path_);
  if (lock_excludes(staging_path_, staging_fd_)) {
    remove_abandoned(fs::path(staging_path_).parent_path(), staging_prefix(target), staging_path_);
  } else {
    log_debug("locks do not exclude on {}: abandoned stagings are left alone", staging_path_);
  }
  return {};
}

TargetFolder::~TargetFolder() {
  if (staging_path_.empty()) return;
  remove_tree(staging_path_).ignore("the next materialise to this target removes it");
}

Status TargetFolder::publish() {
  if (const int fault = runtime_.point("materialize.sync"); fault != 0) {
    return errno_status(fault, "syncfs", staging_path_);
  }
  if (syncfs(staging_fd_.get()) != 0) return errno_status(errno, "syncfs", staging_path_);
  SY_POINT(runtime_, "materialize.before_publish");
  return in_place_ ? publish_in_place() : publish_by_rename();
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
    return {Code::kConflict, fmt::format("{} was filled by somebody else meanwhile", path_),
            "name another folder, or replace this one with --force"};
  }
  if (!renamed) return errno_status(errno, "rename", path_);
  SY_RETURN_IF_ERROR(sync_folder(target.parent_path()));
  SY_POINT(runtime_, "materialize.after_publish");
  const std::string replaced = std::exchange(staging_path_, {});
  return exchange ? remove_tree(replaced).annotate("removing", "what was replaced") : Status();
}

Status TargetFolder::publish_in_place() {
  const fs::path target(path_);
  SY_ASSIGN_OR_RETURN(const std::vector<fs::path> old, entries_of(target, staging_path_));
  for (const fs::path& entry : old) SY_RETURN_IF_ERROR(remove_tree(entry));
  SY_ASSIGN_OR_RETURN(std::vector<fs::path> made, entries_of(staging_path_, {}));
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
