#include "metadata/validate.h"

#include <algorithm>
#include <array>

#include "base/limits.h"
#include "base/utf8.h"
#include "hash/framed.h"

namespace steelyard::metadata {
namespace {

Status invalid(std::string message) { return {Code::kInvalidArgument, std::move(message)}; }

bool is_hex(std::string_view text, std::size_t digits) {
  if (text.size() != digits) return false;
  bool hex = true;  // without a branch for each digit: most ids are right
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    hex &= (static_cast<unsigned char>(byte - '0') < 10) | (static_cast<unsigned char>(byte - 'a') < 6);
  }
  return hex;
}

bool is_text(std::string_view text, std::size_t min, std::size_t max, bool controls) {
  return text.size() >= min && text.size() <= max && is_valid_utf8(text) && (controls || !has_control_character(text));
}

/// Says what is wrong with what is_text() refuses.
Status validate_text(std::string_view what, std::string_view text, std::size_t min, std::size_t max, bool controls) {
  if (text.size() < min || text.size() > max) {
    return invalid(std::string(what) + " has " + std::to_string(text.size()) + " bytes, wanted " + std::to_string(min) +
                   " to " + std::to_string(max));
  }
  if (!is_valid_utf8(text)) return invalid(std::string(what) + " " + in_quotes(text) + " is not valid UTF-8");
  if (!controls && has_control_character(text)) {
    return invalid(std::string(what) + " " + in_quotes(text) + " has a control character");
  }
  return {};
}

Status validate_hex64(std::string_view what, std::string_view text, bool required) {
  if (is_hex(text, 64) || (text.empty() && !required)) return {};
  return invalid(std::string(what) + " is " + in_quotes(text) + ", wanted 64 lower-case hex digits");
}

Status validate_ratio(std::string_view what, const std::optional<std::uint32_t>& millionths, bool mixed) {
  if (millionths.has_value() != mixed) {
    return invalid(std::string(what) +
                   (mixed ? " is missing, wanted with MIXED" : " is given, wanted only with MIXED"));
  }
  if (mixed && (*millionths < 1 || *millionths > 999'999)) {
    return invalid(std::string(what) + " is " + std::to_string(*millionths) + " millionths, wanted 1 to 999999");
  }
  return {};
}

Status validate_epoch_name(std::string_view epoch) { return validate_text("epoch", epoch, 1, kEpochBytesMax, false); }

Status validate_instant(std::string_view what, std::int64_t value_ms) {
  if (value_ms >= 0 && value_ms <= kInstantMsMax) return {};
  return invalid(std::string(what) + " is " + std::to_string(value_ms) + ", wanted 0 to " +
                 std::to_string(kInstantMsMax));
}

Status validate_request(const AppliedRequest& request) {
  if (request.arguments_sha256.size() != 32) return invalid("the digest of a request's arguments is not 32 bytes");
  return {};
}

/// A memory instance and the boot that made it: both or none.
Status validate_instance(std::string_view instance, std::string_view boot_id) {
  if (instance.empty() != boot_id.empty()) return invalid("a hot instance and the boot that made it: both or none");
  if (instance.empty()) return {};
  SY_RETURN_IF_ERROR(validate_id("hot_instance", instance));
  return validate_text("hot_boot_id", boot_id, 1, kEpochBytesMax, false);
}

/// What only operations that move replicas between the tiers have.
Status validate_direction(const Operation& operation) {
  if (!moves_replicas(operation.kind)) return {};
  const bool evicts = operation.kind == OperationKind::kEvicting;
  if (operation.target == (evicts ? Residency::kHot : Residency::kCold)) {
    return invalid("operation " + operation.operation_id + " is " + std::string(name_of(operation.kind)) +
                   " with target " + std::string(name_of(operation.target)) + ", wanted " +
                   (evicts ? "COLD or MIXED" : "HOT or MIXED"));
  }
  const bool mixed = operation.target == Residency::kMixed;
  if (operation.plan_digest.empty() == mixed) {
    return invalid(mixed ? "plan_digest is missing, wanted with MIXED"
                         : "plan_digest is given, wanted only with MIXED");
  }
  if (operation.hot_instance.empty()) return invalid("the operation names no memory instance in which it works");
  return {};
}

Status validate_operation(const Operation& operation, bool active) {
  SY_RETURN_IF_ERROR(validate_id("operation_id", operation.operation_id));
  if (operation.kind == OperationKind::kNone) return invalid("an operation has kind NONE");
  const bool running = operation.state == OperationState::kRunning;
  if (running != active) {
    return invalid("operation " + operation.operation_id + " is " + std::string(name_of(operation.state)) +
                   (active ? ", wanted RUNNING for the active one" : ", wanted an ended one among the finished"));
  }
  if (running != (operation.ended_at_ms == 0)) {
    return invalid("operation " + operation.operation_id + ": its end time and its state disagree");
  }
  if (operation.target != Residency::kHot && operation.target != Residency::kCold &&
      operation.target != Residency::kMixed && operation.kind != OperationKind::kRepairing) {
    return invalid("operation " + operation.operation_id + " has target " + std::string(name_of(operation.target)));
  }
  SY_RETURN_IF_ERROR(
      validate_ratio("the operation's ratio", operation.ratio_millionths, operation.target == Residency::kMixed));
  SY_RETURN_IF_ERROR(validate_hex64("plan_digest", operation.plan_digest, false));
  SY_RETURN_IF_ERROR(validate_direction(operation));
  SY_RETURN_IF_ERROR(validate_instance(operation.hot_instance, operation.hot_boot_id));
  if (running ? operation.ended_epoch_ordinal != 0 || operation.ended_mono_ms != 0 : operation.ended_mono_ms < 0) {
    return invalid("operation " + operation.operation_id + ": its end by the clock and its state disagree");
  }
  if (!operation.ended_by.empty()) {
    SY_RETURN_IF_ERROR(validate_id("the token of the run that ended it", operation.ended_by));
    if (running || operation.state == OperationState::kCancelled) {
      return invalid("operation " + operation.operation_id + " is " + std::string(name_of(operation.state)) +
                     ", and yet a run has ended it");
    }
  }
  if (!operation.failed_with.empty()) {
    SY_RETURN_IF_ERROR(validate_text("the operation's error", operation.failed_with, 1, kErrorNameBytesMax, false));
    if (operation.state != OperationState::kFailed) {
      return invalid("operation " + operation.operation_id + " is " + std::string(name_of(operation.state)) +
                     ", and yet it failed with " + operation.failed_with);
    }
  }
  if (operation.processed_members > operation.total_members || operation.processed_bytes > operation.total_bytes) {
    return invalid("operation " + operation.operation_id + " has processed more than its total");
  }
  SY_RETURN_IF_ERROR(validate_text("operation message", operation.message, 0, kMessageBytesMax, true));
  if (operation.request.kind != RequestKind::kStart) return invalid("an operation's request is not a start");
  return validate_request(operation.request);
}

Status validate_operations(const RevisionRecord& record) {
  if (record.operation) SY_RETURN_IF_ERROR(validate_operation(*record.operation, true));
  if (record.finished_operations.size() > limits::kOperationsRetained) {
    return invalid("the record retains " + std::to_string(record.finished_operations.size()) +
                   " operations, wanted at most " + std::to_string(limits::kOperationsRetained));
  }
  for (const Operation& operation : record.finished_operations) {
    SY_RETURN_IF_ERROR(validate_operation(operation, false));
  }
  return {};
}

Status validate_applied(const std::vector<AppliedRequest>& applied) {
  for (std::size_t i = 0; i < applied.size(); ++i) {
    if (applied[i].kind == RequestKind::kStart) return invalid("a start is kept with its operation");
    if (i > 0 && applied[i - 1].kind >= applied[i].kind) return invalid("applied requests are not sorted by kind");
    SY_RETURN_IF_ERROR(validate_request(applied[i]));
  }
  return {};
}

Status illegal(const RevisionRecord& record, std::string_view wanted) {
  return invalid(std::string(name_of(record.availability)) + " with residency " +
                 std::string(name_of(record.residency)) + " and operation " +
                 std::string(name_of(record.operation ? record.operation->kind : OperationKind::kNone)) +
                 " is no legal state: " + std::string(wanted));
}

bool stored(Residency residency) {
  return residency == Residency::kHot || residency == Residency::kCold || residency == Residency::kMixed;
}

Status validate_sequences(const RevisionRecord& record) {
  const bool published = is_published(record.availability);
  if (record.begin_seq == 0) return illegal(record, "begin_seq is not set");
  if (published && record.committed_seq == 0) return illegal(record, "committed_seq is not set");
  if (record.availability == Availability::kImporting && record.committed_seq != 0) {
    return illegal(record, "committed_seq is set");
  }
  if (record.committed_seq != 0 && record.committed_seq < record.begin_seq) {
    return illegal(record, "committed_seq is before begin_seq");
  }
  if ((record.deleted_seq != 0) != (record.availability == Availability::kDeleted)) {
    return illegal(record, "deleted_seq is set exactly once DELETED");
  }
  if (record.deleted_seq != 0 && record.deleted_seq < std::max(record.begin_seq, record.committed_seq)) {
    return illegal(record, "deleted_seq is before begin_seq or committed_seq");
  }
  return {};
}

}  // namespace

Status validate_state(const RevisionRecord& record) {
  SY_RETURN_IF_ERROR(validate_sequences(record));
  const bool damaged = record.damage.count != 0;
  switch (record.availability) {
    case Availability::kImporting:
      if (record.residency != Residency::kUnknown) return illegal(record, "IMPORTING is UNKNOWN");
      if (record.operation) return illegal(record, "IMPORTING has no operation");
      if (damaged) return illegal(record, "IMPORTING has no damage report");
      break;
    case Availability::kReady:
      if (!stored(record.residency)) return illegal(record, "READY is HOT, COLD or MIXED");
      if (damaged) return illegal(record, "READY has no damage");
      break;
    case Availability::kDegraded:
      if (!stored(record.residency) && record.residency != Residency::kAbsent) {
        return illegal(record, "DEGRADED is HOT, COLD, MIXED or ABSENT");
      }
      if (!damaged) return illegal(record, "DEGRADED names damage");
      break;
    case Availability::kDeleting:
      if (record.operation) return illegal(record, "DELETING has no operation");
      if ((record.residency == Residency::kUnknown) != (record.committed_seq == 0)) {
        return illegal(record, "DELETING keeps its last residency, UNKNOWN only if it was never committed");
      }
      break;
    case Availability::kDeleted:
      if (record.residency != Residency::kAbsent) return illegal(record, "DELETED is ABSENT");
      if (record.operation) return illegal(record, "DELETED has no operation");
      if (damaged) return illegal(record, "DELETED has no damage report");
      break;
  }
  if (record.drain && record.availability != Availability::kDeleting) return illegal(record, "only DELETING drains");
  const bool hot = record.residency == Residency::kHot || record.residency == Residency::kMixed;
  if (record.hot_instance.empty() == hot) return illegal(record, "HOT and MIXED, and no other, name a hot instance");
  const std::uint64_t all = record.summary.payload_count;
  const bool members_fit = record.residency == Residency::kHot     ? record.hot_members == all && all != 0
                           : record.residency == Residency::kMixed ? record.hot_members > 0 && record.hot_members < all
                                                                   : record.hot_members == 0;
  if (!members_fit) {
    return illegal(record, std::to_string(record.hot_members) + " hot members of " + std::to_string(all));
  }
  return validate_ratio("the hot share", record.hot_millionths, record.residency == Residency::kMixed);
}

Status validate(const RevisionRecord& record) {
  SY_RETURN_IF_ERROR(formats::validate(record.identity));
  if (record.metadata_generation == 0) return invalid("metadata_generation is 0, wanted 1 or more");
  if (record.import_attempt == 0) return invalid("import_attempt is 0, wanted 1 or more");
  if (record.manifest_key != formats::manifest_key(record.identity)) {
    return invalid("manifest_key is " + in_quotes(record.manifest_key) + ", wanted " +
                   in_quotes(formats::manifest_key(record.identity)));
  }
  if (record.payload_group_id != formats::payload_group_id(record.identity)) {
    return invalid("payload_group_id is " + in_quotes(record.payload_group_id) + ", wanted " +
                   in_quotes(formats::payload_group_id(record.identity)));
  }
  SY_RETURN_IF_ERROR(validate_summary(record.summary, record.committed_seq != 0));
  if (record.updated_at_ms < record.created_at_ms) return invalid("updated_at is before created_at");
  if (record.availability_since_ms < record.created_at_ms || record.availability_since_ms > record.updated_at_ms) {
    return invalid("availability_since is not between created_at and updated_at");
  }
  SY_RETURN_IF_ERROR(validate_labels(record.labels));
  SY_RETURN_IF_ERROR(validate_policy(record.policy));
  SY_RETURN_IF_ERROR(validate_operations(record));
  SY_RETURN_IF_ERROR(validate_applied(record.applied));
  SY_RETURN_IF_ERROR(validate_damage(record.damage));
  SY_RETURN_IF_ERROR(validate_instance(record.hot_instance, record.hot_boot_id));
  return validate_state(record);
}

Status validate(const Writer& writer) {
  SY_RETURN_IF_ERROR(formats::validate(writer.identity));
  if (writer.import_attempt == 0) return invalid("import_attempt is 0, wanted 1 or more");
  if (!writer.token.empty()) SY_RETURN_IF_ERROR(validate_id("writer token", writer.token));
  SY_RETURN_IF_ERROR(validate_holder(writer.holder));
  SY_RETURN_IF_ERROR(validate_process(writer.process));
  SY_RETURN_IF_ERROR(validate_ttl("writer ttl", writer.ttl_ms, kWriterTtlMsMin, kWriterTtlMsMax));
  SY_RETURN_IF_ERROR(validate_instant("idle_before_ms", writer.idle_before_ms));
  SY_RETURN_IF_ERROR(validate_instant("granted_mono_ms", writer.granted_mono_ms));
  return validate_epoch_name(writer.epoch);
}

Status validate(const Lease& lease) {
  SY_RETURN_IF_ERROR(formats::validate(lease.identity));
  SY_RETURN_IF_ERROR(validate_holder(lease.holder));
  SY_RETURN_IF_ERROR(validate_nonce(lease.nonce));
  if (lease.lease_id != lease_id_of(lease.identity, lease.holder, lease.nonce)) {
    return invalid("lease id " + in_quotes(lease.lease_id) + " is not that of its group, holder and nonce");
  }
  SY_RETURN_IF_ERROR(validate_ttl("lease ttl", lease.ttl_ms, limits::kLeaseTtlMsMin, limits::kLeaseTtlMsMax));
  SY_RETURN_IF_ERROR(validate_instant("expires_mono_ms", lease.expires_mono_ms));
  SY_RETURN_IF_ERROR(validate_instant("renewable_until_mono_ms", lease.renewable_until_mono_ms));
  if (lease.renewable_until_mono_ms != 0 && lease.expires_mono_ms > lease.renewable_until_mono_ms) {
    return invalid("expires_mono_ms is " + std::to_string(lease.expires_mono_ms) +
                   ", wanted at most renewable_until_mono_ms, " + std::to_string(lease.renewable_until_mono_ms));
  }
  SY_RETURN_IF_ERROR(validate_process(lease.process));
  return validate_epoch_name(lease.epoch);
}

Status validate(const Watermark& watermark) {
  return formats::validate(Identity{watermark.lineage, watermark.weight_generation});
}

Status validate(const Runner& runner) {
  SY_RETURN_IF_ERROR(formats::validate(runner.identity));
  SY_RETURN_IF_ERROR(validate_id("operation_id", runner.operation_id));
  if (runner.run_attempt == 0) return invalid("run_attempt is 0, wanted 1 or more");
  if (!runner.token.empty()) SY_RETURN_IF_ERROR(validate_id("runner token", runner.token));
  SY_RETURN_IF_ERROR(validate_holder(runner.holder));
  SY_RETURN_IF_ERROR(validate_process(runner.process));
  SY_RETURN_IF_ERROR(validate_ttl("runner ttl", runner.ttl_ms, kWriterTtlMsMin, kWriterTtlMsMax));
  SY_RETURN_IF_ERROR(validate_instant("granted_mono_ms", runner.granted_mono_ms));
  SY_RETURN_IF_ERROR(validate_text("runner message", runner.message, 0, kMessageBytesMax, true));
  SY_RETURN_IF_ERROR(validate_source(runner.source));
  return validate_epoch_name(runner.epoch);
}

Status check_runner(const Runner& runner, const Operation& operation) {
  if (runner.processed_members > operation.total_members || runner.processed_bytes > operation.total_bytes ||
      runner.permitted_members > operation.total_members) {
    return invalid("a runner that is further than its operation goes");
  }
  if (runner.permitted_members != 0 && operation.kind != OperationKind::kEvicting) {
    return invalid("a removal permitted to " + std::string(name_of(operation.kind)));
  }
  return {};
}

Status validate(const Access& access) {
  SY_RETURN_IF_ERROR(formats::validate(access.identity));
  SY_RETURN_IF_ERROR(validate_instant("mono_ms", access.mono_ms));
  SY_RETURN_IF_ERROR(validate_instant("wall_ms", access.wall_ms));
  if (access.epoch_ordinal == 0) return invalid("the access's epoch ordinal is 0, wanted 1 or more");
  return validate_epoch_name(access.epoch);
}

Status validate(const EpochState& epoch) {
  if (epoch.ordinal == 0) return invalid("the epoch's ordinal is 0, wanted 1 or more");
  SY_RETURN_IF_ERROR(validate_instant("begun_mono_ms", epoch.begun_mono_ms));
  return validate_epoch_name(epoch.epoch);
}

Status validate_labels(const Labels& labels) {
  if (labels.size() > limits::kLabelsMax) {
    return invalid(std::to_string(labels.size()) + " labels, wanted at most " + std::to_string(limits::kLabelsMax));
  }
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const auto& [key, value] = labels[i];
    SY_RETURN_IF_ERROR(validate_text("label key", key, 1, limits::kLabelKeyBytesMax, false));
    if (!is_text(value, 0, limits::kLabelValueBytesMax, true)) {
      return validate_text("value of label " + in_quotes(key), value, 0, limits::kLabelValueBytesMax, true);
    }
    if (i == 0) continue;
    if (labels[i - 1].first == key) return invalid("label " + in_quotes(key) + " is given twice");
    if (labels[i - 1].first > key) return invalid("labels are not sorted by key at " + in_quotes(key));
  }
  return {};
}

