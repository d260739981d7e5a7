// The snapshot section `weight_metadata` (docs/formats/op-log.md): the primary rows, each under its table's letter;
// index rows are derived again when it is loaded.
#include <algorithm>
#include <set>
#include <utility>

#include "formats/ref.h"
#include "hash/sha256.h"
#include "metadata/codec.h"
#include "metadata/keys.h"
#include "metadata/memory_state.h"
#include "metadata/rules.h"
#include "metadata/state.h"
#include "metadata/validate.h"

namespace steelyard::metadata {
namespace {

constexpr std::string_view kMagic = "steelyard weight_metadata\n";
constexpr unsigned char kFormat = 1;
constexpr std::size_t kSumBytes = 32;
constexpr std::string_view kTables = "aelmrtuw";

Status corrupt(const std::string& why) { return {Code::kCorrupt, "snapshot section weight_metadata: " + why}; }

/// The rows that a value of `table` stands for; checks form and value.
Result<std::vector<RowChange>> load_row(char table, std::string_view value) {
  // A value that is not in its only form would not be found again byte for byte.
  const auto checked = [](const Status& status) {
    return status.ok() ? Status() : Status(Code::kCorrupt, status.message());
  };
  const auto same = [&](const std::string& again) { return again == value; };
  switch (table) {
    case keys::kRevision: {
      SY_ASSIGN_OR_RETURN(RevisionRecord record, decode_record(value));
      if (!same(encode_record(record))) break;
      SY_RETURN_IF_ERROR(checked(validate(record)));
      return rows_of(RevisionPut{std::move(record)});
    }
    case keys::kWriter: {
      SY_ASSIGN_OR_RETURN(Writer writer, decode_writer(value));
      if (!same(encode_writer(writer))) break;
      SY_RETURN_IF_ERROR(checked(validate(writer)));
      return rows_of(WriterPut{std::move(writer)});
    }
    case keys::kLease: {
      SY_ASSIGN_OR_RETURN(Lease lease, decode_lease(value));
      if (!same(encode_lease(lease))) break;
      SY_RETURN_IF_ERROR(checked(validate(lease)));
      return rows_of(LeasePut{std::move(lease)});
    }
    case keys::kWatermark: {
      SY_ASSIGN_OR_RETURN(Watermark watermark, decode_watermark(value));
      if (!same(encode_watermark(watermark))) break;
      SY_RETURN_IF_ERROR(checked(validate(watermark)));
      return rows_of(WatermarkPut{std::move(watermark)});
    }
    case keys::kRunner: {
      SY_ASSIGN_OR_RETURN(Runner runner, decode_runner(value));
      if (!same(encode_runner(runner))) break;
      SY_RETURN_IF_ERROR(checked(validate(runner)));
      return rows_of(RunnerPut{std::move(runner)});
    }
    case keys::kAccess: {
      SY_ASSIGN_OR_RETURN(Access access, decode_access(value));
      if (!same(encode_access(access))) break;
      SY_RETURN_IF_ERROR(checked(validate(access)));
      return rows_of(AccessPut{std::move(access)});
    }
    case keys::kEpoch: {
      SY_ASSIGN_OR_RETURN(EpochState epoch, decode_epoch(value));
      if (!same(encode_epoch(epoch))) break;
      SY_RETURN_IF_ERROR(checked(validate(epoch)));
      return rows_of(EpochBegun{std::move(epoch)});
    }
    case keys::kLastInstant: {
      const auto instant = keys::parse_be64(value);
      if (!instant || *instant > static_cast<std::uint64_t>(kInstantMsMax)) break;
      return std::vector<RowChange>{{keys::last_instant(), std::string(value)}};
    }
    default:
      return Status(Code::kUnavailable,
                    std::string("snapshot section weight_metadata: table '") + table + "' is of a newer version");
  }
  return corrupt(std::string("a value of table '") + table + "' is malformed");
}

/// What holds between the rows of a whole state.
Status check_whole(const MemoryState& state) {
  SY_ASSIGN_OR_RETURN(const EpochState epoch, epoch_of(state));
  if (epoch.last_mono_ms < epoch.begun_mono_ms) return corrupt("its last instant is before its epoch");
  Status failed;
  const auto fail = [&failed](const Identity& identity, std::string_view why) {
    failed = corrupt(formats::format_ref(identity) + ": " + std::string(why));
    return false;
  };
  const auto record_of = [&](const Identity& identity) { return find_revision(state, identity); };
  SY_RETURN_IF_ERROR(state.scan({}, {}, false, [&](std::string_view key, std::string_view value) {
    switch (key.front()) {
      case keys::kRevision: {
        const RevisionRecord record = decode_record(value).value();
        const bool importing = record.availability == Availability::kImporting;
        const Result<std::optional<Writer>> writer = find_writer(state, record.identity);
        if (writer.value().has_value() != importing) return fail(record.identity, "its writer and its state disagree");
        const Result<std::optional<Watermark>> mark = find_watermark(state, record.identity.lineage);
        const bool below = mark.value() && mark.value()->weight_generation >= record.identity.weight_generation;
        if (below && record.availability == Availability::kImporting) {
          return fail(record.identity, "an import at or below the watermark");
        }
        return true;
      }
      case keys::kWriter: {
        const Writer writer = decode_writer(value).value();
        const auto record = record_of(writer.identity);
        if (!record.value() || record.value()->import_attempt != writer.import_attempt) {
          return fail(writer.identity, "a writer of another attempt");
        }
        return writer.epoch == epoch.epoch || fail(writer.identity, "a writer of another epoch");
      }
      case keys::kLease: {
        const Lease lease = decode_lease(value).value();
        const auto record = record_of(lease.identity);
        if (!record.value() || record.value()->availability == Availability::kImporting ||
            record.value()->availability == Availability::kDeleted) {
          return fail(lease.identity, "a lease on a revision that cannot have one");
        }
        return lease.epoch == epoch.epoch || fail(lease.identity, "a lease of another epoch");
      }
      case keys::kRunner: {
        const Runner runner = decode_runner(value).value();
        const auto record = record_of(runner.identity);
        if (!record.value() || !record.value()->operation ||
            record.value()->operation->operation_id != runner.operation_id) {
          return fail(runner.identity, "a runner without its operation");
        }
        return runner.epoch == epoch.epoch || fail(runner.identity, "a runner of another epoch");
      }
      case keys::kAccess: {
        const Access access = decode_access(value).value();
        return record_of(access.identity).value().has_value() || fail(access.identity, "an access without a record");
      }
      default:
        return true;
    }
  }));
  return failed;
}

void append_be32(std::string& out, std::size_t number) {
  for (int shift = 24; shift >= 0; shift -= 8) out.push_back(static_cast<char>((number >> shift) & 0xff));
}

}  // namespace

Result<std::string> save_section(const StateView& view) {
  std::string out(kMagic);
  out.push_back(static_cast<char>(kFormat));
  for (const char table : kTables) {
    const std::string prefix(1, table);
    SY_RETURN_IF_ERROR(
        view.scan(prefix, keys::after_prefix(prefix), false, [&](std::string_view /*key*/, std::string_view value) {
          out.push_back(table);
          append_be32(out, value.size());
          out.append(value);
          return true;
        }));
  }
  const Digest sum = hash::sha256(as_bytes(out));
  out.append(as_text(sum.bytes));
  return out;
}

Result<std::vector<RowChange>> load_section(std::string_view section) {
  if (!section.starts_with(kMagic)) return corrupt("it does not begin as one");
  if (section.size() < kMagic.size() + 1 + kSumBytes) return corrupt("it is cut short");
  const std::string_view body = section.substr(0, section.size() - kSumBytes);
  const Digest sum = hash::sha256(as_bytes(body));
  if (as_text(sum.bytes) != section.substr(body.size())) return corrupt("its SHA-256 does not fit its bytes");
  const auto format = static_cast<unsigned char>(body[kMagic.size()]);
  if (format > kFormat) {
    return Status(Code::kUnavailable, "snapshot section weight_metadata: format " + std::to_string(format) +
                                          " is of a newer version, this one knows " + std::to_string(kFormat));
  }
  if (format == 0) return corrupt("format 0");

  std::vector<RowChange> rows;
  std::string last_key;
  std::string_view rest = body.substr(kMagic.size() + 1);
  while (!rest.empty()) {
    if (rest.size() < 5) return corrupt("a row is cut short");
    std::size_t bytes = 0;
    for (const char c : rest.substr(1, 4)) bytes = (bytes << 8) | static_cast<unsigned char>(c);
    const char table = rest.front();
    rest.remove_prefix(5);
    if (rest.size() < bytes) return corrupt("a row is cut short");
    Result<std::vector<RowChange>> derived = load_row(table, rest.substr(0, bytes));
    if (!derived.ok()) return std::move(derived).status().annotate("loading snapshot section", kSnapshotSection);
    rest.remove_prefix(bytes);
    if (derived->front().key <= last_key) return corrupt("its rows are not in order");
    last_key = derived->front().key;
    for (RowChange& row : *derived) {
      if (row.value) rows.push_back(std::move(row));
    }
  }
  // The epoch's row carries its first instant too; the last one stands in a row of its own, which comes later.
  std::stable_sort(rows.begin(), rows.end(), [](const RowChange& a, const RowChange& b) { return a.key < b.key; });
  std::vector<RowChange> unique;
  unique.reserve(rows.size());
  for (RowChange& row : rows) {
    if (!unique.empty() && unique.back().key == row.key) {
      if (row.key != keys::last_instant()) return corrupt("two rows claim one index key");
      unique.back() = std::move(row);
    } else {
      unique.push_back(std::move(row));
    }
  }
  MemoryState state;
  state.reset(0, unique);
  SY_RETURN_IF_ERROR(check_whole(state));
  return unique;
}

}  // namespace steelyard::metadata
