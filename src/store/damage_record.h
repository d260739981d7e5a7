// Recording what was seen of a revision's objects: READY <-> DEGRADED follows from it.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/stored_manifest.h"
#include "store/context.h"
#include "store/stop_signal.h"
#include "store/verified_reader.h"

namespace steelyard::store {

/// The payload object that a key of `identity` names; absent for the manifest's key and for any other text.
std::optional<std::uint32_t> payload_index_of(const metadata::Identity& identity, std::string_view key);

/// The payload objects of an attempt that a listing shows to be missing or of another size, by number.
Result<std::vector<std::uint32_t>> misfits_of(tiers::Tier& tier, const tiers::AttemptName& attempt,
                                              const formats::StoredManifest& manifest);

/// NOT_READY where the revision is deleted by now, or is being deleted: nothing keeps a delete waiting for a reader
/// that holds no lease. UNAVAILABLE where the store went away. For a read that met missing or bad bytes.
Status check_not_deleted(Context& context, const metadata::RevisionRecord& record);
/// The same for one that works on the revision, of which a delete ends every operation: "was deleted" and `meanwhile`.
Status check_not_deleted(Context& context, const metadata::RevisionRecord& record, std::string_view meanwhile);

/// Reads the whole object: what is wrong with it, its size, a block or its SHA-256; absent when it is as it was
/// imported. `read_error` is set where it could not be read now, which proves nothing.
Result<std::optional<BadObject>> check_object(Context& context, const tiers::AttemptName& attempt,
                                              const formats::StoredManifest& manifest, std::uint32_t object,
                                              ReadBuffers& buffers);

/// Takes an object's bytes out of the content index if they are what the index has, so that no later import links them.
/// A good copy of the same content stays.
void stop_sharing(Context& context, const tiers::ObjectName& name, const Digest& sha256);

/// What was read of single objects, by key.
struct ObjectFindings {
  std::vector<std::string> damaged{};
  std::vector<std::string> whole{};
  bool complete = false;       ///< everything was read: what is not among the damaged is whole
  bool none_is_there = false;  ///< complete, and nothing of the revision is left
  BadInMemory bad_in_memory{};
  bool is_last_look = false;  ///< at the end of a move, beside which no repair could be begun: what is recorded is news
};
/// Damaged is what no tier can serve: of an object that is bad in the cold tier and whole in memory a repair is begun
/// instead (hot_repair.h), and carried out by the next reconcile. What is bad in memory gets one too, and is hot no
/// more until then, unless it is damaged: then its good blocks count.
///
/// Publishes it over what is recorded of the other objects; `record` is the record as the reading began. A record that
/// moved since is read again, and so are the objects before they are offered for it: a repair may have replaced the
/// damaged ones, and others may have found damage in the whole ones. A revision that is being deleted is left alone.
Result<metadata::RevisionRecord> record_findings(Context& context, metadata::RevisionRecord record,
                                                 const ObjectFindings& findings, const StopSignal& stop);

/// For a read that met bad objects: publishes them together as `record_findings`, and takes their bytes out of the
/// content index. A finding that cannot be recorded now is a warning, as the read has its error anyway. Nothing in a
/// read-only store, and nothing for an object that only could not be read.
void record_bad_objects(Context& context, const metadata::RevisionRecord& record,
                        const formats::StoredManifest& manifest, std::span<const BadObject> bad,
                        const StopSignal& stop);
/// For a read that took from the cold tier what is bad in memory: recorded as `record_findings`, a failure is a
/// warning. Nothing in a read-only store, and where a repair was begun before.
void record_bad_in_memory(Context& context, const metadata::RevisionRecord& record, const BadInMemory& bad,
                          const StopSignal& stop);
/// find_hot_to_read, and where less lies there than the record counts, the record is lowered, with a warning.
HotReplicas open_hot_to_read(Context& context, const metadata::RevisionRecord& record,
                             const formats::StoredManifest& manifest, const StopSignal& stop);
/// The same for a manifest that load_manifest refused as CORRUPT.
void record_bad_manifest(Context& context, const metadata::RevisionRecord& record, const StopSignal& stop);

}  // namespace steelyard::store
