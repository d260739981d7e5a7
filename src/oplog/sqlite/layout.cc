#include "oplog/sqlite/layout.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>

#include "base/list_folder.h"
#include "base/sync_folder.h"
#include "base/unique_fd.h"
#include "hash/xxh3.h"

namespace steelyard::oplog::sqlite {
namespace {

constexpr std::string_view kSqliteMagic("SQLite format 3\0", 16);
constexpr std::size_t kSqliteHeaderBytes = 100;
constexpr int kLinkAttempts = 10;
constexpr const char* kRestoreHint =
    "restore the catalog from its newest snapshot copy (steelyard recover), or from a backup";

constexpr const char* kSchema = R"(
  PRAGMA application_id = 1398033497;
  PRAGMA user_version = 1;
  CREATE TABLE meta(name TEXT PRIMARY KEY NOT NULL, value NOT NULL) WITHOUT ROWID;
  CREATE TABLE log(seq INTEGER PRIMARY KEY NOT NULL, request_id BLOB NOT NULL, batch BLOB NOT NULL,
                   sum INTEGER NOT NULL);
  CREATE TABLE state(key BLOB PRIMARY KEY NOT NULL, value BLOB NOT NULL, sum INTEGER NOT NULL) WITHOUT ROWID;
  CREATE TABLE snapshot(id INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL, seq INTEGER NOT NULL,
                        complete INTEGER NOT NULL);
  CREATE TABLE snapshot_section(id INTEGER NOT NULL, name TEXT NOT NULL, bytes INTEGER NOT NULL, sha256 BLOB NOT NULL,
                                PRIMARY KEY(id, name)) WITHOUT ROWID;
  CREATE TABLE snapshot_part(id INTEGER NOT NULL, name TEXT NOT NULL, part INTEGER NOT NULL, data BLOB NOT NULL,
                             UNIQUE(id, name, part));
  INSERT INTO meta VALUES('base', 0), ('fence', 0), ('folded', 0), ('state_schema', 2);
)";
static_assert(kApplicationId == 1398033497 && kUserVersion == 1 && kStateSchema == 2, "as written in kSchema");

std::string folder_of(const std::string& path) {
  std::string folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

/// What a killed creator left. Called with the `next` lock; where that lock does nothing, a live creator whose file
/// goes here begins again.
void remove_leftovers(const std::string& path) {
  const std::string prefix = std::filesystem::path(path).filename().string() + ".new-";
  std::error_code error;
  for (const std::filesystem::path& entry : list_folder(folder_of(path), error)) {
    if (entry.filename().string().starts_with(prefix)) std::filesystem::remove(entry, error);
  }
}

void remove_temporary(const std::string& temporary) {
  for (const char* suffix : {"", "-journal", "-wal", "-shm"}) unlink((temporary + suffix).c_str());
}

Status fill_database(const std::string& path, const std::string& store_id) {
  SY_ASSIGN_OR_RETURN(const auto connection, Connection::open(path, Connection::Mode::kCreate));
  SY_RETURN_IF_ERROR(connection->begin_immediate(0));
  SY_RETURN_IF_ERROR(connection->execute(kSchema));
  {
    SY_ASSIGN_OR_RETURN(Cursor cursor, connection->prepare("INSERT INTO meta VALUES('store_id', ?)"));
    SY_RETURN_IF_ERROR(cursor.bind_text(1, store_id).run());
  }
  SY_RETURN_IF_ERROR(connection->commit());
  // Last, so that everything before is in this one file.
  return connection->execute("PRAGMA journal_mode=WAL");
}

Status not_ours(const std::string& path, std::string what) {
  return Status(Code::kCorrupt, path + ": " + std::move(what), kRestoreHint);
}

std::uint32_t big_endian(const std::array<unsigned char, kSqliteHeaderBytes>& header, std::size_t at,
                         std::size_t bytes) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < bytes; ++i) value = (value << 8) | header[at + i];
  return value;
}

}  // namespace

std::uint64_t state_row_sum(std::string_view key, std::string_view value) {
  std::string covered;
  covered.reserve(8 + key.size() + value.size());
  for (unsigned shift = 0; shift < 64; shift += 8) {
    covered.push_back(static_cast<char>((static_cast<std::uint64_t>(key.size()) >> shift) & 0xff));
  }
  covered.append(key).append(value);
  return hash::xxh3(as_bytes(covered));
}

/// No lock: of several creators each fills a database of its own, and the first link wins. So one that was stopped
/// holds nobody.
Status create_database(Runtime& runtime, const std::string& path, const std::string& store_id) {
  const std::string folder = folder_of(path);
  if (access(folder.c_str(), W_OK) != 0) return errno_status(errno, "create a catalog in", folder);
  struct stat info {};
  // A WAL without its database holds what somebody was told is durable; a new database would swallow or destroy it.
  if (stat((path + "-wal").c_str(), &info) == 0 && info.st_size > 0 && stat(path.c_str(), &info) != 0) {
    return not_ours(path, "the database is missing, but its log " + path + "-wal is there");
  }
  Status status;
  for (int attempt = 0; attempt < kLinkAttempts; ++attempt) {
    if (stat(path.c_str(), &info) == 0) return Status();
    const std::string temporary = path + ".new-" + runtime.random_hex(8);
    SY_POINT(runtime, "log.create.begin");
    status = fill_database(temporary, store_id);
    if (!status.ok()) {
      // Whoever was first removes the others' unfinished files in any order, and SQLite then says many things: what
      // counts is that the database is there.
      remove_temporary(temporary);
      if (stat(path.c_str(), &info) == 0) return Status();
      return std::move(status).annotate("creating", path);
    }
    SY_POINT(runtime, "log.create.before_link");
    int linked = link(temporary.c_str(), path.c_str());
    if (linked != 0 && (errno == EPERM || errno == EOPNOTSUPP)) {
      linked = renameat2(AT_FDCWD, temporary.c_str(), AT_FDCWD, path.c_str(), RENAME_NOREPLACE);  // no hard links here
    }
    const int error = errno;
    remove_temporary(temporary);
    if (linked == 0 || error == EEXIST) {
      // Only now: what another creator still writes is of no use to him any more.
      remove_leftovers(path);
      SY_POINT(runtime, "log.create.after_link");
      return sync_folder(folder);
    }
    status = errno_status(error, "link", path);
    if (error != ENOENT) return status;
  }
  return status;
}

