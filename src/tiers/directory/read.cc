// Stat and read of the directory tier.
#include <errno.h>

#include "tiers/directory/directory_tier.h"

namespace steelyard::tiers::directory {

Result<std::unique_ptr<ObjectReader>> DirectoryTier::open_reader(const std::string& relative, std::string what) {
  SY_ASSIGN_OR_RETURN(auto reader, FileReader::open(folder_, relative, std::move(what)));
  return std::unique_ptr<ObjectReader>(std::move(reader));
}

Result<ObjectStat> DirectoryTier::stat(const ObjectName& name) {
  SY_RETURN_IF_ERROR(check(name));
  const std::string path = object_path(name);
  struct stat there {};
  const int result = folder_.stat(path, &there);
  if (result == -ENOENT) {
    return Status(Code::kNotFound, describe(name) + " is not in the tier (" + folder_.full(path) + ")");
  }
  if (result < 0) return folder_.read_failure(-result, "stat", path);
  if (!S_ISREG(there.st_mode)) return Status(Code::kCorrupt, folder_.full(path) + " is not a regular file");
  return ObjectStat{name, static_cast<std::uint64_t>(there.st_size), there.st_ino, there.st_nlink};
}

Result<std::unique_ptr<PendingRead>> DirectoryTier::start_read(const ObjectName& name, std::vector<ReadRange> ranges) {
  SY_RETURN_IF_ERROR(check(name));
  SY_ASSIGN_OR_RETURN(auto reader, open_reader(object_path(name), describe(name)));
  reader->start(std::move(ranges));
  return std::unique_ptr<PendingRead>(std::move(reader));
}

}  // namespace steelyard::tiers::directory
