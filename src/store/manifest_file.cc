#include "store/manifest_file.h"

#include <fmt/format.h>

#include "base/limits.h"
#include "hash/sha256.h"
#include "store/context.h"

namespace steelyard::store {

Result<std::string> read_manifest_bytes(tiers::Tier& tier, const tiers::AttemptName& attempt) {
  const tiers::ObjectName name = manifest_of(attempt);
  SY_ASSIGN_OR_RETURN(const tiers::ObjectStat stat, tier.stat(name));
  if (stat.bytes > limits::kManifestBytesMax) {
    return Status(Code::kCorrupt, fmt::format("the manifest has {} bytes, at most {} are allowed", stat.bytes,
                                              limits::kManifestBytesMax));
  }
  std::string bytes(stat.bytes, '\0');
  if (!bytes.empty()) {
    const ByteSpan into(reinterpret_cast<std::byte*>(bytes.data()), bytes.size());
    SY_RETURN_IF_ERROR(tier.read(name, {{0, into}}));
  }
  return bytes;
}

namespace {

constexpr const char* kImportAgain =
    "nothing else holds a manifest, and without it no file of the revision can be read: import the source again as a "
    "new "
    "generation, then delete this one";

}  // namespace

Result<formats::StoredManifest> load_manifest(tiers::Tier& tier, const metadata::RevisionRecord& record) {
  auto bytes = read_manifest_bytes(tier, attempt_of(record));
  if (!bytes.ok()) {
    const std::string message = fmt::format("manifest {}: {}", record.manifest_key, bytes.status().message());
    // Only an absent or damaged one is damage; what could not be read now may be intact.
    const bool damaged = bytes.code() == Code::kNotFound || bytes.code() == Code::kCorrupt;
    return damaged ? Status(Code::kCorrupt, message, kImportAgain)
                   : Status(bytes.code(), message, bytes.status().hint());
  }
  const std::string found = hash::sha256_hex(*bytes);
  if (found != record.summary.manifest_sha256) {
    return Status(Code::kCorrupt,
                  fmt::format("manifest {}: its SHA-256 is {}, the catalog says {}", record.manifest_key, found,
                              record.summary.manifest_sha256),
                  kImportAgain);
  }
  SY_ASSIGN_OR_RETURN(formats::StoredManifest manifest, formats::read_manifest(*bytes));
  SY_RETURN_IF_ERROR(formats::check_manifest_identity(manifest, record.identity));
  return manifest;
}

}  // namespace steelyard::store
