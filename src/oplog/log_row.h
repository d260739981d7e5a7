// One append as stored: the batch and the sum that covers it (docs/formats/op-log.md).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "oplog/op_log.h"

namespace steelyard::oplog {

/// A sequence number must leave room for its successors in a signed 64-bit column.
inline constexpr std::uint64_t kSequenceMax = 1ULL << 62;
/// What one append may weigh. A record is some KiB; the limit keeps a mistake from stalling every other writer.
inline constexpr std::size_t kBatchBytesMax = 64U << 20;
inline constexpr std::size_t kRequestIdBytes = 16;

/// Serialized `{format, epoch, mono_ms, wall_ms, entries}`; same append, same bytes. INVALID_ARGUMENT for one that is
/// too large.
Result<std::string> encode_batch(const Append& append);

/// XXH3-64 over sequence (8 bytes little-endian), request id, batch.
std::uint64_t row_sum(std::uint64_t sequence, std::string_view request_id, std::string_view batch);

/// Checks the sum over the bytes given, then decodes. CORRUPT names the row; UNAVAILABLE for a newer batch format.
Result<Append> decode_row(std::uint64_t sequence, std::string_view request_id, std::string_view batch,
                          std::uint64_t sum);

}  // namespace steelyard::oplog
