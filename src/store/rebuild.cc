#include "store/rebuild.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/limits.h"
#include "catalog/catalog.h"
#include "formats/ref.h"
#include "metadata/codec.h"
#include "metadata/keys.h"
#include "metadata/memory_state.h"
#include "metadata/rows.h"
#include "metadata/rules.h"
#include "oplog/log_row.h"
#include "oplog/replay.h"
#include "store/catalog_copy.h"
#include "store/context.h"
#include "store/manifest_file.h"

namespace steelyard::store {
namespace {

using metadata::Availability;
using metadata::Identity;
using metadata::Lineage;
using metadata::RevisionRecord;

std::string path_of_group(const std::string& group) { return fmt::format("groups/{}/{}", group.substr(0, 2), group); }
std::string path_of(const tiers::AttemptName& attempt) {
  return fmt::format("{}/{}", path_of_group(attempt.group), attempt.attempt);
}
std::string path_of_copy(std::uint64_t sequence) { return fmt::format("catalog/{:020}", sequence); }

/// Numbers above it are of no log. The new one goes on above the highest that is found, and needs room.
constexpr std::uint64_t kSequenceMax = oplog::kSequenceMax / 2;

Status check_sequences(const RevisionRecord& record) {
  const std::uint64_t highest = std::max({record.begin_seq, record.committed_seq, record.deleted_seq});
  if (highest <= kSequenceMax) return {};
  return {Code::kCorrupt, fmt::format("{} was changed by append {}, a number that no log has come to",
                                      formats::format_ref(record.identity), highest)};
}

class Rebuilding {
 public:
  explicit Rebuilding(tiers::Tier& cold) : cold_(cold) {}

  Result<RebuiltCatalog> run() {
    SY_RETURN_IF_ERROR(begin_with_copy());
    SY_ASSIGN_OR_RETURN(const auto groups, cold_.list_groups());
    for (const std::string& group : groups) SY_RETURN_IF_ERROR(read_group(group));
    SY_RETURN_IF_ERROR(check_published());
    drop_covered_imports();
    return finish();
  }

 private:
  void skip(std::string path, std::string reason) { rebuilt_.skipped.push_back({std::move(path), std::move(reason)}); }

  /// The newest copy that is whole; older ones are its reserve.
  Status begin_with_copy() {
    SY_ASSIGN_OR_RETURN(const std::vector<std::uint64_t> copies, cold_.list_catalog_copies());
    for (auto copy = copies.rbegin(); copy != copies.rend(); ++copy) {
      if (*copy > kSequenceMax) {
        skip(path_of_copy(*copy), "no log has come so far: its number is out of range");
        continue;
      }
      // No append may be given a number that an earlier one had.
      sequence_ = std::max(sequence_, *copy);
      Status status = read_copy(*copy);
      if (status.ok()) return {};
      if (status.code() != Code::kCorrupt && status.code() != Code::kNotFound) {
        return std::move(status).annotate("reading", path_of_copy(*copy));
      }
      skip(path_of_copy(*copy), status.message());
    }
    return {};
  }

  Status read_copy(std::uint64_t sequence) {
    SY_ASSIGN_OR_RETURN(oplog::Snapshot snapshot, read_snapshot_copy(cold_, sequence));
    if (snapshot.sequence != sequence) {
      return {Code::kCorrupt, fmt::format("it is a snapshot of sequence {}, not of its name's", snapshot.sequence)};
    }
    SY_ASSIGN_OR_RETURN(const metadata::MemoryState state, oplog::state_of(snapshot, oplog::metadata_codec()));
    SY_ASSIGN_OR_RETURN(auto records,
                        metadata::rows_under(state, {metadata::keys::kRevision}, metadata::decode_record));
    SY_ASSIGN_OR_RETURN(auto marks,
                        metadata::rows_under(state, {metadata::keys::kWatermark}, metadata::decode_watermark));
    SY_ASSIGN_OR_RETURN(auto writers, metadata::rows_under(state, {metadata::keys::kWriter}, metadata::decode_writer));
    SY_ASSIGN_OR_RETURN(accesses_, metadata::rows_under(state, {metadata::keys::kAccess}, metadata::decode_access));
    SY_ASSIGN_OR_RETURN(epoch_, metadata::epoch_of(state));
    for (RevisionRecord& record : records) {
      end_operation(record);
      Identity identity = record.identity;
      groups_.emplace(attempt_of(record).group, identity);
      records_.emplace(std::move(identity), std::move(record));
    }
    for (metadata::Watermark& mark : marks) marks_.emplace(std::move(mark.lineage), mark.weight_generation);
    for (metadata::Writer& writer : writers) {
      writer.token.clear();
      Identity identity = writer.identity;
      writers_.emplace(std::move(identity), std::move(writer));
    }
    copy_sequence_ = sequence;
    rebuilt_.snapshot.sections = std::move(snapshot.sections);
    return {};
  }

