// The file that a log was opened as. A store's folder may be moved away, removed or replaced under a process that has
// it open: nothing that happens at its path reaches that process then, and nothing that it says holds for the path.
#pragma once

#include <string>

#include "base/status.h"
#include "base/unique_fd.h"

namespace steelyard::oplog::sqlite {

/// Safe to use from any thread.
class Place {
 public:
  /// What lies at the path now. Its inode is kept, so that no other file gets its number meanwhile.
  explicit Place(const std::string& path);

  /// UNAVAILABLE where nothing, or another file, lies at the path now; says where the opened one is. Where the path
  /// cannot be looked at nothing is known, and that is OK.
  Status check() const;

 private:
  std::string path_;
  UniqueFd fd_;  ///< O_PATH: closing it drops none of the process's locks on the file
};

}  // namespace steelyard::oplog::sqlite
