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
  void operator()(const RevisionPut& body) {
    const RevisionRecord& record = body.record;
    put_record(record, encode_record(record));
    if (record.committed_seq == 0) return;
    // Once committed it stands by its commit, and no longer where it began.
    remove(keys::order(record.identity, keys::OrderClass::kUncommitted, record.begin_seq));
    remove(keys::resource_order(record.identity, keys::OrderClass::kUncommitted, record.begin_seq));
  }

  void put_record(const RevisionRecord& record, std::string encoded) {
    const Identity& identity = record.identity;
    const std::string key = keys::of(keys::kRevision, identity);
    const std::string order_value = keys::order_value(record.availability, key);
    rows_.reserve(6);
    put(key, std::move(encoded));
    put(keys::group(group_digest(record)), key);
    const bool committed = record.committed_seq != 0;
    const auto place = committed ? keys::OrderClass::kCommitted : keys::OrderClass::kUncommitted;
    const std::uint64_t sequence = committed ? record.committed_seq : record.begin_seq;
    put(keys::order(identity, place, sequence), order_value);
    put(keys::resource_order(identity, place, sequence), order_value);
    if (record.operation) put(keys::operation_id(record.operation->operation_id), key);
    for (const Operation& operation : record.finished_operations) put(keys::operation_id(operation.operation_id), key);
  }

  void operator()(const RevisionRemoved& body) {
    const RevisionRecord& record = body.record;
    const Identity& identity = record.identity;
    remove(keys::of(keys::kRevision, identity));
    remove(keys::group(group_digest(record)));
    const bool committed = record.committed_seq != 0;
    const auto place = committed ? keys::OrderClass::kCommitted : keys::OrderClass::kUncommitted;
    const std::uint64_t sequence = committed ? record.committed_seq : record.begin_seq;
    remove(keys::order(identity, place, sequence));
    remove(keys::resource_order(identity, place, sequence));
    for (const Operation& operation : record.finished_operations) remove(keys::operation_id(operation.operation_id));
    remove(keys::of(keys::kAccess, identity));
  }

  void operator()(const WriterPut& body) {
    put(keys::of(keys::kWriter, body.writer.identity), encode_writer(body.writer));
  }
  void operator()(const WriterRemoved& body) { remove(keys::of(keys::kWriter, body.identity)); }

  void operator()(const LeasePut& body) {
    const std::string key = keys::lease(body.lease.identity, body.lease.lease_id);
    put(key, encode_lease(body.lease));
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
    put(keys::of(keys::kAccess, body.access.identity), encode_access(body.access));
  }
  void operator()(const AccessRemoved& body) { remove(keys::of(keys::kAccess, body.identity)); }

  std::vector<RowChange> take() { return std::move(rows_); }

 private:
  void put(std::string key, std::string value) { rows_.push_back({std::move(key), std::move(value)}); }
  void remove(std::string key) { rows_.push_back({std::move(key), std::nullopt}); }

  std::vector<RowChange> rows_;
};

void append_framed(std::string& out, std::string_view bytes) {
  for (int shift = 24; shift >= 0; shift -= 8) out.push_back(static_cast<char>((bytes.size() >> shift) & 0xff));
  out.append(bytes);
}

}  // namespace

std::vector<RowChange> rows_of(const EntryBody& body) {
  Changes changes;
  std::visit(changes, body);
  return changes.take();
}

std::vector<RowChange> rows_of_record(const RevisionRecord& record, std::string encoded) {
  Changes changes;
  changes.put_record(record, std::move(encoded));
  return changes.take();
}

Result<std::vector<RowChange>> changes_of(const Entry& entry) {
  SY_ASSIGN_OR_RETURN(const DecodedEntry decoded, decode_entry(entry));
  std::vector<RowChange> rows = rows_of(decoded.body);
  if (decoded.mono_ms) {
    rows.push_back({keys::last_instant(), keys::be64(static_cast<std::uint64_t>(*decoded.mono_ms))});
  }
  return rows;
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
