// The tail: the appends that are in the log and not yet in the state table, as changes in memory.
//
// An append is durable by its log row alone. What it does to the state is kept here, for each connection, and put into
// the table for many appends at once: then a page of the table is written once and not for each of them, and an append
// costs little more than its row. The state is the table with the tail over it. The tail is bounded, so that whoever
// opens the log has little to read; and it is put into the table early where several processes write, so that they do
// not read each other's appends one by one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "metadata/overlay.h"
#include "oplog/codec.h"
#include "oplog/sqlite/connection.h"
#include "oplog/sqlite/rows.h"

namespace steelyard::oplog::sqlite {

/// Thread-compatible; one for each connection. Every call is made inside a transaction of that connection.
class Tail {
 public:
  /// Appends in the tail before they are folded, and their bytes.
  static constexpr std::uint64_t kAppendsMax = 64;
  static constexpr std::size_t kBytesMax = 1U << 20;
  /// Of those, appends of others: each had to be read and decoded here, and would be by everybody who writes next.
  static constexpr std::uint64_t kReadMax = 4;

  /// Reads what the transaction sees and the tail does not hold yet. Returns the sequence of the last append. After an
  /// error the tail is empty. CORRUPT for damaged rows, as read_appends.
  Result<std::uint64_t> catch_up(Connection& connection, const StateCodec& codec);

  /// The same, and cheaper where no other connection has written since the last call.
  Result<std::uint64_t> follow(Connection& connection, const StateCodec& codec);
  /// The connection writes otherwise than by add() and fold(): what it does itself does not show as a change made by
  /// others.
  void unfollow() { version_.reset(); }

  /// Adds an append that the transaction has just put into the log.
  void add(std::uint64_t sequence, std::string_view request_id, std::vector<metadata::RowChange> changes);

  /// The tail has grown so long that the writer who holds it folds.
  bool is_due() const;
  /// Puts the changes into the state table, in the open writing transaction.
  Status fold(Connection& connection);

  /// Forgets everything; for a transaction that was rolled back after add() or fold().
  void clear();

  const metadata::ChangedRows& changes() const { return changes_; }
  /// Rows of the table, read after follow() by who is going to write.
  ReadRows& table_rows() { return table_rows_; }

 private:
  Result<std::uint64_t> catch_up_from(Connection& connection, const StateCodec& codec, std::uint64_t sequence);
  void put(std::uint64_t sequence, std::string_view request_id, std::vector<metadata::RowChange> changes);

  std::optional<std::int64_t> version_;  ///< SQLite's data_version at which the tail was whole; set by follow()
  std::uint64_t folded_ = 0;             ///< the table holds appends up to here
  std::uint64_t sequence_ = 0;           ///< the tail holds them up to here
  std::string request_id_;               ///< of the last one in the tail
  std::uint64_t read_ = 0;               ///< how many of them were read, not added
  std::size_t bytes_ = 0;
  metadata::ChangedRows changes_;
  ReadRows table_rows_;  ///< of the table at `version_`
};

}  // namespace steelyard::oplog::sqlite
