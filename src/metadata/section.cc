// The snapshot section `weight_metadata` (docs/formats/op-log.md): the primary rows, each under its table's letter;
// index rows are derived again when it is loaded.
#include <algorithm>
#include <map>
#include <utility>

#include "formats/ref.h"
#include "hash/sha256.h"
#include "metadata/codec.h"
#include "metadata/keys.h"
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

/// Rows by the letter of their table.
class Tables {
 public:
  void add(RowChange row) {
    if (row.value) tables_[row.key.front()].push_back(std::move(row));
  }

  /// All rows in the order of their keys.
  Result<std::vector<RowChange>> sorted() && {
    std::size_t total = 0;
    for (const auto& [table, rows] : tables_) total += rows.size();
    std::vector<RowChange> all;
    all.reserve(total);
    for (auto& [table, rows] : tables_) {
      for (const std::uint32_t row : order_of(rows)) {
        if (!all.empty() && all.back().key == rows[row].key) {
          // The epoch's row carries its first instant too; the last one stands in a row of its own, which came later.
          if (table != keys::kLastInstant) return corrupt("two rows claim one index key");
          all.back() = std::move(rows[row]);
        } else {
          all.push_back(std::move(rows[row]));
        }
      }
    }
    return all;
  }

 private:
  /// The first bytes of a key behind what all keys of its table share: most comparisons need no more.
  struct Head {
    std::uint64_t first = 0;
    std::uint64_t second = 0;
    std::uint32_t row = 0;
  };

  /// Eight bytes of the key as a number in their order; behind its end zeros.
  static std::uint64_t head_of(std::string_view key, std::size_t at) {
    std::uint64_t head = 0;
    for (std::size_t end = at + sizeof head; at < end; ++at) {
      head = head << 8 | (at < key.size() ? static_cast<unsigned char>(key[at]) : 0U);
    }
    return head;
  }

  static std::size_t shared_prefix(const std::vector<RowChange>& rows) {
    std::string_view shared = rows.front().key;
    for (const RowChange& row : rows) {
      const std::string_view key = row.key;
      const auto [end, unused] = std::mismatch(shared.begin(), shared.end(), key.begin(), key.end());
      shared = shared.substr(0, static_cast<std::size_t>(end - shared.begin()));
    }
    return shared.size();
  }

  static std::vector<std::uint32_t> order_of(const std::vector<RowChange>& rows) {
    const std::size_t shared = shared_prefix(rows);
    std::vector<Head> heads(rows.size());
    for (std::uint32_t i = 0; i < heads.size(); ++i) {
      heads[i] = {head_of(rows[i].key, shared), head_of(rows[i].key, shared + sizeof(std::uint64_t)), i};
    }
    const auto before = [&rows](const Head& a, const Head& b) {
      if (a.first != b.first) return a.first < b.first;
      if (a.second != b.second) return a.second < b.second;
      const int compared = rows[a.row].key.compare(rows[b.row].key);
      return compared < 0 || (compared == 0 && a.row < b.row);
    };
    if (!std::is_sorted(heads.begin(), heads.end(), before)) std::sort(heads.begin(), heads.end(), before);
    std::vector<std::uint32_t> order(heads.size());
    std::transform(heads.begin(), heads.end(), order.begin(), [](const Head& head) { return head.row; });
    return order;
  }

  std::map<char, std::vector<RowChange>> tables_;
};

/// Adds the rows that a value stands for, when it is legal and in its only form: else it would not be found again byte
/// for byte. Gives the key of its own row.
template <typename Put, typename Value>
Result<std::string> add_checked(char table, std::string_view bytes, Result<Value> value, Tables& tables) {
  SY_RETURN_IF_ERROR(value.status());
  if (const Status status = validate(*value); !status.ok()) return Status(Code::kCorrupt, status.message());
  std::vector<RowChange> rows = rows_of(Put{std::move(value).value()});
  if (rows.front().value != bytes) return corrupt(std::string("a value of table '") + table + "' is malformed");
  std::string key = rows.front().key;
  for (RowChange& row : rows) tables.add(std::move(row));
  return key;
}

Status check_appends(const RevisionRecord& record, std::uint64_t sequence) {
  // An append that comes later would be given the same number.
  const std::uint64_t newest = std::max({record.begin_seq, record.committed_seq, record.deleted_seq});
  if (newest <= sequence) return {};
  return corrupt("a record of append " + std::to_string(newest) + " in the state at " + std::to_string(sequence));
}

