// The rows of an open transaction: the state as a view, the log's rows, the sequence.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "metadata/state.h"
#include "oplog/op_log.h"
#include "oplog/sqlite/connection.h"

namespace steelyard::oplog::sqlite {

/// The state table as the transaction of `connection` sees it. Valid while that transaction lasts. Every value read is
/// checked against its sum (CORRUPT, naming the row).
class SqliteView final : public metadata::StateView {
 public:
  SqliteView(Connection& connection, std::uint64_t sequence) : connection_(connection), sequence_(sequence) {}
  std::uint64_t sequence() const override { return sequence_; }
  Result<std::optional<std::string>> get(std::string_view key) const override;
  Status scan(std::string_view from, std::string_view to, bool descending, const Visitor& visit) const override;

 private:
  Connection& connection_;
  std::uint64_t sequence_;
};

/// The sequence of the last append; the first read of a transaction, so it also fixes what the transaction sees.
Result<std::uint64_t> current_sequence(Connection& connection);
/// Where the log ends, and up to where its rows are in the state table. Also fit for the first read of a transaction.
struct Head {
  std::uint64_t sequence = 0;
  std::string request_id;  ///< of the last append; empty where the log has no row
  std::uint64_t folded = 0;
};
Result<Head> find_head(Connection& connection);
/// Appends up to here were trimmed, or came with a restore.
Result<std::uint64_t> base_sequence(Connection& connection);

/// Sets a number of the meta table.
Status set_meta(Connection& connection, std::string_view name, std::uint64_t value);

/// Brings the rows of the state table to the given values.
Status put_row(Connection& connection, std::string_view key, std::optional<std::string_view> value);
Status put_rows(Connection& connection, const StateView& state);
Status put_append(Connection& connection, std::uint64_t sequence, std::string_view request_id, std::string_view batch);

/// Checked and decoded, without gaps (CORRUPT).
Result<std::vector<Append>> read_appends(Connection& connection, std::uint64_t after, std::size_t limit);
/// The request id of an append, as stored.
Result<std::optional<std::string>> find_request_id(Connection& connection, std::uint64_t sequence);

/// The newest snapshot that was read back.
struct SnapshotRow {
  std::int64_t id = 0;
  std::uint64_t sequence = 0;
};
Result<std::optional<SnapshotRow>> find_newest_snapshot(Connection& connection);
/// Reads every part and checks every section's SHA-256.
Result<Snapshot> load_snapshot(Connection& connection, const SnapshotRow& row);

}  // namespace steelyard::oplog::sqlite