  /// Nobody runs it any more, and what it had done is seen by reconciliation.
  static void end_operation(RevisionRecord& record) {
    if (!record.operation) return;
    metadata::Operation ended = *std::move(record.operation);
    record.operation.reset();
    ended.state = metadata::OperationState::kCancelled;
    ended.ended_at_ms = std::max(record.updated_at_ms, ended.started_at_ms);
    ended.message = "cancelled by a recovery of the catalog";
    record.finished_operations.push_back(std::move(ended));
    if (record.finished_operations.size() > limits::kOperationsRetained) {
      record.finished_operations.erase(record.finished_operations.begin());
    }
    ++record.metadata_generation;
  }

  Status check_published() {
    for (auto& [identity, record] : records_) {
      if (!is_published(record.availability)) continue;
      if (whole_.contains(identity)) continue;
      const auto manifest = load_manifest(cold_, record);
      if (manifest.code() != Code::kCorrupt) continue;
      SY_RETURN_IF_ERROR(degrade(record));
      skip(path_of(attempt_of(record)),
           fmt::format("{} is DEGRADED: {}", formats::format_ref(identity), manifest.status().message()));
    }
    return {};
  }

  /// Its manifest is not what it was: it cannot be read until it is repaired.
  Status degrade(RevisionRecord& record) {
    SY_ASSIGN_OR_RETURN(const auto members, cold_.list_attempt(attempt_of(record)));
    auto& objects = record.damage.objects;
    const auto place = std::lower_bound(objects.begin(), objects.end(), record.manifest_key);
    const bool known = place != objects.end() && *place == record.manifest_key;
    if (!known && objects.size() < limits::kDamagedNamedMax) objects.insert(place, record.manifest_key);
    if (!known) ++record.damage.count;
    if (members.empty()) {
      record.residency = metadata::Residency::kAbsent;
      record.hot_millionths.reset();
      record.hot_instance.clear();
      record.hot_boot_id.clear();
      record.hot_members = 0;
    }
    if (record.availability == Availability::kReady) record.availability_since_ms = record.updated_at_ms;
    record.availability = Availability::kDegraded;
    ++record.metadata_generation;
    return {};
  }

  Status read_group(const std::string& group) {
    SY_ASSIGN_OR_RETURN(const tiers::GroupListing listing, cold_.list_group(group));
    const auto known = groups_.find(group);
    const auto record = known == groups_.end() ? records_.end() : records_.find(known->second);
    if (listing.deleting) return read_deleting(group, listing, record);
    const bool tombstone = record != records_.end() && record->second.availability == Availability::kDeleted;
    if (record != records_.end() && record->second.availability != Availability::kImporting && !tombstone) return {};

    std::optional<RevisionRecord> found;
    std::size_t refused = 0;
    for (const std::uint32_t attempt : listing.committed_attempts) {
      const tiers::AttemptName name{group, attempt};
      auto committed = read_committed(name);
      if (committed.ok() && found) {
        committed =
            Status(Code::kCorrupt, fmt::format("attempt {} of the group is committed too", found->import_attempt));
      }
      if (committed.ok()) {
        SY_ASSIGN_OR_RETURN(const bool taken, take(*committed));
        if (taken) found = std::move(committed).value();
        if (!taken) ++refused;
      } else if (committed.code() == Code::kUnavailable || committed.code() == Code::kUnauthorized) {
        return std::move(committed).status().annotate("reading", path_of(name));
      } else {
        ++refused;
        skip(path_of(name), committed.status().message());
      }
    }
    if (found || tombstone) return {};
    if (record != records_.end()) {
      raise_attempt(record->second, listing);
    } else if (refused == 0) {
      skip(path_of_group(group), "no `committed` marker: an import that did not end; `gc` frees it");
    }
    return {};
  }

