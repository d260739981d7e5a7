#include "store/open_store.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/limits.h"
#include "base/list_folder.h"
#include "base/sync_folder.h"
#include "base/utf8.h"
#include "oplog/open.h"
#include "store/ballast.h"
#include "store/io_budget.h"
#include "store/overlap.h"
#include "store/plain_files.h"
#include "store/store_lock.h"
#include "tiers/open.h"

namespace steelyard::store {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kNameAStore =
    "name a folder that is empty or not there yet with --store DIR or STEELYARD_STORE";
constexpr std::string_view kNameAnother = "name another store with --store DIR or STEELYARD_STORE";
constexpr std::string_view kNameAColdTier =
    "name a folder that is empty or not there yet with --cold-path DIR or STEELYARD_COLD_PATH";

/// As it was given where there is no working folder any more: then nothing is found either.
fs::path absolute(const std::string& path) {
  std::error_code error;
  fs::path whole = fs::absolute(path, error);
  return error ? fs::path(path) : whole;
}

/// Whatever keeps a store from being made or looked at says which setting names its place.
Status with_place(Status status, std::string_view hint) {
  if (status.ok() || !status.hint().empty()) return status;
  if (status.code() == Code::kNoSpace || status.code() == Code::kBusy) return status;
  const bool denied = status.code() == Code::kUnauthorized;
  return std::move(status).with_hint(denied ? fmt::format("give yourself permission there, or {}", hint)
                                            : std::string(hint));
}

/// Whether there is something; an error other than absence names the path.
Result<bool> exists(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) == 0) return true;
  if (errno == ENOENT) return false;
  if (errno == ENOTDIR) {
    return Status(Code::kInvalidArgument, fmt::format("{} cannot be there: a part of that path is a file", path),
                  std::string(kNameAnother));
  }
  return with_place(errno_status(errno, "stat", path), kNameAnother);
}

Status check_is_folder(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0 || S_ISDIR(info.st_mode)) return {};
  return {Code::kInvalidArgument, fmt::format("the store path {} is not a folder", printable(path)),
          std::string(kNameAnother)};
}

/// A new store is made in a folder of its own. What a creator that died left in it is no stranger: its catalog under
/// any name, its cold tier. (The cold tier looks after its own folder.)
Status check_nothing_foreign(const std::string& path) {
  constexpr std::size_t kNamedMax = 3;
  std::error_code error;
  std::vector<std::string> foreign;
  for (const fs::path& entry : list_folder(path, error)) {
    std::string name = entry.filename().native();
    // A filesystem of its own begins with the last one.
    if (name != "cold" && !name.starts_with("catalog.") && name != "lost+found") foreign.push_back(std::move(name));
  }
  if (foreign.empty()) return {};
  std::sort(foreign.begin(), foreign.end());
  std::string names;
  for (std::size_t i = 0; i < std::min(foreign.size(), kNamedMax); ++i) {
    names += (i > 0 ? ", " : "") + printable(foreign[i]);
  }
  if (foreign.size() > kNamedMax) names += fmt::format(" and {} more", foreign.size() - kNamedMax);
  return {Code::kInvalidArgument,
          fmt::format("{} is no store, and none is made in it: it holds other files ({})", printable(path), names),
          std::string(kNameAStore)};
}

/// SQLite refuses longer names of files, with an error that does not say so.
Status check_length(const StorePaths& paths) {
  constexpr std::size_t kCatalogPathBytesMax = 480;
  std::error_code error;
  const std::string catalog = fs::weakly_canonical(paths.catalog, error).native();
  if (catalog.size() <= kCatalogPathBytesMax) return {};
  return {Code::kInvalidArgument,
          fmt::format("the catalog's path would have {} bytes ({}); at most {} are possible", catalog.size(), catalog,
                      kCatalogPathBytesMax),
          "name a store with a shorter path; --cold-path may be longer"};
}

Status no_store(const StorePaths& paths) {
  return {Code::kNotFound, fmt::format("there is no store at {}", paths.store),
          "`steelyard import` makes one; --store DIR or STEELYARD_STORE names another"};
}

Status no_catalog(const StorePaths& paths) {
  return {Code::kUnavailable,
          fmt::format("the store at {} has objects in {} but no catalog ({} is missing)", paths.store, paths.cold,
                      paths.catalog),
          "restore catalog.db, or rebuild it with `steelyard recover`"};
}

