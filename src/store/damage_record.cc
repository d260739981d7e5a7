#include "store/damage_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/limits.h"
#include "base/log.h"
#include "base/units.h"
#include "formats/identity.h"
#include "formats/ref.h"
#include "store/hot_repair.h"
#include "store/manifest_file.h"
#include "store/replica_check.h"

namespace steelyard::store {
namespace {

constexpr std::int64_t kPauseMs = 100;

/// What is recorded, with the findings over it.
metadata::DamageReport merged(const metadata::DamageReport& before, const ObjectFindings& findings) {
  // Where more are counted than named, the unnamed ones stay counted: nothing is known of them.
  const std::uint64_t unnamed = findings.complete ? 0 : before.count - before.objects.size();
  std::set<std::string> named;
  if (!findings.complete) named.insert(before.objects.begin(), before.objects.end());
  for (const std::string& key : findings.whole) named.erase(key);
  std::uint64_t added = 0;
  for (const std::string& key : findings.damaged) added += named.insert(key).second ? 1 : 0;
  metadata::DamageReport after;
  // One that was counted without a name may be among the new ones.
  after.count = unnamed > 0 ? std::max<std::uint64_t>(named.size(), named.size() - added + unnamed) : named.size();
  for (const std::string& key : named) {
    if (after.objects.size() == limits::kDamagedNamedMax) break;
    after.objects.push_back(key);
  }
  return after;
}

/// Judges those keys again, for a record that moved. One that cannot be read now keeps what is recorded of it.
Status judge_again(Context& context, const metadata::RevisionRecord& record, const std::set<std::string>& keys,
                   ObjectFindings& findings) {
  findings.damaged.clear();
  findings.whole.clear();
  const std::set<std::string> recorded(record.damage.objects.begin(), record.damage.objects.end());
  const auto unknown = [&](const std::string& key) {
    if (recorded.contains(key)) findings.damaged.push_back(key);
  };
  const auto manifest = load_manifest(context.cold, record);
  if (!manifest.ok() && manifest.code() != Code::kCorrupt) return manifest.status();
  if (manifest.ok()) {
    SY_RETURN_IF_ERROR(keep_what_is_bad_in_memory(context, record, *manifest, findings.bad_in_memory));
  }
  // Whoever found it has buffers of its own still.
  SY_ASSIGN_OR_RETURN(ReadBuffers buffers, ReadBuffers::allocate(limits::kBlockBytes));
  for (const std::string& key : keys) {
    const auto object = payload_index_of(record.identity, key);
    if (!object) {
      (manifest.ok() ? findings.whole : findings.damaged).push_back(key);
      continue;
    }
    if (!manifest.ok() || *object >= manifest->objects.size()) {
      unknown(key);
      continue;
    }
    SY_ASSIGN_OR_RETURN(const auto bad, check_object(context, attempt_of(record), *manifest, *object, buffers));
    if (bad && !bad->read_error.ok()) {
      unknown(key);
    } else {
      (bad ? findings.damaged : findings.whole).push_back(key);
    }
  }
  return {};
}

void record_keys(Context& context, const metadata::RevisionRecord& record, std::vector<std::string> keys,
                 const StopSignal& stop) {
  std::erase_if(keys, [&](const std::string& key) { return std::ranges::count(record.damage.objects, key) != 0; });
  if (context.read_only || keys.empty()) return;
  const auto recorded = record_findings(context, record, {.damaged = std::move(keys), .whole = {}}, stop);
  if (!recorded.ok()) log_warning("what was found could not be recorded: {}", recorded.status().message());
}

Status check_not_deleted(Context& context, const metadata::RevisionRecord& record, std::string_view meanwhile,
                         std::string hint) {
  SY_RETURN_IF_ERROR(context.catalog.check_place());
  const auto now = context.catalog.get_weight_revision(record.identity);
  if (now.ok() && is_published(now->availability)) return {};
  // NOT_FOUND: its tombstone was compacted.
  if (!now.ok() && now.code() != Code::kNotFound) return {};
  return {Code::kNotReady,
          fmt::format("{} was deleted{} {}", formats::format_ref(record.identity),
                      now.ok() ? " at " + format_rfc3339(now->availability_since_ms) : "", meanwhile),
          std::move(hint)};
}

}  // namespace

std::optional<std::uint32_t> payload_index_of(const metadata::Identity& identity, std::string_view key) {
  const auto slash = key.rfind('/');
  if (slash == std::string_view::npos || key.size() - slash != 9) return std::nullopt;
  std::uint32_t index = 0;
  for (const char c : key.substr(slash + 1)) {
    if (c < '0' || c > '9') return std::nullopt;
    index = index * 10 + static_cast<std::uint32_t>(c - '0');
  }
  if (formats::payload_key(identity, index) != key) return std::nullopt;
  return index;
}

Result<std::vector<std::uint32_t>> misfits_of(tiers::Tier& tier, const tiers::AttemptName& attempt,
                                              const formats::StoredManifest& manifest) {
  SY_ASSIGN_OR_RETURN(const auto members, tier.list_attempt(attempt));
  std::vector<bool> fits(manifest.objects.size(), false);
  for (const tiers::ObjectStat& member : members) {
    if (member.name.kind != tiers::ObjectKind::kPayload || member.name.index >= fits.size()) continue;
    fits[member.name.index] = member.bytes == manifest.objects[member.name.index].bytes;
  }
  std::vector<std::uint32_t> misfits;
  for (std::uint32_t object = 0; object < fits.size(); ++object) {
    if (!fits[object]) misfits.push_back(object);
  }
  return misfits;
}

Status check_not_deleted(Context& context, const metadata::RevisionRecord& record) {
  return check_not_deleted(context, record, "while it was read",
                           context.read_only
                               ? "a delete does not wait for a reader without write permission, who holds no lease"
                               : "a delete waits for a reader that holds a lease, and this one had none");
}

Status check_not_deleted(Context& context, const metadata::RevisionRecord& record, std::string_view meanwhile) {
  return check_not_deleted(context, record, meanwhile, "there is nothing to be done for it any more");
}

Result<std::optional<BadObject>> check_object(Context& context, const tiers::AttemptName& attempt,
                                              const formats::StoredManifest& manifest, std::uint32_t object,
                                              ReadBuffers& buffers) {
  return check_replica(context.cold, attempt, manifest, object, buffers);
}

void stop_sharing(Context& context, const tiers::ObjectName& name, const Digest& sha256) {
  const auto entry = context.cold.stat_content(sha256);
  const auto object = context.cold.stat(name);
  if (!entry.ok() || !object.ok() || entry->storage != object->storage) return;
  context.cold.remove_content(sha256).ignore("the damage is recorded in any case");
}

Result<metadata::RevisionRecord> record_findings(Context& context, metadata::RevisionRecord record,
                                                 const ObjectFindings& findings, const StopSignal& stop) {
  ObjectFindings now = findings;
  const std::int64_t deadline = context.runtime.mono_ms() + limits::kRecordWaitMs;
  for (int moves = 0; is_published(record.availability);) {
    metadata::ReconcileRevision command;
    command.identity = record.identity;
    command.observed_generation = record.metadata_generation;
    metadata::Observation& seen = command.seen;
    ObjectFindings judged = now;
    // No repair could be begun beside a move, and an eviction must hear of the damage: whoever ends it looks again.
    const bool moving = record.operation && metadata::moves_replicas(record.operation->kind);
    // Before the lock, as replicas are read for it; what goes meanwhile goes with a change of the record.
    const std::string instance = moving ? std::string() : mounted_instance(context);
    SY_ASSIGN_OR_RETURN(Spared to_repair, spare_what_is_hot(context, record, instance, judged));
    // The good blocks of what is bad in both tiers count.
    const auto is_bad = [&](const tiers::ObjectName& name) {
      return now.bad_in_memory.contains(name.index) &&
             std::ranges::count(now.damaged, formats::payload_key(record.identity, name.index)) == 0;
    };
    auto lock = see_hot(context, record, seen, is_bad, &stop.flag());
    for (const auto& [object, bytes] : judged.bad_in_memory) {
      ++to_repair.objects;
      to_repair.bytes += bytes;
    }
    seen.damage = merged(record.damage, judged);
    const bool was_absent = record.residency == metadata::Residency::kAbsent;
    seen.cold_readable = !now.none_is_there && (!was_absent || now.complete || !now.whole.empty());
    auto reconciled = context.catalog.reconcile_weight_revision(command);
    lock.reset();
    if (reconciled.code() == Code::kBusy && context.runtime.mono_ms() < deadline && !stop.stopped()) {
      context.runtime.sleep_ms(kPauseMs);
      continue;
    }
    // NOT_READY: a delete began, which is a move like any other.
    const bool moved = reconciled.code() == Code::kStaleGeneration || reconciled.code() == Code::kNotReady;
    if (reconciled.ok()) begin_repair(context, to_repair, *reconciled);
    if (!moved || moves++ == 8) return reconciled;
    SY_ASSIGN_OR_RETURN(record, context.catalog.get_weight_revision(record.identity));
    if (!is_published(record.availability)) return record;
    std::set<std::string> in_doubt(now.damaged.begin(), now.damaged.end());
    in_doubt.insert(now.whole.begin(), now.whole.end());
    if (now.complete) in_doubt.insert(record.damage.objects.begin(), record.damage.objects.end());
    if (in_doubt.empty() && now.bad_in_memory.empty()) continue;
    SY_RETURN_IF_ERROR(judge_again(context, record, in_doubt, now));
    now.none_is_there = now.none_is_there && !now.damaged.empty();
    if (!now.complete && now.damaged.empty() && now.whole.empty() && now.bad_in_memory.empty()) return record;
  }
  return record;
}

void record_bad_objects(Context& context, const metadata::RevisionRecord& record,
                        const formats::StoredManifest& manifest, std::span<const BadObject> bad,
                        const StopSignal& stop) {
  if (context.read_only) return;
  std::set<std::uint32_t> objects;
  for (const BadObject& one : bad) {
    if (one.read_error.ok()) objects.insert(one.object);
  }
  std::vector<std::string> keys;
  for (const std::uint32_t object : objects) {
    stop_sharing(context, payload_of(attempt_of(record), object), manifest.objects[object].sha256);
    keys.push_back(formats::payload_key(record.identity, object));
  }
  record_keys(context, record, std::move(keys), stop);
}

void record_bad_in_memory(Context& context, const metadata::RevisionRecord& record, const BadInMemory& bad,
                          const StopSignal& stop) {
  const bool known = record.operation && record.operation->kind == metadata::OperationKind::kRepairing;
  if (context.read_only || bad.empty() || known) return;
  ObjectFindings findings;
  findings.bad_in_memory = bad;
  const auto recorded = record_findings(context, record, findings, stop);
  if (!recorded.ok()) log_warning("what was found could not be recorded: {}", recorded.status().message());
}

HotReplicas open_hot_to_read(Context& context, const metadata::RevisionRecord& record,
                             const formats::StoredManifest& manifest, const StopSignal& stop) {
  HotReplicas hot = find_hot_to_read(context, record, manifest);
  const bool evicts = record.operation && record.operation->kind == metadata::OperationKind::kEvicting;
  if (context.read_only || evicts || hot.instance != record.hot_instance) return hot;
  if (hot.members >= record.hot_members) return hot;
  const auto recorded = record_findings(context, record, {}, stop);
  const std::string ref = formats::format_ref(record.identity);
  if (!recorded.ok()) {
    log_warning("that {} is not all in memory any more could not be recorded: {}", ref, recorded.status().message());
  } else if (recorded->metadata_generation == record.metadata_generation + 1) {
    log_warning(
        "{} of {} that {} had in memory are not there any more; it is {} now, and `steelyard rehydrate {}` "
        "brings them back",
        record.hot_members - hot.members, counted(record.hot_members, "object"), ref, name_of(recorded->residency),
        ref);
  }
  return hot;
}

void record_bad_manifest(Context& context, const metadata::RevisionRecord& record, const StopSignal& stop) {
  record_keys(context, record, {record.manifest_key}, stop);
}

}  // namespace steelyard::store
