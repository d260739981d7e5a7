#include "oplog/log_row.h"

#include <optional>

#include "hash/xxh3.h"
#include "metadata/wire_form.h"
#include "oplog/proto/batch.pb.h"

namespace steelyard::oplog {
namespace {

constexpr std::uint32_t kBatchFormat = 1;
/// Room for what a batch of a few entries holds beside them.
constexpr std::size_t kBesidesEntries = 128;

Status damaged(std::uint64_t sequence, const std::string& what) {
  return Status(Code::kCorrupt, "log row " + std::to_string(sequence) + ": " + what,
                "restore the catalog from its newest snapshot copy (steelyard recover), or from a backup");
}

/// What encode_batch has written. Anything else is absent here, whatever it is.
std::optional<Append> find_batch(std::string_view batch) {
  Append append;
  std::uint32_t format = 0;
  metadata::wire::FieldReader in(batch);
  in.number(1, format);
  in.must(format == kBatchFormat);
  in.text(2, append.at.epoch);
  in.number(3, append.at.mono_ms);
  in.number(4, append.at.wall_ms);
  while (const auto entry = in.find_part(5)) append.entries.push_back(Entry{std::string(*entry)});
  if (!in.whole() || append.entries.empty()) return std::nullopt;
  return append;
}

/// What is wrong with a batch that find_batch does not read.
Status judge_batch(std::uint64_t sequence, std::string_view batch) {
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
  // Fields that we do not know would change what the append means; new ones come with a new format.
  return damaged(sequence, "the batch is not in its canonical form");
}

}  // namespace

Result<std::string> encode_batch(const Append& append) {
  std::size_t bytes = 0;
  for (const Entry& entry : append.entries) {
    bytes += entry.bytes.size();
    if (bytes > kBatchBytesMax) {
      return Status(Code::kInvalidArgument, "an append of more than " + std::to_string(kBatchBytesMax) + " bytes",
                    "split the change");
    }
  }
  std::string out;
  out.reserve(bytes + kBesidesEntries);
  metadata::wire::FieldWriter to(out);
  to.number(1, kBatchFormat);
  to.text(2, append.at.epoch);
  to.number(3, append.at.mono_ms);
  to.number(4, append.at.wall_ms);
  for (const Entry& entry : append.entries) to.blob(5, entry.bytes);
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
  std::optional<Append> append = find_batch(batch);
  if (!append) return judge_batch(sequence, batch);
  append->sequence = sequence;
  append->request_id = request_id;
  return *std::move(append);
}

}  // namespace steelyard::oplog
