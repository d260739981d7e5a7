// Make room: evicts idle revisions, the least recently used first, each through its own eviction (evict.h), for one
// that is to come into memory. Which ones is decided by a pure function (metadata/placement_policy.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "store/context.h"

namespace steelyard::store {

/// Makes `wanted_bytes` fit for `for_whom`; `evicted` receives the refs of what went, also when this fails. Where that
/// cannot be, refuse_for_room's error, and nothing more is evicted. One that turns out to be damaged, or out of reach,
/// is passed over. OK where others took the room again and again.
Status make_room(Context& context, const metadata::Identity& for_whom, std::uint64_t wanted_bytes, Observer& observer,
                 const CancelFlag& cancel, std::vector<std::string>& evicted);

/// Why so many bytes do not fit for `for_whom`, of which `full`, NO_SPACE, names the limit in the way: NO_SPACE with
/// what `--make-room` could free, or BUSY where it could, were it not for leases.
Status refuse_for_room(Context& context, const metadata::Identity& for_whom, std::uint64_t wanted_bytes, Status full);
/// The same for an import that is to end in memory.
Status refuse_import_for_room(Context& context, std::uint64_t wanted_bytes, Status full);

}  // namespace steelyard::store
