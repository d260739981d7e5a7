// The rows of an open transaction: the state as a view, the log's rows, the sequence.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "metadata/state.h"
#include "oplog/op_log.h"
#include "oplog/sqlite/connection.h"

namespace steelyard::oplog::sqlite {

struct StateRow {
  std::string key;
  std::string value;
};

/// Rows of the state table as they were read, absent ones too, and short ranges of them: what every command asks for is
/// read once. Whoever holds them forgets them when the table may have changed.
class ReadRows {
 public:
  /// Null: not read yet.
  const std::optional<std::string>* find(std::string_view key) const;
  /// All rows of the range, in key order; null: not read yet.
  const std::vector<StateRow>* find_range(std::string_view from, std::string_view to) const;
  /// Both forget all others first when they have become many, and do not keep what is large by itself.
  void add(std::string_view key, const std::optional<std::string>& value);
  void add_range(std::string_view from, std::string_view to, const std::vector<StateRow>& rows);
  void clear();

 private:
  static constexpr std::size_t kBytesMax = 1U << 20;

  /// False: it would take too much of it.
  bool make_room(std::size_t bytes);

  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view key) const { return std::hash<std::string_view>()(key); }
  };
  template <typename Value>
  using ByKey = std::unordered_map<std::string, Value, Hash, std::equal_to<>>;

  ByKey<std::optional<std::string>> rows_;
  struct Range {
    std::string to;
    std::vector<StateRow> rows;
  };
  ByKey<Range> ranges_;  ///< by where they begin; one each
  std::size_t bytes_ = 0;
};

/// The state table as the transaction of `connection` sees it. Valid while that transaction lasts. Every value read is
/// checked against its sum (CORRUPT, naming the row). What is in `known`, if it is given, is taken from there, and what
/// is read is added to it.
class SqliteView final : public metadata::StateView {
 public:
  SqliteView(Connection& connection, std::uint64_t sequence, ReadRows* known = nullptr)
      : connection_(connection), sequence_(sequence), known_(known) {}
  std::uint64_t sequence() const override { return sequence_; }
  Result<std::optional<std::string>> get(std::string_view key) const override;
  Status scan(std::string_view from, std::string_view to, bool descending, const Visitor& visit) const override;

 private:
  Result<std::optional<std::string>> read(std::string_view key) const;
  /// Rows with low <= key < high.
  Result<std::vector<StateRow>> read_page(std::string_view low, std::optional<std::string_view> high, bool descending,
                                          std::int64_t limit) const;
  Result<std::vector<StateRow>> read_first_page(std::string_view from, std::optional<std::string_view> to,
                                                bool descending) const;

  Connection& connection_;
  std::uint64_t sequence_;
  ReadRows* known_;
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
