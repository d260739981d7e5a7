// TargetFolder: where a materialised checkpoint appears, whole or not at all.
//
// 1. The parents of the target are made. A sibling `.steelyard-<name hash>-<random>` of the target is made and locked.
// 2. The files are written into the sibling, each synced, and then its folders are synced.
// 3. The sibling is renamed to the target (exchanged with it when it is to be replaced), and the parent is synced.
// 4. What was replaced is removed.
// Where the filesystem cannot exchange two folders, the old one is set aside in 3 as `<name>.replaced-<random>`, and
// a crash between the two renames leaves it there. A crash before 3 leaves a sibling, which the next materialise to the
// same target removes, since nobody holds its lock. (A staging that is taken away before it has its lock is made
// again.) A target that cannot be renamed (a mount point, the current folder, a parent without write permission, a
// filesystem that says no) gets its files one by one, index files last: whoever finds an index finds everything.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/runtime.h"
#include "base/status.h"
#include "store/plain_files.h"

namespace steelyard::store {

class TargetFolder {
 public:
  /// CONFLICT for a non-empty folder without `force`; INVALID_ARGUMENT for something that is no folder, and for one
  /// that is not replaced whatever the flags say (target_guard.h). `home` is the user's, and may be empty.
  static Result<std::unique_ptr<TargetFolder>> prepare(Runtime& runtime, const std::string& target, bool force,
                                                       const std::string& home = {});
  /// Removes what was not published.
  ~TargetFolder();
  TargetFolder(const TargetFolder&) = delete;
  TargetFolder& operator=(const TargetFolder&) = delete;

  /// The folder to write into.
  int staging_fd() const { return staging_fd_.get(); }
  /// The absolute path of the target.
  const std::string& path() const { return path_; }
  bool atomic() const { return !in_place_; }
  /// What the user should know although all went well; complete after publish().
  const std::vector<std::string>& notes() const { return notes_; }

  /// Makes everything durable and visible: `folders` are all that were made below the staging, relative to it; the
  /// files are synced already.
  Status publish(const std::set<std::string>& folders = {});

 private:
  TargetFolder(Runtime& runtime, std::string path, bool force)
      : runtime_(runtime), path_(std::move(path)), force_(force) {}
  Status make_staging();
  Status publish_by_rename();
  /// 0, or why it cannot be done here.
  int rename_to_target(unsigned flags) const;
  Result<std::string> replace_in_two_steps();
  Status publish_in_place();
  void remove_replaced(const std::string& replaced);
  void becomes_in_place(std::string_view why);
  Status filled_meanwhile() const;

  Runtime& runtime_;
  std::string path_;
  bool force_;
  bool in_place_ = false;
  bool target_exists_ = false;
  std::string staging_path_;
  UniqueFd staging_fd_;
  std::vector<std::string> notes_;
};

}  // namespace steelyard::store
