#include "store/gc_memory.h"

#include <fmt/format.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "formats/ref.h"
#include "store/evict.h"
#include "store/manifest_file.h"
#include "store/placement.h"
#include "store/progress_meter.h"
#include "store/resolve.h"

namespace steelyard::store {
namespace {

using metadata::Availability;
using metadata::InstanceView;
using metadata::RevisionRecord;

struct Freed {
  std::uint64_t objects = 0;
  std::uint64_t bytes = 0;
};

class MemoryCollection {
 public:
  MemoryCollection(Context& context, tiers::Tier& tier, bool dry_run, const CancelFlag& cancel, GcReport& report)
      : context_(context), tier_(tier), dry_run_(dry_run), cancel_(cancel), report_(report) {}

  Status run() {
    SY_ASSIGN_OR_RETURN(const std::vector<std::string> groups, tier_.list_groups());
    for (const std::string& group : groups) {
      if (cancel_.load()) return cancelled("gc");
      const Status status = look_at(group);
      if (is_cancelled(status)) return status;
      if (!status.ok()) {
        report_.kept.push_back(fmt::format("group {} in memory: {}", group, status.to_string()));
      }
    }
    // Of replacements that were killed.
    if (!dry_run_) {
      const std::int64_t before_ms = context_.runtime.wall_ms() - context_.options.gc_grace_ms;
      SY_RETURN_IF_ERROR(tier_.remove_catalog_temporaries(before_ms));
    }
    return free_unused();
  }

 private:
  Status look_at(const std::string& group) {
    SY_ASSIGN_OR_RETURN(const auto record, context_.catalog.find_by_group(group));
    if (!record || record->availability == Availability::kDeleted) return free_gone(group);
    return free_stray(*record);
  }

  Status free_gone(const std::string& group) {
    SY_ASSIGN_OR_RETURN(const auto listing, tier_.list_group(group));
    std::vector<std::unique_ptr<tiers::HeldAttempt>> held;
    for (const tiers::AttemptName& made : listing.by_operation) {
      auto one = tier_.hold_attempt(made);
      if (one.code() == Code::kNotFound) continue;
      SY_RETURN_IF_ERROR(one.status());
      held.push_back(std::move(one).value());
    }
    SY_POINT(context_.runtime, "gc.after_hold_hot");
    SY_ASSIGN_OR_RETURN(const auto record, context_.catalog.find_by_group(group));
    if (record && record->availability != Availability::kDeleted) return {};
    std::set<std::uint64_t> seen;
    for (const auto& made : held) {
      SY_ASSIGN_OR_RETURN(const auto objects, tier_.list_attempt(made->name()));
      if (!dry_run_) SY_RETURN_IF_ERROR(tier_.remove_held(*made));
      for (const tiers::ObjectStat& object : objects) {
        if (seen.insert(object.storage).second) count({1, object.bytes});
      }
    }
    return dry_run_ ? Status() : tier_.remove_empty_group(group);
  }

  Status free_stray(const RevisionRecord& record) {
    // Before anything is read: most of what lies in memory is what its record names.
    if (view_from_here(context_, metadata::instance_of(record)) != InstanceView::kElsewhere) return {};
    SY_ASSIGN_OR_RETURN(const auto manifest, load_manifest(context_.cold, record));
    SY_ASSIGN_OR_RETURN(const HotReplicas there, find_hot(context_, record, manifest));
    if (!is_stray(context_, record, there)) return {};
    SY_ASSIGN_OR_RETURN(const Freed freed, kept_by_it_alone(record, manifest));
    if (!dry_run_) {
      ResidencyRequest request;
      request.target = selector_of(record.identity);
      request.expected_generation = record.metadata_generation;
      request.wait_for_others = false;
      NoObserver nobody;
      const Status evicted = evict_only(context_, request, nobody, cancel_).status();
      if (is_overtaken(evicted)) return {};  // others move it just now
      SY_RETURN_IF_ERROR(evicted);
    }
    count(freed);
    return {};
  }

  /// Of the revision's replicas here: what no other revision shares.
  Result<Freed> kept_by_it_alone(const RevisionRecord& record, const formats::StoredManifest& manifest) {
    struct Bytes {
      std::uint64_t bytes = 0;
      std::uint64_t others = 0;  ///< names that are not this revision's
    };
    std::map<std::uint64_t, Bytes> by_storage;
    SY_ASSIGN_OR_RETURN(const auto listing, tier_.list_group(attempt_of(record).group));
    for (const tiers::AttemptName& made : listing.by_operation) {
      SY_ASSIGN_OR_RETURN(const auto objects, tier_.list_attempt(made));
      for (const tiers::ObjectStat& object : objects) {
        const bool is_payload =
            object.name.kind == tiers::ObjectKind::kPayload && object.name.index < manifest.objects.size();
        if (!is_payload) continue;
        const auto [found, first] = by_storage.try_emplace(object.storage, Bytes{object.bytes, object.links});
        if (first) {
          const auto entry = tier_.stat_content(manifest.objects[object.name.index].sha256);
          if (entry.ok() && entry->storage == object.storage) --found->second.others;
        }
        --found->second.others;
      }
    }
    Freed freed;
    for (const auto& [storage, kept] : by_storage) {
      if (kept.others != 0) continue;
      ++freed.objects;
      freed.bytes += kept.bytes;
    }
    return freed;
  }

  /// What killed processes left beside the objects. The tier frees it whenever it looks at its space.
  Status free_unused() {
    SY_ASSIGN_OR_RETURN(const std::vector<tiers::ContentEntry> before, tier_.list_content());
    std::set<Digest> left;
    if (!dry_run_) {
      SY_RETURN_IF_ERROR(tier_.available_bytes().status());
      SY_ASSIGN_OR_RETURN(const std::vector<tiers::ContentEntry> after, tier_.list_content());
      for (const tiers::ContentEntry& entry : after) left.insert(entry.sha256);
    }
    for (const tiers::ContentEntry& entry : before) {
      if (entry.links == 1 && !left.contains(entry.sha256)) count({1, entry.bytes});
    }
    return {};
  }

  void count(const Freed& freed) {
    report_.objects += freed.objects;
    report_.bytes += freed.bytes;
  }

  Context& context_;
  tiers::Tier& tier_;
  const bool dry_run_;
  const CancelFlag& cancel_;
  GcReport& report_;
};

}  // namespace

Status collect_memory(Context& context, bool dry_run, const CancelFlag& cancel, GcReport& report) {
  const auto tier = mounted_hot(context);
  if (tier == nullptr) return {};
  return MemoryCollection(context, *tier, dry_run, cancel, report).run();
}

}  // namespace steelyard::store
