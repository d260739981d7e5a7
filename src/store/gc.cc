#include "store/gc.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/limits.h"
#include "base/log.h"
#include "formats/identity.h"
#include "formats/ref.h"
#include "metadata/memory_state.h"
#include "metadata/rules.h"
#include "oplog/op_log.h"
#include "store/catalog_copy.h"
#include "store/manifest_file.h"

namespace steelyard::store {
namespace {

using metadata::Availability;
using metadata::RevisionRecord;

class Collection {
 public:
  Collection(Context& context, bool dry_run, const CancelFlag& cancel)
      : context_(context), dry_run_(dry_run), cancel_(cancel) {}

  Result<GcReport> run() {
    SY_ASSIGN_OR_RETURN(const std::vector<std::string> groups, context_.cold.list_groups());
    for (const std::string& group : groups) {
      SY_RETURN_IF_ERROR(check_cancel());
      // One that cannot be judged keeps what it has, and the rest goes.
      if (Status status = look_at(group); status.code() == Code::kCorrupt) {
        report_.kept.push_back(fmt::format("group {} cannot be judged ({})", group, status.message()));
      } else if (!status.ok()) {
        fail(std::move(status).annotate("looking at", "group " + group));
      }
    }
    SY_POINT(context_.runtime, "gc.after_groups");
    SY_RETURN_IF_ERROR(free_content());
    SY_POINT(context_.runtime, "gc.after_content");
    if (!dry_run_) {
      note(context_.cold.remove_catalog_temporaries(context_.runtime.wall_ms() - context_.options.gc_grace_ms));
      note(free_markers());
      SY_POINT(context_.runtime, "gc.after_markers");
      note(compact());
    }
    SY_RETURN_IF_ERROR(first_failure_);
    return std::move(report_);
  }

 private:
  Status check_cancel() const { return cancel_.load() ? cancelled("gc") : Status(); }

  static void note(const Status& status) {
    if (!status.ok()) log_info("left for the next gc: {}", status.to_string());
  }

  /// Removal goes on past failures.
  void fail(Status status) {
    if (first_failure_.ok()) first_failure_ = std::move(status);
  }

  Status look_at(const std::string& group) {
    SY_ASSIGN_OR_RETURN(const tiers::GroupListing listing, context_.cold.list_group(group));
    SY_ASSIGN_OR_RETURN(const std::optional<RevisionRecord> record, context_.catalog.find_by_group(group));
    if (!record) return look_at_unknown(group, listing);
    switch (record->availability) {
      case Availability::kImporting:
        // What is committed there is of another history, which the import refuses.
        if (listing.committed_attempts.empty()) free_attempts(group, listing, record->import_attempt);
        break;
      case Availability::kReady:
      case Availability::kDegraded:
        free_attempts(group, listing, record->import_attempt);
        // A repair writes there too.
        if (!dry_run_ && !record->operation) {
          fail(context_.cold.remove_temporaries({group, record->import_attempt}));
        }
        break;
      case Availability::kDeleting:
        waiting_.insert(group);
        break;
      case Availability::kDeleted: {
        SY_ASSIGN_OR_RETURN(const bool published, is_published(group, listing));
        if (published) return {};
        for (const std::uint32_t attempt : listing.attempts) free_attempt({group, attempt});
        waiting_.insert(group);
        markers_.insert(group);
        break;
      }
    }
    return {};
  }

  /// Whether a whole revision lies in the group of a tombstone: a removal leaves neither marker nor manifest, so
  /// another history of the catalog published it.
  Result<bool> is_published(const std::string& group, const tiers::GroupListing& listing) {
    if (listing.deleting) return false;
    for (const std::uint32_t attempt : listing.committed_attempts) {
      const auto bytes = context_.cold.read_committed({group, attempt});
      if (bytes.code() == Code::kNotFound) continue;
      SY_RETURN_IF_ERROR(bytes.status());
      const auto record = catalog::decode_committed(*bytes);
      if (!record.ok() || attempt_of(*record) != tiers::AttemptName{group, attempt}) continue;
      const auto manifest = load_manifest(context_.cold, *record);
      if (manifest.code() == Code::kCorrupt) continue;
      SY_RETURN_IF_ERROR(manifest.status());
      report_.kept.push_back(fmt::format("group {} is published as {}, which this catalog knows as deleted", group,
                                         formats::format_ref(record->identity)));
      return true;
    }
    return false;
  }

  /// Attempts below the record's own that were never committed.
  void free_attempts(const std::string& group, const tiers::GroupListing& listing, std::uint32_t own) {
    for (const std::uint32_t attempt : listing.attempts) {
      if (attempt < own && std::ranges::count(listing.committed_attempts, attempt) == 0) {
        free_attempt({group, attempt});
      }
    }
  }

