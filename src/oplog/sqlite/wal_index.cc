#include "oplog/sqlite/wal_index.h"

#include <sqlite3.h>
#include <sys/mman.h>

#include <cerrno>
#include <mutex>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

namespace steelyard::oplog::sqlite {
namespace {

/// What SQLite's own filesystem layer does with a database file, and the same with our way to map the shared one.
/// Written once, before the first file has it.
const sqlite3_io_methods* plain_methods = nullptr;
sqlite3_io_methods reserving_methods;

int map_reserved(sqlite3_file* file, int region, int region_bytes, int extend, void volatile** out) {
  const int code = plain_methods->xShmMap(file, region, region_bytes, extend, out);
  // Whoever may extend holds the writer's lock: the others map what somebody has reserved.
  if (code != SQLITE_OK || extend == 0 || *out == nullptr) return code;
  if (madvise(const_cast<void*>(*out), static_cast<std::size_t>(region_bytes), MADV_POPULATE_WRITE) == 0) return code;
  if (errno != EFAULT && errno != ENOMEM) return code;
  *out = nullptr;
  return SQLITE_FULL;
}

}  // namespace

void reserve_wal_index(sqlite3* db) {
  sqlite3_file* file = nullptr;
  if (sqlite3_file_control(db, "main", SQLITE_FCNTL_FILE_POINTER, static_cast<void*>(&file)) != SQLITE_OK) return;
  if (file == nullptr || file->pMethods == nullptr || file->pMethods->iVersion < 2) return;
  static std::once_flag once;
  std::call_once(once, [file] {
    plain_methods = file->pMethods;
    reserving_methods = *plain_methods;
    reserving_methods.xShmMap = map_reserved;
  });
  // Another layer (of a URI, or of another kind of filesystem) keeps its own.
  if (file->pMethods == plain_methods) file->pMethods = &reserving_methods;
}

}  // namespace steelyard::oplog::sqlite
