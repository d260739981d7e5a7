// A revision's policy: where it should be, and who may move it there.
#pragma once

#include "catalog/catalog.h"
#include "store/store.h"

namespace steelyard::store {

/// Store::update_policy. A record that moved meanwhile, without the caller's fence, is read again; without it, too, a
/// policy that is there already is success and appends nothing.
Result<metadata::RevisionRecord> update_policy(catalog::Catalog& catalog, const PolicyRequest& request);

}  // namespace steelyard::store
