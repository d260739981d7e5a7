#include "sim/checkers/disk_check.h"

#include <fmt/format.h>

#include <algorithm>

#include "formats/identity.h"
#include "formats/stored_manifest.h"
#include "hash/sha256.h"

namespace steelyard::sim {
namespace {

Result<std::vector<std::byte>> read_whole(tiers::Tier& tier, const tiers::ObjectName& name) {
  SY_ASSIGN_OR_RETURN(const tiers::ObjectStat stat, tier.stat(name));
  std::vector<std::byte> bytes(stat.bytes);
  if (!bytes.empty()) SY_RETURN_IF_ERROR(tier.read(name, {{0, bytes}}));
  return bytes;
}

/// The manifest describes the files of the checkpoint that its writer imported, and no others.
void check_files(Model& model, const std::string& name, const formats::StoredManifest& manifest,
                 const Checkpoint& checkpoint) {
  if (manifest.files.size() != checkpoint.files.size()) {
    model.violated(fmt::format("{} has {} files, its source {}", name, manifest.files.size(), checkpoint.files.size()));
  }
  for (const formats::FileEntry& file : manifest.files) {
    const auto source = checkpoint.files.find(file.path);
    if (source == checkpoint.files.end() || file.bytes != source->second.size() ||
        file.sha256.hex() != checkpoint.sha256.at(file.path)) {
      model.violated(fmt::format("{}: the manifest's file {} is not its source's", name, file.path));
    }
  }
}

}  // namespace

DiskFindings check_on_disk(Model& model, Runtime& machine, const std::shared_ptr<tiers::SimulatedDisk>& disk,
                           const Revision& revision) {
  const metadata::RevisionRecord& record = revision.now();
  const std::string name = text_of(record.identity);
  const auto tier = std::move(tiers::open_simulated(machine, disk)).value();
  const tiers::AttemptName attempt{formats::payload_group_digest(record.identity).hex(), record.import_attempt};
  DiskFindings findings;
  const auto manifest_bytes = read_whole(*tier, {attempt, tiers::ObjectKind::kManifest, 0});
  const bool whole = manifest_bytes.ok() && hash::sha256(*manifest_bytes).hex() == record.summary.manifest_sha256;
  if (!whole) {
    findings.damaged.push_back(record.manifest_key);
    if (revision.objects.empty() || !model.is_damaged(revision.objects.front().sha256)) {
      model.violated(fmt::format("{}: its manifest is not on the disk as published", name));
    }
    return findings;
  }
  const auto manifest = formats::read_manifest(as_text(*manifest_bytes));
  if (!manifest.ok()) {
    model.violated(fmt::format("{}: its manifest cannot be read: {}", name, manifest.status().to_string()));
    return findings;
  }
  findings.objects.push_back({hash::sha256(*manifest_bytes), manifest_bytes->size()});
  if (revision.checkpoint) check_files(model, name, *manifest, checkpoints()[*revision.checkpoint]);
  for (std::uint32_t i = 0; i < manifest->objects.size(); ++i) {
    const Digest& sha256 = manifest->objects[i].sha256;
    findings.objects.push_back({sha256, manifest->objects[i].bytes});
    const auto bytes = read_whole(*tier, {attempt, tiers::ObjectKind::kPayload, i});
    if (bytes.ok() && bytes->size() == manifest->objects[i].bytes && hash::sha256(*bytes) == sha256) continue;
    findings.damaged.push_back(formats::payload_key(record.identity, i));
    if (!model.is_damaged(sha256)) {
      model.violated(fmt::format("{}: payload object {} is {} on the disk", name, i, bytes.ok() ? "other" : "missing"));
    }
  }
  const auto members = tier->list_attempt(attempt);
  if (members.ok() && members->size() > manifest->objects.size() + 1) {
    model.violated(fmt::format("{}: its attempt holds {} objects, {} are members", name, members->size(),
                               manifest->objects.size() + 1));
  }
  std::sort(findings.damaged.begin(), findings.damaged.end());
  return findings;
}

bool is_whole_on_disk(Runtime& machine, const std::shared_ptr<tiers::SimulatedDisk>& disk, const Revision& revision,
                      std::uint32_t object) {
  const auto tier = std::move(tiers::open_simulated(machine, disk)).value();
  const metadata::RevisionRecord& record = revision.now();
  const tiers::AttemptName attempt{formats::payload_group_digest(record.identity).hex(), record.import_attempt};
  const auto bytes = read_whole(*tier, {attempt, tiers::ObjectKind::kPayload, object});
  return bytes.ok() && hash::sha256(*bytes) == revision.objects.at(object + 1).sha256;
}

}  // namespace steelyard::sim
