#include "api/store_values.h"

#include "formats/ref.h"

namespace steelyard {
namespace {

Availability from_core(metadata::Availability value) {
  switch (value) {
    case metadata::Availability::kImporting:
      return Availability::kImporting;
    case metadata::Availability::kReady:
      return Availability::kReady;
    case metadata::Availability::kDegraded:
      return Availability::kDegraded;
    case metadata::Availability::kDeleting:
      return Availability::kDeleting;
    case metadata::Availability::kDeleted:
      break;
  }
  return Availability::kDeleted;
}

Residency from_core(metadata::Residency value) {
  switch (value) {
    case metadata::Residency::kUnknown:
      return Residency::kUnknown;
    case metadata::Residency::kHot:
      return Residency::kHot;
    case metadata::Residency::kCold:
      return Residency::kCold;
    case metadata::Residency::kMixed:
      return Residency::kMixed;
    case metadata::Residency::kAbsent:
      break;
  }
  return Residency::kAbsent;
}

PolicyMode from_core(metadata::PolicyMode value) {
  switch (value) {
    case metadata::PolicyMode::kPinned:
      return PolicyMode::kPinned;
    case metadata::PolicyMode::kManual:
      return PolicyMode::kManual;
    case metadata::PolicyMode::kAuto:
      break;
  }
  return PolicyMode::kAuto;
}

OperationKind from_core(metadata::OperationKind value) {
  switch (value) {
    case metadata::OperationKind::kEvicting:
      return OperationKind::kEvicting;
    case metadata::OperationKind::kRehydrating:
      return OperationKind::kRehydrating;
    case metadata::OperationKind::kRepairing:
    case metadata::OperationKind::kNone:
      break;
  }
  return OperationKind::kRepairing;
}

OperationState from_core(metadata::OperationState value) {
  switch (value) {
    case metadata::OperationState::kRunning:
      return OperationState::kRunning;
    case metadata::OperationState::kDone:
      return OperationState::kDone;
    case metadata::OperationState::kCancelled:
      return OperationState::kCancelled;
    case metadata::OperationState::kFailed:
      break;
  }
  return OperationState::kFailed;
}

metadata::OperationKind to_core(OperationKind value) {
  switch (value) {
    case OperationKind::kEvicting:
      return metadata::OperationKind::kEvicting;
    case OperationKind::kRehydrating:
      return metadata::OperationKind::kRehydrating;
    case OperationKind::kRepairing:
      break;
  }
  return metadata::OperationKind::kRepairing;
}

metadata::OperationState to_core(OperationState value) {
  switch (value) {
    case OperationState::kRunning:
      return metadata::OperationState::kRunning;
    case OperationState::kDone:
      return metadata::OperationState::kDone;
    case OperationState::kCancelled:
      return metadata::OperationState::kCancelled;
    case OperationState::kFailed:
      break;
  }
  return metadata::OperationState::kFailed;
}

ProblemKind from_core(store::ProblemKind value) {
  switch (value) {
    case store::ProblemKind::kMissingObject:
      return ProblemKind::kMissingObject;
    case store::ProblemKind::kObjectSize:
      return ProblemKind::kObjectSize;
    case store::ProblemKind::kObjectChecksum:
      return ProblemKind::kObjectChecksum;
    case store::ProblemKind::kFileSha256:
      return ProblemKind::kFileSha256;
    case store::ProblemKind::kManifest:
      break;
  }
  return ProblemKind::kManifest;
}

}  // namespace

Result<Ref> parse_ref(std::string_view text) {
  SY_ASSIGN_OR_RETURN(formats::Ref ref, formats::parse_ref(text));
  return Ref{std::move(ref.resource_id), std::move(ref.revision), ref.weight_generation};
}

std::string format_ref(const Identity& identity) {
  return formats::format_ref({{identity.tenant_id, identity.namespace_id, identity.resource_id, identity.revision},
                              identity.weight_generation});
}

std::string_view name_of(Availability value) { return metadata::name_of(to_core(value)); }
std::string_view name_of(Residency value) { return metadata::name_of(to_core(value)); }
std::string_view name_of(PolicyMode value) { return metadata::name_of(to_core(value)); }
std::string_view name_of(OperationKind value) { return metadata::name_of(to_core(value)); }
std::string_view name_of(OperationState value) { return metadata::name_of(to_core(value)); }

std::string_view name_of(ProblemKind value) {
  switch (value) {
    case ProblemKind::kMissingObject:
      return "missing_object";
    case ProblemKind::kObjectSize:
      return "object_size";
    case ProblemKind::kObjectChecksum:
      return "object_checksum";
    case ProblemKind::kFileSha256:
      return "file_sha256";
    case ProblemKind::kManifest:
      break;
  }
  return "manifest";
}

Result<store::Selector> selector_of(const std::string& tenant_id, const std::string& namespace_id, const Ref& ref) {
  const formats::Lineage lineage{tenant_id, namespace_id, ref.resource_id, ref.revision.value_or("main")};
  if (ref.weight_generation) {
    SY_RETURN_IF_ERROR(formats::validate(formats::Identity{lineage, *ref.weight_generation}));
  } else {
    SY_RETURN_IF_ERROR(formats::validate(lineage));
  }
  return store::Selector{tenant_id, namespace_id, {ref.resource_id, lineage.revision, ref.weight_generation}};
}

metadata::Residency to_core(Residency value) {
  switch (value) {
    case Residency::kUnknown:
      return metadata::Residency::kUnknown;
    case Residency::kHot:
      return metadata::Residency::kHot;
    case Residency::kCold:
      return metadata::Residency::kCold;
    case Residency::kMixed:
      return metadata::Residency::kMixed;
    case Residency::kAbsent:
      break;
  }
  return metadata::Residency::kAbsent;
}

metadata::PolicyMode to_core(PolicyMode value) {
  switch (value) {
    case PolicyMode::kPinned:
      return metadata::PolicyMode::kPinned;
    case PolicyMode::kManual:
      return metadata::PolicyMode::kManual;
    case PolicyMode::kAuto:
      break;
  }
  return metadata::PolicyMode::kAuto;
}

metadata::Availability to_core(Availability value) {
  switch (value) {
    case Availability::kImporting:
      return metadata::Availability::kImporting;
    case Availability::kReady:
      return metadata::Availability::kReady;
    case Availability::kDegraded:
      return metadata::Availability::kDegraded;
    case Availability::kDeleting:
      return metadata::Availability::kDeleting;
    case Availability::kDeleted:
      break;
  }
  return metadata::Availability::kDeleted;
}

Identity from_core(const metadata::Identity& identity) {
  const formats::Lineage& lineage = identity.lineage;
  return {lineage.tenant_id, lineage.namespace_id, lineage.resource_id, lineage.revision, identity.weight_generation};
}

Revision from_core(const metadata::RevisionRecord& record) {
  Revision out;
  out.identity = from_core(record.identity);
  out.availability = from_core(record.availability);
  out.residency = from_core(record.residency);
  out.hot_millionths = record.hot_millionths;
  if (record.operation) out.operation = from_core(*record.operation);
  out.policy = {from_core(record.policy.prefer), record.policy.ratio_millionths, from_core(record.policy.mode)};
  out.metadata_generation = record.metadata_generation;
  out.payload_objects = record.summary.payload_count;
  out.logical_bytes = record.summary.logical_bytes;
  out.manifest_sha256 = record.summary.manifest_sha256;
  out.payload_group_id = record.payload_group_id;
  out.created_at_ms = record.created_at_ms;
  out.updated_at_ms = record.updated_at_ms;
  out.labels = record.labels;
  out.damaged_objects = record.damage.objects;
  out.damaged_count = record.damage.count;
  return out;
}

Operation from_core(const metadata::Operation& operation) {
  Operation out;
  out.operation_id = operation.operation_id;
  out.kind = from_core(operation.kind);
  out.state = from_core(operation.state);
  out.target = from_core(operation.target);
  out.ratio_millionths = operation.ratio_millionths;
  out.processed_objects = operation.processed_members;
  out.processed_bytes = operation.processed_bytes;
  out.total_objects = operation.total_members;
  out.total_bytes = operation.total_bytes;
  out.message = operation.message;
  out.started_at_ms = operation.started_at_ms;
  out.ended_at_ms = operation.ended_at_ms;
  return out;
}

ResidencyReport from_core(const store::ResidencyResult& result) {
  ResidencyReport out;
  out.revision = from_core(result.record);
  if (result.operation) out.operation = from_core(*result.operation);
  out.moved_objects = result.moved_objects;
  out.read_bytes = result.read_bytes;
  out.removed_objects = result.removed_objects;
  out.evicted = refs_of(result.evicted);
  return out;
}

std::vector<Ref> refs_of(const std::vector<std::string>& texts) {
  std::vector<Ref> refs;
  for (const std::string& text : texts) {
    if (auto ref = parse_ref(text); ref.ok()) refs.push_back(std::move(ref).value());
  }
  return refs;
}

Problem from_core(store::Problem problem) {
  Problem out;
  out.kind = from_core(problem.kind);
  out.file = std::move(problem.file);
  out.tensors = std::move(problem.tensors);
  out.object = std::move(problem.object);
  out.tier = std::move(problem.tier);
  out.offset = problem.offset;
  out.expected = std::move(problem.expected);
  out.actual = std::move(problem.actual);
  out.unread = problem.unread;
  return out;
}

LeaseInfo from_core(const metadata::Lease& lease, std::int64_t left_ms) {
  return {lease.lease_id, from_core(lease.identity), lease.holder, lease.ttl_ms, left_ms};
}

std::vector<FileInfo> files_of(const formats::StoredManifest& manifest) {
  std::vector<FileInfo> out;
  out.reserve(manifest.files.size());
  for (const formats::FileEntry& file : manifest.files) {
    out.push_back({file.path, file.kind == formats::FileKind::kWeight, file.bytes, file.sha256.hex()});
  }
  return out;
}

}  // namespace steelyard
