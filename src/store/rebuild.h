// What the cold tier alone tells of a catalog: the newest copy of a snapshot, and the groups that were committed after
// it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "metadata/types.h"
#include "oplog/op_log.h"
#include "store/store.h"
#include "tiers/tier.h"

namespace steelyard::store {

struct RebuiltCatalog {
  oplog::Snapshot snapshot;                         ///< the whole state, checked; its sequence is a new one
  std::vector<metadata::RevisionRecord> published;  ///< READY and DEGRADED, by identity
  std::vector<RecoverReport::Skipped> skipped;
};

/// Reads the tier and changes nothing.
///
/// The newest copy of a snapshot that can be read is where it begins. Then, in every group:
///   * `deleting` marks a removal: the record goes (a tombstone and a DELETING one stay), and the generation counts
///   into
///     its lineage's watermark;
///   * `committed` gives a record that the copy does not have, or has as IMPORTING, when group and attempt agree;
///   * it also gives one that the copy has as a tombstone, or below a watermark, when the manifest agrees with it too;
///   * a published record whose manifest is damaged or gone becomes DEGRADED.
/// Leases do not return, writers give their tokens back, operations end as cancelled. A copy or marker of a newer
/// format is UNAVAILABLE: this program cannot know what it would lose. Everything else that cannot be used is in
/// `skipped`.
Result<RebuiltCatalog> rebuild_catalog(tiers::Tier& cold);

}  // namespace steelyard::store
