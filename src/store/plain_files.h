// Writing plain files of a user's folder: past the page cache where they are large, into folders reached step by step.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/runtime.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "tiers/tier.h"

namespace steelyard::store {

/// Opens the folder `relative` (which may be longer than PATH_MAX) below `root`, making what is missing.
Result<UniqueFd> open_or_make_folder(int root, std::string_view relative);

/// One file being written from its first byte to its last. Used by one thread. `staging` is the caller's memory, lent
/// for the writer's life.
class PlainFileWriter {
 public:
  /// Creates `name` in `folder` (it must not exist), readable and writable by the umask.
  static Result<PlainFileWriter> create(Runtime& runtime, int folder, const std::string& name, std::uint64_t bytes,
                                        ByteSpan staging);
  Status append(ByteView bytes);
  /// Writes the rest, durably but for the file's name. CORRUPT unless exactly the promised bytes came.
  Status finish();

 private:
  PlainFileWriter(Runtime& runtime, UniqueFd fd, std::string name, std::uint64_t bytes, ByteSpan staging, bool direct)
      : runtime_(&runtime),
        fd_(std::move(fd)),
        name_(std::move(name)),
        bytes_(bytes),
        staging_(staging),
        direct_(direct) {}
  Status write_staged(bool last);

  Runtime* runtime_;
  UniqueFd fd_;
  std::string name_;
  std::uint64_t bytes_;
  ByteSpan staging_;
  bool direct_;
  std::size_t staged_ = 0;
  std::uint64_t written_ = 0;
};

}  // namespace steelyard::store
