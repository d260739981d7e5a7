#include "store/damage_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/limits.h"
#include "base/log.h"
#include "formats/identity.h"
#include "formats/ref.h"
#include "hash/sha256.h"
#include "store/manifest_file.h"

namespace steelyard::store {
namespace {

constexpr std::int64_t kPauseMs = 100;

bool is_published(const metadata::RevisionRecord& record) {
  return record.availability == metadata::Availability::kReady ||
         record.availability == metadata::Availability::kDegraded;
}

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

/// Those of the damaged keys that are damaged still. Where that cannot be told now they are left out.
Result<std::vector<std::string>> still_damaged(Context& context, const metadata::RevisionRecord& record,
                                               const std::vector<std::string>& keys) {
  std::vector<std::string> damaged;
  const auto manifest = load_manifest(context.cold, record);
  if (manifest.code() == Code::kCorrupt) {
    if (std::ranges::count(keys, record.manifest_key) != 0) damaged.push_back(record.manifest_key);
    return damaged;
  }
  SY_RETURN_IF_ERROR(manifest.status());
  SY_ASSIGN_OR_RETURN(ReadBuffers buffers, ReadBuffers::allocate(read_piece_bytes(context.io_budget, 4)));
  for (const std::string& key : keys) {
    const auto object = payload_index_of(record.identity, key);
    if (!object || *object >= manifest->objects.size()) continue;
    SY_ASSIGN_OR_RETURN(const auto bad, check_object(context, attempt_of(record), *manifest, *object, buffers));
    if (bad && bad->read_error.ok()) damaged.push_back(key);
  }
  return damaged;
}

void record_one(Context& context, const metadata::RevisionRecord& record, std::string key, const StopSignal& stop) {
  if (context.read_only || std::ranges::count(record.damage.objects, key) != 0) return;
  const auto recorded = record_findings(context, record, {.damaged = {std::move(key)}, .whole = {}}, stop);
  if (!recorded.ok()) log_warning("what was found could not be recorded: {}", recorded.status().message());
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

Result<std::optional<BadObject>> check_object(Context& context, const tiers::AttemptName& attempt,
                                              const formats::StoredManifest& manifest, std::uint32_t object,
                                              ReadBuffers& buffers) {
  const formats::ObjectEntry& entry = manifest.objects[object];
  VerifiedReader reader(context.cold, attempt, manifest.objects, {{object, 0, entry.bytes}}, buffers);
  VerifiedReader::Piece piece;
  hash::Sha256 sha;
  for (;;) {
    SY_ASSIGN_OR_RETURN(const bool more, reader.next(piece));
    if (!more) break;
    if (piece.bad) return std::move(piece.bad);
    sha.update(piece.bytes);
  }
  const auto stat = context.cold.stat(payload_of(attempt, object));
  if (stat.ok() && stat->bytes != entry.bytes) {
    return std::optional(BadObject{ProblemKind::kObjectSize,
                                   object,
                                   std::nullopt,
                                   fmt::format("{} bytes", entry.bytes),
                                   fmt::format("{} bytes", stat->bytes),
                                   {}});
  }
  const Digest found = sha.finish();
  if (found == entry.sha256) return std::optional<BadObject>();
  return std::optional(BadObject{
      ProblemKind::kObjectChecksum, object, std::nullopt, "sha256 " + entry.sha256.hex(), "sha256 " + found.hex(), {}});
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
  for (int moves = 0; is_published(record);) {
    metadata::ReconcileRevision command;
    command.identity = record.identity;
    command.observed_generation = record.metadata_generation;
    metadata::Observation& seen = command.seen;
    seen.damage = merged(record.damage, now);
    const bool was_absent = record.residency == metadata::Residency::kAbsent;
    seen.cold_readable = !now.none_is_there && (!was_absent || now.complete || !now.whole.empty());
    seen.boot_id = context.runtime.epoch();
    auto reconciled = context.catalog.reconcile_weight_revision(command);
    if (reconciled.code() == Code::kBusy && context.runtime.mono_ms() < deadline && !stop.stopped()) {
      context.runtime.sleep_ms(kPauseMs);
      continue;
    }
    if (reconciled.code() != Code::kStaleGeneration || moves++ == 8) return reconciled;
    SY_ASSIGN_OR_RETURN(record, context.catalog.get_weight_revision(record.identity));
    std::set<std::string> in_doubt(now.damaged.begin(), now.damaged.end());
    if (now.complete) in_doubt.insert(record.damage.objects.begin(), record.damage.objects.end());
    if (in_doubt.empty()) continue;
    SY_ASSIGN_OR_RETURN(now.damaged, still_damaged(context, record, {in_doubt.begin(), in_doubt.end()}));
    now.none_is_there = now.none_is_there && !now.damaged.empty();
    if (!now.complete && now.damaged.empty() && now.whole.empty()) return record;
  }
  return record;
}

void record_bad_object(Context& context, const metadata::RevisionRecord& record,
                       const formats::StoredManifest& manifest, const BadObject& bad, const StopSignal& stop) {
  if (!bad.read_error.ok() || context.read_only) return;
  stop_sharing(context, payload_of(attempt_of(record), bad.object), manifest.objects[bad.object].sha256);
  record_one(context, record, formats::payload_key(record.identity, bad.object), stop);
}

void record_bad_manifest(Context& context, const metadata::RevisionRecord& record, const StopSignal& stop) {
  record_one(context, record, record.manifest_key, stop);
}

}  // namespace steelyard::store