Status check_files(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) {
    Status status = errno_status(errno, "stat", path);
    struct stat wal {};
    const bool wal_is_there = stat((path + "-wal").c_str(), &wal) == 0 && wal.st_size > 0;
    if (status.code() != Code::kNotFound || !wal_is_there) return status;
    // Somebody may have made both meanwhile, the database first.
    if (stat(path.c_str(), &info) != 0) {
      return not_ours(path, "the database is missing, but its log " + path + "-wal is there");
    }
  }
  if (S_ISDIR(info.st_mode)) return not_ours(path, "a folder, wanted a database file");
  if (!S_ISREG(info.st_mode)) return not_ours(path, "no regular file, wanted a database file");
  if (info.st_size == 0) return not_ours(path, "0 bytes, wanted a database");
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (fd.get() < 0) return errno_status(errno, "open", path);
  std::array<unsigned char, kSqliteHeaderBytes> header{};
  const ssize_t got = pread(fd.get(), header.data(), header.size(), 0);
  if (got < 0) return errno_status(errno, "read", path);
  const std::string_view text(reinterpret_cast<const char*>(header.data()), static_cast<std::size_t>(got));
  if (!text.starts_with(kSqliteMagic.substr(0, text.size()))) return not_ours(path, "not a SQLite database");
  if (text.size() < kSqliteHeaderBytes) {
    return not_ours(path, "cut off at " + std::to_string(info.st_size) + " bytes, inside its header");
  }
  struct stat wal {};
  const bool wal_has_content = stat((path + "-wal").c_str(), &wal) == 0 && wal.st_size > 0;
  if (!wal_has_content) {
    // With a WAL the file may rightly be shorter or longer than its header says until the next checkpoint.
    const std::uint64_t raw_page = big_endian(header, 16, 2);
    const std::uint64_t page = raw_page == 1 ? 65536 : raw_page;
    const std::uint64_t wanted = page * big_endian(header, 28, 4);
    // The size last: a checkpoint that came to its end meanwhile has made the file as long as the header says.
    if (fstat(fd.get(), &info) != 0) return errno_status(errno, "stat", path);
    if (static_cast<std::uint64_t>(info.st_size) < wanted) {
      return not_ours(path, "cut off: " + std::to_string(info.st_size) + " bytes, wanted " + std::to_string(wanted));
    }
  }
  return Status();
}

Result<std::string> store_id_of(Connection& connection) {
  SY_ASSIGN_OR_RETURN(const auto application, connection.find_integer("PRAGMA application_id"));
  if (application.value_or(0) != kApplicationId) {
    return not_ours(connection.path(), "a database of another program (application id " +
                                           std::to_string(application.value_or(0)) + ", wanted " +
                                           std::to_string(kApplicationId) + ")");
  }
  SY_ASSIGN_OR_RETURN(const auto version, connection.find_integer("PRAGMA user_version"));
  if (version.value_or(0) > kUserVersion) {
    return Status(Code::kUnavailable,
                  connection.path() + ": layout " + std::to_string(version.value_or(0)) + " is newer than " +
                      std::to_string(kUserVersion),
                  "use the newer steelyard that wrote it");
  }
  if (version.value_or(0) != kUserVersion) {
    return not_ours(connection.path(),
                    "layout " + std::to_string(version.value_or(0)) + ", wanted " + std::to_string(kUserVersion));
  }
  SY_ASSIGN_OR_RETURN(Cursor cursor, connection.prepare("SELECT value FROM meta WHERE name = 'store_id'"));
  SY_ASSIGN_OR_RETURN(const bool row, cursor.step());
  if (!row) return not_ours(connection.path(), "no store id in its meta table");
  return std::string(cursor.blob(0));
}

Status check_database(Connection& connection, const std::string& store_id) {
  SY_ASSIGN_OR_RETURN(const std::string found, store_id_of(connection));
  if (found != store_id) {
    return Status(Code::kCorrupt, connection.path() + ": belongs to store " + found + ", wanted " + store_id,
                  "put the catalog of this store back, or set --cold-path to the cold tier that it belongs to");
  }
  return Status();
}

Result<bool> state_schema_is_ours(Connection& connection) {
  SY_ASSIGN_OR_RETURN(const auto schema, connection.find_integer("SELECT value FROM meta WHERE name = 'state_schema'"));
  if (schema.value_or(0) > kStateSchema) {
    return Status(Code::kUnavailable,
                  connection.path() + ": state schema " + std::to_string(schema.value_or(0)) + " is newer than " +
                      std::to_string(kStateSchema),
                  "use the newer steelyard that wrote it");
  }
  return schema.value_or(0) == kStateSchema;
}

}  // namespace steelyard::oplog::sqlite
