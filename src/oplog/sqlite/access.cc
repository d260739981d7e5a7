#include "oplog/sqlite/access.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <vector>

namespace steelyard::oplog::sqlite {
namespace {

constexpr int kCopyAttempts = 20;
constexpr std::size_t kCopyBytes = 1U << 20;

/// Size, inode and times of both files: it changes with every write to either.
std::string stamp_of(const std::string& path) {
  std::string out;
  for (const std::string& name : {path, path + "-wal"}) {
    struct stat info {};
    if (stat(name.c_str(), &info) != 0) {
      out += "absent;";
      continue;
    }
    for (const auto value :
         {static_cast<long long>(info.st_ino), static_cast<long long>(info.st_size),
          static_cast<long long>(info.st_mtim.tv_sec), static_cast<long long>(info.st_mtim.tv_nsec),
          static_cast<long long>(info.st_ctim.tv_sec), static_cast<long long>(info.st_ctim.tv_nsec)}) {
      out += std::to_string(value) + ",";
    }
  }
  return out;
}

Status copy_file(const std::string& from, const std::string& to) {
  const int in = open(from.c_str(), O_RDONLY | O_CLOEXEC);
  if (in < 0) return errno_status(errno, "open", from);
  const int out = open(to.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (out < 0) {
    const int error = errno;
    close(in);
    return errno_status(error, "open", to);
  }
  std::vector<char> buffer(kCopyBytes);
  Status status;
  while (status.ok()) {
    const ssize_t got = ::read(in, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) status = errno_status(errno, "read", from);
    if (got <= 0) break;
    for (ssize_t done = 0; done < got;) {
      const ssize_t put = ::write(out, buffer.data() + done, static_cast<std::size_t>(got - done));
      if (put < 0 && errno == EINTR) continue;
      if (put <= 0) {
        status = errno_status(put < 0 ? errno : EIO, "write", to);
        break;
      }
      done += put;
    }
  }
  close(in);
  close(out);
  return status;
}

}  // namespace

bool may_write(const std::string& path) {
  std::string folder = std::filesystem::path(path).parent_path().string();
  if (folder.empty()) folder = ".";
  if (faccessat(AT_FDCWD, path.c_str(), W_OK, AT_EACCESS) != 0) return false;
  if (faccessat(AT_FDCWD, folder.c_str(), W_OK | X_OK, AT_EACCESS) != 0) return false;
  for (const char* suffix : {"-wal", "-shm"}) {
    if (faccessat(AT_FDCWD, (path + suffix).c_str(), W_OK, AT_EACCESS) != 0 && errno != ENOENT) return false;
  }
  return true;
}

PrivateCopy::PrivateCopy(std::string original, std::string folder)
    : original_(std::move(original)), folder_(std::move(folder)), path_(folder_ + "/catalog.db") {}

PrivateCopy::~PrivateCopy() {
  std::error_code error;
  std::filesystem::remove_all(folder_, error);
}

bool PrivateCopy::is_stale() const { return stamp_of(original_) != stamp_; }

Result<std::unique_ptr<PrivateCopy>> PrivateCopy::make(Runtime& runtime, const std::string& path) {
  const char* tmp = std::getenv("TMPDIR");
  std::string folder = std::string(tmp != nullptr && *tmp != '\0' ? tmp : "/tmp") + "/steelyard-catalog-XXXXXX";
  if (mkdtemp(folder.data()) == nullptr) {
    return errno_status(errno, "mkdtemp", folder).with_hint("set TMPDIR to a folder that may be written");
  }
  std::unique_ptr<PrivateCopy> copy(new PrivateCopy(path, folder));
  for (int attempt = 0; attempt < kCopyAttempts; ++attempt) {
    if (attempt > 0) runtime.sleep_ms(attempt);
    copy->stamp_ = stamp_of(path);
    Status status = copy_file(path, copy->path_);
    if (status.ok()) {
      // The WAL after the database: what a checkpoint moves meanwhile changes a stamp.
      status = copy_file(path + "-wal", copy->path_ + "-wal");
      if (status.code() == Code::kNotFound) {
        unlink((copy->path_ + "-wal").c_str());
        status = Status();
      }
    }
    if (!status.ok()) return std::move(status).annotate("copying", path);
    if (!copy->is_stale()) return copy;
  }
  return Status(Code::kBusy,
                path + ": changed during each of " + std::to_string(kCopyAttempts) + " attempts to copy it",
                "give this user write permission on the store's folder, or try again when nobody writes");
}

}  // namespace steelyard::oplog::sqlite
