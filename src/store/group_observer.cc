#include "store/group_observer.h"

#include <fmt/format.h>

#include <optional>

#include "formats/identity.h"
#include "formats/stored_manifest.h"
#include "hash/framed.h"
#include "hash/sha256.h"
#include "store/context.h"
#include "store/manifest_file.h"

namespace steelyard::store {
namespace {

std::vector<std::uint64_t> sizes_of(const formats::StoredManifest& manifest) {
  std::vector<std::uint64_t> sizes;
  sizes.reserve(manifest.objects.size());
  for (const formats::ObjectEntry& object : manifest.objects) sizes.push_back(object.bytes);
  return sizes;
}

}  // namespace

void TierObserver::expect(const tiers::AttemptName& attempt, std::vector<std::uint64_t> object_bytes) {
  const std::lock_guard lock(mutex_);
  expected_[attempt] = {std::move(object_bytes), false};
}

void TierObserver::set_flushed(const tiers::AttemptName& attempt, bool flushed) {
  const std::lock_guard lock(mutex_);
  expected_[attempt].flushed = flushed;
}

void TierObserver::forget(const tiers::AttemptName& attempt) {
  const std::lock_guard lock(mutex_);
  expected_.erase(attempt);
}

Result<catalog::GroupObservation> TierObserver::observe(const metadata::Identity& identity,
                                                        std::uint32_t import_attempt) {
  const tiers::AttemptName attempt = attempt_of(identity, import_attempt);
  std::optional<Expected> expected;
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = expected_.find(attempt); found != expected_.end()) expected = found->second;
  }

  catalog::GroupObservation seen;
  SY_ASSIGN_OR_RETURN(const auto members, cold_.list_attempt(attempt, &seen.unexpected));

  std::vector<std::uint64_t> wanted;
  if (!members.empty() && members.front().name.kind == tiers::ObjectKind::kManifest) {
    SY_ASSIGN_OR_RETURN(const std::string bytes, read_manifest_bytes(cold_, attempt));
    seen.manifests = 1;
    seen.manifest_sha256 = hash::sha256_hex(bytes);
    if (expected) {
      wanted = std::move(expected->object_bytes);
      seen.flushed = expected->flushed;
    } else {
      SY_ASSIGN_OR_RETURN(const formats::StoredManifest manifest, formats::read_manifest(bytes));
      wanted = sizes_of(manifest);
    }
  }

  hash::FramedSha256 keys;
  std::uint32_t next = 0;
  for (const tiers::ObjectStat& member : members) {
    if (member.name.kind == tiers::ObjectKind::kManifest) continue;
    const std::string key = formats::payload_key(identity, member.name.index);
    keys.add(key);
    ++seen.payload_count;
    seen.logical_bytes += member.bytes;
    for (; next < member.name.index && next < wanted.size(); ++next) {
      seen.unreadable.push_back(formats::payload_key(identity, next) + ": missing");
    }
    next = member.name.index + 1;
    if (member.name.index >= wanted.size()) {
      seen.unexpected.push_back(key);
    } else if (member.bytes != wanted[member.name.index]) {
      seen.unreadable.push_back(
          fmt::format("{}: {} bytes instead of {}", key, member.bytes, wanted[member.name.index]));
    }
  }
  for (; next < wanted.size(); ++next) seen.unreadable.push_back(formats::payload_key(identity, next) + ": missing");
  seen.payload_keys_sha256 = keys.finish().hex();
  return seen;
}

}  // namespace steelyard::store
