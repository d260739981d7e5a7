#include "metadata/wire.h"

#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>

#include "base/bytes.h"

namespace steelyard::metadata::wire {
namespace {

constexpr std::size_t kDigestBytes = 32;
constexpr std::string_view kGroupPrefix = "weight:";

/// Takes fields from the front, in ascending order. The first byte that is not the only form fails it for good.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : at_(bytes.data()), end_(bytes.data() + bytes.size()) {}

  bool whole() const { return !failed_ && at_ == end_; }
  void fail() {
    failed_ = true;
    at_ = end_;
  }

  /// A number that is left out when it is 0.
  template <typename T>
  void number(unsigned field, T& out) {
    if (!tag(field, kVarint)) return;
    const std::uint64_t value = varint();
    if (value == 0) fail();
    out = narrow<T>(value);
  }
  /// A number that says by itself whether it is there.
  template <typename T>
  void optional_number(unsigned field, std::optional<T>& out) {
    if (tag(field, kVarint)) out = narrow<T>(varint());
  }
  template <typename E>
  void enumeration(unsigned field, E& out, std::uint64_t first, std::uint64_t last) {
    const std::uint64_t value = tag(field, kVarint) ? varint() : 0;
    if (value < first || value > last) return fail();
    out = static_cast<E>(value);
  }
  void text(unsigned field, std::string& out) {
    if (!tag(field, kBytes)) return;
    const std::string_view value = bytes();
    if (value.empty()) fail();
    out = value;
  }
  /// Hex of 32 raw bytes.
  void digest(unsigned field, std::string& out, std::string_view prefix = {}) {
    if (!tag(field, kBytes)) return;
    const std::string_view value = bytes();
    if (value.size() != kDigestBytes) return fail();
    out = std::string(prefix);
    out += to_hex(as_bytes(value));
  }
  /// The bytes of a message or of one more of a repeated field; absent when the next field is another.
  std::optional<std::string_view> find_part(unsigned field) {
    if (!tag(field, kBytes)) return std::nullopt;
    return bytes();
  }
  /// A message that is always written.
  Reader part(unsigned field) {
    if (tag(field, kBytes)) return Reader(bytes());
    fail();
    return Reader({});
  }
  void must(bool right) {
    if (!right) fail();
  }

 private:
  static constexpr unsigned kVarint = 0;
  static constexpr unsigned kBytes = 2;

  /// Takes the next tag if it is this one.
  bool tag(unsigned field, unsigned type) {
    const unsigned wanted = field << 3 | type;
    if (wanted < 0x80) {
      if (at_ == end_ || static_cast<unsigned char>(*at_) != wanted) return false;
      ++at_;
      return true;
    }
    if (end_ - at_ < 2 || static_cast<unsigned char>(at_[0]) != ((wanted & 0x7f) | 0x80) ||
        static_cast<unsigned char>(at_[1]) != wanted >> 7) {
      return false;
    }
    at_ += 2;
    return true;
  }
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; at_ != end_; shift += 7) {
      const auto byte = static_cast<unsigned char>(*at_++);
      if (shift == 63 && byte > 1) break;
      value |= std::uint64_t{byte & 0x7fU} << shift;
      if (byte < 0x80) {
        if (byte == 0 && shift > 0) break;  // it could be shorter
        return value;
      }
    }
    fail();
    return 0;
  }
  std::string_view bytes() {
    const std::uint64_t size = varint();
    if (size > static_cast<std::uint64_t>(end_ - at_)) {
      fail();
      return {};
    }
    const std::string_view value(at_, static_cast<std::size_t>(size));
    at_ += size;
    return value;
  }
  template <typename T>
  T narrow(std::uint64_t value) {
    if constexpr (std::is_same_v<T, bool>) {
      if (value > 1) fail();
      return value == 1;
    } else if constexpr (sizeof(T) < sizeof value) {
      if (value > std::numeric_limits<T>::max()) fail();
      return static_cast<T>(value);
    } else {
      return static_cast<T>(value);
    }
  }

  const char* at_;
  const char* end_;
  bool failed_ = false;
};

bool read(Reader in, Lineage& out) {
  in.text(1, out.tenant_id);
  in.text(2, out.namespace_id);
  in.text(3, out.resource_id);
  in.text(4, out.revision);
  return in.whole();
}

bool read(Reader in, Identity& out) {
  in.must(read(in.part(1), out.lineage));
  in.number(2, out.weight_generation);
  return in.whole();
}

bool read(Reader in, ProcessIdentity& out) {
  in.text(1, out.host);
  in.text(2, out.boot_id);
  in.number(3, out.pid_namespace);
  in.number(4, out.pid);
  in.number(5, out.start_ticks);
  return in.whole();
}

bool read(Reader in, AppliedRequest& out) {
  in.enumeration(1, out.kind, 1, 5);
  in.number(2, out.expected_generation);
  in.text(3, out.arguments_sha256);
  return in.whole();
}

bool read(Reader in, Operation& out) {
  in.text(1, out.operation_id);
  in.enumeration(2, out.kind, 1, 3);
  in.enumeration(3, out.state, 1, 4);
  in.enumeration(4, out.target, 1, 5);
  in.optional_number(5, out.ratio_millionths);
  in.digest(6, out.plan_digest);
  in.number(7, out.total_members);
  in.number(8, out.total_bytes);
  in.number(9, out.processed_members);
  in.number(10, out.processed_bytes);
  in.text(11, out.message);
  in.must(read(in.part(12), out.request));
  in.number(13, out.started_at_ms);
  in.number(14, out.ended_at_ms);
  in.text(15, out.hot_instance);
  in.text(16, out.hot_boot_id);
  in.number(17, out.ended_epoch_ordinal);
  in.number(18, out.ended_mono_ms);
  in.text(19, out.ended_by);
  in.text(20, out.failed_with);
  return in.whole();
}

