// Opening a directory tier: store.json says whose it is.
//
// A new folder gets its store.json before anything else: written under a temporary name, synced, then linked, which
// fails when somebody else was first; his is read then. So store.json is never seen half written.
#include "tiers/open.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/sync_folder.h"
#include "tiers/directory/directory_tier.h"

namespace steelyard::tiers {
namespace {

using directory::Folder;

constexpr std::string_view kFormat = "steelyard-directory-tier";
constexpr std::size_t kStoreFileBytesMax = 64 * 1024;
constexpr std::size_t kForeignNamesShown = 8;
constexpr char kDoctorHint[] = "`steelyard doctor --adopt` writes it anew where the rest of the folder is this store's";

std::string encode_store_file(const std::string& store_id) {
  return R"({"format":")" + std::string(kFormat) + R"(","layout_version":)" +
         std::to_string(directory::kLayoutVersion) + R"(,"store_id":")" + store_id + "\"}\n";
}

Result<std::string> decode_store_file(const std::string& text, const std::string& path) {
  const auto json = nlohmann::json::parse(text, nullptr, false);
  const auto corrupt = [&](const std::string& why) {
    return Status(Code::kCorrupt, path + ": " + why, "this folder is no cold tier, or its store.json is damaged");
  };
  if (!json.is_object()) return corrupt("not a JSON object");
  const auto format = json.find("format");
  if (format == json.end() || !format->is_string() || format->get_ref<const std::string&>() != kFormat) {
    return corrupt("no \"format\":\"" + std::string(kFormat) + "\"");
  }
  const auto version = json.find("layout_version");
  if (version == json.end() || !version->is_number_unsigned()) return corrupt("no layout_version");
  if (const auto found = version->get<std::uint64_t>(); found != directory::kLayoutVersion) {
    return Status(Code::kUnavailable,
                  path + ": layout version " + std::to_string(found) + ", this program knows " +
                      std::to_string(directory::kLayoutVersion),
                  "use the newer program that made it");
  }
  const auto store_id = json.find("store_id");
  if (store_id == json.end() || !store_id->is_string()) return corrupt("no store_id");
  const auto& id = store_id->get_ref<const std::string&>();
  if (!directory::is_lower_hex(id, 32)) return corrupt("store_id \"" + id + "\" is not 32 lower-case hex digits");
  if (text != encode_store_file(id)) return corrupt("not in its canonical form");
  return id;
}

Result<std::string> read_store_file(int root, const std::string& folder) {
  const std::string path = folder + "/store.json";
  const UniqueFd fd(::openat(root, "store.json", O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!fd.valid() && errno != ENXIO) return errno_status(errno, "open", path);
  struct stat there {};
  if (fd.valid() && ::fstat(fd.get(), &there) != 0) return errno_status(errno, "stat", path);
  if (!fd.valid() || !S_ISREG(there.st_mode)) {
    return Status(Code::kCorrupt, path + " is not a regular file", kDoctorHint);
  }
  std::string text(kStoreFileBytesMax + 1, '\0');
  std::size_t filled = 0;
  while (filled < text.size()) {
    const ssize_t got = ::read(fd.get(), text.data() + filled, text.size() - filled);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno_status(errno, "read", path);
    if (got == 0) break;
    filled += static_cast<std::size_t>(got);
  }
  if (filled > kStoreFileBytesMax) return Status(Code::kCorrupt, path + " is too large");
  text.resize(filled);
  return decode_store_file(text, path);
}

/// Names that keep a folder from being a new tier.
Result<std::vector<std::string>> foreign_names(Folder& folder) {
  SY_ASSIGN_OR_RETURN(auto names, folder.names_in("."));
  std::erase_if(names, [](const std::string& name) {
    return name == "lost+found" || name == "store.json" || name.starts_with(directory::kStoreFileTemporaryPrefix);
  });
  return names;
}

Status refuse_foreign(const std::string& path, const std::vector<std::string>& names) {
  std::string message = path + " has no store.json and is not empty; it holds ";
  for (std::size_t i = 0; i < std::min(names.size(), kForeignNamesShown); ++i) {
    message.append(i == 0 ? "" : ", ").append(names[i]);
  }
  if (names.size() > kForeignNamesShown) {
    message.append(" and ").append(std::to_string(names.size() - kForeignNamesShown)).append(" more");
  }
  return {Code::kCorrupt, std::move(message), "name a new or empty folder"};
}

/// Makes the folder and missing parents, durably.
Status make_path(Runtime& runtime, const std::string& path) {
  for (std::size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    const std::string part = path.substr(0, end);
    int error = runtime.point("tier.mkdir");
    if (error == 0 && ::mkdir(part.c_str(), 0777) != 0) error = errno;
    if (error == 0) {
      const auto slash = part.find_last_of('/');
      const std::string parent = slash == std::string::npos ? "." : slash == 0 ? "/" : part.substr(0, slash);
      SY_RETURN_IF_ERROR(sync_folder(parent));
    } else if (error != EEXIST) {
      // A parent that may not be written but is there is no failure.
      struct stat there {};
      if (::stat(part.c_str(), &there) != 0 || !S_ISDIR(there.st_mode)) return errno_status(error, "mkdir", part);
    }
    if (end == std::string::npos) return {};
  }
}

enum class Claim : std::uint8_t { kFirst, kOver };

Status write_store_file(Folder& folder, const std::string& store_id, Claim claim) {
  const std::string temporary = std::string(directory::kStoreFileTemporaryPrefix) + folder.runtime().random_hex(8);
  const std::string text = encode_store_file(store_id);
  SY_ASSIGN_OR_RETURN(auto writer, directory::FileWriter::create(folder, temporary, text.size(), {}));
  SY_RETURN_IF_ERROR(writer->append(as_bytes(text)));
  SY_RETURN_IF_ERROR(writer->close());
  const int opened = folder.open("tier.open_flush", temporary, O_RDONLY);
  if (opened < 0) return folder.write_failure(-opened, "open", temporary, text.size());
  const UniqueFd fd(opened);
  if (::fsync(fd.get()) != 0) return folder.write_failure(errno, "fsync", temporary, text.size());
  SY_POINT(folder.runtime(), "tier.before_store_file");
  if (claim == Claim::kOver) {
    const int renamed = folder.rename("tier.rename", temporary, "store.json");
    if (renamed < 0) return folder.write_failure(-renamed, "rename", "store.json", text.size());
    writer->keep();
    return sync_folder(folder.path());
  }
  int result = folder.link("tier.link", temporary, "store.json");
  if (result == -EPERM || result == -EOPNOTSUPP) {
    result = folder.rename_no_replace(temporary, "store.json");
    if (result == 0) writer->keep();
  }
  if (result < 0 && result != -EEXIST) return folder.write_failure(-result, "link", "store.json", text.size());
  return sync_folder(folder.path());
}

std::string without_trailing_slashes(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

}  // namespace

Result<std::string> directory_store_id(const std::string& path) {
  const UniqueFd root(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!root.valid()) return errno_status(errno, "open", path);
  return read_store_file(root.get(), path);
}

Status claim_directory(Runtime& runtime, const std::string& path, const std::string& store_id) {
  if (!directory::is_lower_hex(store_id, 32)) {
    return {Code::kInvalidArgument, "a store id is 32 lower-case hex digits, not \"" + store_id + "\""};
  }
  UniqueFd root(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!root.valid()) return errno_status(errno, "open", path);
  Folder folder(runtime, without_trailing_slashes(path), std::move(root), false);
  return write_store_file(folder, store_id, Claim::kOver);
}

Result<std::unique_ptr<Tier>> open_directory(Runtime& runtime, const DirectoryOptions& options) {
  const std::string path = without_trailing_slashes(options.path);
  if (path.empty()) return Status(Code::kInvalidArgument, "the path of the cold tier is empty");
  if (!directory::is_lower_hex(options.store_id, 32)) {
    return Status(Code::kInvalidArgument, "a store id is 32 lower-case hex digits, not \"" + options.store_id + "\"");
  }
  const bool create = options.create && !options.read_only;
  UniqueFd root(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!root.valid() && errno == ENOENT && create) {
    SY_RETURN_IF_ERROR(make_path(runtime, path));
    root = UniqueFd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  }
  if (!root.valid()) return errno_status(errno, "open the cold tier", path);
  const int raw_root = root.get();

  SY_CHECK(!options.unclaimed || options.read_only, "nobody writes into a tier that may be another's");
  auto found = options.unclaimed ? Result<std::string>(options.store_id) : read_store_file(raw_root, path);
  if (found.code() == Code::kNotFound) {
    UniqueFd second(::fcntl(raw_root, F_DUPFD_CLOEXEC, 0));
    if (!second.valid()) return errno_status(errno, "open the cold tier", path);
    Folder folder(runtime, path, std::move(second), options.read_only);
    SY_ASSIGN_OR_RETURN(const auto names, foreign_names(folder));
    if (!create) {
      return Status(Code::kNotFound, path + " is no cold tier: it has no store.json");
    }
    if (!names.empty()) {
      // Another creator may just have finished.
      found = read_store_file(raw_root, path);
      if (found.code() == Code::kNotFound) return refuse_foreign(path, names);
    } else {
      SY_RETURN_IF_ERROR(write_store_file(folder, options.store_id, Claim::kFirst));
      found = read_store_file(raw_root, path);
    }
  }
  if (!found.ok()) return std::move(found).status();
  if (*found != options.store_id) {
    return Status(Code::kCorrupt, path + " belongs to store " + *found + ", not to this one (" + options.store_id + ")",
                  "give this store a cold.path of its own");
  }
  return std::unique_ptr<Tier>(std::make_unique<directory::DirectoryTier>(
      runtime, path, std::move(root), options.read_only,
      Traits{.name = "cold", .medium = options.medium, .listable = true, .durable = true}, options.reserve_free_bytes));
}

namespace directory {

DirectoryTier::DirectoryTier(Runtime& runtime, std::string path, UniqueFd root, bool read_only, Traits traits,
                             std::optional<std::uint64_t> reserve_free_bytes)
    : folder_(runtime, std::move(path), std::move(root), read_only),
      traits_(std::move(traits)),
      reserve_free_bytes_(reserve_free_bytes) {}

Status DirectoryTier::check(const AttemptName& attempt) const {
  SY_RETURN_IF_ERROR(check_attempt(attempt));
  if (attempt.operation.empty() || traits_.per_operation) return {};
  return {Code::kInvalidArgument,
          "the " + traits_.name + " tier keeps no objects by operation (" + describe(attempt) + ")"};
}

Status DirectoryTier::check(const ObjectName& name) const {
  SY_RETURN_IF_ERROR(check_name(name));
  return check(name.in);
}

}  // namespace directory
}  // namespace steelyard::tiers
