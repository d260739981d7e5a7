#include "metadata/codec.h"

#include <utility>

#include "metadata/proto/entry.pb.h"
#include "metadata/validate.h"

namespace steelyard::metadata {
namespace {

constexpr std::string_view kGroupPrefix = "weight:";

/// What went wrong while a message was turned into a value; the first one counts.
struct Problem {
  Code code = Code::kOk;
  std::string message;
  void corrupt(std::string text) {
    if (code == Code::kOk) code = Code::kCorrupt, message = std::move(text);
  }
  void newer(std::string text) {
    if (code == Code::kOk) code = Code::kUnavailable, message = std::move(text);
  }
  Status status() const { return code == Code::kOk ? Status() : Status(code, message); }
};

std::string raw_of_hex(std::string_view hex) {
  std::string raw(hex.size() / 2, '\0');
  const bool ok = from_hex(hex, ByteSpan(reinterpret_cast<std::byte*>(raw.data()), raw.size()));
  SY_CHECK(ok && hex.size() % 2 == 0, "a digest that is not hex reached the encoder");
  return raw;
}

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

// --- values to messages
// -----------------------------------------------------------------------------------------------

void fill(const Lineage& in, pb::Lineage& out) {
  out.set_tenant_id(in.tenant_id);
  out.set_namespace_id(in.namespace_id);
  out.set_resource_id(in.resource_id);
  out.set_revision(in.revision);
}

void fill(const Identity& in, pb::Identity& out) {
  fill(in.lineage, *out.mutable_lineage());
  out.set_weight_generation(in.weight_generation);
}

void fill(const ProcessIdentity& in, pb::Process& out) {
  out.set_host(in.host);
  out.set_boot_id(in.boot_id);
  out.set_pid_namespace(in.pid_namespace);
  out.set_pid(in.pid);
  out.set_start_ticks(in.start_ticks);
}

void fill(const AppliedRequest& in, pb::AppliedRequest& out) {
  out.set_kind(static_cast<pb::RequestKind>(in.kind));
  out.set_expected_generation(in.expected_generation);
  out.set_arguments_sha256(in.arguments_sha256);
}

void fill(const Operation& in, pb::Operation& out) {
  out.set_operation_id(in.operation_id);
  out.set_kind(static_cast<pb::OperationKind>(in.kind));
  out.set_state(static_cast<pb::OperationState>(in.state));
  out.set_target(static_cast<pb::Residency>(in.target));
  if (in.ratio_millionths) out.set_ratio_millionths(*in.ratio_millionths);
  out.set_plan_digest(raw_of_hex(in.plan_digest));
  out.set_total_members(in.total_members);
  out.set_total_bytes(in.total_bytes);
  out.set_processed_members(in.processed_members);
  out.set_processed_bytes(in.processed_bytes);
  out.set_message(in.message);
  fill(in.request, *out.mutable_request());
  out.set_started_at_ms(in.started_at_ms);
  out.set_ended_at_ms(in.ended_at_ms);
}

void fill(const RevisionRecord& in, pb::RevisionRecord& out) {
  SY_CHECK(in.payload_group_id.starts_with(kGroupPrefix), "a payload group id without its prefix");
  fill(in.identity, *out.mutable_identity());
  out.set_availability(static_cast<pb::Availability>(in.availability));
  out.set_residency(static_cast<pb::Residency>(in.residency));
  if (in.hot_millionths) out.set_hot_millionths(*in.hot_millionths);
  out.set_metadata_generation(in.metadata_generation);
  out.set_import_attempt(in.import_attempt);
  out.set_manifest_key(in.manifest_key);
  out.set_payload_group_sha256(raw_of_hex(std::string_view(in.payload_group_id).substr(kGroupPrefix.size())));
  pb::GroupSummary& summary = *out.mutable_summary();
  summary.set_payload_count(in.summary.payload_count);
  summary.set_logical_bytes(in.summary.logical_bytes);
  summary.set_payload_keys_sha256(raw_of_hex(in.summary.payload_keys_sha256));
  summary.set_manifest_sha256(raw_of_hex(in.summary.manifest_sha256));
  out.set_begin_seq(in.begin_seq);
  out.set_committed_seq(in.committed_seq);
  out.set_created_at_ms(in.created_at_ms);
  out.set_updated_at_ms(in.updated_at_ms);
  for (const auto& [key, value] : in.labels) {
    pb::Label& label = *out.add_labels();
    label.set_key(key);
    label.set_value(value);
  }
  pb::Policy& policy = *out.mutable_policy();
  policy.set_prefer(static_cast<pb::Residency>(in.policy.prefer));
  if (in.policy.ratio_millionths) policy.set_ratio_millionths(*in.policy.ratio_millionths);
  policy.set_mode(static_cast<pb::PolicyMode>(in.policy.mode));
  if (in.operation) fill(*in.operation, *out.mutable_operation());
  for (const Operation& operation : in.finished_operations) fill(operation, *out.add_finished_operations());
  for (const AppliedRequest& request : in.applied) fill(request, *out.add_applied());
  if (in.damage.count != 0 || !in.damage.objects.empty()) {
    pb::DamageReport& damage = *out.mutable_damage();
    for (const std::string& object : in.damage.objects) damage.add_objects(object);
    damage.set_count(in.damage.count);
  }
  out.set_hot_instance(in.hot_instance);
  out.set_hot_members(in.hot_members);
  out.set_drain(in.drain);
  out.set_availability_since_ms(in.availability_since_ms);
  out.set_deleted_seq(in.deleted_seq);
}

void fill(const Writer& in, pb::Writer& out) {
  fill(in.identity, *out.mutable_identity());
  out.set_import_attempt(in.import_attempt);
  out.set_token(in.token);
  out.set_holder(in.holder);
  fill(in.process, *out.mutable_process());
  out.set_ttl_ms(in.ttl_ms);
  out.set_epoch(in.epoch);
  out.set_granted_mono_ms(in.granted_mono_ms);
  out.set_granted_wall_ms(in.granted_wall_ms);
  out.set_idle_before_ms(in.idle_before_ms);
}

void fill(const Lease& in, pb::Lease& out) {
  out.set_lease_id(in.lease_id);
  fill(in.identity, *out.mutable_identity());
  out.set_holder(in.holder);
  out.set_nonce(in.nonce);
  out.set_ttl_ms(in.ttl_ms);
  out.set_epoch(in.epoch);
  out.set_expires_mono_ms(in.expires_mono_ms);
  out.set_renewable_until_mono_ms(in.renewable_until_mono_ms);
  fill(in.process, *out.mutable_process());
}

void fill(const Watermark& in, pb::Watermark& out) {
  fill(in.lineage, *out.mutable_lineage());
  out.set_weight_generation(in.weight_generation);
}

void fill(const Runner& in, pb::Runner& out) {
  fill(in.identity, *out.mutable_identity());
  out.set_operation_id(in.operation_id);
  out.set_run_attempt(in.run_attempt);
  out.set_token(in.token);
  out.set_holder(in.holder);
  fill(in.process, *out.mutable_process());
  out.set_ttl_ms(in.ttl_ms);
  out.set_epoch(in.epoch);
  out.set_granted_mono_ms(in.granted_mono_ms);
  out.set_processed_members(in.processed_members);
  out.set_processed_bytes(in.processed_bytes);
  out.set_message(in.message);
}

void fill(const Access& in, pb::Access& out) {
  fill(in.identity, *out.mutable_identity());
  out.set_epoch(in.epoch);
  out.set_mono_ms(in.mono_ms);
  out.set_wall_ms(in.wall_ms);
}

void fill(const EpochState& in, pb::EpochState& out) {
  out.set_epoch(in.epoch);
  out.set_begun_mono_ms(in.begun_mono_ms);
  out.set_ordinal(in.ordinal);
}

// --- messages to values
// -----------------------------------------------------------------------------------------------

Lineage take(const pb::Lineage& in, Problem& /*problem*/) {
  return {in.tenant_id(), in.namespace_id(), in.resource_id(), in.revision()};
}

Identity take(const pb::Identity& in, Problem& problem) {
  return {take(in.lineage(), problem), in.weight_generation()};
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
  return out;
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
  return out;
}

Access take(const pb::Access& in, Problem& problem) {
  return {take(in.identity(), problem), in.epoch(), in.mono_ms(), in.wall_ms()};
}

EpochState take(const pb::EpochState& in, Problem& /*problem*/) {
  EpochState out;
  out.epoch = in.epoch();
  out.begun_mono_ms = in.begun_mono_ms();
  out.ordinal = in.ordinal();
  return out;
}

// --- bytes
// ------------------------------------------------------------------------------------------------------------

/// A message whose parts lie in one piece of memory, on the stack where they fit: decoding is what reads cost most.
template <typename Message>
class InArena {
 public:
  Message& operator*() { return *message_; }

