// The `committed` marker: the record as logged, so that the catalog can be rebuilt from the cold tier
// (docs/formats/op-log.md).
#include <charconv>

#include "catalog/catalog.h"
#include "hash/sha256.h"
#include "metadata/codec.h"

namespace steelyard::catalog {
namespace {

constexpr std::string_view kMagic = "steelyard committed 1\n";
constexpr std::string_view kMagicStem = "steelyard committed ";
constexpr unsigned kFormat = 1;
constexpr std::size_t kSumBytes = 32;

/// UNAVAILABLE for a marker of a newer format.
Status check_format(std::string_view bytes) {
  if (!bytes.starts_with(kMagicStem)) return {};
  const std::string_view rest = bytes.substr(kMagicStem.size());
  unsigned format = 0;
  const auto parsed = std::from_chars(rest.data(), rest.data() + rest.size(), format);
  const bool whole = parsed.ec == std::errc() && parsed.ptr != rest.data() + rest.size() && *parsed.ptr == '\n';
  if (!whole || format <= kFormat) return {};
  return {
      Code::kUnavailable,
      "a committed marker has format " + std::to_string(format) + ", which is newer than " + std::to_string(kFormat),
      "use the newer steelyard that wrote it"};
}

}  // namespace

std::string encode_committed(const metadata::RevisionRecord& record) {
  std::string bytes(kMagic);
  // As an entry: its decoder checks every value, as replay does.
  bytes += metadata::encode_entry({metadata::RevisionPut{record}, std::nullopt}).bytes;
  const Digest sum = hash::sha256(as_bytes(bytes));
  bytes.append(as_text(sum.bytes));
  return bytes;
}

Result<metadata::RevisionRecord> decode_committed(std::string_view bytes) {
  // Before its checksum is judged: nobody knows where another format keeps it.
  SY_RETURN_IF_ERROR(check_format(bytes));
  if (!bytes.starts_with(kMagic) || bytes.size() < kMagic.size() + kSumBytes) {
    return Status(Code::kCorrupt, "a committed marker does not begin as one, or is cut short");
  }
  const std::string_view body = bytes.substr(0, bytes.size() - kSumBytes);
  const Digest sum = hash::sha256(as_bytes(body));
  if (as_text(sum.bytes) != bytes.substr(body.size())) {
    return Status(Code::kCorrupt, "the SHA-256 of a committed marker does not fit its bytes");
  }
  SY_ASSIGN_OR_RETURN(metadata::DecodedEntry entry, metadata::decode_entry({std::string(body.substr(kMagic.size()))}));
  auto* put = std::get_if<metadata::RevisionPut>(&entry.body);
  if (put == nullptr || put->record.committed_seq == 0) {
    return Status(Code::kCorrupt, "a committed marker holds no committed record");
  }
  return std::move(put->record);
}

}  // namespace steelyard::catalog
