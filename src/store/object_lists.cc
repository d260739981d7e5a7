#include "store/object_lists.h"

#include <utility>

#include "store/manifest_file.h"

namespace steelyard::store {
namespace {

/// About 16 MiB: the lists of some hundred large models.
constexpr std::uint64_t kObjectsMax = 1ULL << 18;

}  // namespace

Result<ObjectLists::List> ObjectLists::get(tiers::Tier& cold, const metadata::RevisionRecord& record) {
  const std::string& key = record.summary.manifest_sha256;
  {
    const std::lock_guard lock(mutex_);
    const auto known = by_sha256_.find(key);
    if (known != by_sha256_.end()) return known->second;
  }
  SY_ASSIGN_OR_RETURN(const formats::StoredManifest manifest, load_manifest(cold, record));
  auto list = std::make_shared<formats::StoredManifest>();
  list->identity = manifest.identity;
  list->objects.reserve(manifest.objects.size());
  for (const formats::ObjectEntry& object : manifest.objects) {
    formats::ObjectEntry& entry = list->objects.emplace_back();
    entry.bytes = object.bytes;
    entry.sha256 = object.sha256;
  }
  const std::lock_guard lock(mutex_);
  if (list->objects.size() > kObjectsMax || !by_sha256_.try_emplace(key, list).second) return List(std::move(list));
  in_order_.push_back(key);
  objects_ += list->objects.size();
  while (objects_ > kObjectsMax) {
    const auto oldest = by_sha256_.find(in_order_.front());
    objects_ -= oldest->second->objects.size();
    by_sha256_.erase(oldest);
    in_order_.pop_front();
  }
  return List(std::move(list));
}

}  // namespace steelyard::store
