#include "metadata/codec_messages.h"

#include <string_view>
#include <utility>

#include "base/bytes.h"
#include "metadata/proto/entry.pb.h"

namespace steelyard::metadata {
namespace {

constexpr std::string_view kGroupPrefix = "weight:";

template <typename E>
E to_enum(int value, int first, int last, const char* what, Problem& problem) {
  if (value < first) problem.corrupt(std::string(what) + " is missing");
  if (value > last) problem.newer(std::string(what) + " " + std::to_string(value) + " is of a newer version");
  return static_cast<E>(value < first || value > last ? first : value);
}

std::string digest_hex(const std::string& raw, bool required, const char* what, Problem& problem) {
  if (raw.size() != 32 && (required || !raw.empty())) problem.corrupt(std::string(what) + " is not 32 bytes");
  return to_hex(as_bytes(raw));
}

// Parts of the messages

Lineage take(const pb::Lineage& in, Problem& /*problem*/) {
  return {in.tenant_id(), in.namespace_id(), in.resource_id(), in.revision()};
}

ProcessIdentity take(const pb::Process& in, Problem& /*problem*/) {
  return {in.host(), in.boot_id(), in.pid_namespace(), in.pid(), in.start_ticks()};
}

AppliedRequest take(const pb::AppliedRequest& in, Problem& problem) {
  return {to_enum<RequestKind>(in.kind(), 1, 5, "request kind", problem), in.expected_generation(),
          in.arguments_sha256()};
}

Operation take(const pb::Operation& in, Problem& problem) {
  Operation out;
  out.operation_id = in.operation_id();
  out.kind = to_enum<OperationKind>(in.kind(), 1, 3, "operation kind", problem);
  out.state = to_enum<OperationState>(in.state(), 1, 4, "operation state", problem);
  out.target = to_enum<Residency>(in.target(), 1, 5, "operation target", problem);
  if (in.has_ratio_millionths()) out.ratio_millionths = in.ratio_millionths();
  out.plan_digest = digest_hex(in.plan_digest(), false, "plan_digest", problem);
  out.total_members = in.total_members();
  out.total_bytes = in.total_bytes();
  out.processed_members = in.processed_members();
  out.processed_bytes = in.processed_bytes();
  out.message = in.message();
  out.request = take(in.request(), problem);
  out.started_at_ms = in.started_at_ms();
  out.ended_at_ms = in.ended_at_ms();
  out.hot_instance = in.hot_instance();
  out.hot_boot_id = in.hot_boot_id();
  out.ended_epoch_ordinal = in.ended_epoch_ordinal();
  out.ended_mono_ms = in.ended_mono_ms();
  out.ended_by = in.ended_by();
  out.failed_with = in.failed_with();
  return out;
}

}  // namespace

Identity take(const pb::Identity& in, Problem& problem) {
  return {take(in.lineage(), problem), in.weight_generation()};
}

RevisionRecord take(const pb::RevisionRecord& in, Problem& problem) {
  RevisionRecord out;
  out.identity = take(in.identity(), problem);
  out.availability = to_enum<Availability>(in.availability(), 1, 5, "availability", problem);
  out.residency = to_enum<Residency>(in.residency(), 1, 5, "residency", problem);
  if (in.has_hot_millionths()) out.hot_millionths = in.hot_millionths();
  out.metadata_generation = in.metadata_generation();
  out.import_attempt = in.import_attempt();
  out.manifest_key = in.manifest_key();
  out.payload_group_id = std::string(kGroupPrefix);
  out.payload_group_id += digest_hex(in.payload_group_sha256(), true, "payload_group_sha256", problem);
  out.summary.payload_count = in.summary().payload_count();
  out.summary.logical_bytes = in.summary().logical_bytes();
  out.summary.payload_keys_sha256 =
      digest_hex(in.summary().payload_keys_sha256(), false, "payload_keys_sha256", problem);
  out.summary.manifest_sha256 = digest_hex(in.summary().manifest_sha256(), false, "manifest_sha256", problem);
  out.begin_seq = in.begin_seq();
  out.committed_seq = in.committed_seq();
  out.created_at_ms = in.created_at_ms();
  out.updated_at_ms = in.updated_at_ms();
  out.labels.reserve(static_cast<std::size_t>(in.labels_size()));
  for (const pb::Label& label : in.labels()) out.labels.emplace_back(label.key(), label.value());
  out.policy.prefer = to_enum<Residency>(in.policy().prefer(), 1, 5, "policy.prefer", problem);
  if (in.policy().has_ratio_millionths()) out.policy.ratio_millionths = in.policy().ratio_millionths();
  out.policy.mode = to_enum<PolicyMode>(in.policy().mode(), 1, 3, "policy.mode", problem);
  if (in.has_operation()) out.operation = take(in.operation(), problem);
  for (const pb::Operation& operation : in.finished_operations()) {
    out.finished_operations.push_back(take(operation, problem));
  }
  for (const pb::AppliedRequest& request : in.applied()) out.applied.push_back(take(request, problem));
  out.damage.objects.assign(in.damage().objects().begin(), in.damage().objects().end());
  out.damage.count = in.damage().count();
  out.hot_instance = in.hot_instance();
  out.hot_members = in.hot_members();
  out.drain = in.drain();
  out.availability_since_ms = in.availability_since_ms();
  out.deleted_seq = in.deleted_seq();
  out.hot_boot_id = in.hot_boot_id();
  return out;
}

Writer take(const pb::Writer& in, Problem& problem) {
  Writer out;
  out.identity = take(in.identity(), problem);
  out.import_attempt = in.import_attempt();
  out.token = in.token();
  out.holder = in.holder();
  out.process = take(in.process(), problem);
  out.ttl_ms = in.ttl_ms();
  out.epoch = in.epoch();
  out.granted_mono_ms = in.granted_mono_ms();
  out.granted_wall_ms = in.granted_wall_ms();
  out.idle_before_ms = in.idle_before_ms();
  return out;
}

Lease take(const pb::Lease& in, Problem& problem) {
  Lease out;
  out.lease_id = in.lease_id();
  out.identity = take(in.identity(), problem);
  out.holder = in.holder();
  out.nonce = in.nonce();
  out.ttl_ms = in.ttl_ms();
  out.epoch = in.epoch();
  out.expires_mono_ms = in.expires_mono_ms();
  out.renewable_until_mono_ms = in.renewable_until_mono_ms();
  out.process = take(in.process(), problem);
  return out;
}

Watermark take(const pb::Watermark& in, Problem& problem) {
  return {take(in.lineage(), problem), in.weight_generation()};
}

Runner take(const pb::Runner& in, Problem& problem) {
  Runner out;
  out.identity = take(in.identity(), problem);
  out.operation_id = in.operation_id();
  out.run_attempt = in.run_attempt();
  out.token = in.token();
  out.holder = in.holder();
  out.process = take(in.process(), problem);
  out.ttl_ms = in.ttl_ms();
  out.epoch = in.epoch();
  out.granted_mono_ms = in.granted_mono_ms();
  out.processed_members = in.processed_members();
  out.processed_bytes = in.processed_bytes();
  out.message = in.message();
  out.permitted_members = in.permitted_members();
  out.source = in.source();
  return out;
}

Access take(const pb::Access& in, Problem& problem) {
  return {take(in.identity(), problem), in.epoch(), in.mono_ms(), in.wall_ms(), in.epoch_ordinal()};
}

EpochState take(const pb::EpochState& in, Problem& /*problem*/) {
  EpochState out;
  out.epoch = in.epoch();
  out.begun_mono_ms = in.begun_mono_ms();
  out.ordinal = in.ordinal();
  return out;
}

}  // namespace steelyard::metadata