Result<std::optional<std::string>> cold_id(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) == 0 && !S_ISDIR(info.st_mode)) {
    return Status(Code::kInvalidArgument, fmt::format("the cold tier {} is not a folder", path),
                  "name a folder with --cold-path, or restore the store's own");
  }
  auto id = tiers::directory_store_id(path);
  if (id.ok()) return std::optional(std::move(id).value());
  if (id.code() == Code::kNotFound) return std::optional<std::string>();
  return with_place(std::move(id).status(), "set --cold-path to the cold tier of this store");
}

bool holds_objects(const std::string& cold) {
  std::error_code error;
  const fs::path groups = fs::path(cold) / "groups";
  return fs::exists(groups, error) && !fs::is_empty(groups, error);
}

/// What a verb that only reads writes down is its lease, and what it found: neither may hold it up for long.
oplog::SqliteOptions log_options(const StorePaths& paths, OpenMode mode) {
  oplog::SqliteOptions log;
  log.path = paths.catalog;
  log.create = mode == OpenMode::kCreate;
  if (mode == OpenMode::kRead) {
    log.write_wait_ms = limits::kReadVerbWaitMs;
    log.warn_after_ms = 2 * limits::kReadVerbWaitMs;  // whoever goes on without its lease says so itself
  }
  return log;
}

Result<StoreParts> open_existing(Runtime& runtime, const StoreOptions& options, const StorePaths& paths, bool read_only,
                                 OpenMode mode, std::string store_id, UniqueFd in_use) {
  StoreParts parts;
  parts.in_use = std::move(in_use);
  parts.read_only = read_only;
  tiers::DirectoryOptions cold;
  cold.path = paths.cold;
  cold.store_id = store_id;
  cold.read_only = read_only;
  cold.medium = options.cold_medium;
  cold.reserve_free_bytes = options.cold_reserve_free;
  SY_ASSIGN_OR_RETURN(parts.cold, tiers::open_directory(runtime, cold));
  tiers::MemoryOptions hot = memory_options(options);
  hot.store_id = store_id;
  hot.read_only = read_only;
  parts.open_hot = [&runtime, hot](bool create) {
    tiers::MemoryOptions now = hot;
    now.create = create;
    return tiers::open_memory(runtime, now);
  };
  oplog::SqliteOptions log = log_options(paths, mode);
  log.store_id = store_id;
  log.read_only = read_only;
  SY_ASSIGN_OR_RETURN(parts.log, oplog::open_sqlite(runtime, log));
  parts.read_only = read_only || parts.log->capabilities().read_only;
  if (!parts.read_only && mode != OpenMode::kRead) {
    parts.ballast = paths.store + "/catalog.ballast";
    keep_ballast(parts.ballast);
  }
  parts.store_id = std::move(store_id);
  return parts;
}

/// Makes the folder and what is missing above it, durably: what is acknowledged in it later must not go with its name.
Status make_folder(Runtime& runtime, const std::string& path) {
  std::error_code error;
  std::vector<fs::path> parents;
  for (fs::path part = resolved_path(path); !error && !fs::exists(part, error) && part.has_relative_path();) {
    part = part.parent_path();
    parents.push_back(part);
  }
  if (!error) fs::create_directories(path, error);
  // Something is there, and it is no folder: a file above it, or a link that leads to nothing.
  if (error == std::errc::not_a_directory || error == std::errc::file_exists) {
    return {Code::kInvalidArgument, fmt::format("no folder can be made at {}: {}", path, error.message()),
            "name a folder whose parents are folders, and no link that leads to nothing, with --store DIR or "
            "STEELYARD_STORE"};
  }
  if (error) return errno_status(error.value(), "mkdir", path);
  for (const fs::path& parent : parents) {
    if (const int fault = runtime.point("store.sync_folder"); fault != 0) {
      return errno_status(fault, "fsync", parent.native());
    }
    SY_RETURN_IF_ERROR(sync_folder(parent.native()));
  }
  return {};
}

