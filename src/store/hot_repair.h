// Damage of a revision of which something lies in memory: each tier has what the other lacks.
#pragma once

#include <set>
#include <vector>

#include "formats/stored_manifest.h"
#include "store/context.h"
#include "store/damage_record.h"
#include "store/stop_signal.h"

namespace steelyard::store {

/// Objects that a repair is begun for.
struct Spared {
  std::uint64_t objects = 0;
  std::uint64_t bytes = 0;
};

/// Takes out of the damaged those objects of which the memory `instance` has a whole replica, which is read for it:
/// they are no damage of the revision, and returned. Adds to what is bad in memory those that are so too, where nobody
/// has recorded them before.
Result<Spared> spare_what_is_hot(Context& context, const metadata::RevisionRecord& record, const std::string& instance,
                                 ObjectFindings& findings);

/// For a record that moved: leaves only those that are there and bad still.
Status keep_what_is_bad_in_memory(Context& context, const metadata::RevisionRecord& record,
                                  const formats::StoredManifest& manifest, BadInMemory& bad);

/// Starts a REPAIRING operation without a runner, for the next reconcile: what was found is not forgotten then,
/// although the revision has no damage that its record could name. Where it cannot be started now, or another operation
/// runs, nothing happens. `record` is the record as it is then.
void begin_repair(Context& context, const Spared& what, metadata::RevisionRecord& record);

/// Objects with a memory replica one of whose replicas is bad.
struct HotDamage {
  std::vector<std::uint32_t> cold;    ///< the cold one, beside those that were known
  std::vector<std::uint32_t> memory;  ///< the one in memory
};
/// Reads both replicas of every object that is in memory, but for the cold ones that are known to be bad.
Result<HotDamage> find_hot_damage(Context& context, const metadata::RevisionRecord& record,
                                  const formats::StoredManifest& manifest, const HotReplicas& hot,
                                  const std::set<std::uint32_t>& known, StopSignal& stop, Observer& observer);

/// Makes a bad replica in memory anew from the cold tier, under every name that shares it. Where memory has no room for
/// both it goes, as it is of no use, after the records of all that have it ceased to count it. CORRUPT when the cold
/// one is bad too; then it stays.
Status renew_in_memory(Context& context, const metadata::RevisionRecord& record,
                       const formats::StoredManifest& manifest, const HotReplicas& hot, std::uint32_t object,
                       StopSignal& stop);

}  // namespace steelyard::store
