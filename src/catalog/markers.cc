// The markers of a group: the record as logged, so that the catalog can be rebuilt from the cold tier
// (docs/formats/op-log.md).
#include <charconv>

#include "catalog/catalog.h"
#include "hash/sha256.h"
#include "metadata/codec.h"

namespace steelyard::catalog {
namespace {

constexpr std::string_view kCommitted = "committed";
constexpr std::string_view kDeleting = "deleting";
constexpr unsigned kFormat = 1;
constexpr std::size_t kSumBytes = 32;

/// "steelyard committed 1\n".
std::string magic_of(std::string_view kind) {
  return "steelyard " + std::string(kind) + " " + std::to_string(kFormat) + "\n";
}

/// UNAVAILABLE for a marker of a newer format.
Status check_format(std::string_view kind, std::string_view bytes) {
  const std::string stem = "steelyard " + std::string(kind) + " ";
  if (!bytes.starts_with(stem)) return {};
  const std::string_view rest = bytes.substr(stem.size());
  unsigned format = 0;
  const auto parsed = std::from_chars(rest.data(), rest.data() + rest.size(), format);
  const bool whole = parsed.ec == std::errc() && parsed.ptr != rest.data() + rest.size() && *parsed.ptr == '\n';
  if (!whole || format <= kFormat) return {};
  return {Code::kUnavailable,
          "a " + std::string(kind) + " marker has format " + std::to_string(format) + ", which is newer than " +
              std::to_string(kFormat),
          "use the newer steelyard that wrote it"};
}

std::string encode(std::string_view kind, const metadata::RevisionRecord& record) {
  std::string bytes = magic_of(kind);
  // As an entry: its decoder checks every value, as replay does.
  bytes += metadata::encode_entry({metadata::RevisionPut{record}, std::nullopt}).bytes;
  const Digest sum = hash::sha256(as_bytes(bytes));
  bytes.append(as_text(sum.bytes));
  return bytes;
}

Result<metadata::RevisionRecord> decode(std::string_view kind, std::string_view bytes) {
  // Before its checksum is judged: nobody knows where another format keeps it.
  SY_RETURN_IF_ERROR(check_format(kind, bytes));
  const std::string a_marker = "a " + std::string(kind) + " marker";
  const std::string magic = magic_of(kind);
  if (!bytes.starts_with(magic) || bytes.size() < magic.size() + kSumBytes) {
    return Status(Code::kCorrupt, a_marker + " does not begin as one, or is cut short");
  }
  const std::string_view body = bytes.substr(0, bytes.size() - kSumBytes);
  const Digest sum = hash::sha256(as_bytes(body));
  if (as_text(sum.bytes) != bytes.substr(body.size())) {
    return Status(Code::kCorrupt, "the SHA-256 of " + a_marker + " does not fit its bytes");
  }
  SY_ASSIGN_OR_RETURN(metadata::DecodedEntry entry, metadata::decode_entry({std::string(body.substr(magic.size()))}));
  auto* put = std::get_if<metadata::RevisionPut>(&entry.body);
  if (put == nullptr) return Status(Code::kCorrupt, a_marker + " holds no record");
  return std::move(put->record);
}

}  // namespace

std::string encode_committed(const metadata::RevisionRecord& record) { return encode(kCommitted, record); }

Result<metadata::RevisionRecord> decode_committed(std::string_view bytes) {
  SY_ASSIGN_OR_RETURN(metadata::RevisionRecord record, decode(kCommitted, bytes));
  if (record.committed_seq == 0) return Status(Code::kCorrupt, "a committed marker holds no committed record");
  return record;
}

std::string encode_deleting(const metadata::RevisionRecord& record) { return encode(kDeleting, record); }

Result<metadata::RevisionRecord> decode_deleting(std::string_view bytes) {
  if (auto committed = decode_committed(bytes); committed.ok()) return committed;
  SY_ASSIGN_OR_RETURN(metadata::RevisionRecord record, decode(kDeleting, bytes));
  if (record.availability != metadata::Availability::kDeleting) {
    return Status(Code::kCorrupt, "a deleting marker holds a record that is not DELETING");
  }
  return record;
}

}  // namespace steelyard::catalog
