// Opening the backends; their own headers stay inside their folders.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/runtime.h"
#include "oplog/codec.h"
#include "oplog/op_log.h"

namespace steelyard::oplog {

struct SqliteOptions {
  std::string path;        ///< catalog.db; `-wal`, `-shm` and the turnstile's lock files lie beside it
  std::string store_id;    ///< must be the one in the database; written when it is created
  bool create = false;     ///< make it where it is absent (NOT_FOUND otherwise)
  bool read_only = false;  ///< asked for, or forced by missing write permission
  /// A write waits this long for other writers, half of it at most for its turn; then it is BUSY, naming who is in the
  /// way. A commit takes a millisecond, on a busy disk some hundreds: who takes longer stands still.
  std::int64_t write_wait_ms = 20'000;
  /// Who has waited this long says for whom, once, as a warning.
  std::int64_t warn_after_ms = 3'000;
};

/// CORRUPT for a damaged or foreign database, UNAVAILABLE for a newer layout or a filesystem that may not hold a log
/// (network, FUSE, virtual), never a fresh one in its place. Without write permission, or on a read-only mount, the log
/// is read only: beside its writers where SQLite can, else from a private copy in $TMPDIR. `codec` must outlive the
/// log.
Result<std::unique_ptr<OpLog>> open_sqlite(Runtime& runtime, const SqliteOptions& options,
                                           const StateCodec& codec = metadata_codec());

/// Throws the derived state tables away and makes them again from the newest snapshot and the log, in one transaction.
/// Opening does this by itself when the tables' schema is older than ours.
Status rebuild_sqlite_state(Runtime& runtime, const SqliteOptions& options, const StateCodec& codec = metadata_codec());

/// The store id in a database; CORRUPT, UNAVAILABLE and NOT_FOUND as for opening it.
Result<std::string> sqlite_store_id(const std::string& path);

/// In memory, for tests and simulation. `standbys` sets the capability of that name.
std::unique_ptr<OpLog> open_memory(Runtime& runtime, bool standbys_must_understand_entries = false,
                                   const StateCodec& codec = metadata_codec());

}  // namespace steelyard::oplog
