// Account: how much of the hot tier's capacity is taken, over all processes that use the instance.
//
// There is no counter that could be wrong after a crash. What lies there is counted by looking; what is about to be put
// is claimed first, in a file `claims/<random>` that its process keeps locked (flock): a claim whose lock is free is a
// dead process's and counts no more. Nobody waits for anybody:
//
//   1. Write the claim.
//   2. Add up the other live claims, then everything that lies in the instance, this claim last.
//   3. Over a limit: the claim goes; NO_SPACE, after some more tries while others claim too.
//
// Of two that do this at once, at least one sees the other's claim, so together they never exceed a limit. A file of a
// put has no name until it is whole and its claim shrinks only after that, so space in use is counted once, or for an
// instant twice.
//
// Thread-safety: may be used from any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/memory_limits.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "tiers/directory/folder.h"
#include "tiers/open.h"

namespace steelyard::tiers::memory {

using directory::Folder;

/// Space that this process has claimed. Freed when it goes.
class Claim {
 public:
  Claim(Folder& folder, std::string relative, UniqueFd fd)
      : folder_(folder), relative_(std::move(relative)), fd_(std::move(fd)) {}
  Claim(const Claim&) = delete;
  Claim& operator=(const Claim&) = delete;
  ~Claim();

  const std::string& relative() const { return relative_; }
  /// Sets what others see.
  Status set(std::uint64_t bytes);
  /// Sets bytes apart for one put; false when so many are not left.
  bool take(std::uint64_t bytes);
  /// They lie under a name now, where everybody counts them.
  void spent(std::uint64_t bytes);
  /// Their put was given up.
  void give_back(std::uint64_t bytes);
  /// No further put takes from it.
  void close();

 private:
  void publish(std::uint64_t bytes);

  Folder& folder_;
  const std::string relative_;
  const UniqueFd fd_;
  std::mutex mutex_;
  std::uint64_t bytes_ = 0;
  std::uint64_t taken_ = 0;
  bool closed_ = false;
};

class Account {
 public:
  /// `capacity`: hot.capacity; absent: half of the filesystem. `memory` asks what limits of memory there are; of
  /// each, `process_reserve_bytes` are not given out.
  Account(Folder& folder, std::optional<std::uint64_t> capacity, std::function<std::vector<MemoryLimit>()> memory,
          std::uint64_t process_reserve_bytes);

  /// NO_SPACE says what was wanted, what there is and which setting is in the way. What another process has claimed for
  /// the same `operation` (an id of 32 digits; empty: for one put) does not count: its runner was replaced by this one.
  Result<std::shared_ptr<Claim>> claim(std::uint64_t bytes, std::string_view operation = {});
  /// What a claim may be, now.
  Result<Room> room();
  /// Removes content that no object uses, and returns the memory that lies in the instance.
  Result<std::uint64_t> used_bytes();
  /// By live processes, this one too.
  Result<std::uint64_t> claimed_bytes();
  Result<std::uint64_t> capacity_bytes();

 private:
  struct Claims {
    std::uint64_t bytes = 0;
    bool others = false;
  };
  struct Look {
    Room room;
    bool others = false;
  };
  Result<std::shared_ptr<Claim>> write_claim(std::uint64_t bytes, std::string_view operation);
  Result<Claims> live_claims(const std::string& own, std::string_view operation);
  Status count(const std::string& relative, std::map<std::uint64_t, std::uint64_t>& by_inode);
  bool drop_unused(const std::string& entry);
  /// What may still be taken, beside the claim `own`.
  Result<Look> look(const std::string& own, std::string_view operation);
  Result<MemoryPlace> place();

  Folder& folder_;
  std::optional<std::uint64_t> capacity_;
  std::function<std::vector<MemoryLimit>()> memory_;
  const std::uint64_t process_reserve_bytes_;
};

/// A size as it is charged: whole pages.
std::uint64_t charged_bytes(std::uint64_t bytes);

}  // namespace steelyard::tiers::memory
