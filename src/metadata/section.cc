// The snapshot section `weight_metadata` (docs/formats/op-log.md): the primary rows, each under its table's letter;
// index rows are derived again when it is loaded.
#include <algorithm>
#include <optional>
#include <utility>

#include "formats/ref.h"
#include "hash/sha256.h"
#include "metadata/codec.h"
#include "metadata/keys.h"
#include "metadata/memory_state.h"
#include "metadata/rules.h"
#include "metadata/state.h"
#include "metadata/validate.h"
#include "metadata/wire.h"

namespace steelyard::metadata {
namespace {

constexpr std::string_view kMagic = "steelyard weight_metadata\n";
constexpr unsigned char kFormat = 1;
constexpr std::size_t kSumBytes = 32;
constexpr std::string_view kTables = "aelmrtuw";

Status corrupt(const std::string& why) { return {Code::kCorrupt, "snapshot section weight_metadata: " + why}; }

using Builder = SortedRows::Builder;

/// Adds the rows that a value stands for, when it is legal and in its only form: else it would not be found again byte
/// for byte. Gives the key of its own row.
template <typename Put, typename Value>
Result<std::string_view> add_checked(char table, std::string_view bytes, Result<Value> value, Builder& rows) {
  SY_RETURN_IF_ERROR(value.status());
  if (const Status status = validate(*value); !status.ok()) return Status(Code::kCorrupt, status.message());
  const std::vector<RowChange> changes = rows_of(Put{std::move(value).value()});
  if (changes.front().value != bytes) return corrupt(std::string("a value of table '") + table + "' is malformed");
  const std::string_view key = rows.keep(changes.front().key);
  rows.add(key, rows.keep(bytes));
  for (std::size_t i = 1; i < changes.size(); ++i) {
    // The epoch's row carries its first instant too; the last one stands in a row of its own.
    if (changes[i].value && changes[i].key.front() != keys::kLastInstant) {
      rows.add(rows.keep(changes[i].key), rows.keep(*changes[i].value));
    }
  }
  return key;
}

Status check_appends(const RevisionRecord& record, std::uint64_t sequence) {
  // An append that comes later would be given the same number.
  const std::uint64_t newest = std::max({record.begin_seq, record.committed_seq, record.deleted_seq});
  if (newest <= sequence) return {};
  return corrupt("a record of append " + std::to_string(newest) + " in the state at " + std::to_string(sequence));
}

/// The rows of a record that was checked, whose stored form is `bytes`. Most of a state is these.
std::string_view add_rows_of(const RevisionRecord& record, std::string_view bytes, Builder& rows) {
  const RecordRows of_record = rows_of_record(record);
  // The key stands at the end of what the orders say.
  const std::string_view order_value = rows.keep(of_record.order_value);
  const std::string_view key = order_value.substr(order_value.size() - of_record.key.size());
  rows.add(key, rows.keep(bytes));
  rows.add(rows.keep(of_record.group), key);
  rows.add(rows.keep(of_record.order), order_value);
  rows.add(rows.keep(of_record.resource_order), order_value);
  for (const std::string& operation : of_record.operations) rows.add(rows.keep(operation), key);
  return key;
}

Result<std::string_view> add_record(std::string_view bytes, std::uint64_t sequence, Builder& rows) {
  if (const auto record = wire::find_record(bytes)) {
    SY_RETURN_IF_ERROR(check_appends(*record, sequence));
    if (const Status status = validate(*record); !status.ok()) return Status(Code::kCorrupt, status.message());
    return add_rows_of(*record, bytes, rows);
  }
  Result<RevisionRecord> record = decode_record(bytes);
  if (record.ok()) SY_RETURN_IF_ERROR(check_appends(*record, sequence));
  return add_checked<RevisionPut>(keys::kRevision, bytes, std::move(record), rows);
}

Result<std::string_view> add_row(char table, std::string_view value, std::uint64_t sequence, Builder& rows) {
  switch (table) {
    case keys::kRevision:
      return add_record(value, sequence, rows);
    case keys::kWriter:
      return add_checked<WriterPut>(table, value, decode_writer(value), rows);
    case keys::kLease:
      return add_checked<LeasePut>(table, value, decode_lease(value), rows);
    case keys::kWatermark:
      return add_checked<WatermarkPut>(table, value, decode_watermark(value), rows);
    case keys::kRunner:
      return add_checked<RunnerPut>(table, value, decode_runner(value), rows);
    case keys::kAccess:
      return add_checked<AccessPut>(table, value, decode_access(value), rows);
    case keys::kEpoch:
      return add_checked<EpochBegun>(table, value, decode_epoch(value), rows);
    case keys::kLastInstant: {
      const auto instant = keys::parse_be64(value);
      if (!instant || *instant > static_cast<std::uint64_t>(kInstantMsMax)) return corrupt("its instant is malformed");
      const std::string_view key = rows.keep(keys::last_instant());
      rows.add(key, rows.keep(value));
      return key;
    }
    default:
      return Status(Code::kUnavailable,
                    std::string("snapshot section weight_metadata: table '") + table + "' is of a newer version");
  }
}

/// What holds between the rows of a whole state; each by itself was checked.
Status check_whole(const StateView& state) {
  SY_ASSIGN_OR_RETURN(const EpochState epoch, epoch_of(state));
  if (epoch.last_mono_ms < epoch.begun_mono_ms) return corrupt("its last instant is before its epoch");
  Status failed;
  const auto fail = [&failed](const Identity& identity, std::string_view why) {
    failed = corrupt(formats::format_ref(identity) + ": " + std::string(why));
    return false;
  };
  const auto record_of = [&](const Identity& identity) { return find_revision(state, identity).value(); };
  const auto check_row = [&](std::string_view key, std::string_view value) {
    switch (key.front()) {
      case keys::kOrder: {
        // One a record, and the state stands in it: no record needs to be decoded again.
        const auto order = keys::parse_order_value(value);
        if (order->availability != Availability::kImporting) return true;
        const RevisionRecord record = decode_record(*state.get(order->revision_key).value()).value();
        if (!find_writer(state, record.identity).value()) return fail(record.identity, "an import without a writer");
        const std::optional<Watermark> mark = find_watermark(state, record.identity.lineage).value();
        const bool below = mark && mark->weight_generation >= record.identity.weight_generation;
        return !below || fail(record.identity, "an import at or below the watermark");
      }
      case keys::kWriter: {
        const Writer writer = decode_writer(value).value();
        const auto record = record_of(writer.identity);
        if (!record || record->availability != Availability::kImporting) {
          return fail(writer.identity, "a writer without an import");
        }
        if (record->import_attempt != writer.import_attempt) {
          return fail(writer.identity, "a writer of another attempt");
        }
        return writer.epoch == epoch.epoch || fail(writer.identity, "a writer of another epoch");
      }
      case keys::kLease: {
        const Lease lease = decode_lease(value).value();
        const auto record = record_of(lease.identity);
        if (!record || record->availability == Availability::kImporting ||
            record->availability == Availability::kDeleted) {
          return fail(lease.identity, "a lease on a revision that cannot have one");
        }
        return lease.epoch == epoch.epoch || fail(lease.identity, "a lease of another epoch");
      }
      case keys::kRunner: {
        const Runner runner = decode_runner(value).value();
        const auto record = record_of(runner.identity);
        if (!record || !record->operation || record->operation->operation_id != runner.operation_id) {
          return fail(runner.identity, "a runner without its operation");
        }
        if (const Status fits = check_runner(runner, *record->operation); !fits.ok()) {
          return fail(runner.identity, fits.message());
        }
        return runner.epoch == epoch.epoch || fail(runner.identity, "a runner of another epoch");
      }
      case keys::kAccess: {
        const Access access = decode_access(value).value();
        if (access.epoch_ordinal > epoch.ordinal) return fail(access.identity, "an access in an epoch to come");
        return record_of(access.identity).has_value() || fail(access.identity, "an access without a record");
      }
      default:
        return true;
    }
  };
  for (const char table : {keys::kOrder, keys::kWriter, keys::kLease, keys::kRunner, keys::kAccess}) {
    const std::string prefix(1, table);
    SY_RETURN_IF_ERROR(state.scan(prefix, keys::after_prefix(prefix), false, check_row));
    SY_RETURN_IF_ERROR(failed);
  }
  return {};
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

Result<std::shared_ptr<const SortedRows>> load_section(std::string_view section, std::uint64_t sequence) {
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

  Builder rows;
  std::string_view last_key;
  std::optional<std::int64_t> begun_ms;
  std::string_view rest = body.substr(kMagic.size() + 1);
  while (!rest.empty()) {
    if (rest.size() < 5) return corrupt("a row is cut short");
    std::size_t bytes = 0;
    for (const char c : rest.substr(1, 4)) bytes = (bytes << 8) | static_cast<unsigned char>(c);
    const char table = rest.front();
    rest.remove_prefix(5);
    if (rest.size() < bytes) return corrupt("a row is cut short");
    const std::string_view value = rest.substr(0, bytes);
    const Result<std::string_view> key = add_row(table, value, sequence, rows);
    if (!key.ok()) return Status(key.status()).annotate("loading snapshot section", kSnapshotSection);
    rest.remove_prefix(bytes);
    if (*key <= last_key) return corrupt("its rows are not in order");
    last_key = *key;
    if (table == keys::kEpoch) begun_ms = decode_epoch(value)->begun_mono_ms;
    if (table == keys::kLastInstant) begun_ms.reset();
  }
  // An epoch in which nothing happened yet.
  if (begun_ms) rows.add(rows.keep(keys::last_instant()), rows.keep(keys::be64(static_cast<std::uint64_t>(*begun_ms))));
  std::optional<SortedRows> sorted = std::move(rows).finish();
  if (!sorted) return corrupt("two rows claim one index key");
  auto loaded = std::make_shared<const SortedRows>(*std::move(sorted));
  MemoryState state;
  state.reset(sequence, loaded);
  SY_RETURN_IF_ERROR(check_whole(state));
  return loaded;
}

}  // namespace steelyard::metadata
