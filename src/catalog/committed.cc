// The `committed` marker: the record as logged, so that the catalog can be rebuilt from the cold tier
// (docs/formats/op-log.md).
#include "catalog/catalog.h"
#include "hash/sha256.h"
#include "metadata/codec.h"

namespace steelyard::catalog {
namespace {

constexpr std::string_view kMagic = "steelyard committed 1\n";
constexpr std::string_view kMagicStem = "steelyard committed ";
constexpr std::size_t kSumBytes = 32;

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
  if (!bytes.starts_with(kMagicStem) || bytes.size() < kMagic.size() + kSumBytes) {
    return Status(Code::kCorrupt, "a committed marker does not begin as one, or is cut short");
  }
  const std::string_view body = bytes.substr(0, bytes.size() - kSumBytes);
  const Digest sum = hash::sha256(as_bytes(body));
  if (as_text(sum.bytes) != bytes.substr(body.size())) {
    return Status(Code::kCorrupt, "the SHA-256 of a committed marker does not fit its bytes");
  }
  if (!body.starts_with(kMagic)) return Status(Code::kUnavailable, "a committed marker is of a newer version");
  SY_ASSIGN_OR_RETURN(metadata::DecodedEntry entry, metadata::decode_entry({std::string(body.substr(kMagic.size()))}));
  auto* put = std::get_if<metadata::RevisionPut>(&entry.body);
  if (put == nullptr || put->record.committed_seq == 0) {
    return Status(Code::kCorrupt, "a committed marker holds no committed record");
  }
  return std::move(put->record);
}

}  // namespace steelyard::catalog
