// What lies in a directory tier. Names that are no object's are left out, and reported where they were asked for.
#include <errno.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <set>

#include "base/units.h"
#include "tiers/directory/directory_tier.h"

namespace steelyard::tiers::directory {
namespace {

constexpr std::uint64_t kReserveDefaultBytes = 10ULL * 1024 * 1024 * 1024;

bool is_part_of_attempt(const std::string& name) {
  return name == "manifest" || name == "committed" || name == "p" || name == "tmp" || is_index_name(name);
}

}  // namespace

Result<std::vector<ObjectStat>> DirectoryTier::list_attempt(const AttemptName& attempt,
                                                            std::vector<std::string>* foreign) {
  SY_RETURN_IF_ERROR(check(attempt));
  const std::string path = attempt_path(attempt);
  const auto report = [&](std::string name) {
    if (foreign != nullptr) foreign->push_back(std::move(name));
  };
  std::vector<ObjectStat> objects;
  const auto add = [&](const std::string& shown, const ObjectName& name) -> Status {
    struct stat there {};
    const std::string object = object_path(name);
    const int result = folder_.stat(object, &there);
    if (result == -ENOENT) return {};  // removed meanwhile
    if (result < 0) return folder_.read_failure(-result, "stat", object);
    if (S_ISREG(there.st_mode)) {
      objects.push_back({name, static_cast<std::uint64_t>(there.st_size), there.st_ino, there.st_nlink});
    } else {
      report(shown);
    }
    return {};
  };
  SY_ASSIGN_OR_RETURN(const auto names, folder_.names_in(path));
  for (const std::string& name : names) {
    if (name == "manifest") SY_RETURN_IF_ERROR(add(name, {attempt, ObjectKind::kManifest, 0}));
    if (!is_part_of_attempt(name)) report(name);
  }
  SY_ASSIGN_OR_RETURN(const auto payloads, folder_.names_in(path + "/p"));
  for (const std::string& name : payloads) {
    if (const auto index = parse_digits(name, 8); index.has_value()) {
      SY_RETURN_IF_ERROR(add("p/" + name, {attempt, ObjectKind::kPayload, static_cast<std::uint32_t>(*index)}));
    } else {
      report("p/" + name);
    }
  }
  return objects;
}

Result<GroupListing> DirectoryTier::list_group(const std::string& group) {
  SY_RETURN_IF_ERROR(check_group(group));
  GroupListing listing;
  const std::string path = group_path(group);
  SY_ASSIGN_OR_RETURN(const auto names, folder_.names_in(path));
  for (const std::string& name : names) {
    if (name == "deleting") listing.deleting = true;
    const auto attempt = parse_attempt(group, name);
    if (!attempt.has_value()) continue;
    if (attempt->operation.empty()) {
      listing.attempts.push_back(attempt->attempt);
    } else if (traits_.per_operation) {
      listing.by_operation.push_back(*attempt);
    }
  }
  std::sort(listing.by_operation.begin(), listing.by_operation.end());
  std::sort(listing.attempts.begin(), listing.attempts.end());
  for (const std::uint32_t attempt : listing.attempts) {
    struct stat there {};
    const std::string marker = attempt_path({group, attempt}) + "/committed";
    const int result = folder_.stat(marker, &there);
    if (result == 0) listing.committed_attempts.push_back(attempt);
    if (result < 0 && result != -ENOENT && result != -ENOTDIR) return folder_.read_failure(-result, "stat", marker);
  }
  return listing;
}

Result<std::vector<std::string>> DirectoryTier::list_groups() {
  std::vector<std::string> groups;
  SY_ASSIGN_OR_RETURN(const auto prefixes, folder_.names_in("groups", Folder::Names::kMayBeFolders));
  for (const std::string& prefix : prefixes) {
    if (!is_lower_hex(prefix, 2)) continue;
    SY_ASSIGN_OR_RETURN(const auto names, folder_.names_in("groups/" + prefix, Folder::Names::kMayBeFolders));
    for (const std::string& name : names) {
      if (is_lower_hex(name, 64) && name.starts_with(prefix)) groups.push_back(name);
    }
  }
  return groups;
}

ContentEntry DirectoryTier::content_entry(const Digest& sha256, const struct stat& there) {
  return {sha256, static_cast<std::uint64_t>(there.st_size), there.st_nlink, changed_at_ms(there), there.st_ino};
}

Result<std::vector<ContentEntry>> DirectoryTier::list_content(std::uint8_t first_byte) {
  std::vector<ContentEntry> entries;
  const std::byte first{first_byte};
  const std::string prefix = to_hex({&first, 1});
  const std::string folder = "content/" + prefix;
  struct stat of_folder {};
  // Something else in its place is foreign.
  if (folder_.stat(folder, &of_folder) == 0 && !S_ISDIR(of_folder.st_mode)) return entries;
  SY_ASSIGN_OR_RETURN(const auto names, folder_.names_in(folder));
  for (const std::string& name : names) {
    Digest sha256;
    if (!name.starts_with(prefix) || !from_hex(name, sha256.bytes)) continue;
    struct stat there {};
    const std::string path = folder + "/" + name;
    const int result = folder_.stat(path, &there);
    if (result == -ENOENT) continue;
    if (result < 0) return folder_.read_failure(-result, "stat", path);
    if (!S_ISREG(there.st_mode)) continue;
    entries.push_back(content_entry(sha256, there));
  }
  return entries;
}

Result<TierUsage> DirectoryTier::usage(const std::function<void(const ObjectStat&)>& each) {
  TierUsage usage;
  std::set<std::uint64_t> shared;
  const auto count = [&](std::uint64_t storage, std::uint64_t links, std::uint64_t bytes) {
    if (links == 1 || shared.insert(storage).second) usage.bytes += bytes;
  };
  for (unsigned first = 0; first <= 0xff; ++first) {
    SY_ASSIGN_OR_RETURN(const auto content, list_content(static_cast<std::uint8_t>(first)));
    for (const ContentEntry& entry : content) count(entry.storage, entry.links, entry.bytes);
  }
  SY_ASSIGN_OR_RETURN(const auto groups, list_groups());
  for (const std::string& group : groups) {
    SY_ASSIGN_OR_RETURN(const auto listing, list_group(group));
    std::vector<AttemptName> attempts = listing.by_operation;
    for (const std::uint32_t attempt : listing.attempts) attempts.push_back({group, attempt});
    for (const AttemptName& attempt : attempts) {
      SY_ASSIGN_OR_RETURN(const auto objects, DirectoryTier::list_attempt(attempt, nullptr));
      for (const ObjectStat& object : objects) {
        count(object.storage, object.links, object.bytes);
        if (object.name.kind != ObjectKind::kPayload) continue;
        if (object.links == 1 && object.bytes > 0) ++usage.private_copies;
        if (each) each(object);
      }
    }
  }
  struct statvfs filesystem {};
  const int result = folder_.filesystem(&filesystem);
  if (result < 0) return folder_.read_failure(-result, "statvfs", ".");
  usage.free_bytes = std::uint64_t{filesystem.f_bavail} * filesystem.f_frsize;
  usage.capacity_bytes = std::uint64_t{filesystem.f_blocks} * filesystem.f_frsize;
  return usage;
}

Result<Room> DirectoryTier::room() {
  struct statvfs filesystem {};
  const int result = folder_.filesystem(&filesystem);
  if (result < 0) return folder_.read_failure(-result, "statvfs", ".");
  const std::uint64_t capacity = std::uint64_t{filesystem.f_blocks} * filesystem.f_frsize;
  const std::uint64_t free_bytes = std::uint64_t{filesystem.f_bavail} * filesystem.f_frsize;
  const std::uint64_t reserve =
      reserve_free_bytes_.value_or(std::min(capacity / 2, std::max(capacity / 20, kReserveDefaultBytes)));
  Room room;
  room.bytes = free_bytes > reserve ? free_bytes - reserve : 0;
  room.where = "the " + traits().name + " tier " + folder_.path();
  const auto size = format_sizes_apart({free_bytes, reserve});
  room.limit = size[0] + " of its filesystem are free, of which cold.reserve_free keeps " + size[1];
  return room;
}

std::vector<std::string> DirectoryTier::facts() {
  auto facts = folder_.facts();
  if (const std::uint64_t copies = private_copies_.load(); copies > 0) {
    facts.push_back(std::to_string(copies) + " objects of this process could not be shared by content");
  }
  return facts;
}

}  // namespace steelyard::tiers::directory
