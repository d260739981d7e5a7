// Opening the hot tier: which instance of which store it is.
//
// The instance file's name carries the boot id, and it is created exclusively: written without a name, then linked,
// which fails when somebody else was first; his is read then. So all processes of a boot that see the folder agree, and
// a file of an older boot says nothing any more.
#include "tiers/open.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "hash/sha256.h"
#include "tiers/memory/memory_tier.h"

namespace steelyard::tiers {
namespace {

using directory::Folder;
using memory::Instance;

constexpr std::string_view kFormat = "steelyard-memory-tier";
constexpr std::uint64_t kLayoutVersion = 1;
constexpr std::size_t kInstanceFileBytesMax = 4096;
constexpr std::string_view kFolderPrefix = "steelyard-";
constexpr std::string_view kFilePrefix = "instance-";
constexpr std::string_view kNamePath = "name a tmpfs with hot.path (--hot-path, STEELYARD_HOT_PATH)";

std::string instance_file_name(const std::string& boot_id) { return std::string(kFilePrefix) + boot_id; }

std::string encode(const std::string& id, const std::string& store_id, const std::string& boot_id) {
  return R"({"boot_id":")" + boot_id + R"(","format":")" + std::string(kFormat) + R"(","instance":")" + id +
         R"(","layout_version":)" + std::to_string(kLayoutVersion) + R"(,"store_id":")" + store_id + "\"}\n";
}

/// The instance id in the text of an instance file.
Result<std::string> decode(const std::string& text, const std::string& path, const std::string& store_id,
                           const std::string& boot_id) {
  const auto corrupt = [&](const std::string& why) {
    return Status(Code::kCorrupt, path + ": " + why,
                  "the hot tier holds copies only: when nobody uses it, remove its folder");
  };
  const auto json = nlohmann::json::parse(text, nullptr, false);
  const auto text_of = [&](const char* key) {
    const auto found = json.is_object() ? json.find(key) : json.end();
    return json.is_object() && found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
  };
  if (text_of("format") != kFormat) return corrupt("no \"format\":\"" + std::string(kFormat) + "\"");
  const auto version = json.find("layout_version");
  if (version == json.end() || !version->is_number_unsigned()) return corrupt("no layout_version");
  if (const auto found = version->get<std::uint64_t>(); found != kLayoutVersion) {
    return Status(
        Code::kUnavailable,
        path + ": layout version " + std::to_string(found) + ", this program knows " + std::to_string(kLayoutVersion),
        "use the newer program that made it");
  }
  const std::string id = text_of("instance");
  if (!directory::is_lower_hex(id, 32)) return corrupt("instance \"" + id + "\" is not 32 lower-case hex digits");
  if (const std::string found = text_of("store_id"); found != store_id) {
    return corrupt("it is of store \"" + found + "\", not of " + store_id);
  }
  if (const std::string found = text_of("boot_id"); found != boot_id) {
    return corrupt("it is of boot \"" + found + "\", not of " + boot_id);
  }
  if (text != encode(id, store_id, boot_id)) return corrupt("not in its canonical form");
  return id;
}

Result<Instance> read_instance(Folder& folder, const std::string& store_id, const std::string& boot_id) {
  const std::string name = instance_file_name(boot_id);
  const int opened = folder.open_regular("tier.open_instance", name, O_RDONLY);
  if (opened < 0) return folder.read_failure(-opened, "open", name);
  Instance instance{{}, folder.full(name), UniqueFd(opened)};
  std::string text(kInstanceFileBytesMax, '\0');
  const ssize_t got = ::pread(instance.fd.get(), text.data(), text.size(), 0);
  if (got < 0) return folder.read_failure(errno, "read", name);
  text.resize(static_cast<std::size_t>(got));
  SY_ASSIGN_OR_RETURN(instance.id, decode(text, instance.file, store_id, boot_id));
  return instance;
}

/// Its inode in its tmpfs: no other folder of the boot has that as long as this one is there.
Result<std::string> place_of_folder(int hot_path) {
  struct stat place {};
  if (::fstat(hot_path, &place) != 0) return errno_status(errno, "stat", "hot.path");
  return std::to_string(place.st_dev) + ":" + std::to_string(place.st_ino);
}

Status make_instance(Folder& folder, int hot_path, const std::string& store_id, const std::string& boot_id) {
  SY_ASSIGN_OR_RETURN(const std::string place, place_of_folder(hot_path));
  const std::string id = new_instance_id(folder.runtime(), place);
  const std::string text = encode(id, store_id, boot_id);
  const std::string name = instance_file_name(boot_id);
  const int opened = folder.open("tier.instance_write", ".", O_TMPFILE | O_RDWR, 0444);
  if (opened < 0) return folder.write_failure(-opened, "create a file in", ".", text.size());
  const UniqueFd fd(opened);
  const ssize_t wrote = ::pwrite(fd.get(), text.data(), text.size(), 0);
  if (wrote != static_cast<ssize_t>(text.size())) {
    return folder.write_failure(wrote < 0 ? errno : ENOSPC, "write", name, text.size());
  }
  SY_POINT(folder.runtime(), "tier.before_instance");
  const int result =
      folder.link("tier.instance_link", std::string(directory::kDescriptors) + std::to_string(opened), name);
  if (result < 0 && result != -EEXIST) return folder.write_failure(-result, "make", name, text.size());
  SY_POINT(folder.runtime(), "tier.after_instance");
  return {};
}

std::string without_trailing_slashes(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

/// Everybody may put files into a folder like /dev/shm, so what lies there by the right name says nothing by itself.
Status check_owner(const MemoryOptions& options, int parent, int root, const std::string& path) {
  struct stat above {};
  struct stat there {};
  if (::fstat(parent, &above) != 0) return errno_status(errno, "stat", options.path);
  if (::fstat(root, &there) != 0) return errno_status(errno, "stat", path);
  if ((above.st_mode & S_IWOTH) == 0 || there.st_uid == ::geteuid() || there.st_uid == 0) return {};
  if (options.trusted_owner && there.st_uid == *options.trusted_owner) return {};
  return {
      Code::kUnauthorized,
      path + " was made by user " + std::to_string(there.st_uid) + ", who is neither this user nor the store's owner",
      "remove it, or use a folder that only trusted users may write to with hot.path (--hot-path)"};
}

Status bad_setting(const std::string& path, const std::string& found) {
  return {Code::kInvalidArgument, "hot.path " + path + " " + found, std::string(kNamePath)};
}

Status not_permitted(const std::string& path, const std::string& what) {
  return {Code::kUnauthorized, "hot.path " + path + " " + what + " user " + std::to_string(::geteuid()),
          "give this user permission there, or " + std::string(kNamePath)};
}

/// What a setting that cannot be used comes to, where there is something to use it for.
Result<UniqueFd> open_tmpfs(const std::string& path) {
  if (path.empty()) return Status(Code::kInvalidArgument, "hot.path is empty", std::string(kNamePath));
  if (path.front() != '/') return bad_setting(path, "is relative: another folder for each process");
  UniqueFd folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder.valid()) {
    switch (errno) {
      case ENOENT:
        return bad_setting(path, "does not exist");
      case ENOTDIR:
        return bad_setting(path, "is no folder");
      case ELOOP:
      case ENAMETOOLONG:
        return bad_setting(path, "cannot be opened: " + std::generic_category().message(errno));
      case EACCES:
        return not_permitted(path, "may not be read by");
      default:
        return errno_status(errno, "open hot.path", path).with_hint(std::string(kNamePath));
    }
  }
  struct statfs filesystem {};
  if (::fstatfs(folder.get(), &filesystem) != 0) return errno_status(errno, "statfs", path);
  if (filesystem.f_type == TMPFS_MAGIC) return folder;
  return bad_setting(path, "is no tmpfs");
}

Status cannot_make(int error, const std::string& parent, const std::string& path) {
  if (error == EACCES || error == EPERM || error == EROFS) {
    return not_permitted(parent, error == EROFS ? "is mounted read-only for" : "may not be written by");
  }
  return errno_status(error, "mkdir", path).with_hint(std::string(kNamePath));
}

}  // namespace

