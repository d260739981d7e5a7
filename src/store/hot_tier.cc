#include "store/hot_tier.h"

#include <set>
#include <utility>

#include "base/log.h"
#include "formats/ref.h"
#include "metadata/rules.h"
#include "store/context.h"
#include "store/manifest_file.h"

namespace steelyard::store {

Result<std::shared_ptr<tiers::Tier>> HotTier::open(bool create) {
  const auto known = [&] {
    const std::lock_guard lock(mutex_);
    return tier_;
  }();
  if (known != nullptr && known->instance().code() != Code::kUnavailable) return known;
  // Without the lock: it may take its time.
  auto opened = open_(create);
  // No instance, or no tmpfs in which one could be.
  const bool none = opened.code() == Code::kNotFound || opened.code() == Code::kInvalidArgument;
  std::shared_ptr<tiers::Tier> now = opened.ok() ? std::move(opened).value() : nullptr;
  const std::lock_guard lock(mutex_);
  if (tier_ != known && tier_ != nullptr) return tier_;  // another task opened it meanwhile
  tier_ = std::move(now);
  if (none && !create) return std::shared_ptr<tiers::Tier>();
  SY_RETURN_IF_ERROR(opened.status());
  return tier_;
}

Result<std::shared_ptr<tiers::Tier>> HotTier::find() { return open(false); }

Result<std::shared_ptr<tiers::Tier>> HotTier::make() { return open(true); }

Result<HotReplicas> find_hot(Context& context, const metadata::RevisionRecord& record,
                             const formats::StoredManifest& manifest, const Leaving& leaving) {
  HotReplicas found;
  found.identity = record.identity;
  if (context.hot == nullptr) return found;
  SY_ASSIGN_OR_RETURN(found.tier, context.hot->find());
  if (found.tier == nullptr) return found;
  SY_ASSIGN_OR_RETURN(found.instance, found.tier->instance());
  const tiers::AttemptName committed = attempt_of(record);
  SY_ASSIGN_OR_RETURN(const tiers::GroupListing listing, found.tier->list_group(committed.group));
  for (const tiers::AttemptName& made : listing.by_operation) {
    if (made.attempt != committed.attempt) continue;
    SY_ASSIGN_OR_RETURN(const auto objects, found.tier->list_attempt(made));
    for (const tiers::ObjectStat& object : objects) {
      const std::uint32_t index = object.name.index;
      if (object.name.kind != tiers::ObjectKind::kPayload || index >= manifest.objects.size()) continue;
      if (object.bytes != manifest.objects[index].bytes || found.has(index)) continue;
      if (leaving && leaving(object.name)) continue;
      found.where.resize(manifest.objects.size());
      found.where[index] = made;
      ++found.members;
      found.bytes += object.bytes;
    }
  }
  return found;
}

Result<std::uint64_t> room_for(tiers::Tier& tier, const formats::StoredManifest& manifest, const HotReplicas& there,
                               const std::function<bool(std::uint32_t object)>& wanted) {
  std::uint64_t bytes = 0;
  std::set<Digest> counted;
  for (std::uint32_t object = 0; object < manifest.objects.size(); ++object) {
    const formats::ObjectEntry& entry = manifest.objects[object];
    if (!wanted(object) || there.has(object) || !counted.insert(entry.sha256).second) continue;
    const auto content = tier.stat_content(entry.sha256);
    if (!content.ok() && content.code() != Code::kNotFound) return content.status();
    // An entry that is the last name of its bytes goes with the next look at what is used.
    if (content.ok() && content->bytes == entry.bytes && content->links > 1) continue;
    bytes += tier.charged_bytes(entry.bytes);
  }
  return bytes;
}

namespace {

Result<std::unique_ptr<tiers::GroupLock>> lock_group(Context& context, tiers::Tier& tier,
                                                     const metadata::RevisionRecord& record, bool exclusive,
                                                     const CancelFlag* cancel) {
  constexpr std::int64_t kPauseMs = 10;
  constexpr int kTriesMax = 300;
  for (int tries = 0; tries < kTriesMax; ++tries) {
    if (tries > 0) {
      if (cancel != nullptr && cancel->load()) return cancelled("waiting for others in memory");
      context.runtime.sleep_ms(kPauseMs);
    }
    SY_ASSIGN_OR_RETURN(auto lock, tier.try_lock_group(attempt_of(record).group, exclusive));
    if (lock != nullptr) return lock;
  }
  std::string names;
  for (const std::string& holder : tier.lock_holders(attempt_of(record).group)) {
    names += (names.empty() ? " (" : "; ") + holder;
  }
  return Status(Code::kBusy,
                std::string("a process that removes ") + (exclusive ? "or counts " : "") + "replicas of " +
                    formats::format_ref(record.identity) + " in memory does not come to an end" +
                    (names.empty() ? "" : names + ")"),
                names.empty() ? "see whether it was stopped, and let it go on or end it"
                              : "let it go on (kill -CONT PID) or end it");
}

}  // namespace

Result<std::unique_ptr<tiers::GroupLock>> lock_to_count(Context& context, tiers::Tier& tier,
                                                        const metadata::RevisionRecord& record,
                                                        const CancelFlag* cancel) {
  return lock_group(context, tier, record, false, cancel);
}

Result<std::unique_ptr<tiers::GroupLock>> lock_to_remove(Context& context, tiers::Tier& tier,
                                                         const metadata::RevisionRecord& record,
                                                         const CancelFlag* cancel) {
  return lock_group(context, tier, record, true, cancel);
}

HotReplicas find_hot_to_read(Context& context, const metadata::RevisionRecord& record,
                             const formats::StoredManifest& manifest) {
  // Where all that is in memory is bad the record counts none of it, and its good blocks serve until it is repaired.
  const bool repairs = record.operation && record.operation->kind == metadata::OperationKind::kRepairing;
  if (record.hot_instance.empty() && !repairs) return {};
  auto found = find_hot(context, record, manifest);
  if (found.ok() && (repairs || found->instance == record.hot_instance)) return std::move(found).value();
  if (!found.ok()) {
    log_info("{} is read from the cold tier: {}", formats::format_ref(record.identity), found.status().to_string());
  }
  return {};
}

namespace {

/// Takes the lock unless it is null.
Status count_hot(Context& context, const metadata::RevisionRecord& record, const Leaving& leaving,
                 std::unique_ptr<tiers::GroupLock>* lock, const CancelFlag* cancel, metadata::Observation& seen) {
  if (context.hot == nullptr) return {};
  SY_ASSIGN_OR_RETURN(const auto tier, mount_beside(context, metadata::instance_of(record)));
  if (tier == nullptr) return {};
  SY_ASSIGN_OR_RETURN(const std::string instance, tier->instance());
  const auto is_empty = [&]() -> Result<bool> {
    SY_ASSIGN_OR_RETURN(const auto listing, tier->list_group(attempt_of(record).group));
    return listing.by_operation.empty();
  };
  SY_ASSIGN_OR_RETURN(const bool empty, is_empty());
  // Without the lock, which others wait for: the cold tier may be slow.
  std::optional<formats::StoredManifest> manifest;
  if (!empty) {
    auto loaded = load_manifest(context.cold, record);
    // Without it no replica can be read, wherever it lies.
    if (loaded.code() == Code::kCorrupt) {
      seen.hot_instance = instance;
      return {};
    }
    SY_RETURN_IF_ERROR(loaded.status());
    manifest.emplace(std::move(loaded).value());
  }
  if (lock != nullptr) {
    SY_ASSIGN_OR_RETURN(*lock, lock_to_count(context, *tier, record, cancel));
  }
  if (!manifest) {
    SY_ASSIGN_OR_RETURN(const bool still_empty, is_empty());
    if (!still_empty) return {Code::kBusy, "replicas came while they were counted", "try again"};
    seen.hot_instance = instance;
    return {};
  }
  SY_ASSIGN_OR_RETURN(const HotReplicas found, find_hot(context, record, *manifest, leaving));
  seen.hot_instance = found.instance;
  seen.hot_members = found.members;
  seen.hot_bytes = found.bytes;
  return {};
}

void see(Context& context, const metadata::RevisionRecord& record, const Leaving& leaving,
         std::unique_ptr<tiers::GroupLock>* lock, const CancelFlag* cancel, metadata::Observation& seen) {
  seen.boot_id = context.runtime.epoch();
  const Status counted = count_hot(context, record, leaving, lock, cancel, seen);
  if (counted.ok()) return;
  // It knows nothing about memory then, and says so.
  seen.boot_id.clear();
  seen.hot_instance.clear();
  log_info("what of {} lies in memory is not known: {}", formats::format_ref(record.identity), counted.to_string());
}

}  // namespace

std::unique_ptr<tiers::GroupLock> see_hot(Context& context, const metadata::RevisionRecord& record,
                                          metadata::Observation& seen, const Leaving& bad, const CancelFlag* cancel) {
  std::unique_ptr<tiers::GroupLock> lock;
  see(context, record, bad, &lock, cancel, seen);
  return lock;
}

void see_hot_without(Context& context, const metadata::RevisionRecord& record, const Leaving& leaving,
                     metadata::Observation& seen) {
  see(context, record, leaving, nullptr, nullptr, seen);
}

std::shared_ptr<tiers::Tier> mounted_hot(Context& context) {
  if (context.hot == nullptr) return nullptr;
  auto tier = context.hot->find();
  if (tier.ok()) return std::move(tier).value();
  log_info("the memory tier is left alone: {}", tier.status().to_string());
  return nullptr;
}

Result<std::string> look_for_instance(Context& context) {
  if (context.hot == nullptr) return std::string();
  SY_ASSIGN_OR_RETURN(const auto tier, context.hot->find());
  return tier == nullptr ? std::string() : tier->instance();
}

std::string mounted_instance(Context& context) {
  auto instance = look_for_instance(context);
  if (instance.ok()) return std::move(instance).value();
  log_info("the memory tier is left alone: {}", instance.status().to_string());
  return {};
}

Result<std::shared_ptr<tiers::Tier>> mount_beside(Context& context, const metadata::InstanceName& named) {
  auto found = context.hot->find();
  const bool is_none = found.ok() && *found == nullptr;
  const auto view = metadata::view_of_instance(named, {.id = {}, .boot_id = context.runtime.epoch()});
  if (!is_none || view != metadata::InstanceView::kElsewhere) return found;
  auto made = context.hot->make();
  if (made.ok()) return made;
  log_info("no memory instance is made here: {}", made.status().to_string());
  return found;
}

Result<metadata::InstanceView> view_from_here(Context& context, const metadata::InstanceName& named) {
  std::string mounted;
  if (context.hot != nullptr) {
    SY_ASSIGN_OR_RETURN(const auto tier, mount_beside(context, named));
    if (tier != nullptr) {
      SY_ASSIGN_OR_RETURN(mounted, tier->instance());
    }
  }
  return metadata::view_of_instance(named, {mounted, context.runtime.epoch()});
}

bool is_stray(Context& context, const metadata::RevisionRecord& record, const HotReplicas& there) {
  metadata::Observation seen;
  seen.boot_id = context.runtime.epoch();
  seen.hot_instance = there.instance;
  seen.hot_members = there.members;
  seen.hot_bytes = there.bytes;
  return metadata::is_stray(record, seen);
}

Status remove_hot(Context& context, const std::string& group) {
  const auto tier = mounted_hot(context);
  if (tier == nullptr) return {};
  SY_ASSIGN_OR_RETURN(const auto listing, tier->list_group(group));
  for (const tiers::AttemptName& made : listing.by_operation) SY_RETURN_IF_ERROR(tier->remove_attempt(made));
  return tier->remove_empty_group(group);
}

}  // namespace steelyard::store
