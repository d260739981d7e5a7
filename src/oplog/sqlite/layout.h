// The layout of catalog.db: tables, numbers and sums (docs/formats/op-log.md), creating it and checking what is there.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/runtime.h"
#include "base/status.h"
#include "oplog/sqlite/connection.h"

namespace steelyard::oplog::sqlite {

inline constexpr std::int64_t kApplicationId = 0x53544c59;  ///< "STLY"
inline constexpr std::int64_t kUserVersion = 1;
/// Of the derived state table: another number means that it is made again from the snapshot and the log.
inline constexpr std::int64_t kStateSchema = 2;

/// XXH3-64 over key length (8 bytes little-endian), key, value.
std::uint64_t state_row_sum(std::string_view key, std::string_view value);

/// Makes the database at `path`, whole or not at all: written beside it, synced, then linked to its name. OK as well
/// when another process made it meanwhile.
Status create_database(Runtime& runtime, const std::string& path, const std::string& store_id);

/// Looks at the files without opening them as a database: absent (NOT_FOUND), a folder, empty, cut off, something else
/// (CORRUPT).
Status check_files(const std::string& path);

/// Checks the numbers and the store id of an open database. CORRUPT for a foreign one, UNAVAILABLE for a newer layout.
Status check_database(Connection& connection, const std::string& store_id);

/// The derived state table has our schema.
Result<bool> state_schema_is_ours(Connection& connection);

}  // namespace steelyard::oplog::sqlite
