#include "oplog/sqlite/rows.h"

#include <algorithm>
#include <bit>

#include "base/utf8.h"
#include "hash/sha256.h"
#include "hash/xxh3.h"
#include "oplog/log_row.h"
#include "oplog/sqlite/layout.h"

namespace steelyard::oplog::sqlite {
namespace {

constexpr const char* kRestoreHint =
    "restore the catalog from its newest snapshot copy (steelyard recover), or from a backup";
constexpr const char* kRebuildHint =
    "rebuild the state tables from the log (steelyard doctor says how), or restore a snapshot copy (steelyard recover)";
constexpr std::int64_t kScanPageFirst = 16;
constexpr std::int64_t kScanPageMax = 1024;

Status damaged(const Connection& connection, std::string what, const char* hint = kRestoreHint) {
  return Status(Code::kCorrupt, connection.path() + ": " + std::move(what), hint);
}

Status check_state_row(const Connection& connection, std::string_view key, std::string_view value, std::int64_t sum) {
  const std::uint64_t found = state_row_sum(key, value);
  const auto wanted = std::bit_cast<std::uint64_t>(sum);
  if (found == wanted) return Status();
  return damaged(connection,
                 "state row " + printable(key) + ": checksum " + hash::xxh3_hex(found) + " of the bytes read, wanted " +
                     hash::xxh3_hex(wanted),
                 kRebuildHint);
}

Result<std::uint64_t> checked_sequence(const Connection& connection, std::int64_t value) {
  if (value < 0 || static_cast<std::uint64_t>(value) > kSequenceMax) {
    return damaged(connection, "sequence " + std::to_string(value) + " is out of range");
  }
  return static_cast<std::uint64_t>(value);
}

}  // namespace

const std::optional<std::string>* ReadRows::find(std::string_view key) const {
  const auto found = rows_.find(key);
  return found == rows_.end() ? nullptr : &found->second;
}

const std::vector<StateRow>* ReadRows::find_range(std::string_view from, std::string_view to) const {
  const auto found = ranges_.find(from);
  return found == ranges_.end() || found->second.to != to ? nullptr : &found->second.rows;
}

bool ReadRows::make_room(std::size_t bytes) {
  constexpr std::size_t kBytesBesides = 128;  // of a node and its strings
  constexpr std::size_t kShareOfOne = 8;
  bytes += kBytesBesides;
  if (bytes > kBytesMax / kShareOfOne) return false;
  if (bytes_ + bytes > kBytesMax) clear();
  bytes_ += bytes;
  return true;
}

void ReadRows::add(std::string_view key, const std::optional<std::string>& value) {
  if (!make_room(key.size() + (value ? value->size() : 0))) return;
  rows_.insert_or_assign(std::string(key), value);
}

void ReadRows::add_range(std::string_view from, std::string_view to, const std::vector<StateRow>& rows) {
  std::size_t bytes = from.size() + to.size();
  for (const StateRow& row : rows) bytes += row.key.size() + row.value.size();
  if (!make_room(bytes)) return;
  ranges_.insert_or_assign(std::string(from), Range{std::string(to), rows});
}

void ReadRows::clear() {
  rows_.clear();
  ranges_.clear();
  bytes_ = 0;
}

Result<std::optional<std::string>> SqliteView::get(std::string_view key) const {
  if (known_ == nullptr) return read(key);
  if (const auto* known = known_->find(key)) return *known;
  SY_ASSIGN_OR_RETURN(auto row, read(key));
  known_->add(key, row);
  return row;
}

Result<std::optional<std::string>> SqliteView::read(std::string_view key) const {
  SY_ASSIGN_OR_RETURN(Cursor cursor, connection_.prepare("SELECT value, sum FROM state WHERE key = ?"));
  SY_ASSIGN_OR_RETURN(const bool found, cursor.bind_blob(1, key).step());
  if (!found) return std::optional<std::string>();
  const std::string_view value = cursor.blob(0);
  SY_RETURN_IF_ERROR(check_state_row(connection_, key, value, cursor.integer(1)));
  return std::optional<std::string>(value);
}

Result<std::vector<StateRow>> SqliteView::read_page(std::string_view low, std::optional<std::string_view> high,
                                                    bool descending, std::int64_t limit) const {
  static constexpr const char* kUp = "SELECT key, value, sum FROM state WHERE key >= ? ORDER BY key LIMIT ?";
  static constexpr const char* kUpTo =
      "SELECT key, value, sum FROM state WHERE key >= ? AND key < ? ORDER BY key LIMIT ?";
  static constexpr const char* kDown = "SELECT key, value, sum FROM state WHERE key >= ? ORDER BY key DESC LIMIT ?";
  static constexpr const char* kDownTo =
      "SELECT key, value, sum FROM state WHERE key >= ? AND key < ? ORDER BY key DESC LIMIT ?";
  const char* sql = descending ? (high ? kDownTo : kDown) : (high ? kUpTo : kUp);
  SY_ASSIGN_OR_RETURN(Cursor cursor, connection_.prepare(sql));
  cursor.bind_blob(1, low);
  int next = 2;
  if (high) cursor.bind_blob(next++, *high);
  cursor.bind(next, limit);
  std::vector<StateRow> rows;
  while (true) {
    SY_ASSIGN_OR_RETURN(const bool more, cursor.step());
    if (!more) return rows;
    const std::string_view key = cursor.blob(0);
    const std::string_view value = cursor.blob(1);
    SY_RETURN_IF_ERROR(check_state_row(connection_, key, value, cursor.integer(2)));
    rows.push_back(StateRow{std::string(key), std::string(value)});
  }
}

Result<std::vector<StateRow>> SqliteView::read_first_page(std::string_view from, std::optional<std::string_view> to,
                                                          bool descending) const {
  if (known_ == nullptr || !to || descending) return read_page(from, to, descending, kScanPageFirst);
  if (const auto* known = known_->find_range(from, *to)) return *known;
  SY_ASSIGN_OR_RETURN(std::vector<StateRow> rows, read_page(from, to, descending, kScanPageFirst));
  if (static_cast<std::int64_t>(rows.size()) < kScanPageFirst) known_->add_range(from, *to, rows);
  return rows;
}

Status SqliteView::scan(std::string_view from, std::string_view to, bool descending, const Visitor& visit) const {
  if (!to.empty() && to <= from) return Status();
  // Read in pages that grow, so that the visitor may read the view itself and one that stops early costs little.
  std::string low(from);
  std::optional<std::string> high;
  if (!to.empty()) high = to;
  std::int64_t page = kScanPageFirst;
  SY_ASSIGN_OR_RETURN(std::vector<StateRow> rows, read_first_page(low, high, descending));
  while (true) {
    for (const StateRow& row : rows) {
      if (!visit(row.key, row.value)) return Status();
    }
    if (static_cast<std::int64_t>(rows.size()) < page) return Status();
    if (descending) {
      high = rows.back().key;
      if (*high <= low) return Status();
    } else {
      low = rows.back().key;
      low.push_back('\0');  // the least key after it
    }
    page = std::min(4 * page, kScanPageMax);
    SY_ASSIGN_OR_RETURN(rows, read_page(low, high, descending, page));
  }
}

Result<std::uint64_t> current_sequence(Connection& connection) {
  SY_ASSIGN_OR_RETURN(const auto last, connection.find_integer("SELECT max(seq) FROM log"));
  if (last) return checked_sequence(connection, *last);
  return base_sequence(connection);
}

Result<std::uint64_t> base_sequence(Connection& connection) {
  SY_ASSIGN_OR_RETURN(const auto base, connection.find_integer("SELECT value FROM meta WHERE name = 'base'"));
  if (!base) return damaged(connection, "no base sequence in its meta table");
  return checked_sequence(connection, *base);
}

Result<Head> find_head(Connection& connection) {
  Head head;
  std::optional<std::int64_t> folded;
  {
    SY_ASSIGN_OR_RETURN(Cursor cursor,
                        connection.prepare("SELECT seq, request_id, (SELECT value FROM meta WHERE name = 'folded') "
                                           "FROM log ORDER BY seq DESC LIMIT 1"));
    SY_ASSIGN_OR_RETURN(const bool found, cursor.step());
    if (found) {
      SY_ASSIGN_OR_RETURN(head.sequence, checked_sequence(connection, cursor.integer(0)));
      head.request_id = cursor.blob(1);
      if (cursor.is_integer(2)) folded = cursor.integer(2);
    }
  }
  if (head.request_id.empty()) {
    SY_ASSIGN_OR_RETURN(head.sequence, base_sequence(connection));
    SY_ASSIGN_OR_RETURN(folded, connection.find_integer("SELECT value FROM meta WHERE name = 'folded'"));
  }
  if (!folded) return damaged(connection, "no folded sequence in its meta table", kRebuildHint);
  SY_ASSIGN_OR_RETURN(head.folded, checked_sequence(connection, *folded));
  if (head.folded <= head.sequence) return head;
  return damaged(connection, "the state table holds appends up to " + std::to_string(head.folded) +
                                 ", the log ends at " + std::to_string(head.sequence));
}

Status set_meta(Connection& connection, std::string_view name, std::uint64_t value) {
  SY_ASSIGN_OR_RETURN(Cursor cursor, connection.prepare("INSERT OR REPLACE INTO meta(name, value) VALUES(?, ?)"));
  return cursor.bind_text(1, name).bind(2, static_cast<std::int64_t>(value)).run();
}

Status put_row(Connection& connection, std::string_view key, std::optional<std::string_view> value) {
  if (!value) {
    SY_ASSIGN_OR_RETURN(Cursor cursor, connection.prepare("DELETE FROM state WHERE key = ?"));
    return cursor.bind_blob(1, key).run();
  }
  SY_ASSIGN_OR_RETURN(Cursor cursor,
                      connection.prepare("INSERT OR REPLACE INTO state(key, value, sum) VALUES(?, ?, ?)"));
  cursor.bind_blob(1, key).bind_blob(2, *value);
  return cursor.bind(3, std::bit_cast<std::int64_t>(state_row_sum(key, *value))).run();
}

Status put_rows(Connection& connection, const StateView& state) {
  Status put;
  SY_RETURN_IF_ERROR(state.scan({}, {}, false, [&](std::string_view key, std::string_view value) {
    put = put_row(connection, key, value);
    return put.ok();
  }));
  return put;
}

Status put_append(Connection& connection, std::uint64_t sequence, std::string_view request_id, std::string_view batch) {
  SY_ASSIGN_OR_RETURN(Cursor cursor,
                      connection.prepare("INSERT INTO log(seq, request_id, batch, sum) VALUES(?, ?, ?, ?)"));
  cursor.bind(1, static_cast<std::int64_t>(sequence)).bind_blob(2, request_id).bind_blob(3, batch);
  cursor.bind(4, std::bit_cast<std::int64_t>(row_sum(sequence, request_id, batch)));
  return cursor.run();
}

Result<std::vector<Append>> read_appends(Connection& connection, std::uint64_t after, std::size_t limit) {
  SY_ASSIGN_OR_RETURN(const std::uint64_t base, base_sequence(connection));
  if (after < base) {
    return Status(Code::kNotFound, connection.path() + ": resnapshot: appends up to " + std::to_string(base) +
                                       " were trimmed, wanted " + std::to_string(after + 1));
  }
  std::vector<Append> out;
  if (after > kSequenceMax) return out;
  SY_ASSIGN_OR_RETURN(
      Cursor cursor,
      connection.prepare("SELECT seq, request_id, batch, sum FROM log WHERE seq > ? ORDER BY seq LIMIT ?"));
  cursor.bind(1, static_cast<std::int64_t>(after));
  cursor.bind(2, static_cast<std::int64_t>(std::min<std::size_t>(limit, 1U << 20)));
  while (true) {
    SY_ASSIGN_OR_RETURN(const bool more, cursor.step());
    if (!more) return out;
    SY_ASSIGN_OR_RETURN(const std::uint64_t sequence, checked_sequence(connection, cursor.integer(0)));
    const std::uint64_t wanted = after + out.size() + 1;
    if (sequence != wanted) {
      return damaged(connection,
                     "log row " + std::to_string(wanted) + " is missing, found " + std::to_string(sequence));
    }
    auto append = decode_row(sequence, cursor.blob(1), cursor.blob(2), std::bit_cast<std::uint64_t>(cursor.integer(3)));
    if (!append.ok()) return std::move(append).status().annotate("reading", connection.path());
    out.push_back(std::move(*append));
  }
}

Result<std::optional<std::string>> find_request_id(Connection& connection, std::uint64_t sequence) {
  SY_ASSIGN_OR_RETURN(Cursor cursor, connection.prepare("SELECT request_id FROM log WHERE seq = ?"));
  SY_ASSIGN_OR_RETURN(const bool found, cursor.bind(1, static_cast<std::int64_t>(sequence)).step());
  if (!found) return std::optional<std::string>();
  return std::optional<std::string>(cursor.blob(0));
}

Result<std::optional<SnapshotRow>> find_newest_snapshot(Connection& connection) {
  SY_ASSIGN_OR_RETURN(
      Cursor cursor,
      connection.prepare("SELECT id, seq FROM snapshot WHERE complete = 1 ORDER BY seq DESC, id DESC LIMIT 1"));
  SY_ASSIGN_OR_RETURN(const bool found, cursor.step());
  if (!found) return std::optional<SnapshotRow>();
  SY_ASSIGN_OR_RETURN(const std::uint64_t sequence, checked_sequence(connection, cursor.integer(1)));
  return std::optional<SnapshotRow>(SnapshotRow{cursor.integer(0), sequence});
}

Result<Snapshot> load_snapshot(Connection& connection, const SnapshotRow& row) {
  Snapshot snapshot;
  snapshot.sequence = row.sequence;
  SY_ASSIGN_OR_RETURN(
      Cursor sections,
      connection.prepare("SELECT name, bytes, sha256 FROM snapshot_section WHERE id = ? ORDER BY name"));
  sections.bind(1, row.id);
  while (true) {
    SY_ASSIGN_OR_RETURN(const bool more, sections.step());
    if (!more) return snapshot;
    const std::string name(sections.blob(0));
    const std::int64_t wanted_bytes = sections.integer(1);
    SY_ASSIGN_OR_RETURN(
        Cursor parts,
        connection.prepare("SELECT part, data FROM snapshot_part WHERE id = ? AND name = ? ORDER BY part"));
    parts.bind(1, row.id).bind_text(2, name);
    std::string bytes;
    while (true) {
      SY_ASSIGN_OR_RETURN(const bool another, parts.step());
      if (!another) break;
      bytes += parts.blob(1);
    }
    const std::string which = "snapshot at " + std::to_string(row.sequence) + ", section " + printable(name) + ": ";
    if (wanted_bytes < 0 || bytes.size() != static_cast<std::uint64_t>(wanted_bytes)) {
      return damaged(connection,
                     which + std::to_string(bytes.size()) + " bytes, wanted " + std::to_string(wanted_bytes));
    }
    if (as_text(hash::sha256(as_bytes(bytes)).bytes) != sections.blob(2)) {
      return damaged(connection, which + "its SHA-256 does not match");
    }
    snapshot.sections.emplace(name, std::move(bytes));
  }
}

}  // namespace steelyard::oplog::sqlite
