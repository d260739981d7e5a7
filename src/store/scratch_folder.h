// A folder for trying things where they will be done, that goes again.
#pragma once

#include <string>
#include <string_view>

#include "base/runtime.h"
#include "base/status.h"
#include "base/unique_fd.h"

namespace steelyard::store {

/// `<parent>/<prefix><16 hex>`, removed with all it holds by the destructor. A lock on it tells a live one from what a
/// killed process left, which make() removes; where locks do nothing, its age does. Thread-compatible.
class ScratchFolder {
 public:
  ScratchFolder(Runtime& runtime, std::string parent, std::string_view prefix);
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  ~ScratchFolder();

  Status make();
  const std::string& path() const { return path_; }

 private:
  bool locks_work() const;
  void remove_leftovers() const;

  Runtime& runtime_;
  const std::string parent_;
  const std::string prefix_;
  const std::string path_;
  UniqueFd lock_;
};

}  // namespace steelyard::store
