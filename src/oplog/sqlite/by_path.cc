// What can be told of a database without opening it as a log.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "base/unique_fd.h"
#include "oplog/open.h"
#include "oplog/sqlite/connection.h"
#include "oplog/sqlite/layout.h"

namespace steelyard::oplog {
namespace {

/// SQLite's WAL index begins with two headers of 48 bytes and 24 bytes of checkpoint facts; its lock bytes follow.
constexpr off_t kLockBytesBegin = 120;
constexpr off_t kAliveByte = kLockBytesBegin + 8;

}  // namespace

Result<std::string> sqlite_store_id(const std::string& path) {
  using sqlite::Connection;
  SY_RETURN_IF_ERROR(sqlite::check_files(path));
  SY_ASSIGN_OR_RETURN(const auto connection, Connection::open(path, Connection::Mode::kReadOnly));
  return sqlite::store_id_of(*connection);
}

/// Every connection in WAL mode holds a shared lock on one byte of the `-shm` file, the "dead man's switch", for as
/// long as it lives.
Status check_nobody_uses_sqlite(const std::string& path) {
  const std::string shared = path + "-shm";
  const UniqueFd fd(open(shared.c_str(), O_RDWR | O_CLOEXEC));
  if (!fd.valid()) return errno == ENOENT ? Status() : errno_status(errno, "open", shared);
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = kAliveByte;
  lock.l_len = 1;
  if (fcntl(fd.get(), F_GETLK, &lock) != 0) return errno_status(errno, "look at the locks of", shared);
  if (lock.l_type == F_UNLCK) return {};
  const std::string who = lock.l_pid > 0 ? "process " + std::to_string(lock.l_pid) : "a process of another container";
  return {Code::kBusy, path + " is open: " + who + " uses it", "end it, then run the same command again"};
}

}  // namespace steelyard::oplog
