#include "oplog/sqlite/connection.h"

#include <sqlite3.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <system_error>
#include <utility>

#include "oplog/sqlite/wal_index.h"

namespace steelyard::oplog::sqlite {
namespace {

constexpr const char* kFreeSpace =
    "free space on the store's disk and try again; `steelyard gc --gc-grace 0s` needs no room itself";

/// How long a statement waits inside SQLite for a lock that another process holds for a moment (recovery, checkpoint).
constexpr int kBusyMs = 5'000;

std::string file_uri(const std::string& path) {
  static constexpr char kHex[] = "0123456789ABCDEF";
  std::string out = "file:";
  for (const char c : path) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || (byte >= '0' && byte <= '9') ||
                       byte == '/' || byte == '.' || byte == '-' || byte == '_';
    if (plain) {
      out.push_back(c);
    } else {
      out.push_back('%');
      out.push_back(kHex[byte >> 4]);
      out.push_back(kHex[byte & 15]);
    }
  }
  return out;
}

}  // namespace

Cursor::Cursor(Cursor&& other) noexcept
    : connection_(other.connection_), sql_(other.sql_), statement_(std::exchange(other.statement_, nullptr)) {}

Cursor::~Cursor() {
  if (statement_ == nullptr) return;
  sqlite3_reset(statement_);
  sqlite3_clear_bindings(statement_);
  connection_->idle_.emplace_back(sql_, statement_);
}

Cursor& Cursor::bind(int index, std::int64_t value) {
  SY_CHECK(sqlite3_bind_int64(statement_, index, value) == SQLITE_OK, "bind of a number");
  return *this;
}

Cursor& Cursor::bind_blob(int index, std::string_view bytes) {
  // A null pointer would bind NULL, which is not the empty blob. Too large ones are refused before they come here.
  const char* data = bytes.data() == nullptr ? "" : bytes.data();
  SY_CHECK(sqlite3_bind_blob64(statement_, index, data, bytes.size(), SQLITE_STATIC) == SQLITE_OK, "bind of a blob");
  return *this;
}

Cursor& Cursor::bind_text(int index, std::string_view text) {
  const char* data = text.data() == nullptr ? "" : text.data();
  SY_CHECK(sqlite3_bind_text64(statement_, index, data, text.size(), SQLITE_STATIC, SQLITE_UTF8) == SQLITE_OK,
           "bind of a text");
  return *this;
}

Result<bool> Cursor::step() {
  const int code = sqlite3_step(statement_);
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  return connection_->error(code, sql_);
}

Status Cursor::run() {
  while (true) {
    SY_ASSIGN_OR_RETURN(const bool more, step());
    if (!more) return Status();
  }
}

std::int64_t Cursor::integer(int column) const { return sqlite3_column_int64(statement_, column); }

std::string_view Cursor::blob(int column) const {
  const void* data = sqlite3_column_blob(statement_, column);
  const int bytes = sqlite3_column_bytes(statement_, column);
  if (data == nullptr) return {};
  return {static_cast<const char*>(data), static_cast<std::size_t>(bytes)};
}

bool Cursor::is_integer(int column) const { return sqlite3_column_type(statement_, column) == SQLITE_INTEGER; }
bool Cursor::is_blob(int column) const { return sqlite3_column_type(statement_, column) == SQLITE_BLOB; }

