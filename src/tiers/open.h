// Opening the backends; their own headers stay inside their folders.
#pragma once

#include <sys/statvfs.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/limits.h"
#include "base/memory_limits.h"
#include "base/runtime.h"
#include "tiers/tier.h"

namespace steelyard::tiers {

struct DirectoryOptions {
  std::string path;
  std::string store_id;  ///< 32 hex digits; written into store.json when the folder is new
  bool create = false;   ///< make it where it is absent or an empty folder (NOT_FOUND otherwise)
  bool read_only = false;
  bool unclaimed = false;  ///< whatever store.json says, also without one; only together with read_only
  Medium medium = Medium::kDisk;
  /// cold.reserve_free; absent: the larger of 5 % and 10 GiB, never more than half of the filesystem.
  std::optional<std::uint64_t> reserve_free_bytes;
};

/// The cold tier of a local disk or mounted volume (docs/formats/directory-tier.md). CORRUPT for foreign files or
/// another store's folder, UNAVAILABLE for a newer layout.
Result<std::unique_ptr<Tier>> open_directory(Runtime& runtime, const DirectoryOptions& options);

struct MemoryOptions {
  std::string path;      ///< hot.path: a tmpfs, or a folder on one
  std::string store_id;  ///< 32 hex digits
  bool create = false;   ///< make the instance where there is none (NOT_FOUND otherwise)
  bool read_only = false;
  std::optional<std::uint64_t> capacity;  ///< hot.capacity; absent: half of the filesystem
  /// Who may have made the instance beside this user and root: the owner of the store. In a folder of hot.path that not
  /// everybody may write to, whoever may is trusted.
  std::optional<std::uint32_t> trusted_owner;
  /// Of each limit of memory, what is left to the process itself: its buffers and all else that it needs.
  std::uint64_t process_reserve_bytes = limits::kProcessReserveBytes;
  /// What limits memory here; for tests.
  std::function<std::vector<MemoryLimit>()> memory_limits = system_memory_limits;
};

/// The hot tier: the store's instance `<path>/steelyard-<store id>` (docs/formats/memory-tier.md). Of several processes
/// that make one at once all get the same. INVALID_ARGUMENT for a path that is no absolute one of a folder on a tmpfs,
/// UNAUTHORIZED where this user may not use it, and for an instance of a user who is not trusted, CORRUPT for another
/// store's, UNAVAILABLE for a newer layout. Space is looked at by reserve() and puts, not here.
Result<std::unique_ptr<Tier>> open_memory(Runtime& runtime, const MemoryOptions& options);

/// The place of a hot tier, whether it has an instance or not, and all that limits it.
struct MemoryPlace {
  std::uint64_t filesystem_bytes = 0;
  std::uint64_t free_bytes = 0;
  std::uint64_t capacity_bytes = 0;         ///< hot.capacity, no more than the filesystem
  bool capacity_is_set = false;             ///< else it is half of the filesystem
  std::vector<MemoryLimit> limits;          ///< that hold here
  std::uint64_t process_reserve_bytes = 0;  ///< of each of them, left to the process
  std::vector<std::string> others;          ///< instances of other stores there, by folder name
  std::vector<std::string> boots;           ///< that have an instance of this store there; more than one is odd
  /// Which of the limits leaves the least to an instance that has `used_bytes`, where others have claimed so many more:
  /// the only place that decides it. In whole pages. `overhead_bytes` are taken of the filesystem beside that.
  Room room(std::uint64_t used_bytes, std::uint64_t claimed_bytes, std::uint64_t overhead_bytes = 0) const;
};
MemoryPlace place_of(const struct statvfs& filesystem, std::optional<std::uint64_t> capacity,
                     std::vector<MemoryLimit> limits, std::uint64_t process_reserve_bytes);
/// INVALID_ARGUMENT and UNAUTHORIZED as of open_memory().
Result<MemoryPlace> look_at_memory_place(const MemoryOptions& options);

/// A new id for an instance of this boot in the folder `place`: 16 digits of the boot id's SHA-256, 8 of the place's, 8
/// random ones. So whoever finds another instance in the very same place knows that this one is gone.
std::string new_instance_id(Runtime& runtime, std::string_view place);

/// Writes the store id into a folder's store.json, over whatever is there. For a caller who has proved that the folder
/// holds that store's objects, and that no other store uses it.
Status claim_directory(Runtime& runtime, const std::string& path, const std::string& store_id);

/// The store id in a folder's store.json; NOT_FOUND when there is none.
Result<std::string> directory_store_id(const std::string& path);

}  // namespace steelyard::tiers