  Status look_at_unknown(const std::string& group, const tiers::GroupListing& listing) {
    if (!listing.deleting && !listing.committed_attempts.empty()) {
      SY_ASSIGN_OR_RETURN(const bool used, is_compacted({group, listing.committed_attempts.front()}));
      if (!used) return {};
    }
    for (const std::uint32_t attempt : listing.attempts) free_attempt({group, attempt});
    if (listing.deleting) {
      markers_.insert(group);
    } else if (!dry_run_) {
      fail(remove_group(group));
    }
    return {};
  }

  /// Whether the committed attempt is of a tombstone that is a watermark by now; what is of no known past is kept.
  Result<bool> is_compacted(const tiers::AttemptName& attempt) {
    const auto bytes = context_.cold.read_committed(attempt);
    if (bytes.code() == Code::kNotFound) return false;  // another gc
    if (!bytes.ok()) return bytes.status();
    const auto record = catalog::decode_committed(*bytes);
    if (record.ok()) {
      SY_ASSIGN_OR_RETURN(const std::int64_t watermark, context_.catalog.get_watermark(record->identity.lineage));
      if (record->identity.weight_generation <= watermark) return true;
    }
    report_.kept.push_back(
        fmt::format("group {} is published as {} and no record of this catalog names it", attempt.group,
                    record.ok() ? formats::format_ref(record->identity) : "a revision that cannot be read"));
    return false;
  }

  /// A foreign file, or a write that came just now, keeps the group.
  Status remove_group(const std::string& group) {
    Status removed = context_.cold.remove_group(group);
    if (removed.code() != Code::kConflict) return removed;
    log_info("left in the cold tier: {}", removed.message());
    return {};
  }

  void free_attempt(const tiers::AttemptName& attempt) {
    const auto objects = context_.cold.list_attempt(attempt);
    if (!objects.ok()) return fail(objects.status());
    for (const tiers::ObjectStat& object : *objects) {
      Freed& freed = freed_[object.storage];
      freed.bytes = object.bytes;
      ++freed.names;
    }
    if (!dry_run_) fail(context_.cold.remove_attempt(attempt));
  }

  Status free_content() {
    const std::int64_t now_ms = context_.runtime.wall_ms();
    SY_ASSIGN_OR_RETURN(const std::vector<tiers::ContentEntry> entries, context_.cold.list_content());
    for (const tiers::ContentEntry& entry : entries) {
      SY_RETURN_IF_ERROR(check_cancel());
      const auto freed = freed_.extract(entry.storage);
      const std::uint64_t names = freed.empty() ? 0 : freed.mapped().names;
      // A dry run counts as if the names were gone, and their going starts the grace anew.
      const std::uint64_t links = dry_run_ ? entry.links - std::min(entry.links - 1, names) : entry.links;
      const std::int64_t age_ms = dry_run_ && names > 0 ? 0 : std::max<std::int64_t>(now_ms - entry.changed_at_ms, 0);
      if (links != 1 || age_ms < context_.options.gc_grace_ms) continue;
      if (!dry_run_) {
        if (Status status = context_.cold.remove_content(entry.sha256); !status.ok()) {
          fail(std::move(status));
          continue;
        }
      }
      count(entry.bytes);
    }
    // What the index does not have was freed with its names.
    for (const auto& [storage, freed] : freed_) count(freed.bytes);
    return {};
  }

  void count(std::uint64_t bytes) {
    ++report_.objects;
    report_.bytes += bytes;
  }

  /// A state that a recovery might start from; absent for a copy that cannot be used.
  std::optional<metadata::MemoryState> load_copy(std::uint64_t sequence) {
    const auto snapshot = read_snapshot_copy(context_.cold, sequence);
    if (!snapshot.ok()) return std::nullopt;
    const auto section = snapshot->sections.find(std::string(metadata::kSnapshotSection));
    if (section == snapshot->sections.end()) return std::nullopt;
    auto rows = metadata::load_section(section->second, snapshot->sequence);
    if (!rows.ok()) return std::nullopt;
    metadata::MemoryState state;
    state.reset(snapshot->sequence, std::move(rows).value());
    return state;
  }

