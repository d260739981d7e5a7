#include "cli/documents.h"

#include <algorithm>

#include "base/units.h"
#include "formats/ref.h"

namespace steelyard::cli {

using metadata::RevisionRecord;

std::string ref_of(const RevisionRecord& record) { return formats::format_ref(record.identity); }

std::string kind_name(formats::FileKind kind) { return kind == formats::FileKind::kWeight ? "weight" : "metadata"; }

std::string lower_case(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return out;
}

void write_ratio(Json& json, std::optional<std::uint32_t> millionths) {
  if (millionths) {
    json.raw(format_ratio(*millionths));
  } else {
    json.null();
  }
}

Json& begin_document(Json& json) { return json.begin_object().key("schema_version").integer(kJsonSchemaVersion); }

void write_revision(Json& json, const RevisionRecord& record, std::uint64_t active_leases) {
  const formats::Lineage& lineage = record.identity.lineage;
  json.begin_object();
  json.key("tenant_id").string(lineage.tenant_id);
  json.key("namespace").string(lineage.namespace_id);
  json.key("resource_id").string(lineage.resource_id);
  json.key("revision").string(lineage.revision);
  json.key("weight_generation").signed_integer(record.identity.weight_generation);
  json.key("ref").string(ref_of(record));
  json.key("availability").string(name_of(record.availability));
  json.key("residency").string(name_of(record.residency));
  json.key("hot_ratio");
  write_ratio(json, record.hot_millionths);
  json.key("operation").string(name_of(record.operation ? record.operation->kind : metadata::OperationKind::kNone));
  json.key("operation_id").string_or_null(record.operation ? record.operation->operation_id : std::string());
  json.key("metadata_generation").integer(record.metadata_generation);
  json.key("manifest_key").string_or_null(record.manifest_key);
  json.key("manifest_sha256").string_or_null(record.summary.manifest_sha256);
  json.key("payload_group_id").string_or_null(record.payload_group_id);
  json.key("payload_keys_sha256").string_or_null(record.summary.payload_keys_sha256);
  json.key("payload_count").integer(record.summary.payload_count);
  json.key("logical_bytes").integer(record.summary.logical_bytes);
  json.key("created_at").string(format_rfc3339(record.created_at_ms));
  json.key("updated_at").string(format_rfc3339(record.updated_at_ms));
  json.key("labels").begin_object();
  for (const auto& [key, value] : record.labels) json.key(key).string(value);
  json.end_object();
  json.key("active_lease_count").integer(active_leases);
  json.key("committed_seq");
  if (record.committed_seq == 0) {
    json.null();
  } else {
    json.integer(record.committed_seq);
  }
  json.key("import_attempt").integer(record.import_attempt);
  json.key("policy");
  write_policy(json, record.policy);
  json.end_object();
}

void write_policy(Json& json, const metadata::Policy& policy) {
  json.begin_object().key("prefer").string(lower_case(name_of(policy.prefer)));
  json.key("ratio");
  write_ratio(json, policy.ratio_millionths);
  json.key("mode").string(lower_case(name_of(policy.mode)));
  json.end_object();
}

void write_operation(Json& json, const std::optional<metadata::Operation>& operation) {
  if (!operation) {
    json.null();
    return;
  }
  json.begin_object();
  json.key("operation_id").string(operation->operation_id);
  json.key("kind").string(name_of(operation->kind));
  json.key("target_residency").string(name_of(operation->target));
  json.key("ratio");
  write_ratio(json, operation->ratio_millionths);
  json.key("state").string(name_of(operation->state));
  json.key("processed_members").integer(operation->processed_members);
  json.key("total_members").integer(operation->total_members);
  json.key("processed_bytes").integer(operation->processed_bytes);
  json.key("total_bytes").integer(operation->total_bytes);
  json.key("message").string_or_null(operation->message);
  json.key("started_at").string(format_rfc3339(operation->started_at_ms));
  const bool ended = operation->ended_at_ms != 0;
  json.key("ended_at").string_or_null(ended ? format_rfc3339(operation->ended_at_ms) : std::string());
  json.end_object();
}

void write_runner(Json& json, const std::optional<metadata::OperationView>& found) {
  const bool runs = found && found->operation.state == metadata::OperationState::kRunning && found->runner;
  json.key("runner");
  if (!runs || found->runner->token.empty()) {
    json.null();
  } else {
    json.begin_object().key("holder").string(found->runner->holder);
    json.key("gone").boolean(found->runner_is_gone);
    json.key("ttl_seconds_left").seconds(static_cast<double>(found->runner_left_ms) / 1000).end_object();
  }
  json.key("source").string_or_null(runs ? found->runner->source : std::string());
}

metadata::OperationView view_of_operation(store::Store& store, const RevisionRecord& record,
                                          const metadata::Operation& operation) {
  auto found = store.operation(operation.operation_id);
  if (found.ok()) return std::move(found).value();
  metadata::OperationView as_recorded;
  as_recorded.record = record;
  as_recorded.operation = operation;
  return as_recorded;
}

void write_waiting(Json& json, const Status& why) {
  json.key("waiting");
  if (why.ok()) {
    json.null();
    return;
  }
  json.begin_object().key("what").string(why.message()).key("code").string(code_name(why.code()));
  json.key("hint").string(why.hint()).end_object();
}

Json& begin_operation_document(Json& json, const std::optional<metadata::Operation>& operation) {
  begin_document(json).key("operation");
  write_operation(json, operation);
  return json;
}

std::string end_with_revision(Json& json, const RevisionRecord& record, std::uint64_t active_leases) {
  json.key("revision");
  write_revision(json, record, active_leases);
  return json.end_object().text();
}

std::int64_t lease_left_ms(Runtime& runtime, const metadata::Lease& lease) {
  if (lease.epoch != runtime.epoch()) return lease.ttl_ms;
  return std::max<std::int64_t>(0, lease.expires_mono_ms - runtime.mono_ms());
}

void write_instances(Json& json, const std::string& mounted, const std::string& recorded, bool known) {
  json.key("instance").string_or_null(mounted).key("recorded_instance").string_or_null(recorded);
  json.key("recorded_is_mounted");
  if (!recorded.empty() && !known) {
    json.null();
  } else {
    json.boolean(!recorded.empty() && recorded == mounted);
  }
}

void write_lease(Json& json, const metadata::Lease& lease, std::int64_t left_ms, bool with_ref) {
  json.begin_object();
  json.key("lease_id").string(lease.lease_id);
  if (with_ref) json.key("ref").string(formats::format_ref(lease.identity));
  json.key("holder").string(lease.holder);
  json.key("ttl_seconds_left").seconds(static_cast<double>(left_ms) / 1000);
  json.end_object();
}

std::string removal_document(const store::RemovalResult& result) {
  Json json;
  begin_document(json);
  if (result.record) return end_with_revision(json, *result.record, 0);
  return json.key("revision").null().end_object().text();
}

std::string ref_of(const store::Selector& selector) {
  return formats::format_ref(
      {{selector.tenant_id, selector.namespace_id, selector.ref.resource_id, selector.ref.revision.value_or("main")},
       selector.ref.weight_generation.value_or(0)});
}

std::string error_document(const Status& status) {
  Json json;
  json.begin_object().key("error").begin_object();
  json.key("code").string(code_name(status.code()));
  json.key("message").string(status.message());
  json.key("hint").string_or_null(status.hint());
  json.end_object().end_object();
  return json.text();
}

}  // namespace steelyard::cli
