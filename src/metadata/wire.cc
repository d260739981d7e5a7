#include "metadata/wire.h"

#include <string>
#include <type_traits>
#include <utility>
#include <variant>

#include "metadata/wire_form.h"

namespace steelyard::metadata::wire {
namespace {

constexpr std::string_view kGroupPrefix = "weight:";

}  // namespace

void fields(auto& io, Of<Lineage> auto& value) {
  io.text(1, value.tenant_id);
  io.text(2, value.namespace_id);
  io.text(3, value.resource_id);
  io.text(4, value.revision);
}

void fields(auto& io, Of<Identity> auto& value) {
  io.part(1, value.lineage);
  io.number(2, value.weight_generation);
}

void fields(auto& io, Of<ProcessIdentity> auto& value) {
  io.text(1, value.host);
  io.text(2, value.boot_id);
  io.number(3, value.pid_namespace);
  io.number(4, value.pid);
  io.number(5, value.start_ticks);
}

void fields(auto& io, Of<AppliedRequest> auto& value) {
  io.enumeration(1, value.kind, 1, 5);
  io.number(2, value.expected_generation);
  io.text(3, value.arguments_sha256);
}

void fields(auto& io, Of<Operation> auto& value) {
  io.text(1, value.operation_id);
  io.enumeration(2, value.kind, 1, 3);
  io.enumeration(3, value.state, 1, 4);
  io.enumeration(4, value.target, 1, 5);
  io.optional_number(5, value.ratio_millionths);
  io.digest(6, value.plan_digest);
  io.number(7, value.total_members);
  io.number(8, value.total_bytes);
  io.number(9, value.processed_members);
  io.number(10, value.processed_bytes);
  io.text(11, value.message);
  io.part(12, value.request);
  io.number(13, value.started_at_ms);
  io.number(14, value.ended_at_ms);
  io.text(15, value.hot_instance);
  io.text(16, value.hot_boot_id);
  io.number(17, value.ended_epoch_ordinal);
  io.number(18, value.ended_mono_ms);
  io.text(19, value.ended_by);
  io.text(20, value.failed_with);
}

void fields(auto& io, Of<GroupSummary> auto& value) {
  io.number(1, value.payload_count);
  io.number(2, value.logical_bytes);
  io.digest(3, value.payload_keys_sha256);
  io.digest(4, value.manifest_sha256);
}

void fields(auto& io, Of<std::pair<std::string, std::string>> auto& value) {
  io.text(1, value.first);
  io.text(2, value.second);
}

void fields(auto& io, Of<Policy> auto& value) {
  io.enumeration(1, value.prefer, 1, 5);
  io.optional_number(2, value.ratio_millionths);
  io.enumeration(3, value.mode, 1, 3);
}

void fields(auto& io, Of<DamageReport> auto& value) {
  io.texts(1, value.objects);
  io.number(2, value.count);
}

void fields(auto& io, Of<RevisionRecord> auto& value) {
  io.part(1, value.identity);
  io.enumeration(2, value.availability, 1, 5);
  io.enumeration(3, value.residency, 1, 5);
  io.optional_number(4, value.hot_millionths);
  io.number(5, value.metadata_generation);
  io.number(6, value.import_attempt);
  io.text(7, value.manifest_key);
  io.digest(8, value.payload_group_id, kGroupPrefix);
  io.must(!value.payload_group_id.empty());
  io.part(9, value.summary);
  io.number(10, value.begin_seq);
  io.number(11, value.committed_seq);
  io.number(12, value.created_at_ms);
  io.number(13, value.updated_at_ms);
  io.parts(14, value.labels);
  io.part(15, value.policy);
  io.optional_part(16, value.operation);
  io.parts(17, value.finished_operations);
  io.parts(18, value.applied);
  io.part_unless_empty(19, value.damage);
  io.text(20, value.hot_instance);
  io.number(21, value.hot_members);
  io.number(22, value.drain);
  io.number(23, value.availability_since_ms);
  io.number(24, value.deleted_seq);
  io.text(25, value.hot_boot_id);
}

void fields(auto& io, Of<Writer> auto& value) {
  io.part(1, value.identity);
  io.number(2, value.import_attempt);
  io.text(3, value.token);
  io.text(4, value.holder);
  io.part(5, value.process);
  io.number(6, value.ttl_ms);
  io.text(7, value.epoch);
  io.number(8, value.granted_mono_ms);
  io.number(9, value.granted_wall_ms);
  io.number(10, value.idle_before_ms);
}

void fields(auto& io, Of<Lease> auto& value) {
  io.text(1, value.lease_id);
  io.part(2, value.identity);
  io.text(3, value.holder);
  io.text(4, value.nonce);
  io.number(5, value.ttl_ms);
  io.text(6, value.epoch);
  io.number(7, value.expires_mono_ms);
  io.number(8, value.renewable_until_mono_ms);
  io.part(9, value.process);
}

void fields(auto& io, Of<LeaseRemoved> auto& value) {
  io.part(1, value.identity);
  io.text(2, value.lease_id);
}

void fields(auto& io, Of<Access> auto& value) {
  io.part(1, value.identity);
  io.text(2, value.epoch);
  io.number(3, value.mono_ms);
  io.number(4, value.wall_ms);
  io.number(5, value.epoch_ordinal);
}

void fields(auto& io, Of<EpochState> auto& value) {
  io.text(1, value.epoch);
  io.number(2, value.begun_mono_ms);
  io.number(3, value.ordinal);
}

void fields(auto& io, Of<Watermark> auto& value) {
  io.part(1, value.lineage);
  io.number(2, value.weight_generation);
}

void fields(auto& io, Of<Runner> auto& value) {
  io.part(1, value.identity);
  io.text(2, value.operation_id);
  io.number(3, value.run_attempt);
  io.text(4, value.token);
  io.text(5, value.holder);
  io.part(6, value.process);
  io.number(7, value.ttl_ms);
  io.text(8, value.epoch);
  io.number(9, value.granted_mono_ms);
  io.number(10, value.processed_members);
  io.number(11, value.processed_bytes);
  io.text(12, value.message);
  io.number(13, value.permitted_members);
  io.text(14, value.source);
}

void fields(auto& io, Of<OperationForgotten> auto& value) { io.text(1, value.operation_id); }

namespace {

template <typename Value>
std::optional<Value> find(std::string_view bytes) {
  std::optional<Value> value(std::in_place);
  FieldReader in(bytes);
  fields(in, *value);
  if (!in.whole()) value.reset();
  return value;
}

/// Room for most of what is encoded.
constexpr std::size_t kUsualBytes = 512;

template <typename Value>
std::string encoded(const Value& value) {
  std::string out;
  out.reserve(kUsualBytes);
  FieldWriter to(out);
  fields(to, value);
  return out;
}

/// The body's field is the number of its alternative, from here on.
constexpr unsigned kBodyFirst = 10;
constexpr unsigned kBodyLast = kBodyFirst + std::variant_size_v<EntryBody> - 1;

/// What a body puts; it is alone in most of them.
template <typename Body>
const auto& content_of(const Body& body) {
  if constexpr (std::is_same_v<Body, LeaseRemoved> || std::is_same_v<Body, OperationForgotten>) {
    return body;
  } else {
    const auto& [value] = body;
    return value;
  }
}

}  // namespace

std::optional<RevisionRecord> find_record(std::string_view bytes) { return find<RevisionRecord>(bytes); }
std::optional<Writer> find_writer(std::string_view bytes) { return find<Writer>(bytes); }
std::optional<Lease> find_lease(std::string_view bytes) { return find<Lease>(bytes); }
std::optional<LeaseRemoved> find_removed_lease(std::string_view bytes) { return find<LeaseRemoved>(bytes); }
std::optional<Access> find_access(std::string_view bytes) { return find<Access>(bytes); }
std::optional<Identity> find_identity(std::string_view bytes) { return find<Identity>(bytes); }
std::optional<EpochState> find_epoch(std::string_view bytes) { return find<EpochState>(bytes); }

std::string encode(const RevisionRecord& record) { return encoded(record); }
std::string encode(const Writer& writer) { return encoded(writer); }
std::string encode(const Lease& lease) { return encoded(lease); }
std::string encode(const Watermark& watermark) { return encoded(watermark); }
std::string encode(const Runner& runner) { return encoded(runner); }
std::string encode(const Access& access) { return encoded(access); }
std::string encode(const EpochState& epoch) { return encoded(epoch); }

std::string encode(const DecodedEntry& entry) {
  std::string out;
  out.reserve(kUsualBytes);
  FieldWriter to(out);
  to.optional_number(1, entry.mono_ms);
  std::visit(
      [&](const auto& body) { to.part(kBodyFirst + static_cast<unsigned>(entry.body.index()), content_of(body)); },
      entry.body);
  return out;
}

std::optional<EntryParts> find_entry(std::string_view bytes) {
  EntryParts parts;
  FieldReader in(bytes);
  in.optional_number(1, parts.mono_ms);
  for (unsigned field = kBodyFirst; field <= kBodyLast; ++field) {
    const auto body = in.find_part(field);
    if (!body) continue;
    parts.field = field;
    parts.body = *body;
    break;
  }
  if (parts.field == 0 || !in.whole()) return std::nullopt;
  return parts;
}

}  // namespace steelyard::metadata::wire