  /// Whether a recovery from `state` would know that the group's identity is used, without the marker.
  Result<bool> knows_tombstone(const metadata::StateView& state, const std::string& group) {
    SY_ASSIGN_OR_RETURN(const auto record, metadata::find_by_group(state, group));
    if (record) return record->availability == Availability::kDeleted;
    const auto bytes = context_.cold.read_deleting(group);
    if (bytes.code() == Code::kNotFound) return true;  // a folder without a marker
    if (!bytes.ok()) return bytes.status();
    const auto marked = catalog::decode_deleting(*bytes);
    if (!marked.ok()) return false;
    SY_ASSIGN_OR_RETURN(const auto watermark, metadata::find_watermark(state, marked->identity.lineage));
    return watermark && watermark->weight_generation >= marked->identity.weight_generation;
  }

  /// Frees the groups whose tombstones every kept snapshot copy knows: one of them may be damaged one day.
  Status free_known_markers() {
    if (markers_.empty()) return {};
    SY_ASSIGN_OR_RETURN(std::vector<std::uint64_t> copies, context_.cold.list_catalog_copies());
    SY_ASSIGN_OR_RETURN(const std::uint64_t newest, context_.catalog.sequence());
    // A copy from behind the log's end is of another history.
    std::erase_if(copies, [&](std::uint64_t sequence) { return sequence > newest; });
    std::set<std::string> known = markers_;
    std::size_t usable = 0;
    for (const std::uint64_t sequence : copies) {
      const auto state = load_copy(sequence);
      if (!state) continue;
      ++usable;
      for (auto group = known.begin(); group != known.end();) {
        SY_ASSIGN_OR_RETURN(const bool knows, knows_tombstone(*state, *group));
        group = knows ? std::next(group) : known.erase(group);
      }
    }
    if (usable < limits::kCatalogCopiesKept) return {};
    for (const std::string& group : known) {
      SY_RETURN_IF_ERROR(remove_group(group));
      waiting_.erase(group);
      markers_.erase(group);
    }
    return {};
  }

  Status free_markers() {
    SY_RETURN_IF_ERROR(free_known_markers());
    const bool of_this_catalog =
        std::ranges::any_of(markers_, [&](const auto& group) { return waiting_.contains(group); });
    if (!of_this_catalog || context_.options.snapshot_every == 0) return {};
    SY_RETURN_IF_ERROR(context_.catalog.save_snapshot());
    return free_known_markers();
  }

  /// A lineage keeps its newest tombstones; of the older ones those go whose group is gone.
  Status compact() {
    constexpr std::size_t kPage = 1000;
    std::vector<RevisionRecord> tombstones;  // of one lineage, by generation
    std::optional<metadata::Identity> last;
    for (;;) {
      SY_RETURN_IF_ERROR(check_cancel());
      SY_ASSIGN_OR_RETURN(const auto records, context_.catalog.records_after(last, kPage));
      for (const RevisionRecord& record : records) {
        if (last && last->lineage != record.identity.lineage) {
          SY_RETURN_IF_ERROR(compact_lineage(tombstones));
          tombstones.clear();
        }
        last = record.identity;
        if (record.availability == Availability::kDeleted) tombstones.push_back(record);
      }
      if (records.size() < kPage) return compact_lineage(tombstones);
    }
  }

  Status compact_lineage(const std::vector<RevisionRecord>& tombstones) {
    if (tombstones.size() <= limits::kTombstonesKept) return {};
    std::size_t count = 0;
    while (count < tombstones.size() - limits::kTombstonesKept &&
           !waiting_.contains(attempt_of(tombstones[count]).group)) {
      ++count;
    }
    if (count == 0) return {};
    const metadata::Identity& newest = tombstones[count - 1].identity;
    const Status compacted =
        context_.catalog.compact_tombstones({.lineage = newest.lineage, .weight_generation = newest.weight_generation});
    // An older generation is imported right now.
    if (compacted.code() == Code::kConflict) return {};
    SY_RETURN_IF_ERROR(compacted);
    report_.tombstones += count;
    return {};
  }

  struct Freed {
    std::uint64_t bytes = 0;
    std::uint64_t names = 0;
  };

  Context& context_;
  const bool dry_run_;
  const CancelFlag& cancel_;
  GcReport report_;
  Status first_failure_;
  std::map<std::uint64_t, Freed> freed_;  ///< by storage: the names that went, or would
  std::set<std::string> waiting_;         ///< groups of DELETING and DELETED records that still lie in the tier
  std::set<std::string> markers_;         ///< groups that only wait for a snapshot copy
};

}  // namespace

Result<GcReport> run_gc(Context& context, bool dry_run, const CancelFlag& cancel) {
  if (context.read_only && !dry_run) {
    return Status(Code::kUnauthorized, "the store is read-only: nothing can be freed",
                  "use an account with write permission; --dry-run works");
  }
  return Collection(context, dry_run, cancel).run();
}

}  // namespace steelyard::store
