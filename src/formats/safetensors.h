// The safetensors header: one validator for import, verify and load.
//
// Format: an 8-byte little-endian length N, N bytes of JSON (an object, padded with spaces), then the tensors' bytes
// without a hole.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/limits.h"
#include "base/status.h"
#include "formats/tensor_table.h"

namespace steelyard::formats {

/// Bits per element of a dtype of the current format (sub-byte ones too); absent for an unknown string.
std::optional<std::uint32_t> dtype_bits(std::string_view dtype);

struct SafetensorsHeader {
  std::uint64_t header_bytes = 0;  ///< 8 + N: where the data begins
  std::uint64_t data_bytes = 0;
  /// place = (run 0, offset from the first data byte, bytes); layout_fingerprint "row-major"; order of the data.
  TensorTable tensors;
  std::vector<std::pair<std::string, std::string>> metadata;  ///< in the order of the header
  std::vector<std::string> warnings;                          ///< unknown dtypes, kept as opaque bytes
};

/// Reads N from the first 8 bytes (fewer only when the file has no more). CORRUPT when `file_bytes` cannot hold it or N
/// exceeds `header_limit` (the message names both numbers). `name` is the file as messages should call it.
Result<std::uint64_t> safetensors_header_length(std::string_view name, ByteView first_8_bytes, std::uint64_t file_bytes,
                                                std::uint64_t header_limit);

/// Validates a whole header: `json` is exactly the N bytes; it is read in place and no copy of it is kept. CORRUPT, one
/// message per cause, always naming the file and where there is one the tensor. Strict: nothing but spaces after the
/// object, no unknown, missing or repeated field, tensors that fill the file from its first data byte to its last.
Result<SafetensorsHeader> parse_safetensors_header(std::string_view name, std::string_view json,
                                                   std::uint64_t file_bytes);

/// What a git-lfs pointer file stands for.
struct LfsPointer {
  std::optional<std::uint64_t> bytes;  ///< size of the real file; absent where the pointer does not say it
  bool complete = false;               ///< holds the oid and size lines of a well-formed pointer
};

/// A pointer file is never longer.
inline constexpr std::uint64_t kLfsPointerBytesMax = 1024;

/// Recognises a pointer by its first bytes (`version https://git-lfs`); at most kLfsPointerBytesMax of them are needed.
std::optional<LfsPointer> parse_lfs_pointer(std::string_view head);

}  // namespace steelyard::formats
