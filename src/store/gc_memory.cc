#include "store/gc_memory.h"

#include <fmt/format.h>

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tiers/tier.h"

namespace steelyard::store {
namespace {

using metadata::Availability;

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
    SY_ASSIGN_OR_RETURN(const bool gone, is_gone(group));
    return gone ? free_gone(group) : Status();
  }

  /// No record has it, or a tombstone. UNAVAILABLE where the store was moved away, or replaced: then its log is read on
  /// as if nothing had happened.
  Result<bool> is_gone(const std::string& group) {
    SY_RETURN_IF_ERROR(context_.catalog.check_place());
    SY_ASSIGN_OR_RETURN(const auto record, context_.catalog.find_by_group(group));
    return !record || record->availability == Availability::kDeleted;
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
    SY_ASSIGN_OR_RETURN(const bool gone, is_gone(group));
    if (!gone) return {};
    std::set<std::uint64_t> seen;
    for (const auto& made : held) {
      SY_ASSIGN_OR_RETURN(const auto objects, tier_.list_attempt(made->name()));
      if (!dry_run_) SY_RETURN_IF_ERROR(tier_.remove_held(*made));
      for (const tiers::ObjectStat& object : objects) {
        if (seen.insert(object.storage).second) count(object.bytes);
      }
    }
    return dry_run_ ? Status() : tier_.remove_empty_group(group);
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
      if (entry.links == 1 && !left.contains(entry.sha256)) count(entry.bytes);
    }
    return {};
  }

  void count(std::uint64_t bytes) {
    ++report_.objects;
    report_.bytes += bytes;
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