Status validate_policy(const Policy& policy) {
  if (!stored(policy.prefer)) {
    return invalid("policy.prefer is " + std::string(name_of(policy.prefer)) + ", wanted HOT, COLD or MIXED");
  }
  return validate_ratio("policy.ratio", policy.ratio_millionths, policy.prefer == Residency::kMixed);
}

Status validate_damage(const DamageReport& damage) {
  if (damage.objects.size() > limits::kDamagedNamedMax) {
    return invalid("the damage report names " + std::to_string(damage.objects.size()) + " objects, wanted at most " +
                   std::to_string(limits::kDamagedNamedMax));
  }
  if (damage.count < damage.objects.size()) return invalid("the damage report counts fewer objects than it names");
  for (std::size_t i = 0; i < damage.objects.size(); ++i) {
    SY_RETURN_IF_ERROR(validate_text("damaged object key", damage.objects[i], 1, kObjectKeyBytesMax, false));
    if (i > 0 && damage.objects[i - 1] >= damage.objects[i]) return invalid("damaged objects are not sorted");
  }
  return {};
}

Status validate_summary(const GroupSummary& summary, bool complete) {
  SY_RETURN_IF_ERROR(validate_hex64("payload_keys_sha256", summary.payload_keys_sha256, complete));
  SY_RETURN_IF_ERROR(validate_hex64("manifest_sha256", summary.manifest_sha256, complete));
  if (summary.payload_count > limits::kManifestObjectsMax) {
    return invalid("payload_count is " + std::to_string(summary.payload_count) + ", wanted at most " +
                   std::to_string(limits::kManifestObjectsMax));
  }
  return {};
}

