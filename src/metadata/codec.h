// Records and entries as stored bytes. A value has one byte form; decoding accepts that form only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/status.h"
#include "metadata/state.h"
#include "metadata/types.h"

namespace steelyard::metadata {

struct RevisionPut {
  RevisionRecord record;
};
/// Compaction into a watermark; the record as it was.
struct RevisionRemoved {
  RevisionRecord record;
};
struct WriterPut {
  Writer writer;
};
struct WriterRemoved {
  Identity identity;
};
struct LeasePut {
  Lease lease;
};
struct LeaseRemoved {
  Identity identity;
  std::string lease_id;
};
struct EpochBegun {
  EpochState epoch;
};
struct WatermarkPut {
  Watermark watermark;
};
struct RunnerPut {
  Runner runner;
};
struct RunnerRemoved {
  Identity identity;
};
/// An operation that its record no longer retains.
struct OperationForgotten {
  std::string operation_id;
};
struct AccessPut {
  Access access;
};
struct AccessRemoved {
  Identity identity;
};

using EntryBody =
    std::variant<RevisionPut, RevisionRemoved, WriterPut, WriterRemoved, LeasePut, LeaseRemoved, EpochBegun,
                 WatermarkPut, RunnerPut, RunnerRemoved, OperationForgotten, AccessPut, AccessRemoved>;

struct DecodedEntry {
  EntryBody body;
  std::optional<std::int64_t> mono_ms;  ///< the instant of the append; on its last entry
  std::string_view encoded = {};        ///< the value that the body puts, in the entry's bytes; empty: not known
};

/// "RevisionPut", ... for messages.
std::string_view name_of(const EntryBody& body);

/// The rows that a checked entry's body stands for. `encoded` is the value that it puts; empty: it is encoded.
std::vector<RowChange> rows_of(const EntryBody& body, std::string_view encoded = {});
/// What stands for a checked record, besides its own value: keys, and what the rows of the indexes hold.
struct RecordRows {
  std::string key;
  std::string group;  ///< here and in `operations` the value is `key`
  std::vector<std::string> operations;
  std::string order;
  std::string resource_order;
  std::string order_value;  ///< of both orders
};
RecordRows rows_of_record(const RevisionRecord& record);
/// The rows of a checked entry; changes_of() of its bytes.
std::vector<RowChange> rows_of(const DecodedEntry& entry);

Entry encode_entry(const DecodedEntry& entry);
/// Checks form and every value (validate.h). CORRUPT; UNAVAILABLE for what a newer version wrote. What is decoded may
/// point into the entry.
Result<DecodedEntry> decode_entry(const Entry& entry);

std::string encode_record(const RevisionRecord& record);
std::string encode_writer(const Writer& writer);
std::string encode_lease(const Lease& lease);
std::string encode_watermark(const Watermark& watermark);
std::string encode_runner(const Runner& runner);
std::string encode_access(const Access& access);
std::string encode_epoch(const EpochState& epoch);

/// Rows of a state that was checked when it was made: form is checked, values are taken as they are.
Result<RevisionRecord> decode_record(std::string_view bytes);
Result<Writer> decode_writer(std::string_view bytes);
Result<Lease> decode_lease(std::string_view bytes);
Result<Watermark> decode_watermark(std::string_view bytes);
Result<Runner> decode_runner(std::string_view bytes);
Result<Access> decode_access(std::string_view bytes);
Result<EpochState> decode_epoch(std::string_view bytes);

}  // namespace steelyard::metadata