Result<std::string> add_record(std::string_view bytes, std::uint64_t sequence, Tables& tables) {
  if (const auto record = wire::find_record(bytes)) {
    SY_RETURN_IF_ERROR(check_appends(*record, sequence));
    if (const Status status = validate(*record); !status.ok()) return Status(Code::kCorrupt, status.message());
    std::vector<RowChange> rows = rows_of_record(*record, std::string(bytes));
    std::string key = rows.front().key;
    for (RowChange& row : rows) tables.add(std::move(row));
    return key;
  }
  Result<RevisionRecord> record = decode_record(bytes);
  if (record.ok()) SY_RETURN_IF_ERROR(check_appends(*record, sequence));
  return add_checked<RevisionPut>(keys::kRevision, bytes, std::move(record), tables);
}

Result<std::string> add_row(char table, std::string_view value, std::uint64_t sequence, Tables& tables) {
  switch (table) {
    case keys::kRevision:
      return add_record(value, sequence, tables);
    case keys::kWriter:
      return add_checked<WriterPut>(table, value, decode_writer(value), tables);
    case keys::kLease:
      return add_checked<LeasePut>(table, value, decode_lease(value), tables);
    case keys::kWatermark:
      return add_checked<WatermarkPut>(table, value, decode_watermark(value), tables);
    case keys::kRunner:
      return add_checked<RunnerPut>(table, value, decode_runner(value), tables);
    case keys::kAccess:
      return add_checked<AccessPut>(table, value, decode_access(value), tables);
    case keys::kEpoch:
      return add_checked<EpochBegun>(table, value, decode_epoch(value), tables);
    case keys::kLastInstant: {
      const auto instant = keys::parse_be64(value);
      if (!instant || *instant > static_cast<std::uint64_t>(kInstantMsMax)) return corrupt("its instant is malformed");
      tables.add({keys::last_instant(), std::string(value)});
      return keys::last_instant();
    }
    default:
      return Status(Code::kUnavailable,
                    std::string("snapshot section weight_metadata: table '") + table + "' is of a newer version");
  }
}

/// Rows in key order as a state.
class SortedRows final : public StateView {
 public:
  explicit SortedRows(const std::vector<RowChange>& rows) : rows_(rows) {}
  std::uint64_t sequence() const override { return 0; }
  Result<std::optional<std::string>> get(std::string_view key) const override {
    const auto row = first_from(key);
    if (row == rows_.end() || row->key != key) return std::optional<std::string>();
    return row->value;
  }
  Status scan(std::string_view from, std::string_view to, bool descending, const Visitor& visit) const override {
    SY_CHECK(!descending, "nobody reads the rows of a section backwards");
    const auto end = to.empty() ? rows_.end() : first_from(to);
    for (auto row = first_from(from); row < end && visit(row->key, *row->value); ++row) {
    }
    return {};
  }

 private:
  std::vector<RowChange>::const_iterator first_from(std::string_view key) const {
    return std::ranges::lower_bound(rows_, key, {}, [](const RowChange& row) { return std::string_view(row.key); });
  }
  const std::vector<RowChange>& rows_;
};

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
  SY_RETURN_IF_ERROR(state.scan({}, {}, false, [&](std::string_view key, std::string_view value) {
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

Result<std::vector<RowChange>> load_section(std::string_view section, std::uint64_t sequence) {
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

  Tables tables;
  std::string last_key;
  std::string_view rest = body.substr(kMagic.size() + 1);
  while (!rest.empty()) {
    if (rest.size() < 5) return corrupt("a row is cut short");
    std::size_t bytes = 0;
    for (const char c : rest.substr(1, 4)) bytes = (bytes << 8) | static_cast<unsigned char>(c);
    const char table = rest.front();
    rest.remove_prefix(5);
    if (rest.size() < bytes) return corrupt("a row is cut short");
    Result<std::string> key = add_row(table, rest.substr(0, bytes), sequence, tables);
    if (!key.ok()) return std::move(key).status().annotate("loading snapshot section", kSnapshotSection);
    rest.remove_prefix(bytes);
    if (*key <= last_key) return corrupt("its rows are not in order");
    last_key = std::move(key).value();
  }
  SY_ASSIGN_OR_RETURN(std::vector<RowChange> rows, std::move(tables).sorted());
  SY_RETURN_IF_ERROR(check_whole(SortedRows(rows)));
  return rows;
}

}  // namespace steelyard::metadata
