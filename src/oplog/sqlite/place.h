// The file that a log was opened as. A store's folder may be moved away, removed or replaced under a process that has
// it open: nothing that happens at its path reaches that process then, and nothing that it says holds for the path.
#pragma once

#include <sys/stat.h>

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

  /// The folder in which the file lay when it was opened; invalid where there was none. For what belongs beside the
  /// file and must not be made beside another one that lies at its path now.
  int folder() const { return folder_.get(); }

 private:
  std::string path_;
  UniqueFd folder_;  ///< O_PATH, as is the next: closing it drops none of the process's locks on the file
  UniqueFd fd_;
  struct stat opened_ {};  ///< what `fd_` was when it was opened
};

}  // namespace steelyard::oplog::sqlite
