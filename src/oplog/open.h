// Opening the backends; their own headers stay inside their folders.
#pragma once

#include <memory>
#include <string>

#include "base/runtime.h"
#include "oplog/op_log.h"

namespace steelyard::oplog {

struct SqliteOptions {
  std::string path;        ///< catalog.db; `-wal`, `-shm` and the turnstile's lock files lie beside it
  std::string store_id;    ///< must be the one in the database; written when it is created
  bool create = false;     ///< make it where it is absent (NOT_FOUND otherwise)
  bool read_only = false;  ///< asked for, or forced by missing write permission
};

/// CORRUPT for a damaged or foreign database, UNAVAILABLE for a newer layout or a filesystem that may not hold a log
/// (network, FUSE, virtual), never a fresh one in its place.
Result<std::unique_ptr<OpLog>> open_sqlite(Runtime& runtime, const SqliteOptions& options);

/// In memory, for tests and simulation. `standbys` sets the capability of that name.
std::unique_ptr<OpLog> open_memory(Runtime& runtime, bool standbys_must_understand_entries = false);

}  // namespace steelyard::oplog
