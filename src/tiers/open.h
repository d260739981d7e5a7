// Opening the backends; their own headers stay inside their folders.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

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

/// Writes the store id into a folder's store.json, over whatever is there. For a caller who has proved that the folder
/// holds that store's objects, and that no other store uses it.
Status claim_directory(Runtime& runtime, const std::string& path, const std::string& store_id);

/// The store id in a folder's store.json; NOT_FOUND when there is none.
Result<std::string> directory_store_id(const std::string& path);

}  // namespace steelyard::tiers
