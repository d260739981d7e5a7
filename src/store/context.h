// What every verb of the store works with.
#pragma once

#include <string>

#include "base/runtime.h"
#include "catalog/catalog.h"
#include "store/group_observer.h"
#include "store/hot_tier.h"
#include "store/store.h"
#include "tiers/tier.h"

namespace steelyard::store {

/// References into one open store; lives as long as the store. Safe to use from any thread.
struct Context {
  Runtime& runtime;
  const StoreOptions& options;
  tiers::Tier& cold;
  catalog::Catalog& catalog;
  TierObserver& observer;
  std::uint64_t io_budget = 0;  ///< bytes of I/O buffers that one verb may hold; open revisions share as much once more
  bool read_only = false;
  std::string ballast = {};  ///< ballast.h
  HotTier* hot = nullptr;    ///< null: this store has no memory tier
};

/// Where the members of a revision lie.
tiers::AttemptName attempt_of(const metadata::RevisionRecord& record);
tiers::AttemptName attempt_of(const metadata::Identity& identity, std::uint32_t import_attempt);
tiers::ObjectName manifest_of(const tiers::AttemptName& attempt);
tiers::ObjectName payload_of(const tiers::AttemptName& attempt, std::uint32_t index);

/// The worker count of a verb that gives each worker `bytes_per_worker` of the budget: 1..jobs.
unsigned worker_count(const Context& context, std::uint64_t bytes_per_worker);

}  // namespace steelyard::store