std::string new_instance_id(Runtime& runtime, std::string_view place) {
  return hash::sha256(as_bytes(runtime.epoch())).hex().substr(0, 16) +
         hash::sha256(as_bytes(place)).hex().substr(0, 8) + runtime.random_hex(4);
}

Result<MemoryPlace> look_at_memory_place(const MemoryOptions& options) {
  const std::string path = without_trailing_slashes(options.path);
  SY_ASSIGN_OR_RETURN(const UniqueFd folder, open_tmpfs(path));
  struct statvfs filesystem {};
  if (::fstatvfs(folder.get(), &filesystem) != 0) return errno_status(errno, "statvfs", path);
  MemoryPlace place = place_of(filesystem, options.capacity, options.memory_limits(), options.process_reserve_bytes);
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(path, error)) {
    std::string name = entry.path().filename().native();
    const bool is_instance = name.starts_with(kFolderPrefix) &&
                             directory::is_lower_hex(std::string_view(name).substr(kFolderPrefix.size()), 32);
    if (is_instance && name != std::string(kFolderPrefix) + options.store_id) place.others.push_back(std::move(name));
  }
  std::ranges::sort(place.others);
  const std::filesystem::path own = std::filesystem::path(path) / (std::string(kFolderPrefix) + options.store_id);
  for (const auto& entry : std::filesystem::directory_iterator(own, error)) {
    const std::string name = entry.path().filename().native();
    if (name.starts_with(kFilePrefix)) place.boots.push_back(name.substr(kFilePrefix.size()));
  }
  std::ranges::sort(place.boots);
  return place;
}

