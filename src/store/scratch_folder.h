// A folder for trying things where they will be done, that goes again.
#pragma once

#include <string>
#include <string_view>

#include "base/runtime.h"
#include "base/status.h"
#include "base/unique_fd.h"

namespace steelyard::store {

/// `<parent>/<prefix><16 hex>/steelyard-trial`, removed with all it holds by the destructor, and the folder around it
/// too. A lock on that tells a live one from what a killed process left, which make() removes; where locks do nothing,
/// its age does. A folder that holds anything else is not one, whatever its name, and what is mounted is never entered.
/// Thread-compatible.
class ScratchFolder {
 public:
  ScratchFolder(Runtime& runtime, std::string parent, std::string_view prefix);
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  ~ScratchFolder();

  Status make();
  const std::string& path() const { return path_; }  ///< where to try things

 private:
  Status try_make(bool& again);
  void remove(const std::string& name) const;
  bool locks_work() const;
  void remove_leftovers() const;

  Runtime& runtime_;
  const std::string parent_;
  const std::string prefix_;
  std::string name_;
  std::string folder_;
  std::string path_;
  UniqueFd lock_;
};

}  // namespace steelyard::store
