// Removal: takes the bytes of a DELETING revision away and makes a tombstone of its record. Delete, abort and
// reconciliation end with it.
//
//   1. The `deleting` marker lies in the group's folder, durable: from here on nobody recovers the group, as no edge
//      leads back from DELETING.
//   2. No lease lives: expired ones are ended in the log, so that no later clock finds them alive.
//   3. Every attempt goes: its `committed` marker, the payloads, the manifest.
//   4. What lies in the memory tier that is mounted here goes too, unless it is another user's. A listing shows that
//   nothing is left. A marker for whose bytes there was no room gets them, one that went comes back.
//   5. The record becomes DELETED.
//
// Killed anywhere, the revision is DELETING, and whoever calls this again does again what is not done. The marker stays
// until the snapshot copies in the cold tier know the tombstone (gc.h).
#pragma once

#include "store/context.h"

namespace steelyard::store {

/// CONFLICT when the cold tier holds a committed attempt of a revision that this catalog never published: its bytes may
/// be the only copy of what another history of the catalog published. OK for a published record.
Status check_not_published_elsewhere(tiers::Tier& cold, const metadata::RevisionRecord& record);
/// The same for one that may not have a record yet; names what there is to do, too.
Status check_not_published_elsewhere(tiers::Tier& cold, const metadata::Identity& identity);

/// BUSY while a lease of the DELETING `record` lives, naming holders and the nearest expiry; expired ones are ended.
Status check_drained(Context& context, const metadata::RevisionRecord& record);

/// The tombstone; absent when it was compacted since. BUSY as check_drained() says it; nothing is removed then, and
/// the marker lies there. `record` is DELETING; one that became DELETED meanwhile is success.
Result<std::optional<metadata::RevisionRecord>> finish_removal(Context& context,
                                                               const metadata::RevisionRecord& record);

}  // namespace steelyard::store
