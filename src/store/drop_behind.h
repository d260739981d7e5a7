// DropBehind: reading a source file without leaving it in the page cache.
//
// Used by one thread.
//
// What a process reads through the page cache is charged to its cgroup until the group's limit is reached. So where
// that limit is small a reader gives the cache back behind itself, window by window. Windows that were in the cache
// before it came are somebody else's, cost the group nothing and stay.
#pragma once

#include <cstdint>
#include <vector>

#include "base/limits.h"

namespace steelyard::store {

class DropBehind {
 public:
  /// Two of them are cached at a time: small beside a group's limit, large beside what a disk wants to be busy.
  static constexpr std::uint64_t kWindowBytes = 4 * limits::kMiB;

  /// For the open file `fd` of `file_bytes`, which the caller keeps open.
  DropBehind(int fd, std::uint64_t file_bytes);
  DropBehind(const DropBehind&) = delete;
  DropBehind& operator=(const DropBehind&) = delete;
  /// Gives back what is left.
  ~DropBehind();

  /// To be called before each read at `offset`. Returns how much may be read now: up to the end of the window.
  std::uint64_t enter(std::uint64_t offset);

 private:
  void prepare(std::uint64_t window);
  void wait_for(std::uint64_t window) const;
  void drop(std::uint64_t window) const;

  int fd_;
  std::uint64_t file_bytes_;
  static constexpr std::uint64_t kNone = UINT64_MAX;
  std::uint64_t current_ = kNone;
  // By window. Asked once: a window that is read twice is not taken for somebody else's the second time.
  std::vector<bool> seen_;
  std::vector<bool> ours_;
};

}  // namespace steelyard::store
