#include "store/gc.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <iterator>
#include <map>
#include <memory>
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
#include "store/gc_memory.h"
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
        report_.kept.push_back(fmt::format(
            "group {} cannot be judged ({}); mend what is in the way, or, if nobody wants its bytes, remove {} by hand",
            group, status.message(), folder_of(group)));
      } else if (!status.ok()) {
        fail(std::move(status).annotate("looking at", "group " + group));
      }
    }
    note(collect_memory(context_, dry_run_, cancel_, report_));
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
  /// In the cold tier's folder.
  static std::string folder_of(const std::string& group) { return "groups/" + group.substr(0, 2) + "/" + group; }

  Status check_cancel() const { return cancel_.load() ? cancelled("gc") : Status(); }

  static void note(const Status& status) {
    if (!status.ok()) log_info("left for the next gc: {}", status.to_string());
  }

  /// Removal goes on past failures.
  void fail(Status status) {
    if (first_failure_.ok()) first_failure_ = std::move(status);
  }

  /// What is to become of a group.
  struct Verdict {
    std::optional<RevisionRecord> record;
    bool deleting = false;               ///< it has the marker
    std::vector<std::uint32_t> garbage;  ///< attempts
    std::string kept;                    ///< why a group without a record stays; empty: it goes
  };

  Result<Verdict> judge(const std::string& group) {
    SY_ASSIGN_OR_RETURN(const tiers::GroupListing listing, context_.cold.list_group(group));
    Verdict verdict;
    verdict.deleting = listing.deleting;
    // A log whose store was moved away, or replaced, is read on as if nothing had happened.
    SY_RETURN_IF_ERROR(context_.catalog.check_place());
    SY_ASSIGN_OR_RETURN(verdict.record, context_.catalog.find_by_group(group));
    const auto availability = verdict.record ? verdict.record->availability : Availability::kDeleted;
    if (availability == Availability::kDeleted && !listing.deleting) {
      SY_ASSIGN_OR_RETURN(verdict.kept, verdict.record ? whole_there(group, listing.committed_attempts)
                                                       : published_there(group, listing.committed_attempts));
      if (!verdict.kept.empty()) return verdict;
    }
    // What is committed beside an import is of another history, which the import refuses.
    if (availability == Availability::kImporting && !listing.committed_attempts.empty()) return verdict;
    if (availability == Availability::kDeleting) return verdict;
    for (const std::uint32_t attempt : listing.attempts) {
      const bool older = verdict.record && attempt < verdict.record->import_attempt &&
                         std::ranges::count(listing.committed_attempts, attempt) == 0;
      if (availability == Availability::kDeleted || older) verdict.garbage.push_back(attempt);
    }
    return verdict;
  }

  /// Of a group that no record names: the revision whose bytes are there. A marker without anything else is what a
  /// writer put late; empty then.
  Result<std::string> published_there(const std::string& group, const std::vector<std::uint32_t>& committed) {
    for (const std::uint32_t attempt : committed) {
      SY_ASSIGN_OR_RETURN(const auto objects, context_.cold.list_attempt({group, attempt}));
      if (objects.empty()) continue;
      const auto bytes = context_.cold.read_committed({group, attempt});
      if (!bytes.ok() && bytes.code() != Code::kNotFound) return bytes.status();
      const auto record = bytes.ok() ? catalog::decode_committed(*bytes) : bytes.status();
      if (!record.ok()) {
        return fmt::format(
            "group {} was published, its `committed` marker cannot be read, and no record of this catalog names it; "
            "restore the marker from a backup, or, if nobody wants its bytes, remove {} by hand",
            group, folder_of(group));
      }
      return fmt::format(
          "group {} is published as {} and no record of this catalog names it; `steelyard recover` rebuilds a catalog "
          "that knows it",
          group, formats::format_ref(record->identity));
    }
    return std::string();
  }

  /// Of a tombstone's group: a whole revision. A removal leaves neither marker nor manifest, so another history of the
  /// catalog published it.
  Result<std::string> whole_there(const std::string& group, const std::vector<std::uint32_t>& committed) {
    for (const std::uint32_t attempt : committed) {
      const auto bytes = context_.cold.read_committed({group, attempt});
      if (bytes.code() == Code::kNotFound) continue;
      SY_RETURN_IF_ERROR(bytes.status());
      const auto record = catalog::decode_committed(*bytes);
      if (!record.ok() || attempt_of(*record) != tiers::AttemptName{group, attempt}) continue;
      const auto manifest = load_manifest(context_.cold, *record);
      if (manifest.code() == Code::kCorrupt) continue;
      SY_RETURN_IF_ERROR(manifest.status());
      return fmt::format(
          "group {} is published as {}, which this catalog knows as deleted; `steelyard recover --force` rebuilds a "
          "catalog that has it, and `steelyard delete` frees it then",
          group, formats::format_ref(record->identity));
    }
    return std::string();
  }

  Status look_at(const std::string& group) {
    SY_ASSIGN_OR_RETURN(Verdict verdict, judge(group));
    std::vector<std::unique_ptr<tiers::HeldAttempt>> held;
    if (!verdict.garbage.empty() && !dry_run_) {
      for (const std::uint32_t attempt : verdict.garbage) {
        auto one = context_.cold.hold_attempt({group, attempt});
        if (one.ok()) {
          held.push_back(std::move(one).value());
        } else if (one.code() != Code::kNotFound) {
          fail(std::move(one).status());
        }
      }
      SY_POINT(context_.runtime, "gc.after_hold");
      SY_ASSIGN_OR_RETURN(verdict, judge(group));
    }
    for (const std::uint32_t attempt : verdict.garbage) {
      const auto one = std::ranges::find_if(held, [&](const auto& each) { return each->name().attempt == attempt; });
      if (dry_run_ || one != held.end()) free_attempt({group, attempt}, dry_run_ ? nullptr : one->get());
    }
    return settle(group, verdict);
  }

  /// What there is to do besides attempts.
  Status settle(const std::string& group, const Verdict& verdict) {
    if (!verdict.kept.empty()) report_.kept.push_back(verdict.kept);
    if (!verdict.record) {
      if (verdict.deleting) {
        markers_.insert(group);
      } else if (verdict.kept.empty() && !dry_run_) {
        fail(context_.cold.remove_empty_group(group));
      }
      return {};
    }
    const RevisionRecord& record = *verdict.record;
    switch (record.availability) {
      case Availability::kImporting:
        break;
      case Availability::kReady:
      case Availability::kDegraded:
        // A repair writes there too, of this revision or of one that shares its bytes.
        if (!dry_run_ && !record.operation) {
          fail(context_.cold.remove_temporaries({group, record.import_attempt}, context_.options.gc_grace_ms));
        }
        break;
      case Availability::kDeleted:
        if (!verdict.kept.empty()) break;
        markers_.insert(group);
        [[fallthrough]];
      case Availability::kDeleting:
        waiting_.insert(group);
        break;
    }
    return {};
  }

  /// A foreign file, or a write that came just now, keeps the group.
  Status remove_group(const std::string& group) {
    Status removed = context_.cold.remove_group(group);
    if (removed.code() != Code::kConflict) return removed;
    log_info("left in the cold tier: {}", removed.message());
    return {};
  }

  void free_attempt(const tiers::AttemptName& attempt, const tiers::HeldAttempt* held) {
    const auto objects = context_.cold.list_attempt(attempt);
    if (!objects.ok()) return fail(objects.status());
    for (const tiers::ObjectStat& object : *objects) {
      Freed& freed = freed_[object.storage];
      freed.bytes = object.bytes;
      ++freed.names;
    }
    if (held != nullptr) fail(context_.cold.remove_held(*held));
  }

  Status free_content() {
    for (unsigned first = 0; first <= 0xff; ++first) {
      SY_RETURN_IF_ERROR(check_cancel());
      SY_ASSIGN_OR_RETURN(const std::vector<tiers::ContentEntry> entries,
                          context_.cold.list_content(static_cast<std::uint8_t>(first)));
      for (const tiers::ContentEntry& entry : entries) free_entry(entry);
    }
    // What the index does not have was freed with its names.
    for (const auto& [storage, freed] : freed_) count(freed.bytes);
    return {};
  }

  void free_entry(const tiers::ContentEntry& entry) {
    const auto freed = freed_.extract(entry.storage);
    const std::uint64_t names = freed.empty() ? 0 : freed.mapped().names;
    // A dry run counts as if the names were gone, and their going starts the grace anew.
    const std::uint64_t links = dry_run_ ? entry.links - std::min(entry.links - 1, names) : entry.links;
    const std::int64_t now_ms = context_.runtime.wall_ms();
    const std::int64_t age_ms = dry_run_ && names > 0 ? 0 : std::max<std::int64_t>(now_ms - entry.changed_at_ms, 0);
    if (links != 1 || age_ms < context_.options.gc_grace_ms) return;
    if (!dry_run_) {
      if (Status status = context_.cold.remove_content(entry.sha256); !status.ok()) return fail(std::move(status));
    }
    count(entry.bytes);
  }

  void count(std::uint64_t bytes) {
    ++report_.objects;
    report_.bytes += bytes;
  }

  /// A state that a recovery might start from; absent for a copy that cannot be used, which a recovery passes over too.
  Result<std::optional<metadata::MemoryState>> read_copy(std::uint64_t sequence) {
    const auto snapshot = read_snapshot_copy(context_.cold, sequence);
    if (!snapshot.ok()) {
      if (snapshot.code() == Code::kUnavailable) return snapshot.status();
      return std::optional<metadata::MemoryState>();
    }
    const auto section = snapshot->sections.find(std::string(metadata::kSnapshotSection));
    if (section == snapshot->sections.end()) return std::optional<metadata::MemoryState>();
    auto rows = metadata::load_section(section->second, snapshot->sequence);
    if (!rows.ok()) return std::optional<metadata::MemoryState>();
    metadata::MemoryState state;
    state.reset(snapshot->sequence, *std::move(rows));
    return std::optional(std::move(state));
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

  /// The same of this catalog: a tombstone, or one that a recovery made a watermark of.
  Result<bool> catalog_knows_tombstone(const std::string& group) {
    if (waiting_.contains(group)) return true;
    const auto bytes = context_.cold.read_deleting(group);
    if (bytes.code() == Code::kNotFound) return false;
    if (!bytes.ok()) return bytes.status();
    const auto marked = catalog::decode_deleting(*bytes);
    if (!marked.ok()) return false;
    SY_ASSIGN_OR_RETURN(const std::int64_t watermark, context_.catalog.get_watermark(marked->identity.lineage));
    return watermark >= marked->identity.weight_generation;
  }

  /// Frees the groups whose tombstones every copy of the catalog knows, of two at least: a tombstone is for ever, and
  /// one damaged copy must not end it.
  Status free_known_markers() {
    if (markers_.empty()) return {};
    SY_ASSIGN_OR_RETURN(std::vector<std::uint64_t> copies, context_.cold.list_catalog_copies());
    SY_ASSIGN_OR_RETURN(const std::uint64_t newest, context_.catalog.sequence());
    // A copy from behind the log's end is of another history.
    std::erase_if(copies, [&](std::uint64_t sequence) { return sequence > newest; });
    std::set<std::string> known = markers_;
    std::size_t usable = 0;
    for (const std::uint64_t sequence : copies) {
      SY_RETURN_IF_ERROR(check_cancel());
      SY_ASSIGN_OR_RETURN(const auto state, read_copy(sequence));
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
    bool worth_a_copy = false;
    for (const std::string& group : markers_) {
      if (worth_a_copy) break;
      SY_ASSIGN_OR_RETURN(worth_a_copy, catalog_knows_tombstone(group));
    }
    if (!worth_a_copy || context_.options.snapshot_every == 0) return {};
    SY_RETURN_IF_ERROR(context_.catalog.save_snapshot());
    return free_known_markers();
  }

  /// A lineage keeps its newest tombstones; of the older ones those go whose group is gone.
  Status compact() {
    constexpr std::size_t kPage = 1000;
    std::optional<metadata::Identity> last;
    for (;;) {
      SY_RETURN_IF_ERROR(check_cancel());
      SY_ASSIGN_OR_RETURN(const auto records, context_.catalog.records_after(last, kPage));
      for (const RevisionRecord& record : records) {
        if (last && last->lineage != record.identity.lineage) SY_RETURN_IF_ERROR(end_lineage(last->lineage));
        last = record.identity;
        if (record.availability == Availability::kDeleted) SY_RETURN_IF_ERROR(add_tombstone(record));
      }
      if (records.size() < kPage) return last ? end_lineage(last->lineage) : Status();
    }
  }

  Status add_tombstone(const RevisionRecord& record) {
    kept_.push_back({record.identity.weight_generation, attempt_of(record).group});
    if (kept_.size() <= limits::kTombstonesKept || compacting_ended_) return {};
    const Tombstone oldest = std::move(kept_.front());
    kept_.pop_front();
    if (waiting_.contains(oldest.group)) {
      compacting_ended_ = true;
      return {};
    }
    compacted_to_ = oldest.weight_generation;
    if (++compacted_ < kCompactedAtOnce) return {};
    return compact_until_here(record.identity.lineage);
  }

  Status compact_until_here(const metadata::Lineage& lineage) {
    if (compacted_ == 0) return {};
    const std::size_t count = std::exchange(compacted_, 0);
    const Status compacted =
        context_.catalog.compact_tombstones({.lineage = lineage, .weight_generation = compacted_to_});
    if (compacted.code() == Code::kConflict) {
      // An older generation is imported right now.
      compacting_ended_ = true;
      return {};
    }
    SY_RETURN_IF_ERROR(compacted);
    report_.tombstones += count;
    return {};
  }

  Status end_lineage(const metadata::Lineage& lineage) {
    Status status = compact_until_here(lineage);
    kept_.clear();
    compacting_ended_ = false;
    return status;
  }

  struct Freed {
    std::uint64_t bytes = 0;
    std::uint64_t names = 0;
  };
  struct Tombstone {
    std::int64_t weight_generation = 0;
    std::string group;
  };
  /// One append has room for so many removed records, whatever their labels.
  static constexpr std::size_t kCompactedAtOnce = 1000;

  Context& context_;
  const bool dry_run_;
  const CancelFlag& cancel_;
  GcReport report_;
  Status first_failure_;
  std::map<std::uint64_t, Freed> freed_;  ///< by storage: the names that went, or would
  std::set<std::string> waiting_;         ///< groups of DELETING and DELETED records that still lie in the tier
  std::set<std::string> markers_;         ///< groups that only wait for snapshot copies
  // Of the lineage that is compacted:
  std::deque<Tombstone> kept_;     ///< the newest ones
  std::size_t compacted_ = 0;      ///< older ones, not appended yet
  std::int64_t compacted_to_ = 0;  ///< the newest of those
  bool compacting_ended_ = false;  ///< one has to stay, and all that are newer
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
