// Snapshots, trimming, restoring and rebuilding of the SQLite log.
//
// A snapshot's protocol: its sections are taken in one reading transaction, written in parts by as many transactions as
// it takes (so that other writers get turns), read back and decoded on a connection of its own, and only then marked
// complete; the same transaction removes older ones, also those that other writers are still at: whoever finds its row
// gone was overtaken by a newer snapshot, which is then its answer. A crash leaves parts without the mark, which the
// next snapshot removes.
#include <algorithm>

#include "hash/sha256.h"
#include "oplog/log_row.h"
#include "oplog/replay.h"
#include "oplog/sqlite/layout.h"
#include "oplog/sqlite/rows.h"
#include "oplog/sqlite/sqlite_log.h"

namespace steelyard::oplog::sqlite {
namespace {

constexpr std::size_t kPartBytes = 1U << 20;
constexpr std::size_t kPartsPerTransaction = 16;
/// Appends removed by one transaction of trim.
constexpr std::uint64_t kTrimStep = 5'000;
constexpr std::size_t kRebuildPage = 256;

struct Part {
  const std::string* name;
  std::int64_t number;
  std::string_view data;
};

std::vector<Part> parts_of(const Snapshot& snapshot) {
  std::vector<Part> parts;
  for (const auto& [name, bytes] : snapshot.sections) {
    const std::string_view text(bytes);
    std::int64_t number = 0;
    for (std::size_t at = 0; at < text.size(); at += kPartBytes) {
      parts.push_back(Part{&name, number++, text.substr(at, kPartBytes)});
    }
  }
  return parts;
}

Status put_part(Connection& connection, std::int64_t id, const Part& part) {
  SY_ASSIGN_OR_RETURN(Cursor cursor,
                      connection.prepare("INSERT INTO snapshot_part(id, name, part, data) VALUES(?, ?, ?, ?)"));
  cursor.bind(1, id).bind_text(2, *part.name).bind(3, part.number).bind_blob(4, part.data);
  return cursor.run();
}

Status put_heads(Connection& connection, std::int64_t id, const Snapshot& snapshot) {
  for (const auto& [name, bytes] : snapshot.sections) {
    const Digest digest = hash::sha256(as_bytes(bytes));
    SY_ASSIGN_OR_RETURN(Cursor cursor, connection.prepare("INSERT INTO snapshot_section VALUES(?, ?, ?, ?)"));
    cursor.bind(1, id).bind_text(2, name).bind(3, static_cast<std::int64_t>(bytes.size()));
    SY_RETURN_IF_ERROR(cursor.bind_blob(4, as_text(digest.bytes)).run());
  }
  return Status();
}

Result<std::int64_t> put_snapshot_row(Connection& connection, std::uint64_t sequence, bool complete) {
  {
    SY_ASSIGN_OR_RETURN(Cursor cursor, connection.prepare("INSERT INTO snapshot(seq, complete) VALUES(?, ?)"));
    cursor.bind(1, static_cast<std::int64_t>(sequence)).bind(2, complete ? 1 : 0);
    SY_RETURN_IF_ERROR(cursor.run());
  }
  SY_ASSIGN_OR_RETURN(const auto id, connection.find_integer("SELECT last_insert_rowid()"));
  return id.value_or(0);
}

/// Whether nobody has removed this snapshot, which was begun here: an id is never used again.
Result<bool> is_there(Connection& connection, std::int64_t id) {
  SY_ASSIGN_OR_RETURN(Cursor cursor, connection.prepare("SELECT 1 FROM snapshot WHERE id = ?"));
  return cursor.bind(1, id).step();
}

/// Removes every snapshot at or before `sequence` but `keep_id`, unfinished ones too.
Status remove_older(Connection& connection, std::uint64_t sequence, std::int64_t keep_id) {
  for (const char* sql :
       {"DELETE FROM snapshot_part WHERE id IN (SELECT id FROM snapshot WHERE seq <= ?1 AND id <> ?2)",
        "DELETE FROM snapshot_section WHERE id IN (SELECT id FROM snapshot WHERE seq <= ?1 AND id <> ?2)",
        "DELETE FROM snapshot WHERE seq <= ?1 AND id <> ?2"}) {
    SY_ASSIGN_OR_RETURN(Cursor cursor, connection.prepare(sql));
    SY_RETURN_IF_ERROR(cursor.bind(1, static_cast<std::int64_t>(sequence)).bind(2, keep_id).run());
  }
  return Status();
}

}  // namespace

Result<std::int64_t> SqliteLog::begin_snapshot(std::uint64_t sequence) {
  std::int64_t id = 0;
  SY_RETURN_IF_ERROR(transact([&](Session& session) -> Status {
    SY_ASSIGN_OR_RETURN(id, put_snapshot_row(*session.connection, sequence, false));
    return Status();
  }));
  return id;
}

/// False: overtaken.
Result<bool> SqliteLog::put_snapshot_parts(std::int64_t id, const Snapshot& snapshot) {
  const std::vector<Part> parts = parts_of(snapshot);
  bool there = true;
  for (std::size_t at = 0; at < parts.size() && there; at += kPartsPerTransaction) {
    SY_POINT(runtime_, "log.snapshot.part");
    const auto put_some = [&](Session& session) -> Status {
      SY_ASSIGN_OR_RETURN(there, is_there(*session.connection, id));
      if (!there) return Status();
      for (std::size_t i = at; i < std::min(parts.size(), at + kPartsPerTransaction); ++i) {
        SY_RETURN_IF_ERROR(put_part(*session.connection, id, parts[i]));
      }
      return Status();
    };
    SY_RETURN_IF_ERROR(transact(put_some));
  }
  if (!there) return false;
  const auto put_rest = [&](Session& session) -> Status {
    SY_ASSIGN_OR_RETURN(there, is_there(*session.connection, id));
    return there ? put_heads(*session.connection, id, snapshot) : Status();
  };
  SY_RETURN_IF_ERROR(transact(put_rest));
  return there;
}

/// What stands in the database, against what was written. False: overtaken.
Result<bool> SqliteLog::read_back_snapshot(std::int64_t id, const Snapshot& snapshot) {
  SY_ASSIGN_OR_RETURN(const auto fresh, Connection::open(options_.path, Connection::Mode::kReadWrite));
  SY_RETURN_IF_ERROR(fresh->begin_read());
  SY_ASSIGN_OR_RETURN(const bool there, is_there(*fresh, id));
  if (!there) return false;
  SY_ASSIGN_OR_RETURN(const Snapshot again, load_snapshot(*fresh, SnapshotRow{id, snapshot.sequence}));
  fresh->rollback();
  if (again.sections != snapshot.sections) {
    return Status(Code::kCorrupt, options_.path + ": the snapshot at " + std::to_string(snapshot.sequence) +
                                      " reads back with other sections than were written");
  }
  SY_RETURN_IF_ERROR(state_of(again, codec_).status());
  return true;
}

/// Marks it complete. Gives the sequence of the newest snapshot that is: a faster writer's may be there.
Result<std::uint64_t> SqliteLog::complete_snapshot(std::int64_t id, std::uint64_t sequence) {
  const auto complete = [&](Session& session) -> Status {
    Connection& connection = *session.connection;
    SY_ASSIGN_OR_RETURN(const auto newest, find_newest_snapshot(connection));
    if (newest && newest->sequence >= sequence) {
      sequence = newest->sequence;
      return Status();
    }
    {
      SY_ASSIGN_OR_RETURN(Cursor cursor,
                          connection.prepare("UPDATE snapshot SET complete = 1 WHERE id = ? RETURNING id"));
      SY_ASSIGN_OR_RETURN(const bool there, cursor.bind(1, id).step());
      if (!there) return {Code::kBusy, options_.path + ": the snapshot was removed by another writer", "try again"};
      SY_RETURN_IF_ERROR(cursor.run());
    }
    return remove_older(connection, sequence, id);
  };
  SY_RETURN_IF_ERROR(transact(complete));
  return sequence;
}

Result<std::uint64_t> SqliteLog::save_snapshot() {
  SY_RETURN_IF_ERROR(must_be_writable());
  Snapshot snapshot;
  bool already = false;
  SY_RETURN_IF_ERROR(read_state([&](Connection& connection, const StateView& view) -> Status {
    SY_ASSIGN_OR_RETURN(const auto newest, find_newest_snapshot(connection));
    if (newest) {
      // Sections of other owners are carried on; and one that is there already must still be readable to count.
      SY_ASSIGN_OR_RETURN(snapshot, load_snapshot(connection, *newest));
      already = newest->sequence == view.sequence();
    }
    snapshot.sequence = view.sequence();
    if (already) return Status();
    SY_ASSIGN_OR_RETURN(snapshot.sections[codec_.section_name()], codec_.save_section(view));
    return Status();
  }));
  if (already) return snapshot.sequence;
  SY_ASSIGN_OR_RETURN(const std::int64_t id, begin_snapshot(snapshot.sequence));
  SY_ASSIGN_OR_RETURN(bool there, put_snapshot_parts(id, snapshot));
  SY_POINT(runtime_, "log.snapshot.read_back");
  if (there) {
    auto whole = read_back_snapshot(id, snapshot);
    if (!whole.ok()) return std::move(whole).status().annotate("reading back", "the snapshot");
    there = *whole;
  }
  SY_POINT(runtime_, "log.snapshot.before_complete");
  SY_ASSIGN_OR_RETURN(const std::uint64_t newest, complete_snapshot(id, snapshot.sequence));
  SY_POINT(runtime_, "log.snapshot.after_complete");
  return newest;
}

Result<std::string> SqliteLog::newest_snapshot() {
  Snapshot snapshot;
  SY_RETURN_IF_ERROR(read_transaction([&](Connection& connection, std::uint64_t) -> Status {
    SY_ASSIGN_OR_RETURN(const auto newest, find_newest_snapshot(connection));
    if (!newest) return Status(Code::kNotFound, options_.path + ": the log has no snapshot");
    SY_ASSIGN_OR_RETURN(snapshot, load_snapshot(connection, *newest));
    return Status();
  }));
  return encode_snapshot(snapshot);
}

Status SqliteLog::trim(std::uint64_t sequence) {
  SY_RETURN_IF_ERROR(must_be_writable());
  std::uint64_t base = 0;
  SY_RETURN_IF_ERROR(read_transaction([&](Connection& connection, std::uint64_t) -> Status {
    SY_ASSIGN_OR_RETURN(const auto newest, find_newest_snapshot(connection));
    if (!newest || newest->sequence < sequence) {
      return Status(Code::kInvalidArgument,
                    "trim to " + std::to_string(sequence) + ": the newest snapshot is at " +
                        std::to_string(newest ? newest->sequence : 0),
                    "save a snapshot first");
    }
    SY_ASSIGN_OR_RETURN(base, base_sequence(connection));
    return Status();
  }));
  while (base < sequence) {
    base = std::min(sequence, base + kTrimStep);
    SY_POINT(runtime_, "log.trim");
    const auto remove_some = [&](Session& session) -> Status {
      Connection& connection = *session.connection;
      SY_ASSIGN_OR_RETURN(const std::uint64_t now_base, base_sequence(connection));
      if (now_base >= base) return Status();  // another writer trims too
      // What goes from the log must be in the state table.
      SY_RETURN_IF_ERROR(session.tail.catch_up(connection, codec_).status());
      SY_RETURN_IF_ERROR(session.tail.fold(connection));
      SY_ASSIGN_OR_RETURN(Cursor cursor, connection.prepare("DELETE FROM log WHERE seq <= ?"));
      SY_RETURN_IF_ERROR(cursor.bind(1, static_cast<std::int64_t>(base)).run());
      return set_meta(connection, "base", base);
    };
    SY_RETURN_IF_ERROR(transact(remove_some));
  }
  return Status();
}

Result<std::uint64_t> SqliteLog::length() {
  std::uint64_t length = 0;
  SY_RETURN_IF_ERROR(read_transaction([&](Connection& connection, std::uint64_t sequence) -> Status {
    SY_ASSIGN_OR_RETURN(const auto begun, connection.find_integer("SELECT max(seq) FROM snapshot"));
    length = sequence - std::min(sequence, static_cast<std::uint64_t>(begun.value_or(0)));
    return Status();
  }));
  return length;
}

Status SqliteLog::restore(const Snapshot& snapshot) {
  SY_RETURN_IF_ERROR(must_be_writable());
  if (snapshot.sequence > kSequenceMax) return Status(Code::kCorrupt, "snapshot: its sequence is out of range");
  SY_ASSIGN_OR_RETURN(const metadata::MemoryState state, state_of(snapshot, codec_));
  return transact([&](Session& session) -> Status {
    Connection& connection = *session.connection;
    SY_ASSIGN_OR_RETURN(const std::uint64_t sequence, current_sequence(connection));
    if (sequence != 0) {
      return Status(
          Code::kConflict,
          options_.path + ": restore: the log is at sequence " + std::to_string(sequence) + ", wanted an empty one",
          "move the catalog aside first");
    }
    SY_RETURN_IF_ERROR(connection.execute("DELETE FROM state"));
    SY_RETURN_IF_ERROR(put_rows(connection, state));
    SY_RETURN_IF_ERROR(set_meta(connection, "base", snapshot.sequence));
    SY_RETURN_IF_ERROR(set_meta(connection, "folded", snapshot.sequence));
    SY_ASSIGN_OR_RETURN(const std::int64_t id, put_snapshot_row(connection, snapshot.sequence, true));
    for (const Part& part : parts_of(snapshot)) SY_RETURN_IF_ERROR(put_part(connection, id, part));
    SY_RETURN_IF_ERROR(put_heads(connection, id, snapshot));
    return remove_older(connection, snapshot.sequence, id);
  });
}

Status SqliteLog::rebuild_state() {
  SY_RETURN_IF_ERROR(must_be_writable());
  return transact([&](Session& session) -> Status {
    Connection& connection = *session.connection;
    SY_ASSIGN_OR_RETURN(const std::uint64_t sequence, current_sequence(connection));
    SY_ASSIGN_OR_RETURN(const std::uint64_t base, base_sequence(connection));
    SY_ASSIGN_OR_RETURN(const auto newest, find_newest_snapshot(connection));
    metadata::MemoryState state;
    if (newest) {
      SY_ASSIGN_OR_RETURN(const Snapshot snapshot, load_snapshot(connection, *newest));
      SY_ASSIGN_OR_RETURN(state, state_of(snapshot, codec_));
    } else if (base != 0) {
      return Status(Code::kCorrupt,
                    options_.path + ": the log begins after " + std::to_string(base) + " and has no snapshot",
                    "restore the catalog from its newest snapshot copy (steelyard recover)");
    }
    while (state.sequence() < sequence) {
      SY_ASSIGN_OR_RETURN(const auto page, read_appends(connection, state.sequence(), kRebuildPage));
      if (page.empty()) return Status(Code::kCorrupt, options_.path + ": the log ends before its sequence");
      for (const Append& append : page) SY_RETURN_IF_ERROR(replay(append, codec_, state));
    }
    SY_RETURN_IF_ERROR(connection.execute(
        "DROP TABLE state;"
        "CREATE TABLE state(key BLOB PRIMARY KEY NOT NULL, value BLOB NOT NULL, sum INTEGER NOT NULL) WITHOUT ROWID;"));
    SY_RETURN_IF_ERROR(put_rows(connection, state));
    SY_RETURN_IF_ERROR(set_meta(connection, "folded", sequence));
    session.tail.clear();
    return set_meta(connection, "state_schema", kStateSchema);
  });
}

}  // namespace steelyard::oplog::sqlite
