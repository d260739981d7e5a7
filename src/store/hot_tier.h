// HotTier: the memory tier of a store, opened when somebody needs it. And what of a revision lies in it.
//
// Thread-safety: may be used from any thread.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "formats/stored_manifest.h"
#include "metadata/commands.h"
#include "metadata/memory_instance.h"
#include "metadata/types.h"
#include "store/object_lists.h"
#include "store/store.h"
#include "tiers/tier.h"

namespace steelyard::store {

class HotTier {
 public:
  /// Opens the instance; without `create` NOT_FOUND where there is none.
  using Open = std::function<Result<std::unique_ptr<tiers::Tier>>(bool create)>;
  explicit HotTier(Open open) : open_(std::move(open)) {}

  /// The instance that is mounted here now; null where there is none. Who has got one keeps it, whatever happens to it:
  /// an instance that went away answers UNAVAILABLE, and the next call here finds what took its place.
  Result<std::shared_ptr<tiers::Tier>> find();
  /// The same; makes one where there is none.
  Result<std::shared_ptr<tiers::Tier>> make();

  ObjectLists& object_lists() { return object_lists_; }

 private:
  Result<std::shared_ptr<tiers::Tier>> open(bool create);

  const Open open_;
  std::mutex mutex_;
  std::shared_ptr<tiers::Tier> tier_;
  ObjectLists object_lists_;
};

/// The payload objects of a revision that this process can read from memory.
struct HotReplicas {
  metadata::Identity identity;        ///< of the revision
  std::shared_ptr<tiers::Tier> tier;  ///< null: no instance is mounted here
  std::string instance;
  std::vector<std::optional<tiers::AttemptName>> where;  ///< by object number; empty: none is hot
  std::uint64_t members = 0;
  std::uint64_t bytes = 0;

  bool has(std::uint32_t object) const { return object < where.size() && where[object].has_value(); }
  tiers::ObjectName name_of(std::uint32_t object) const {
    return {*where[object], tiers::ObjectKind::kPayload, object};
  }
};

struct Context;

/// Whether a replica does not count any more, as it is about to be removed.
using Leaving = std::function<bool(const tiers::ObjectName& name)>;

/// What a listing shows: a replica was whole when it got its name, so one of the right size counts. UNAVAILABLE when
/// the instance went away meanwhile: then nothing is known.
Result<HotReplicas> find_hot(Context& context, const metadata::RevisionRecord& record,
                             const formats::StoredManifest& manifest, const Leaving& leaving = {});

/// The room that bringing the `wanted` objects takes: whole pages for each content that lies in memory under no
/// object's name yet, once. What others remove or bring meanwhile changes it.
Result<std::uint64_t> room_for(tiers::Tier& tier, const formats::StoredManifest& manifest, const HotReplicas& there,
                               const std::function<bool(std::uint32_t object)>& wanted);

/// Keeps the replicas of a revision from being removed while they are counted for others to know. BUSY when a process
/// that removes some does not come to an end; cancelled() as soon as `cancel` is set, for who has to wait.
Result<std::unique_ptr<tiers::GroupLock>> lock_to_count(Context& context, tiers::Tier& tier,
                                                        const metadata::RevisionRecord& record,
                                                        const CancelFlag* cancel = nullptr);
/// Keeps others from counting them while some are removed. BUSY when one that counts does not come to an end; cancelled
/// as lock_to_count.
Result<std::unique_ptr<tiers::GroupLock>> lock_to_remove(Context& context, tiers::Tier& tier,
                                                         const metadata::RevisionRecord& record,
                                                         const CancelFlag* cancel = nullptr);

/// For a reader: the replicas in the instance that the record names, if it is the one that is mounted here. Nothing
/// where that cannot be found out: the cold ones do as well.
HotReplicas find_hot_to_read(Context& context, const metadata::RevisionRecord& record,
                             const formats::StoredManifest& manifest);

/// Fills in what an observer of the revision knows about memory. A replica that is `bad` does not count. Gives the lock
/// under which it was counted: whoever holds it until the record says so knows that nothing went in between. Null where
/// no memory is mounted, or no replica in it could be read; after an error it may be held, and says nothing. `cancel`
/// as in lock_to_count: then nothing is known.
std::unique_ptr<tiers::GroupLock> see_hot(Context& context, const metadata::RevisionRecord& record,
                                          metadata::Observation& seen, const Leaving& bad = {},
                                          const CancelFlag* cancel = nullptr);
/// The same for who holds the lock and is about to remove what is `leaving`, as if that had happened.
void see_hot_without(Context& context, const metadata::RevisionRecord& record, const Leaving& leaving,
                     metadata::Observation& seen);

/// For clean-up: the instance that is mounted here; null also where it may not be used, as somebody else's must not
/// keep a revision from being deleted.
std::shared_ptr<tiers::Tier> mounted_hot(Context& context);

/// For who publishes or moves what becomes of a named instance: the one that is mounted here. Where none is, and the
/// named one is of this boot, one is made: if its folder had the named one, that is known to be gone from then on. Null
/// where none can be made.
Result<std::shared_ptr<tiers::Tier>> mount_beside(Context& context, const metadata::InstanceName& named);

/// The id of the instance that is mounted here; empty where none is. An error: why that is not known.
Result<std::string> look_for_instance(Context& context);
/// The same; empty also where it is not known.
std::string mounted_instance(Context& context);

/// What is known here of a memory instance that a record or an operation names, as mount_beside() looks. An error: why
/// what is mounted is not known.
Result<metadata::InstanceView> view_from_here(Context& context, const metadata::InstanceName& named);

/// As metadata::is_stray, of what was found.
bool is_stray(Context& context, const metadata::RevisionRecord& record, const HotReplicas& there);

/// Removes what of the group lies in memory here, whoever brought it.
Status remove_hot(Context& context, const std::string& group);

}  // namespace steelyard::store
