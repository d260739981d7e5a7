#include "formats/stored_manifest.h"

#include <algorithm>

#include "base/check.h"
#include "base/checked.h"
#include "formats/ref.h"

namespace steelyard::formats {

std::uint64_t StoredManifest::logical_bytes() const {
  std::uint64_t total = 0;
  for (const ObjectEntry& object : objects) total += object.bytes;
  return total;
}

std::vector<ObjectRange> ranges_of(const Run& run, std::uint64_t offset, std::uint64_t bytes) {
  const auto end = checked_add(offset, bytes);
  SY_CHECK(end && *end <= run.bytes, "the range lies inside its run");
  std::vector<ObjectRange> ranges;
  if (bytes == 0) return ranges;
  ranges.reserve((*end - 1) / run.chunk_bytes - offset / run.chunk_bytes + 1);
  while (offset < *end) {
    const std::uint64_t in_object = offset % run.chunk_bytes;
    const std::uint64_t take = std::min(*end - offset, run.chunk_bytes - in_object);
    ranges.push_back({run.first_object + static_cast<std::uint32_t>(offset / run.chunk_bytes), in_object, take});
    offset += take;
  }
  return ranges;
}

Status check_manifest_identity(const StoredManifest& manifest, const Identity& expected) {
  if (manifest.identity == expected) return {};
  const auto name = [](const Identity& identity) {
    return "tenant \"" + identity.lineage.tenant_id + "\", namespace \"" + identity.lineage.namespace_id + "\", " +
           format_ref(identity);
  };
  return Status(Code::kCorrupt,
                "manifest is another revision's: found " + name(manifest.identity) + "; wanted " + name(expected));
}

}  // namespace steelyard::formats