Result<std::unique_ptr<Tier>> open_memory(Runtime& runtime, const MemoryOptions& options) {
  const std::string parent_path = without_trailing_slashes(options.path);
  if (!directory::is_lower_hex(options.store_id, 32)) {
    return Status(Code::kInvalidArgument, "a store id is 32 lower-case hex digits, not \"" + options.store_id + "\"");
  }
  const std::string& boot_id = runtime.epoch();
  if (boot_id.empty()) {
    return Status(Code::kUnavailable,
                  "the boot id of this kernel cannot be read from /proc; without it no instance of "
                  "the hot tier can be told from another",
                  "mount /proc");
  }
  SY_ASSIGN_OR_RETURN(const UniqueFd parent, open_tmpfs(parent_path));
  const std::string name = std::string(kFolderPrefix) + options.store_id;
  const std::string path = parent_path + (parent_path == "/" ? "" : "/") + name;
  const bool create = options.create && !options.read_only;
  if (create) {
    int error = runtime.point("tier.mkdir");
    if (error == 0 && ::mkdirat(parent.get(), name.c_str(), 0777) != 0) error = errno;
    if (error != 0 && error != EEXIST) return cannot_make(error, parent_path, path);
    SY_POINT(runtime, "tier.after_instance_folder");
  }
  UniqueFd root(::openat(parent.get(), name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  if (!root.valid() && errno == ENOENT) return Status(Code::kNotFound, "there is no hot tier at " + path);
  if (!root.valid() && errno == EACCES) {
    return Status(Code::kUnauthorized, path + " may not be read by user " + std::to_string(::geteuid()),
                  "give this user permission there, or " + std::string(kNamePath));
  }
  if (!root.valid()) return errno_status(errno, "open the hot tier", path);
  SY_RETURN_IF_ERROR(check_owner(options, parent.get(), root.get(), path));

  UniqueFd second(::fcntl(root.get(), F_DUPFD_CLOEXEC, 0));
  if (!second.valid()) return errno_status(errno, "open the hot tier", path);
  Folder folder(runtime, path, std::move(second), options.read_only);
  auto instance = read_instance(folder, options.store_id, boot_id);
  if (instance.code() == Code::kNotFound) {
    if (!create) return Status(Code::kNotFound, "there is no instance of the hot tier at " + path);
    SY_RETURN_IF_ERROR(make_instance(folder, parent.get(), options.store_id, boot_id));
    instance = read_instance(folder, options.store_id, boot_id);
  }
  if (!instance.ok()) return std::move(instance).status();
  return std::unique_ptr<Tier>(
      std::make_unique<memory::MemoryTier>(runtime, path, std::move(root), options, std::move(instance).value()));
}

}  // namespace steelyard::tiers
