#include "tiers/directory/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "base/log.h"

namespace steelyard::tiers::directory {
namespace {

/// Runs a system call unless its fault point is armed.
template <typename Call>
int call_or_fault(Runtime& runtime, const char* point, Call call) {
  if (const int fault = runtime.point(point); fault != 0) return -fault;
  for (;;) {
    const int result = call();
    if (result >= 0) return result;
    if (errno != EINTR) return -errno;
  }
}

/// What a network filesystem says of a folder that was removed while it is open.
int gone_is_absent(int result) { return result == -ESTALE ? -ENOENT : result; }

std::mutex& live_mutex() {
  static std::mutex mutex;
  return mutex;
}

std::set<std::string>& live_names() {
  static std::set<std::string> names;
  return names;
}

}  // namespace

Folder::Folder(Runtime& runtime, std::string path, UniqueFd root, bool read_only)
    : runtime_(runtime), path_(std::move(path)), root_(std::move(root)), read_only_(read_only), engine_(runtime) {}

std::string Folder::full(std::string_view relative) const {
  if (relative.empty() || relative == ".") return path_;
  return std::string(path_).append("/").append(relative);
}

int Folder::open(const char* point, const std::string& relative, int flags, mode_t mode) {
  return call_or_fault(runtime_, point,
                       [&] { return ::openat(root_.get(), relative.c_str(), flags | O_CLOEXEC | O_NOFOLLOW, mode); });
}

int Folder::open_regular(const char* point, const std::string& relative, int flags) {
  const int opened = open(point, relative, flags | O_NONBLOCK | O_NOCTTY);
  if (opened < 0) return opened;
  UniqueFd fd(opened);
  struct stat there {};
  if (::fstat(fd.get(), &there) != 0) return -errno;
  if (!S_ISREG(there.st_mode)) return -ENXIO;
  // Some kernels answer an asynchronous read of such a file with EAGAIN.
  if (::fcntl(fd.get(), F_SETFL, flags & O_DIRECT) != 0) return -errno;
  return fd.release();
}

int Folder::stat(const std::string& relative, struct stat* out) {
  return call_or_fault(runtime_, "tier.stat",
                       [&] { return ::fstatat(root_.get(), relative.c_str(), out, AT_SYMLINK_NOFOLLOW); });
}

int Folder::link(const char* point, const std::string& from, const std::string& to) {
  const int flags = from.starts_with(kDescriptors) ? AT_SYMLINK_FOLLOW : 0;
  return call_or_fault(runtime_, point,
                       [&] { return ::linkat(root_.get(), from.c_str(), root_.get(), to.c_str(), flags); });
}

int Folder::rename(const char* point, const std::string& from, const std::string& to) {
  return call_or_fault(runtime_, point, [&] { return ::renameat(root_.get(), from.c_str(), root_.get(), to.c_str()); });
}

int Folder::rename_no_replace(const std::string& from, const std::string& to) {
  return call_or_fault(runtime_, "tier.rename", [&] {
    return ::renameat2(root_.get(), from.c_str(), root_.get(), to.c_str(), RENAME_NOREPLACE);
  });
}

int Folder::touch(const std::string& relative) {
  return call_or_fault(runtime_, "tier.touch",
                       [&] { return ::utimensat(root_.get(), relative.c_str(), nullptr, AT_SYMLINK_NOFOLLOW); });
}

int Folder::lock(int file, bool exclusive) {
  return call_or_fault(runtime_, "tier.lock", [&] { return ::flock(file, (exclusive ? LOCK_EX : LOCK_SH) | LOCK_NB); });
}

int Folder::unlink(const std::string& relative) {
  return call_or_fault(runtime_, "tier.remove", [&] { return ::unlinkat(root_.get(), relative.c_str(), 0); });
}

int Folder::remove_folder(const std::string& relative) {
  return call_or_fault(runtime_, "tier.remove_folder",
                       [&] { return ::unlinkat(root_.get(), relative.c_str(), AT_REMOVEDIR); });
}

int Folder::unlink_in(int folder, const std::string& name) {
  return gone_is_absent(call_or_fault(runtime_, "tier.remove", [&] { return ::unlinkat(folder, name.c_str(), 0); }));
}

int Folder::remove_folder_in(int folder, const std::string& name) {
  return gone_is_absent(
      call_or_fault(runtime_, "tier.remove_folder", [&] { return ::unlinkat(folder, name.c_str(), AT_REMOVEDIR); }));
}

Status Folder::make_folders(const std::string& relative, std::uint64_t wanted_bytes) {
  for (std::size_t end = relative.find('/');; end = relative.find('/', end + 1)) {
    const std::string part = relative.substr(0, end);
    const int result =
        call_or_fault(runtime_, "tier.mkdir", [&] { return ::mkdirat(root_.get(), part.c_str(), 0777); });
    if (result < 0 && result != -EEXIST) return write_failure(-result, "mkdir", part, wanted_bytes);
    if (end == std::string::npos) return {};
  }
}

int Folder::filesystem(struct statvfs* out) {
  return call_or_fault(runtime_, "tier.statvfs", [&] { return ::fstatvfs(root_.get(), out); });
}

Status Folder::write_failure(int error_number, std::string_view call, std::string_view relative,
                             std::uint64_t wanted_bytes) {
  if (error_number == ENOSPC || error_number == EDQUOT || error_number == EFBIG) {
    std::string message(call);
    message.append(" ").append(full(relative)).append(": ").append(std::generic_category().message(error_number));
    if (wanted_bytes > 0) message.append("; wanted ").append(std::to_string(wanted_bytes)).append(" bytes");
    struct statvfs filesystem {};
    if (::fstatvfs(root_.get(), &filesystem) == 0) {
      const std::uint64_t free_bytes = std::uint64_t{filesystem.f_bavail} * filesystem.f_frsize;
      message.append("; ").append(std::to_string(free_bytes)).append(" bytes are free");
      if (filesystem.f_files > 0 && filesystem.f_favail == 0) {
        return {Code::kNoSpace, message + ", but no inode",
                "remove files on that filesystem, which has no room for another, then run the same command again"};
      }
    }
    return {Code::kNoSpace, std::move(message), "free space on that filesystem, then run the same command again"};
  }
  if (error_number == ENOENT) {
    return {Code::kUnavailable,
            std::string(call) + " " + full(relative) + ": its folder or temporary file was removed by another process",
            "run the same command again"};
  }
  return errno_status(error_number, call, full(relative));
}

Status Folder::read_failure(int error_number, std::string_view call, std::string_view relative) {
  return errno_status(error_number, call, full(relative));
}

Status Folder::check_writable() const {
  if (!read_only_) return {};
  return {Code::kUnauthorized, path_ + " is open for reading only"};
}

Status Folder::check_names_removable(const std::string& relative) {
  const int result = call_or_fault(runtime_, "tier.access",
                                   [&] { return ::faccessat(root_.get(), relative.c_str(), W_OK | X_OK, AT_EACCESS); });
  if (result == 0 || result == -ENOENT) return {};
  if (result != -EACCES && result != -EPERM && result != -EROFS) return read_failure(-result, "look at", relative);
  return {Code::kUnauthorized,
          full(relative) + " may not be changed by this user: " + std::generic_category().message(-result),
          "use the account that owns it, or give this one write permission there"};
}

Result<std::vector<std::string>> Folder::names_in(const std::string& relative, Names which) {
  return names_in(root_.get(), relative, relative, which);
}

Result<std::vector<std::string>> Folder::names_in(int folder, const std::string& name, const std::string& shown,
                                                  Names which) {
  const int opened = gone_is_absent(call_or_fault(runtime_, "tier.list", [&] {
    return ::openat(folder, name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
  }));
  std::vector<std::string> names;
  if (opened == -ENOENT) return names;
  if (opened < 0) return read_failure(-opened, "open folder", shown);
  DIR* stream = ::fdopendir(opened);
  if (stream == nullptr) {
    const int error = errno;
    ::close(opened);
    return read_failure(error, "open folder", shown);
  }
  for (;;) {
    errno = 0;
    const dirent* entry = ::readdir(stream);
    if (entry == nullptr) break;
    const std::string_view found = entry->d_name;
    if (found == "." || found == "..") continue;
    if (which == Names::kMayBeFolders && entry->d_type != DT_DIR && entry->d_type != DT_UNKNOWN) continue;
    names.emplace_back(found);
  }
  const int error = errno;
  ::closedir(stream);
  if (error != 0 && error != ESTALE) return read_failure(error, "read folder", shown);
  std::sort(names.begin(), names.end());
  return names;
}

void Folder::note_fact(const std::string& fact) {
  {
    const std::lock_guard lock(mutex_);
    if (!facts_.insert(fact).second) return;
  }
  log_info("{}: {}", path_, fact);
}

std::vector<std::string> Folder::facts() {
  const std::string reason = engine_.fall_back_reason();
  const std::lock_guard lock(mutex_);
  std::vector<std::string> all(facts_.begin(), facts_.end());
  if (!reason.empty()) all.push_back(reason);
  return all;
}

bool Folder::direct() const {
  const std::lock_guard lock(mutex_);
  return direct_;
}

void Folder::give_up_direct(int error_number) {
  {
    const std::lock_guard lock(mutex_);
    direct_ = false;
  }
  note_fact("the filesystem refuses direct I/O (" + std::generic_category().message(error_number) +
            "); using the page cache and dropping behind");
}

LiveTemporary::LiveTemporary(std::string name) : name_(std::move(name)) {
  const std::lock_guard lock(live_mutex());
  live_names().insert(name_);
}

LiveTemporary::~LiveTemporary() {
  const std::lock_guard lock(live_mutex());
  live_names().erase(name_);
}

bool LiveTemporary::is_live(const std::string& name) {
  const std::lock_guard lock(live_mutex());
  return live_names().contains(name);
}

}  // namespace steelyard::tiers::directory
