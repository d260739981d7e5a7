#include "store/hot_repair.h"

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "base/limits.h"
#include "base/log.h"
#include "formats/identity.h"
#include "formats/ref.h"
#include "store/manifest_file.h"
#include "store/progress_meter.h"
#include "store/replica_check.h"

namespace steelyard::store {
namespace {

/// Every name of the tier whose bytes are those of `name`, itself last: who repairs it again looks at that one, so the
/// others are done before it, and it alone may come to be where it was not (Tier::open_replacement).
Result<std::vector<tiers::ObjectName>> names_of(tiers::Tier& tier, const tiers::ObjectName& name) {
  SY_ASSIGN_OR_RETURN(const tiers::ObjectStat own, tier.stat(name));
  std::vector<tiers::ObjectName> names;
  SY_ASSIGN_OR_RETURN(const auto groups, tier.list_groups());
  for (const std::string& group : groups) {
    SY_ASSIGN_OR_RETURN(const tiers::GroupListing listing, tier.list_group(group));
    for (const tiers::AttemptName& attempt : listing.by_operation) {
      SY_ASSIGN_OR_RETURN(const auto members, tier.list_attempt(attempt));
      for (const tiers::ObjectStat& member : members) {
        if (member.storage == own.storage && member.name != name) names.push_back(member.name);
      }
    }
  }
  names.push_back(name);
  return names;
}

/// For who holds the lock: the record ceases to count what is about to go.
Status lower(Context& context, metadata::RevisionRecord record, const Leaving& leaving) {
  constexpr int kTriesMax = 8;
  for (int tries = 1; is_published(record.availability); ++tries) {
    metadata::ReconcileRevision command;
    command.identity = record.identity;
    command.observed_generation = record.metadata_generation;
    command.seen.damage = record.damage;
    command.seen.cold_readable = record.residency != metadata::Residency::kAbsent;
    see_hot_without(context, record, leaving, command.seen);
    if (command.seen.boot_id.empty()) {
      return {Code::kUnavailable, "what of " + formats::format_ref(record.identity) + " lies in memory is not known",
              "run the same command again"};
    }
    const auto lowered = context.catalog.reconcile_weight_revision(command);
    const bool moved = lowered.code() == Code::kStaleGeneration || lowered.code() == Code::kNotReady;
    if (!moved || tries == kTriesMax) return lowered.status();
    SY_ASSIGN_OR_RETURN(record, context.catalog.get_weight_revision(record.identity));
  }
  return {};
}

Status drop_of_group(Context& context, tiers::Tier& tier, const std::string& group,
                     const std::vector<tiers::ObjectName>& names) {
  SY_ASSIGN_OR_RETURN(const auto record, context.catalog.find_by_group(group));
  std::unique_ptr<tiers::GroupLock> lock;
  if (record && is_published(record->availability)) {
    SY_ASSIGN_OR_RETURN(lock, lock_to_remove(context, tier, *record));
    SY_RETURN_IF_ERROR(
        lower(context, *record, [&](const tiers::ObjectName& name) { return std::ranges::count(names, name) != 0; }));
  }
  for (const tiers::ObjectName& name : names) SY_RETURN_IF_ERROR(tier.remove(name));
  return {};
}

Status drop(Context& context, tiers::Tier& tier, const std::vector<tiers::ObjectName>& names, const Digest& sha256) {
  // The index first: nobody links what is on its way out.
  const auto entry = tier.stat_content(sha256);
  const auto object = tier.stat(names.back());
  if (entry.ok() && object.ok() && entry->storage == object->storage) {
    SY_RETURN_IF_ERROR(tier.remove_content(sha256));
  }
  std::map<std::string, std::vector<tiers::ObjectName>> by_group;
  for (const tiers::ObjectName& name : names) by_group[name.in.group].push_back(name);
  for (const auto& [group, own] : by_group) SY_RETURN_IF_ERROR(drop_of_group(context, tier, group, own));
  return {};
}

/// What was evicted meanwhile is gone, not bad; what could not be read now may be whole.
bool is_bad(const BadObject& found) { return found.kind != ProblemKind::kMissingObject && found.read_error.ok(); }

std::vector<std::uint32_t> numbers_of(const std::vector<BadObject>& found) {
  std::vector<std::uint32_t> numbers;
  for (const BadObject& one : found) {
    if (is_bad(one)) numbers.push_back(one.object);
  }
  return numbers;
}

}  // namespace

Result<Spared> spare_what_is_hot(Context& context, const metadata::RevisionRecord& record, const std::string& instance,
                                 ObjectFindings& findings) {
  Spared spared;
  if (findings.damaged.empty() || instance.empty()) return spared;
  const auto manifest = load_manifest(context.cold, record);
  if (manifest.code() == Code::kCorrupt) return spared;  // without it no replica can be judged
  SY_RETURN_IF_ERROR(manifest.status());
  SY_ASSIGN_OR_RETURN(const HotReplicas hot, find_hot(context, record, *manifest));
  if (hot.instance != instance || hot.members == 0) return spared;
  // Whoever found it has buffers of its own still.
  SY_ASSIGN_OR_RETURN(ReadBuffers buffers, ReadBuffers::allocate(limits::kBlockBytes));
  std::vector<std::string> damaged;
  for (std::string& key : findings.damaged) {
    const auto object = payload_index_of(record.identity, key);
    bool whole = object && *object < manifest->objects.size() && hot.has(*object);
    if (whole) {
      SY_ASSIGN_OR_RETURN(const auto bad,
                          check_replica(*hot.tier, hot.name_of(*object).in, *manifest, *object, buffers));
      whole = !bad;
      // Bad in both: together they may have every block. Whoever finds it again has seen a repair try.
      const bool is_news = findings.is_last_look || std::ranges::count(record.damage.objects, key) == 0;
      if (bad && is_bad(*bad) && is_news) {
        findings.bad_in_memory.emplace(*object, manifest->objects[*object].bytes);
      }
    }
    if (whole) {
      ++spared.objects;
      spared.bytes += manifest->objects[*object].bytes;
    }
    (whole ? findings.whole : damaged).push_back(std::move(key));
  }
  findings.damaged = std::move(damaged);
  return spared;
}

Status keep_what_is_bad_in_memory(Context& context, const metadata::RevisionRecord& record,
                                  const formats::StoredManifest& manifest, BadInMemory& bad) {
  if (bad.empty()) return {};
  SY_ASSIGN_OR_RETURN(const HotReplicas hot, find_hot(context, record, manifest));
  // Whoever found it has buffers of its own still.
  SY_ASSIGN_OR_RETURN(ReadBuffers buffers, ReadBuffers::allocate(limits::kBlockBytes));
  BadInMemory still;
  for (const auto& [object, bytes] : bad) {
    if (!hot.has(object)) continue;
    SY_ASSIGN_OR_RETURN(const auto found, check_replica(*hot.tier, hot.name_of(object).in, manifest, object, buffers));
    if (found && is_bad(*found)) still.emplace(object, bytes);
  }
  bad = std::move(still);
  return {};
}

void begin_repair(Context& context, const Spared& what, metadata::RevisionRecord& record) {
  if (context.read_only || what.objects == 0 || record.operation) return;
  metadata::StartOperation command;
  command.identity = record.identity;
  command.expected_metadata_generation = record.metadata_generation;
  command.operation_id = context.runtime.random_hex(16);
  command.kind = metadata::OperationKind::kRepairing;
  command.target = metadata::Residency::kCold;
  command.total_members = what.objects;
  command.total_bytes = what.bytes;
  command.message = "found by a read; the next reconcile or repair carries it out";
  auto started = context.catalog.start_operation(command);
  if (started.ok()) {
    record = std::move(*started->record);
  } else {
    log_info("the repair of {} is not begun: {}", formats::format_ref(record.identity), started.status().to_string());
  }
}

Result<HotDamage> find_hot_damage(Context& context, const metadata::RevisionRecord& record,
                                  const formats::StoredManifest& manifest, const HotReplicas& hot,
                                  const std::set<std::uint32_t>& known, StopSignal& stop, Observer& observer) {
  HotDamage damage;
  if (hot.members == 0) return damage;
  std::vector<tiers::ObjectName> in_memory;
  std::vector<tiers::ObjectName> in_cold;
  std::uint64_t total_bytes = hot.bytes;
  for (std::uint32_t object = 0; object < manifest.objects.size(); ++object) {
    if (!hot.has(object)) continue;
    in_memory.push_back(hot.name_of(object));
    if (known.contains(object)) continue;
    in_cold.push_back(payload_of(attempt_of(record), object));
    total_bytes += manifest.objects[object].bytes;
  }
  ProgressMeter progress(context.runtime, observer, "scan", total_bytes, 0);
  SY_ASSIGN_OR_RETURN(const auto cold, check_replicas(context, context.cold, manifest, in_cold, stop, progress));
  SY_ASSIGN_OR_RETURN(const auto memory, check_replicas(context, *hot.tier, manifest, in_memory, stop, progress));
  progress.finish();
  for (const BadObject& one : cold) damage.cold.push_back(one.object);
  damage.memory = numbers_of(memory);
  return damage;
}

Status renew_in_memory(Context& context, const metadata::RevisionRecord& record,
                       const formats::StoredManifest& manifest, const HotReplicas& hot, std::uint32_t object,
                       StopSignal& stop) {
  const formats::ObjectEntry& entry = manifest.objects[object];
  auto names = names_of(*hot.tier, hot.name_of(object));
  if (names.code() == Code::kNotFound) return {};  // evicted meanwhile
  SY_RETURN_IF_ERROR(names.status());
  SY_ASSIGN_OR_RETURN(ReadBuffers buffers, ReadBuffers::allocate(read_piece_bytes(context.io_budget, 2)));
  const auto whole = check_replica(context.cold, attempt_of(record), manifest, object, buffers);
  SY_RETURN_IF_ERROR(whole.status());
  if (*whole) return to_status(**whole, record.identity);
  const auto replace = [&]() -> Status {
    SY_ASSIGN_OR_RETURN(const auto stream, hot.tier->open_replacement(*names, entry.bytes, entry.sha256));
    VerifiedReader reader(context.cold, attempt_of(record), manifest.objects, {{object, 0, entry.bytes}}, buffers);
    VerifiedReader::Piece piece;
    for (;;) {
      SY_RETURN_IF_ERROR(stop.status("the repair"));
      SY_ASSIGN_OR_RETURN(const bool more, reader.next(piece));
      if (!more) return stream->finish().status();
      if (piece.bad) return to_status(*piece.bad, record.identity);
      SY_RETURN_IF_ERROR(stream->append(piece.bytes));
    }
  };
  Status status = replace();
  if (status.code() != Code::kNoSpace) return status;
  log_warning("what is damaged of {} in memory is removed there, as there is no room to make it anew: {}",
              formats::format_ref(record.identity), status.message());
  return drop(context, *hot.tier, *names, entry.sha256);
}

}  // namespace steelyard::store