bool read(Reader in, GroupSummary& out) {
  in.number(1, out.payload_count);
  in.number(2, out.logical_bytes);
  in.digest(3, out.payload_keys_sha256);
  in.digest(4, out.manifest_sha256);
  return in.whole();
}

bool read(Reader in, std::pair<std::string, std::string>& label) {
  in.text(1, label.first);
  in.text(2, label.second);
  return in.whole();
}

bool read(Reader in, Policy& out) {
  in.enumeration(1, out.prefer, 1, 5);
  in.optional_number(2, out.ratio_millionths);
  in.enumeration(3, out.mode, 1, 3);
  return in.whole();
}

bool read(Reader in, DamageReport& out) {
  while (const auto object = in.find_part(1)) out.objects.emplace_back(*object);
  in.number(2, out.count);
  return in.whole() && (out.count != 0 || !out.objects.empty());
}

bool read(Reader in, RevisionRecord& out) {
  in.must(read(in.part(1), out.identity));
  in.enumeration(2, out.availability, 1, 5);
  in.enumeration(3, out.residency, 1, 5);
  in.optional_number(4, out.hot_millionths);
  in.number(5, out.metadata_generation);
  in.number(6, out.import_attempt);
  in.text(7, out.manifest_key);
  in.digest(8, out.payload_group_id, kGroupPrefix);
  in.must(!out.payload_group_id.empty());
  in.must(read(in.part(9), out.summary));
  in.number(10, out.begin_seq);
  in.number(11, out.committed_seq);
  in.number(12, out.created_at_ms);
  in.number(13, out.updated_at_ms);
  while (const auto label = in.find_part(14)) in.must(read(Reader(*label), out.labels.emplace_back()));
  in.must(read(in.part(15), out.policy));
  if (const auto operation = in.find_part(16)) in.must(read(Reader(*operation), out.operation.emplace()));
  while (const auto operation = in.find_part(17)) {
    in.must(read(Reader(*operation), out.finished_operations.emplace_back()));
  }
  while (const auto request = in.find_part(18)) in.must(read(Reader(*request), out.applied.emplace_back()));
  if (const auto damage = in.find_part(19)) in.must(read(Reader(*damage), out.damage));
  in.text(20, out.hot_instance);
  in.number(21, out.hot_members);
  in.number(22, out.drain);
  in.number(23, out.availability_since_ms);
  in.number(24, out.deleted_seq);
  in.text(25, out.hot_boot_id);
  return in.whole();
}

bool read(Reader in, Writer& out) {
  in.must(read(in.part(1), out.identity));
  in.number(2, out.import_attempt);
  in.text(3, out.token);
  in.text(4, out.holder);
  in.must(read(in.part(5), out.process));
  in.number(6, out.ttl_ms);
  in.text(7, out.epoch);
  in.number(8, out.granted_mono_ms);
  in.number(9, out.granted_wall_ms);
  in.number(10, out.idle_before_ms);
  return in.whole();
}

bool read(Reader in, Lease& out) {
  in.text(1, out.lease_id);
  in.must(read(in.part(2), out.identity));
  in.text(3, out.holder);
  in.text(4, out.nonce);
  in.number(5, out.ttl_ms);
  in.text(6, out.epoch);
  in.number(7, out.expires_mono_ms);
  in.number(8, out.renewable_until_mono_ms);
  in.must(read(in.part(9), out.process));
  return in.whole();
}

bool read(Reader in, LeaseName& out) {
  in.must(read(in.part(1), out.identity));
  in.text(2, out.lease_id);
  return in.whole();
}

bool read(Reader in, Access& out) {
  in.must(read(in.part(1), out.identity));
  in.text(2, out.epoch);
  in.number(3, out.mono_ms);
  in.number(4, out.wall_ms);
  in.number(5, out.epoch_ordinal);
  return in.whole();
}

bool read(Reader in, EpochState& out) {
  in.text(1, out.epoch);
  in.number(2, out.begun_mono_ms);
  in.number(3, out.ordinal);
  return in.whole();
}

template <typename Value>
std::optional<Value> find(std::string_view bytes) {
  std::optional<Value> value(std::in_place);
  if (!read(Reader(bytes), *value)) value.reset();
  return value;
}

}  // namespace

std::optional<RevisionRecord> find_record(std::string_view bytes) { return find<RevisionRecord>(bytes); }
std::optional<Writer> find_writer(std::string_view bytes) { return find<Writer>(bytes); }
std::optional<Lease> find_lease(std::string_view bytes) { return find<Lease>(bytes); }
std::optional<LeaseName> find_lease_name(std::string_view bytes) { return find<LeaseName>(bytes); }
std::optional<Access> find_access(std::string_view bytes) { return find<Access>(bytes); }
std::optional<Identity> find_identity(std::string_view bytes) { return find<Identity>(bytes); }
std::optional<EpochState> find_epoch(std::string_view bytes) { return find<EpochState>(bytes); }

std::optional<EntryParts> find_entry(std::string_view bytes) {
  constexpr unsigned kBodyFirst = 10;
  constexpr unsigned kBodyLast = 22;
  EntryParts parts;
  Reader in(bytes);
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