  /// The record of a `committed` marker that agrees with where it lies.
  Result<RevisionRecord> read_committed(const tiers::AttemptName& attempt) {
    SY_ASSIGN_OR_RETURN(const std::string bytes, cold_.read_committed(attempt));
    SY_ASSIGN_OR_RETURN(RevisionRecord record, catalog::decode_committed(bytes));
    if (attempt_of(record) != attempt) {
      return Status(Code::kCorrupt, fmt::format("its `committed` marker is that of {}, attempt {}",
                                                formats::format_ref(record.identity), record.import_attempt));
    }
    SY_RETURN_IF_ERROR(check_sequences(record));
    return record;
  }

  /// Whether the marker gives a record. Where the newest copy, or a watermark, says that the revision is gone, only a
  /// whole one is more than what a writer put late: a removal leaves no manifest, and its `deleting` marker until the
  /// copies know of it. So what is whole was published by another history of the catalog, and is nobody's to free.
  Result<bool> take(RevisionRecord record) {
    const auto known = records_.find(record.identity);
    const auto mark = marks_.find(record.identity.lineage);
    const bool deleted = known != records_.end() && known->second.availability == Availability::kDeleted;
    const bool compacted = mark != marks_.end() && mark->second >= record.identity.weight_generation &&
                           record.committed_seq <= copy_sequence_ && known == records_.end();
    const std::string ref = formats::format_ref(record.identity);
    const auto manifest = load_manifest(cold_, record);
    if (!manifest.ok() && manifest.code() != Code::kCorrupt) {
      return manifest.status().annotate("reading", path_of(attempt_of(record)));
    }
    if (deleted || compacted) {
      const std::string gone = deleted ? "deleted" : "deleted, and its record compacted";
      if (!manifest.ok()) {
        skip(path_of(attempt_of(record)),
             fmt::format("{} was {}; what came back of it is no whole revision, and stays as it is", ref, gone));
        return false;
      }
      skip(path_of(attempt_of(record)),
           fmt::format("{} was {} as the newest copy knows it, and is published here all the same, by another history "
                       "of the catalog: it is READY; `steelyard delete {}` frees it",
                       ref, gone, ref));
    }
    if (manifest.ok()) whole_.insert(record.identity);
    end_operation(record);
    writers_.erase(record.identity);
    records_.insert_or_assign(record.identity, std::move(record));
    return true;
  }

  /// What a dead writer may have put into later attempts must not meet a new one's.
  void raise_attempt(RevisionRecord& record, const tiers::GroupListing& listing) {
    if (listing.attempts.empty() || listing.attempts.back() <= record.import_attempt) return;
    record.import_attempt = listing.attempts.back();
    ++record.metadata_generation;
    const auto writer = writers_.find(record.identity);
    if (writer != writers_.end()) writer->second.import_attempt = record.import_attempt;
  }

  using Records = std::map<Identity, RevisionRecord>;
  Status read_deleting(const std::string& group, const tiers::GroupListing& listing, Records::iterator record) {
    if (record != records_.end() && (record->second.availability == Availability::kDeleted ||
                                     record->second.availability == Availability::kDeleting)) {
      return {};
    }
    std::optional<Identity> identity;
    if (record != records_.end()) {
      identity = record->first;
    } else {
      SY_ASSIGN_OR_RETURN(identity, identity_of(group, listing));
    }
    if (!identity) {
      skip(path_of_group(group), "it is being deleted, and what it was is not known any more; `gc` frees it");
      return {};
    }
    skip(path_of_group(group), fmt::format("{} is being deleted; `gc` frees the rest", formats::format_ref(*identity)));
    std::int64_t& mark = marks_[identity->lineage];
    mark = std::max(mark, identity->weight_generation);
    writers_.erase(*identity);
    std::erase_if(accesses_, [&](const metadata::Access& access) { return access.identity == *identity; });
    if (record != records_.end()) records_.erase(record);
    return {};
  }

