// Which revision a verb means.
#pragma once

#include <functional>
#include <vector>

#include "catalog/catalog.h"
#include "store/store.h"

namespace steelyard::store {

/// What the caller will do with the revision.
enum class Purpose {
  kRead,          ///< READY; or DEGRADED when allowed
  kReadDegraded,  ///< READY or DEGRADED (`--allow-degraded`, verify)
  kInspect,       ///< an exact generation in any state
};

metadata::Lineage lineage_of(const Selector& selector);
Selector selector_of(const metadata::Identity& identity);  ///< with its exact generation

/// An exact generation that may not be read: NOT_READY, saying which state and since when. No generation given: the
/// newest READY one, else (for kReadDegraded, kInspect) the newest DEGRADED one; a DEGRADED one that may not be read:
/// NOT_READY naming it; none: NOT_FOUND naming what exists.
Result<metadata::RevisionRecord> resolve(catalog::Catalog& catalog, const Selector& selector, Purpose purpose);

/// For verbs that mean other states than a reader does: the exact generation in any state; without one the newest of
/// the lineage for which the first of `wishes` that fits any holds. NOT_FOUND naming what exists.
Result<metadata::RevisionRecord> newest_that(
    catalog::Catalog& catalog, const Selector& selector,
    const std::vector<std::function<bool(const metadata::RevisionRecord&)>>& wishes);

}  // namespace steelyard::store