 private:
  alignas(8) char first_block_[4096];
  google::protobuf::Arena arena_{first_block_, sizeof first_block_};
  Message* message_ = google::protobuf::Arena::CreateMessage<Message>(&arena_);
};

template <typename Message, typename Value>
std::string encode(const Value& value) {
  InArena<Message> message;
  fill(value, *message);
  return (*message).SerializeAsString();
}

template <typename Message, typename Value>
Result<Value> decode(std::string_view bytes, const char* what) {
  InArena<Message> parsed;
  Message& message = *parsed;
  if (bytes.size() > INT32_MAX || !message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return Status(Code::kCorrupt, std::string("a stored ") + what + " is malformed");
  }
  Problem problem;
  Value value = take(message, problem);
  SY_RETURN_IF_ERROR(problem.status().annotate("reading a stored", what));
  return value;
}

/// One checked alternative of the entry.
template <typename Body, typename Message>
EntryBody checked(const Message& message, Problem& problem) {
  Body body{take(message, problem)};
  if (problem.code == Code::kOk) {
    const auto& [value] = body;
    if (const Status status = validate(value); !status.ok()) problem.corrupt(status.message());
  }
  return body;
}

EntryBody take_body(const pb::Entry& in, Problem& problem) {
  switch (in.body_case()) {
    case pb::Entry::kRevisionPut:
      return checked<RevisionPut>(in.revision_put(), problem);
    case pb::Entry::kRevisionRemoved:
      return checked<RevisionRemoved>(in.revision_removed(), problem);
    case pb::Entry::kWriterPut:
      return checked<WriterPut>(in.writer_put(), problem);
    case pb::Entry::kWriterRemoved:
      return checked<WriterRemoved>(in.writer_removed(), problem);
    case pb::Entry::kLeasePut:
      return checked<LeasePut>(in.lease_put(), problem);
    case pb::Entry::kLeaseRemoved: {
      LeaseRemoved body{take(in.lease_removed().identity(), problem), in.lease_removed().lease_id()};
      if (const Status status = validate(body.identity); !status.ok()) problem.corrupt(status.message());
      if (const Status status = validate_id("lease id", body.lease_id); !status.ok()) problem.corrupt(status.message());
      return body;
    }
    case pb::Entry::kEpochBegun:
      return checked<EpochBegun>(in.epoch_begun(), problem);
    case pb::Entry::kWatermarkPut:
      return checked<WatermarkPut>(in.watermark_put(), problem);
    case pb::Entry::kRunnerPut:
      return checked<RunnerPut>(in.runner_put(), problem);
    case pb::Entry::kRunnerRemoved:
      return checked<RunnerRemoved>(in.runner_removed(), problem);
    case pb::Entry::kOperationForgotten: {
      OperationForgotten body{in.operation_forgotten().operation_id()};
      if (const Status status = validate_id("operation_id", body.operation_id); !status.ok()) {
        problem.corrupt(status.message());
      }
      return body;
    }
    case pb::Entry::kAccessPut:
      return checked<AccessPut>(in.access_put(), problem);
    case pb::Entry::kAccessRemoved:
      return checked<AccessRemoved>(in.access_removed(), problem);
    case pb::Entry::BODY_NOT_SET:
      break;
  }
  pb::Entry known;
  if (in.has_mono_ms()) known.set_mono_ms(in.mono_ms());
  if (in.ByteSizeLong() == known.ByteSizeLong()) {
    problem.corrupt("it is of no type");
  } else {
    problem.newer("its type is not known to this version");
  }
  return WriterRemoved{};
}

struct BodyFiller {
  pb::Entry& out;
  void operator()(const RevisionPut& body) const { fill(body.record, *out.mutable_revision_put()); }
  void operator()(const RevisionRemoved& body) const { fill(body.record, *out.mutable_revision_removed()); }
  void operator()(const WriterPut& body) const { fill(body.writer, *out.mutable_writer_put()); }
  void operator()(const WriterRemoved& body) const { fill(body.identity, *out.mutable_writer_removed()); }
  void operator()(const LeasePut& body) const { fill(body.lease, *out.mutable_lease_put()); }
  void operator()(const LeaseRemoved& body) const {
    fill(body.identity, *out.mutable_lease_removed()->mutable_identity());
    out.mutable_lease_removed()->set_lease_id(body.lease_id);
  }
  void operator()(const EpochBegun& body) const { fill(body.epoch, *out.mutable_epoch_begun()); }
  void operator()(const WatermarkPut& body) const { fill(body.watermark, *out.mutable_watermark_put()); }
  void operator()(const RunnerPut& body) const { fill(body.runner, *out.mutable_runner_put()); }
  void operator()(const RunnerRemoved& body) const { fill(body.identity, *out.mutable_runner_removed()); }
  void operator()(const OperationForgotten& body) const {
    out.mutable_operation_forgotten()->set_operation_id(body.operation_id);
  }
  void operator()(const AccessPut& body) const { fill(body.access, *out.mutable_access_put()); }
  void operator()(const AccessRemoved& body) const { fill(body.identity, *out.mutable_access_removed()); }
};

struct BodyName {
  std::string_view operator()(const RevisionPut&) const { return "RevisionPut"; }
  std::string_view operator()(const RevisionRemoved&) const { return "RevisionRemoved"; }
  std::string_view operator()(const WriterPut&) const { return "WriterPut"; }
  std::string_view operator()(const WriterRemoved&) const { return "WriterRemoved"; }
  std::string_view operator()(const LeasePut&) const { return "LeasePut"; }
  std::string_view operator()(const LeaseRemoved&) const { return "LeaseRemoved"; }
  std::string_view operator()(const EpochBegun&) const { return "EpochBegun"; }
  std::string_view operator()(const WatermarkPut&) const { return "WatermarkPut"; }
  std::string_view operator()(const RunnerPut&) const { return "RunnerPut"; }
  std::string_view operator()(const RunnerRemoved&) const { return "RunnerRemoved"; }
  std::string_view operator()(const OperationForgotten&) const { return "OperationForgotten"; }
  std::string_view operator()(const AccessPut&) const { return "AccessPut"; }
  std::string_view operator()(const AccessRemoved&) const { return "AccessRemoved"; }
};

}  // namespace

std::string_view name_of(const EntryBody& body) { return std::visit(BodyName{}, body); }

Entry encode_entry(const DecodedEntry& entry) {
  InArena<pb::Entry> built;
  pb::Entry& message = *built;
  if (entry.mono_ms) message.set_mono_ms(*entry.mono_ms);
  std::visit(BodyFiller{message}, entry.body);
  return {message.SerializeAsString()};
}

Result<DecodedEntry> decode_entry(const Entry& entry) {
  InArena<pb::Entry> parsed;
  pb::Entry& message = *parsed;
  if (!message.ParseFromString(entry.bytes)) return Status(Code::kCorrupt, "a log entry is malformed");
  Problem problem;
  DecodedEntry decoded{take_body(message, problem), std::nullopt};
  if (message.has_mono_ms()) {
    decoded.mono_ms = message.mono_ms();
    if (message.mono_ms() < 0 || message.mono_ms() > kInstantMsMax) problem.corrupt("its instant is out of range");
  }
  const bool typed = message.body_case() != pb::Entry::BODY_NOT_SET;
  SY_RETURN_IF_ERROR(problem.status().annotate("reading log entry",
                                               typed ? name_of(decoded.body) : std::string_view("of unknown type")));
  // One byte form: what a value does not hold was written by a newer version, or not by us.
  if (encode_entry(decoded).bytes != entry.bytes) {
    if (message.SerializeAsString() == entry.bytes) {
      return Status(Code::kUnavailable,
                    "log entry " + std::string(name_of(decoded.body)) + " has fields of a newer version");
    }
    return Status(Code::kCorrupt, "log entry " + std::string(name_of(decoded.body)) + " is not in its only form");
  }
  return decoded;
}

std::string encode_record(const RevisionRecord& record) { return encode<pb::RevisionRecord>(record); }
std::string encode_writer(const Writer& writer) { return encode<pb::Writer>(writer); }
std::string encode_lease(const Lease& lease) { return encode<pb::Lease>(lease); }
std::string encode_watermark(const Watermark& watermark) { return encode<pb::Watermark>(watermark); }
std::string encode_runner(const Runner& runner) { return encode<pb::Runner>(runner); }
std::string encode_access(const Access& access) { return encode<pb::Access>(access); }
std::string encode_epoch(const EpochState& epoch) { return encode<pb::EpochState>(epoch); }

Result<RevisionRecord> decode_record(std::string_view bytes) {
  return decode<pb::RevisionRecord, RevisionRecord>(bytes, "revision record");
}
Result<Writer> decode_writer(std::string_view bytes) { return decode<pb::Writer, Writer>(bytes, "writer"); }
Result<Lease> decode_lease(std::string_view bytes) { return decode<pb::Lease, Lease>(bytes, "lease"); }
Result<Watermark> decode_watermark(std::string_view bytes) {
  return decode<pb::Watermark, Watermark>(bytes, "watermark");
}
Result<Runner> decode_runner(std::string_view bytes) { return decode<pb::Runner, Runner>(bytes, "runner"); }
Result<Access> decode_access(std::string_view bytes) { return decode<pb::Access, Access>(bytes, "access"); }
Result<EpochState> decode_epoch(std::string_view bytes) { return decode<pb::EpochState, EpochState>(bytes, "epoch"); }

}  // namespace steelyard::metadata
