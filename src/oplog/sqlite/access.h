// How a database may be opened here: for writing, beside its writers, or from a private copy.
#pragma once

#include <sys/stat.h>

#include <memory>
#include <string>

#include "base/runtime.h"
#include "base/status.h"
#include "oplog/sqlite/connection.h"

namespace steelyard::oplog::sqlite {

/// The database and its folder may be written by this process.
bool may_write(const std::string& path);

/// A copy of a database and its WAL in $TMPDIR, removed with this object. For readers that may not make the files which
/// SQLite needs beside a database in use.
class PrivateCopy {
 public:
  /// Copies until neither file changed meanwhile; BUSY when writers never pause.
  static Result<std::unique_ptr<PrivateCopy>> make(Runtime& runtime, const std::string& path);
  PrivateCopy(const PrivateCopy&) = delete;
  PrivateCopy& operator=(const PrivateCopy&) = delete;
  ~PrivateCopy();

  const std::string& path() const { return path_; }
  /// The original has changed since.
  bool is_stale() const;

 private:
  PrivateCopy(std::string original, std::string folder);
  std::string original_;
  std::string folder_;
  std::string path_;
  std::string stamp_;
};

}  // namespace steelyard::oplog::sqlite
