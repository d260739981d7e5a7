#include "tiers/directory/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
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

int Folder::unlink(const std::string& relative) {
  return call_or_fault(runtime_, "tier.remove", [&] { return ::unlinkat(root_.get(), relative.c_str(), 0); });
}

int Folder::remove_folder(const std::string& relative) {
  return call_or_fault(runtime_, "tier.remove_folder",
                       [&] { return ::unlinkat(root_.get(), relative.c_str(), AT_REMOVEDIR); });
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

Result<std::vector<std::string>> Folder::names_in(const std::string& relative) {
  const int opened = open("tier.list", relative, O_RDONLY | O_DIRECTORY);
  std::vector<std::string> names;
  if (opened == -ENOENT) return names;
  if (opened < 0) return read_failure(-opened, "open folder", relative);
  DIR* stream = ::fdopendir(opened);
  if (stream == nullptr) {
    const int error = errno;
    ::close(opened);
    return read_failure(error, "open folder", relative);
  }
  for (;;) {
    errno = 0;
    const dirent* entry = ::readdir(stream);
    if (entry == nullptr) break;
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  const int error = errno;
  ::closedir(stream);
  if (error != 0) return read_failure(error, "read folder", relative);
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
