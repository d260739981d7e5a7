// The file that SQLite shares as memory between the processes of a database in WAL mode (`-shm`).
#pragma once

struct sqlite3;

namespace steelyard::oplog::sqlite {

/// From now on a part of the shared file has its blocks on the disk before anybody writes to it, and a disk without
/// room is an error of the statement (SQLITE_FULL).
///
/// SQLite itself makes room by writing one byte a 4 KiB page. On a filesystem with smaller blocks (ext4 on a small disk
/// has 1 KiB) the others stay holes, and a store into one on a full disk is SIGBUS.
///
/// Call it once, right after the database was opened. Kernels before 5.14 cannot be asked this way: nothing changes
/// there.
void reserve_wal_index(sqlite3* db);

}  // namespace steelyard::oplog::sqlite
