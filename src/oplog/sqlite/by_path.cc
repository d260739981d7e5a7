// What can be told of a database without opening it as a log.
#include "oplog/open.h"
#include "oplog/sqlite/connection.h"
#include "oplog/sqlite/layout.h"

namespace steelyard::oplog {
Result<std::string> sqlite_store_id(const std::string& path) {
  using sqlite::Connection;
  SY_RETURN_IF_ERROR(sqlite::check_files(path));
  SY_ASSIGN_OR_RETURN(const auto connection, Connection::open(path, Connection::Mode::kReadOnly));
  return sqlite::store_id_of(*connection);
}

}  // namespace steelyard::oplog
