#include "oplog/log_row.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include "hash/xxh3.h"
#include "oplog/proto/batch.pb.h"

namespace steelyard::oplog {
namespace {

constexpr std::uint32_t kBatchFormat = 1;

Status damaged(std::uint64_t sequence, const std::string& what) {
  return Status(Code::kCorrupt, "log row " + std::to_string(sequence) + ": " + what,
                "restore the catalog from its newest snapshot copy (steelyard recover), or from a backup");
}

}  // namespace

Result<std::string> encode_batch(const Append& append) {
  std::size_t bytes = 0;
  proto::Batch batch;
  batch.set_format(kBatchFormat);
  batch.set_epoch(append.at.epoch);
  batch.set_mono_ms(append.at.mono_ms);
  batch.set_wall_ms(append.at.wall_ms);
  for (const Entry& entry : append.entries) {
    bytes += entry.bytes.size();
    if (bytes > kBatchBytesMax) {
      return Status(Code::kInvalidArgument, "an append of more than " + std::to_string(kBatchBytesMax) + " bytes",
                    "split the change");
    }
    batch.add_entries(entry.bytes);
  }
  std::string out;
  out.reserve(batch.ByteSizeLong());
  {
    google::protobuf::io::StringOutputStream stream(&out);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    batch.SerializeToCodedStream(&coded);
  }
  return out;
}

std::uint64_t row_sum(std::uint64_t sequence, std::string_view request_id, std::string_view batch) {
  std::string covered;
  covered.reserve(sizeof sequence + request_id.size() + batch.size());
  for (unsigned shift = 0; shift < 64; shift += 8) covered.push_back(static_cast<char>((sequence >> shift) & 0xff));
  covered.append(request_id).append(batch);
  return hash::xxh3(as_bytes(covered));
}

Result<Append> decode_row(std::uint64_t sequence, std::string_view request_id, std::string_view batch,
                          std::uint64_t sum) {
  if (sequence == 0 || sequence > kSequenceMax) return damaged(sequence, "its number is out of range");
  if (request_id.size() != kRequestIdBytes) {
    return damaged(sequence, "the request id has " + std::to_string(request_id.size()) + " bytes, wanted 16");
  }
  if (batch.size() > 2 * kBatchBytesMax)
    return damaged(sequence, "the batch has " + std::to_string(batch.size()) + " bytes");
  const std::uint64_t found = row_sum(sequence, request_id, batch);
  if (found != sum) {
    return damaged(sequence, "checksum " + hash::xxh3_hex(found) + " of the bytes read, wanted " + hash::xxh3_hex(sum));
  }
  proto::Batch message;
  if (!message.ParseFromArray(batch.data(), static_cast<int>(batch.size()))) {
    return damaged(sequence, "the batch is no protobuf of a batch");
  }
  if (message.format() > kBatchFormat) {
    return Status(Code::kUnavailable,
                  "log row " + std::to_string(sequence) + ": batch format " + std::to_string(message.format()) +
                      " is newer than " + std::to_string(kBatchFormat),
                  "use the newer steelyard that wrote it");
  }
  if (message.format() != kBatchFormat) return damaged(sequence, "the batch has no format");
  if (message.entries_size() == 0) return damaged(sequence, "the batch has no entries");
  Append append;
  append.sequence = sequence;
  append.request_id = request_id;
  append.at = Now{message.epoch(), message.mono_ms(), message.wall_ms()};
  append.entries.reserve(static_cast<std::size_t>(message.entries_size()));
  for (std::string& entry : *message.mutable_entries()) append.entries.push_back(Entry{std::move(entry)});
  // Fields that we do not know would change what the append means; new ones come with a new format.
  SY_ASSIGN_OR_RETURN(const std::string canonical, encode_batch(append));
  if (canonical != batch) return damaged(sequence, "the batch is not in its canonical form");
  return append;
}

}  // namespace steelyard::oplog
