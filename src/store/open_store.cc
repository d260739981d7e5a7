#include "store/open_store.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <optional>
#include <system_error>
#include <vector>

#include "oplog/open.h"
#include "store/plain_files.h"
#include "tiers/open.h"

namespace steelyard::store {
namespace {

namespace fs = std::filesystem;

struct Paths {
  std::string store;
  std::string catalog;
  std::string cold;
};

Paths paths_of(const StoreOptions& options) {
  const fs::path store(options.path);
  return {options.path, (store / "catalog.db").native(),
          options.cold_path.empty() ? (store / "cold").native() : options.cold_path};
}

/// Whether there is something; an error other than absence names the path.
Result<bool> exists(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) == 0) return true;
  if (errno == ENOENT) return false;
  if (errno == ENOTDIR) {
    return Status(Code::kInvalidArgument, fmt::format("{} cannot be there: a part of that path is a file", path),
                  "name a folder with --store");
  }
  return errno_status(errno, "stat", path);
}

Status check_is_folder(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0 || S_ISDIR(info.st_mode)) return {};
  return {Code::kInvalidArgument, fmt::format("the store path {} is not a folder", path), "name a folder with --store"};
}

/// SQLite refuses longer names of files, with an error that does not say so.
Status check_length(const Paths& paths) {
  constexpr std::size_t kCatalogPathBytesMax = 480;
  std::error_code error;
  const std::string catalog = fs::weakly_canonical(fs::absolute(paths.catalog, error), error).native();
  if (catalog.size() <= kCatalogPathBytesMax) return {};
  return {Code::kInvalidArgument,
          fmt::format("the catalog's path would have {} bytes ({}); at most {} are possible", catalog.size(), catalog,
                      kCatalogPathBytesMax),
          "name a store with a shorter path; --cold-path may be longer"};
}

Status no_store(const Paths& paths) {
  return {Code::kNotFound, fmt::format("there is no store at {}", paths.store),
          "`steelyard import` makes one; --store names another"};
}

Status no_catalog(const Paths& paths) {
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
  return std::move(id).status();
}

bool holds_objects(const std::string& cold) {
  std::error_code error;
  const fs::path groups = fs::path(cold) / "groups";
  return fs::exists(groups, error) && !fs::is_empty(groups, error);
}

Result<StoreParts> open_existing(Runtime& runtime, const StoreOptions& options, const Paths& paths, bool read_only,
                                 bool create_catalog, std::string store_id) {
  StoreParts parts;
  parts.read_only = read_only;
  tiers::DirectoryOptions cold;
  cold.path = paths.cold;
  cold.store_id = store_id;
  cold.read_only = read_only;
  cold.medium = options.cold_medium;
  cold.reserve_free_bytes = options.cold_reserve_free;
  SY_ASSIGN_OR_RETURN(parts.cold, tiers::open_directory(runtime, cold));
  SY_ASSIGN_OR_RETURN(
      parts.log,
      oplog::open_sqlite(
          runtime, {.path = paths.catalog, .store_id = store_id, .create = create_catalog, .read_only = read_only}));
  parts.read_only = read_only || parts.log->capabilities().read_only;
  parts.store_id = std::move(store_id);
  return parts;
}

/// Makes the folder and what is missing above it, durably: what is acknowledged in it later must not go with its name.
Status make_folder(Runtime& runtime, const std::string& path) {
  std::error_code error;
  std::vector<fs::path> parents;
  for (fs::path part = fs::absolute(path, error).lexically_normal(); !error && !fs::exists(part, error);) {
    part = part.has_filename() ? part.parent_path() : part.parent_path().parent_path();
    parents.push_back(part);
  }
  if (!error) fs::create_directories(path, error);
  // Something is there, and it is no folder: a file above it, or a link that leads to nothing.
  if (error == std::errc::not_a_directory || error == std::errc::file_exists) {
    return {Code::kInvalidArgument, fmt::format("no folder can be made at {}: {}", path, error.message()),
            "name a folder whose parents are folders, and no link that leads to nothing"};
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

Result<StoreParts> create_new(Runtime& runtime, const StoreOptions& options, const Paths& paths) {
  SY_RETURN_IF_ERROR(make_folder(runtime, paths.store));
  tiers::DirectoryOptions cold;
  cold.path = paths.cold;
  cold.store_id = runtime.random_hex(16);
  cold.create = true;
  cold.medium = options.cold_medium;
  // Another process may make the same store now, or one was killed before it made the catalog: whoever comes second
  // finds the id of the first and goes on with it.
  auto made = tiers::open_directory(runtime, cold);
  auto store_id = tiers::directory_store_id(paths.cold);
  if (!store_id.ok()) return made.ok() ? std::move(store_id).status() : std::move(made).status();
  if (!made.ok() && *store_id == cold.store_id) return std::move(made).status();
  SY_POINT(runtime, "store.after_cold_created");
  return open_existing(runtime, options, paths, false, true, std::move(store_id).value());
}

}  // namespace

Result<StoreParts> open_parts(Runtime& runtime, const StoreOptions& options, OpenMode mode) {
  const Paths paths = paths_of(options);
  SY_RETURN_IF_ERROR(check_is_folder(paths.store));
  SY_RETURN_IF_ERROR(check_length(paths));
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
  return open_existing(runtime, options, paths, !writable, false, *id);
}

}  // namespace steelyard::store
