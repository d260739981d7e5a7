// Opening the parts of an embedded store, and making a new one.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/unique_fd.h"
#include "oplog/op_log.h"
#include "store/hot_tier.h"
#include "store/source.h"
#include "store/store.h"
#include "tiers/open.h"
#include "tiers/tier.h"

namespace steelyard::store {

/// The log and the cold tier of one store, which agree on its id, and how its memory tier is opened.
struct StoreParts {
  UniqueFd in_use = {};  ///< store_lock.h; first, so that it is given back when all else is closed
  std::string store_id = {};
  std::unique_ptr<tiers::Tier> cold;
  std::unique_ptr<oplog::OpLog> log;
  HotTier::Open open_hot = {};  ///< empty: no memory tier
  bool read_only = false;
  std::string ballast = {};  ///< store/ballast.h; empty: none
  /// How an import opens the source it is given: a folder or file, or what a simulation has in memory.
  std::function<Result<std::unique_ptr<Source>>(const std::string& path, bool follow_links)> open_source =
      store::open_source;
};

/// Where the parts of a store lie.
struct StorePaths {
  std::string store;
  std::string catalog;
  std::string cold;
};
/// Absolute: what is opened later (another connection, a lock) lies there too, wherever the process has gone meanwhile.
StorePaths paths_of(const StoreOptions& options);

/// How the memory tier of a store is opened, but for the store's id.
tiers::MemoryOptions memory_options(const StoreOptions& options);

/// Makes a store's folder and what is missing above it, durably.
Status make_store_folder(Runtime& runtime, const std::string& path);

/// A new store is made in this order, so that a crash leaves something the next call completes: the store's folder, the
/// cold tier with its id (created exclusively; of two creators one wins and the other reads its id), the catalog.
Result<StoreParts> open_parts(Runtime& runtime, const StoreOptions& options, OpenMode mode);

/// The store over parts that somebody else made (a simulation).
std::unique_ptr<Store> make_store(Runtime& runtime, const StoreOptions& options, StoreParts parts);

}  // namespace steelyard::store