Result<StoreParts> create_new(Runtime& runtime, const StoreOptions& options, const StorePaths& paths) {
  SY_RETURN_IF_ERROR(check_nothing_foreign(paths.store));
  SY_RETURN_IF_ERROR(make_store_folder(runtime, paths.store));
  tiers::DirectoryOptions cold;
  cold.path = paths.cold;
  cold.store_id = runtime.random_hex(16);
  cold.create = true;
  cold.medium = options.cold_medium;
  // Another process may make the same store now, or one was killed before it made the catalog: whoever comes second
  // finds the id of the first and goes on with it.
  auto made = tiers::open_directory(runtime, cold);
  auto store_id = tiers::directory_store_id(paths.cold);
  const std::string_view hint = options.cold_path.empty() ? kNameAStore : kNameAColdTier;
  // A folder with other files in it: the tier does not know what names its place.
  if (made.code() == Code::kCorrupt && store_id.code() == Code::kNotFound) {
    return std::move(made).status().with_hint(std::string(hint));
  }
  if (!store_id.ok()) return with_place(made.ok() ? std::move(store_id).status() : std::move(made).status(), hint);
  if (!made.ok() && *store_id == cold.store_id) return with_place(std::move(made).status(), hint);
  SY_POINT(runtime, "store.after_cold_created");
  SY_ASSIGN_OR_RETURN(UniqueFd in_use, share_store(runtime, paths.store, true));
  auto parts =
      open_existing(runtime, options, paths, false, OpenMode::kCreate, std::move(store_id).value(), std::move(in_use));
  if (!parts.ok()) return with_place(std::move(parts).status(), kNameAStore);
  return parts;
}

}  // namespace

StorePaths paths_of(const StoreOptions& options) {
  const fs::path store = absolute(options.path);
  return {store.native(), (store / "catalog.db").native(),
          (options.cold_path.empty() ? store / "cold" : absolute(options.cold_path)).native()};
}

tiers::MemoryOptions memory_options(const StoreOptions& options) {
  tiers::MemoryOptions hot;
  hot.path = options.hot_path;
  hot.capacity = options.hot_capacity;
  hot.process_reserve_bytes = limits::kProcessReserveBytes + io_budget(options.io_memory, cgroup_memory_limit());
  struct stat folder {};
  if (::stat(paths_of(options).store.c_str(), &folder) == 0) hot.trusted_owner = folder.st_uid;
  return hot;
}

Status make_store_folder(Runtime& runtime, const std::string& path) {
  return with_place(make_folder(runtime, path), kNameAStore);
}

Result<StoreParts> open_parts(Runtime& runtime, const StoreOptions& options, OpenMode mode) {
  const StorePaths paths = paths_of(options);
  SY_RETURN_IF_ERROR(check_is_folder(paths.store));
  SY_RETURN_IF_ERROR(check_length(paths));
  auto in_use = share_store(runtime, paths.store, mode != OpenMode::kRead);
  if (!in_use.ok()) return with_place(std::move(in_use).status(), kNameAnother);
  const bool has_epoch = !runtime.epoch().empty();
  if (!has_epoch && mode != OpenMode::kRead) {
    return Status(
        Code::kUnavailable,
        "the boot id of this kernel cannot be read from /proc; without it no lease and no writer can be judged",
        "mount /proc; list, inspect, verify, materialize and cat work without it");
  }
  SY_ASSIGN_OR_RETURN(const bool has_catalog, exists(paths.catalog));
  SY_ASSIGN_OR_RETURN(const auto id, cold_id(paths.cold));
  if (has_catalog && !id) {
    return Status(Code::kUnavailable,
                  fmt::format("the catalog of {} is there but its cold tier is not: no store.json in {}", paths.store,
                              paths.cold),
                  "mount or restore the cold tier, or set --cold-path to where it is");
  }
  if (!has_catalog && id && holds_objects(paths.cold)) {
    // The process that makes the store right now puts objects only after its catalog is there: look again.
    SY_ASSIGN_OR_RETURN(const bool made_meanwhile, exists(paths.catalog));
    return made_meanwhile ? open_parts(runtime, options, mode) : no_catalog(paths);
  }
  if (!has_catalog) {
    if (mode != OpenMode::kCreate) return no_store(paths);
    return create_new(runtime, options, paths);
  }
  const bool writable = has_epoch && access(paths.store.c_str(), W_OK) == 0 && access(paths.catalog.c_str(), W_OK) == 0;
  if (!writable && mode != OpenMode::kRead) {
    return Status(Code::kUnauthorized, fmt::format("the store at {} is read-only for this user", paths.store),
                  "list, inspect, verify, materialize and cat work; writing needs permission on the store's folder");
  }
  // The catalog is there: what is missing of it now must not be made anew.
  return open_existing(runtime, options, paths, !writable, mode == OpenMode::kCreate ? OpenMode::kWrite : mode, *id,
                       std::move(in_use).value());
}

}  // namespace steelyard::store
