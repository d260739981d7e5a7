#include "metadata/state.h"

#include <utility>

#include "metadata/codec.h"
#include "metadata/keys.h"

namespace steelyard::metadata {
namespace {

Digest group_digest(const RevisionRecord& record) {
  Digest digest;
  const bool ok =
      from_hex(std::string_view(record.payload_group_id).substr(std::string_view("weight:").size()), digest.bytes);
  SY_CHECK(ok, "a checked record has a payload group id");
  return digest;
}

/// Collects the rows of one entry.
class Changes {
 public:
  explicit Changes(std::string_view encoded) : encoded_(encoded) {}

  void operator()(const RevisionPut& body) {
    const RevisionRecord& record = body.record;
    put_record(record, encoded_or([&] { return encode_record(record); }));
    if (record.committed_seq == 0) return;
    // Once committed it stands by its commit, and no longer where it began.
    remove(keys::order(record.identity, keys::OrderClass::kUncommitted, record.begin_seq));
    remove(keys::resource_order(record.identity, keys::OrderClass::kUncommitted, record.begin_seq));
  }

  void operator()(const RevisionRemoved& body) {
    RecordRows rows = rows_of_record(body.record);
    remove(std::move(rows.key));
    remove(std::move(rows.group));
    remove(std::move(rows.order));
    remove(std::move(rows.resource_order));
    for (std::string& operation : rows.operations) remove(std::move(operation));
    remove(keys::of(keys::kAccess, body.record.identity));
  }

  void operator()(const WriterPut& body) {
    put(keys::of(keys::kWriter, body.writer.identity), encoded_or([&] { return encode_writer(body.writer); }));
  }
  void operator()(const WriterRemoved& body) { remove(keys::of(keys::kWriter, body.identity)); }

  void operator()(const LeasePut& body) {
    const std::string key = keys::lease(body.lease.identity, body.lease.lease_id);
    put(key, encoded_or([&] { return encode_lease(body.lease); }));
    put(keys::lease_id(body.lease.lease_id), key);
  }
  void operator()(const LeaseRemoved& body) {
    remove(keys::lease(body.identity, body.lease_id));
    remove(keys::lease_id(body.lease_id));
  }

  void operator()(const EpochBegun& body) {
    put(keys::epoch(), encode_epoch(body.epoch));
    put(keys::last_instant(), keys::be64(static_cast<std::uint64_t>(body.epoch.begun_mono_ms)));
  }
  void operator()(const WatermarkPut& body) {
    put(keys::of(keys::kWatermark, body.watermark.lineage), encode_watermark(body.watermark));
  }
  void operator()(const RunnerPut& body) {
    put(keys::of(keys::kRunner, body.runner.identity), encode_runner(body.runner));
  }
  void operator()(const RunnerRemoved& body) { remove(keys::of(keys::kRunner, body.identity)); }
  void operator()(const OperationForgotten& body) { remove(keys::operation_id(body.operation_id)); }
  void operator()(const AccessPut& body) {
    put(keys::of(keys::kAccess, body.access.identity), encoded_or([&] { return encode_access(body.access); }));
  }
  void operator()(const AccessRemoved& body) { remove(keys::of(keys::kAccess, body.identity)); }

  std::vector<RowChange> take() { return std::move(rows_); }

 private:
  template <typename Encode>
  std::string encoded_or(const Encode& encode) const {
    return encoded_.empty() ? encode() : std::string(encoded_);
  }
  void put_record(const RevisionRecord& record, std::string encoded) {
    RecordRows rows = rows_of_record(record);
    rows_.reserve(7 + rows.operations.size());  // with what a commit removes, and the instant
    put(rows.key, std::move(encoded));
    put(std::move(rows.group), rows.key);
    put(std::move(rows.order), rows.order_value);
    put(std::move(rows.resource_order), std::move(rows.order_value));
    for (std::string& operation : rows.operations) put(std::move(operation), rows.key);
  }
  void put(std::string key, std::string value) { rows_.push_back({std::move(key), std::move(value)}); }
  void remove(std::string key) { rows_.push_back({std::move(key), std::nullopt}); }

  std::string_view encoded_;
  std::vector<RowChange> rows_;
};

void append_framed(std::string& out, std::string_view bytes) {
  for (int shift = 24; shift >= 0; shift -= 8) out.push_back(static_cast<char>((bytes.size() >> shift) & 0xff));
  out.append(bytes);
}

}  // namespace

RecordRows rows_of_record(const RevisionRecord& record) {
  const Identity& identity = record.identity;
  const bool committed = record.committed_seq != 0;
  const auto place = committed ? keys::OrderClass::kCommitted : keys::OrderClass::kUncommitted;
  const std::uint64_t sequence = committed ? record.committed_seq : record.begin_seq;
  RecordRows rows;
  rows.key = keys::of(keys::kRevision, identity);
  rows.group = keys::group(group_digest(record));
  rows.order = keys::order(identity, place, sequence);
  rows.resource_order = keys::resource_order(identity, place, sequence);
  rows.order_value = keys::order_value(record.availability, rows.key);
  if (record.operation) rows.operations.push_back(keys::operation_id(record.operation->operation_id));
  for (const Operation& operation : record.finished_operations) {
    rows.operations.push_back(keys::operation_id(operation.operation_id));
  }
  return rows;
}

std::vector<RowChange> rows_of(const EntryBody& body, std::string_view encoded) {
  Changes changes(encoded);
  std::visit(changes, body);
  return changes.take();
}

std::vector<RowChange> rows_of(const DecodedEntry& entry) {
  std::vector<RowChange> rows = rows_of(entry.body, entry.encoded);
  if (entry.mono_ms) {
    rows.push_back({keys::last_instant(), keys::be64(static_cast<std::uint64_t>(*entry.mono_ms))});
  }
  return rows;
}

Result<std::vector<RowChange>> changes_of(const Entry& entry) {
  SY_ASSIGN_OR_RETURN(const DecodedEntry decoded, decode_entry(entry));
  return rows_of(decoded);
}

Result<std::string> export_canonical(const StateView& view) {
  std::string out = "steelyard-state 1\n";
  SY_RETURN_IF_ERROR(view.scan({}, {}, false, [&out](std::string_view key, std::string_view value) {
    append_framed(out, key);
    append_framed(out, value);
    return true;
  }));
  return out;
}

}  // namespace steelyard::metadata
