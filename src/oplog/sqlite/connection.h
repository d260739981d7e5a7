// One connection to the catalog's database, with its prepared statements. The only place that knows SQLite's API.
//
// Thread-compatible: one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"

struct sqlite3;
struct sqlite3_stmt;

namespace steelyard::oplog::sqlite {

class Connection;

/// A statement in use: bind, then step. Goes back to its connection, reset, when it is destroyed.
class Cursor {
 public:
  Cursor(Cursor&& other) noexcept;
  Cursor& operator=(Cursor&&) = delete;
  ~Cursor();

  /// Parameters count from 1. Bytes must stay alive until the cursor is destroyed.
  Cursor& bind(int index, std::int64_t value);
  Cursor& bind_blob(int index, std::string_view bytes);
  Cursor& bind_text(int index, std::string_view text);

  /// True: there is a row.
  Result<bool> step();
  /// Steps to the end.
  Status run();

  /// Columns count from 0; bytes are valid until the next step.
  std::int64_t integer(int column) const;
  std::string_view blob(int column) const;
  bool is_integer(int column) const;
  bool is_blob(int column) const;

 private:
  friend class Connection;
  Cursor(Connection& connection, const char* sql, sqlite3_stmt* statement)
      : connection_(&connection), sql_(sql), statement_(statement) {}

  Connection* connection_;
  const char* sql_;
  sqlite3_stmt* statement_;
};

class Connection {
 public:
  enum class Mode {
    kCreate,  ///< makes the file
    kReadWrite,
    kReadOnly,   ///< beside writers
    kImmutable,  ///< the file cannot change
  };
  static Result<std::unique_ptr<Connection>> open(const std::string& path, Mode mode);
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  /// Does not checkpoint.
  ~Connection();

  /// `sql` must be a string that outlives the connection; statements are kept by its address.
  Result<Cursor> prepare(const char* sql);
  /// Statements that give no rows of interest, not kept.
  Status execute(const char* sql);
  /// The first column of the first row, kept like prepare().
  Result<std::optional<std::int64_t>> find_integer(const char* sql);

  /// Begins a writing transaction; waits for other writers at most `wait_ms` (BUSY). Long waits are made of short ones,
  /// so that a snapshot that moved meanwhile is taken afresh.
  Status begin_immediate(int wait_ms);
  Status begin_read();
  /// COMMIT. After an error the transaction's fate is open and the connection must not be used again.
  Status commit();
  /// Ends a transaction without effect; no error where there is none.
  void rollback() noexcept;

  /// Moves the WAL's content into the database. `truncate`: and empties the WAL. BUSY when readers or writers are in
  /// the way for longer than `wait_ms`.
  Status checkpoint(bool truncate, int wait_ms);

  const std::string& path() const { return path_; }

 private:
  friend class Cursor;
  Connection(std::string path, sqlite3* db) : path_(std::move(path)), db_(db) {}
  Status error(int code, std::string_view doing) const;

  std::string path_;
  sqlite3* db_;
  /// By the address of their text, the last used last: the next one is most often among the last few.
  std::vector<std::pair<const char*, sqlite3_stmt*>> idle_;
};

}  // namespace steelyard::oplog::sqlite