Result<std::unique_ptr<Connection>> Connection::open(const std::string& path, Mode mode) {
  std::string uri = file_uri(path);
  int flags = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_URI | SQLITE_OPEN_EXRESCODE;
  switch (mode) {
    case Mode::kCreate:
      flags |= SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
      break;
    case Mode::kReadWrite:
      flags |= SQLITE_OPEN_READWRITE;
      break;
    case Mode::kReadOnly:
      flags |= SQLITE_OPEN_READONLY;
      break;
    case Mode::kImmutable:
      flags |= SQLITE_OPEN_READONLY;
      uri += "?immutable=1";
      break;
  }
  sqlite3* db = nullptr;
  const int code = sqlite3_open_v2(uri.c_str(), &db, flags, nullptr);
  std::unique_ptr<Connection> connection(new Connection(path, db));
  if (code != SQLITE_OK) return connection->error(code, "opening");
  sqlite3_busy_timeout(db, kBusyMs);
  reserve_wal_index(db);
  // Closing never checkpoints by itself: the log does it once, where it wrote. The WAL file stays, so that readers
  // without permission to make files find it.
  sqlite3_db_config(db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
  sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  if (mode == Mode::kReadWrite) {
    int persist = 1;
    sqlite3_file_control(db, "main", SQLITE_FCNTL_PERSIST_WAL, &persist);
  }
  SY_RETURN_IF_ERROR(
      // An append changes a page or two, so a checkpoint, which syncs twice more, comes every 600 appends or so (4
      // MiB). 32 MiB of pages stay in memory, as far as they are read: a state of 50,000 revisions or so.
      connection->execute("PRAGMA synchronous=FULL; PRAGMA cell_size_check=ON; PRAGMA temp_store=MEMORY; PRAGMA "
                          "wal_autocheckpoint=1000; PRAGMA cache_size=-32768;"));
  return connection;
}

Connection::~Connection() {
  for (const auto& [sql, statement] : idle_) sqlite3_finalize(statement);
  sqlite3_close_v2(db_);
}

Result<Cursor> Connection::prepare(const char* sql) {
  for (auto idle = idle_.rbegin(); idle != idle_.rend(); ++idle) {
    if (idle->first != sql) continue;
    sqlite3_stmt* const statement = idle->second;
    idle_.erase(std::next(idle).base());
    return Cursor(*this, sql, statement);
  }
  sqlite3_stmt* statement = nullptr;
  const int code = sqlite3_prepare_v3(db_, sql, -1, SQLITE_PREPARE_PERSISTENT, &statement, nullptr);
  if (code != SQLITE_OK) return error(code, sql);
  return Cursor(*this, sql, statement);
}

Status Connection::execute(const char* sql) {
  const int code = sqlite3_exec(db_, sql, nullptr, nullptr, nullptr);
  return code == SQLITE_OK ? Status() : error(code, sql);
}

Result<std::optional<std::int64_t>> Connection::find_integer(const char* sql) {
  SY_ASSIGN_OR_RETURN(Cursor cursor, prepare(sql));
  SY_ASSIGN_OR_RETURN(const bool row, cursor.step());
  if (!row || !cursor.is_integer(0)) return std::optional<std::int64_t>();
  return std::optional<std::int64_t>(cursor.integer(0));
}

Status Connection::begin_immediate(int wait_ms) {
  sqlite3_busy_timeout(db_, wait_ms);
  auto cursor = prepare("BEGIN IMMEDIATE");
  Status status = cursor.ok() ? cursor->run() : std::move(cursor).status();
  sqlite3_busy_timeout(db_, kBusyMs);
  if (!status.ok()) rollback();
  return status;
}

Status Connection::begin_read() {
  SY_ASSIGN_OR_RETURN(Cursor cursor, prepare("BEGIN"));
  return cursor.run();
}

Status Connection::commit() {
  SY_ASSIGN_OR_RETURN(Cursor cursor, prepare("COMMIT"));
  return cursor.run();
}

void Connection::rollback() noexcept {
  if (sqlite3_get_autocommit(db_) != 0) return;
  // Kept like others: every read ends with it.
  if (auto cursor = prepare("ROLLBACK"); cursor.ok() && cursor->run().ok()) return;
  sqlite3_exec(db_, "ROLLBACK", nullptr, nullptr, nullptr);
}

Status Connection::checkpoint(bool truncate, int wait_ms) {
  sqlite3_busy_timeout(db_, wait_ms);
  const int mode = truncate ? SQLITE_CHECKPOINT_TRUNCATE : SQLITE_CHECKPOINT_FULL;
  int frames = 0;
  int moved = 0;
  const int code = sqlite3_wal_checkpoint_v2(db_, "main", mode, &frames, &moved);
  sqlite3_busy_timeout(db_, kBusyMs);
  if (code != SQLITE_OK) return error(code, "moving the WAL into the database");
  if (moved < frames) {
    return Status(Code::kBusy, path_ + ": " + std::to_string(frames - moved) + " WAL frames are held by readers",
                  "end what reads the store and try again");
  }
  return Status();
}

Status Connection::error(int code, std::string_view doing) const {
  std::string message = path_ + ": " + std::string(doing) + ": ";
  message += db_ != nullptr ? sqlite3_errmsg(db_) : sqlite3_errstr(code);
  message += " (SQLite code " + std::to_string(code);
  const int primary = code & 0xff;
  int system = 0;
  if (db_ != nullptr && (primary == SQLITE_CANTOPEN || primary == SQLITE_IOERR)) system = sqlite3_system_errno(db_);
  if (system != 0) message.append(", ").append(std::generic_category().message(system));
  message += ")";
  if (system == ENOSPC || system == EDQUOT || system == EFBIG) {
    return Status(Code::kNoSpace, std::move(message), kFreeSpace);
  }
  switch (primary) {
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    // The one writer there is gives every row a number of its own: a page was lost.
    case SQLITE_CONSTRAINT:
      return Status(Code::kCorrupt, std::move(message),
                    "restore the catalog from its newest snapshot copy (steelyard recover), or from a backup");
    case SQLITE_FULL:
      return Status(Code::kNoSpace, std::move(message), kFreeSpace);
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_PROTOCOL:
      return Status(Code::kBusy, std::move(message),
                    "another process holds the catalog's locks and does not go on; `fuser " + path_ +
                        "` names those that have it open: end or continue the one that stands still, then try again");
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH:
      return Status(Code::kUnauthorized, std::move(message), "give write permission on the store's folder");
    case SQLITE_CANTOPEN:
    case SQLITE_IOERR:
    case SQLITE_NOLFS:
      return Status(Code::kUnavailable, std::move(message), "check the store's disk and permissions");
    case SQLITE_TOOBIG:
      return Status(Code::kInvalidArgument, std::move(message), "split the change");
    default:
      return Status(Code::kInternal, std::move(message));
  }
}

}  // namespace steelyard::oplog::sqlite