  /// From whatever is still there of a group that is being deleted.
  Result<std::optional<Identity>> identity_of(const std::string& group, const tiers::GroupListing& listing) {
    std::vector<Identity> candidates;
    const auto note = [&](const Result<RevisionRecord>& record) -> Status {
      if (record.ok()) candidates.push_back(record->identity);
      return record.code() == Code::kUnavailable ? record.status() : Status();
    };
    // What cannot be read now may be read by the next try; what is not there, or is damaged, by none.
    const auto read = [](const Result<std::string>& bytes) -> Result<bool> {
      if (bytes.ok()) return true;
      if (bytes.code() == Code::kNotFound || bytes.code() == Code::kCorrupt) return false;
      return bytes.status();
    };
    const auto marker = cold_.read_deleting(group);
    SY_ASSIGN_OR_RETURN(const bool marked, read(marker));
    if (marked) SY_RETURN_IF_ERROR(note(catalog::decode_deleting(*marker)));
    for (const std::uint32_t attempt : listing.attempts) {
      const auto committed = cold_.read_committed({group, attempt});
      SY_ASSIGN_OR_RETURN(const bool was_committed, read(committed));
      if (was_committed) SY_RETURN_IF_ERROR(note(catalog::decode_committed(*committed)));
      const auto bytes = read_manifest_bytes(cold_, {group, attempt});
      SY_ASSIGN_OR_RETURN(const bool has_manifest, read(bytes));
      if (!has_manifest) continue;
      if (const auto manifest = formats::read_manifest(*bytes); manifest.ok()) candidates.push_back(manifest->identity);
    }
    for (Identity& identity : candidates) {
      if (attempt_of(identity, 1).group == group) return std::optional(std::move(identity));
    }
    return std::optional<Identity>();
  }

  /// An import cannot go on at or below its lineage's watermark.
  void drop_covered_imports() {
    for (auto at = records_.begin(); at != records_.end();) {
      const auto& [identity, record] = *at;
      const auto mark = marks_.find(identity.lineage);
      if (record.availability != Availability::kImporting || mark == marks_.end() ||
          mark->second < identity.weight_generation) {
        ++at;
        continue;
      }
      skip(path_of_group(attempt_of(record).group),
           fmt::format("the import of {} cannot be resumed: generations up to {} are used; `gc` frees it",
                       formats::format_ref(identity), mark->second));
      writers_.erase(identity);
      at = records_.erase(at);
    }
  }

  Result<RebuiltCatalog> finish() {
    std::vector<metadata::RowChange> rows;
    const auto put = [&rows](const metadata::EntryBody& body) {
      for (metadata::RowChange& row : metadata::rows_of(body)) {
        if (row.value) rows.push_back(std::move(row));
      }
    };
    if (epoch_.ordinal != 0) {
      put(metadata::EpochBegun{epoch_});
      rows.push_back(
          {metadata::keys::last_instant(), metadata::keys::be64(static_cast<std::uint64_t>(epoch_.last_mono_ms))});
    }
    for (auto& [identity, record] : records_) {
      sequence_ = std::max({sequence_, record.begin_seq, record.committed_seq, record.deleted_seq});
      put(metadata::RevisionPut{record});
      if (is_published(record.availability)) {
        rebuilt_.published.push_back(std::move(record));
      }
    }
    for (const auto& [identity, writer] : writers_) put(metadata::WriterPut{writer});
    for (const auto& [lineage, generation] : marks_) put(metadata::WatermarkPut{{lineage, generation}});
    for (const metadata::Access& access : accesses_) put(metadata::AccessPut{access});

    // What was appended after the newest of them is lost; its numbers must not be given again to something else.
    rebuilt_.snapshot.sequence = sequence_ + 1;
    metadata::MemoryState state;
    state.apply_changes(rebuilt_.snapshot.sequence, std::move(rows));
    const oplog::StateCodec& codec = oplog::metadata_codec();
    SY_ASSIGN_OR_RETURN(std::string section, codec.save_section(state));
    SY_RETURN_IF_ERROR(codec.load_section(section, rebuilt_.snapshot.sequence)
                           .status()
                           .annotate("checking", "the catalog that was rebuilt"));
    rebuilt_.snapshot.sections.insert_or_assign(codec.section_name(), std::move(section));
    return std::move(rebuilt_);
  }

  tiers::Tier& cold_;
  RebuiltCatalog rebuilt_;
  std::uint64_t sequence_ = 0;       ///< the highest that anything names
  std::uint64_t copy_sequence_ = 0;  ///< of the copy it began with; 0: none
  Records records_;
  std::map<std::string, Identity> groups_;  ///< of the records in the copy
  std::map<Identity, metadata::Writer> writers_;
  std::map<Lineage, std::int64_t> marks_;
  std::vector<metadata::Access> accesses_;
  metadata::EpochState epoch_;
  std::set<Identity> whole_;  ///< their manifests were read, and are right
};

}  // namespace

Result<RebuiltCatalog> rebuild_catalog(tiers::Tier& cold) { return Rebuilding(cold).run(); }

}  // namespace steelyard::store
