// Make room: evicts idle revisions, the least recently used first, each through its own eviction (evict.h), for one
// that is to come into memory. Which ones is decided by a pure function (metadata/placement_policy.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "store/context.h"

namespace steelyard::store {

/// Frees `wanted_bytes` for `for_whom`; `evicted` receives the refs of what went, also when this fails. NO_SPACE,
/// naming what could be freed, where that is not enough, and BUSY where it would be, were it not for leases: then
/// nothing more is evicted. One that turns out to be damaged, or out of reach, is passed over.
Status make_room(Context& context, const metadata::Identity& for_whom, std::uint64_t wanted_bytes, Observer& observer,
                 const CancelFlag& cancel, std::vector<std::string>& evicted);

}  // namespace steelyard::store