Status validate_source(const std::string& source) {
  if (source.size() <= kSourceBytesMax) return {};
  return invalid("the path of the source has " + std::to_string(source.size()) + " bytes, wanted at most " +
                 std::to_string(kSourceBytesMax));
}

Status validate_holder(std::string_view holder) {
  return validate_text("holder", holder, 1, limits::kHolderBytesMax, false);
}

Status validate_nonce(std::string_view nonce) { return validate_text("nonce", nonce, 1, kNonceBytesMax, false); }

Status validate_process(const ProcessIdentity& process) {
  // Host names are what the kernel says; they are shown through printable().
  if (process.host.size() > 1024 || process.boot_id.size() > kEpochBytesMax) {
    return invalid("the process identity is too long");
  }
  if (process.pid < 0) return invalid("the process id is " + std::to_string(process.pid) + ", wanted 0 or more");
  return {};
}

Status validate_id(std::string_view what, std::string_view id) {
  if (is_hex(id, 32)) return {};
  return invalid(std::string(what) + " is " + in_quotes(id) + ", wanted 32 lower-case hex digits");
}

Status validate_ttl(std::string_view what, std::int64_t ttl_ms, std::int64_t min_ms, std::int64_t max_ms) {
  if (ttl_ms >= min_ms && ttl_ms <= max_ms) return {};
  return invalid(std::string(what) + " is " + std::to_string(ttl_ms) + " ms, wanted " + std::to_string(min_ms) +
                 " to " + std::to_string(max_ms));
}

std::string lease_id_of(const Identity& identity, std::string_view holder, std::string_view nonce) {
  const Digest digest = hash::FramedSha256().add(formats::payload_group_id(identity)).add(holder).add(nonce).finish();
  return to_hex(ByteView(digest.bytes).first(16));
}

}  // namespace steelyard::metadata
