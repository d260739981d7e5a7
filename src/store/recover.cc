// recover: a catalog rebuilt from the cold tier.
//
// The protocol, in which no step destroys anything:
//   1. one recovery at a time, and no process has the store open or opens it (store_lock.h);
//   2. the cold tier is read (rebuild.h);
//   3. the new catalog is made in the folder `catalog.recover`, restored, read back, and closed, which leaves it in one
//      file; what a killed recovery left there goes first;
//   4. the catalog that was there is renamed to `catalog.<time>.aside`, the database before its WAL: a database without
//      its WAL would look whole. Killed in between, the next recovery moves the rest to the same name;
//   5. the new one is renamed to `catalog.db`, create-only;
//   6. its snapshot is copied to the cold tier.
// Killed before 4 the old catalog is there, before 5 none, after 5 the new one.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "base/list_folder.h"
#include "base/log.h"
#include "base/sync_folder.h"
#include "base/unique_fd.h"
#include "base/units.h"
#include "base/utf8.h"
#include "metadata/keys.h"
#include "oplog/open.h"
#include "oplog/replay.h"
#include "store/open_store.h"
#include "store/rebuild.h"
#include "store/store_lock.h"
#include "tiers/open.h"

namespace steelyard::store {
namespace {

namespace fs = std::filesystem;

/// An empty catalog and its WAL.
constexpr std::uint64_t kCatalogBytesMin = 1024 * 1024;
constexpr std::string_view kSuffixes[] = {"", "-wal", "-shm"};

bool is_there(const std::string& path) {
  struct stat info {};
  return lstat(path.c_str(), &info) == 0;
}

class Recovery {
 public:
  Recovery(Runtime& runtime, const StoreOptions& options, const RecoverRequest& request)
      : runtime_(runtime), options_(options), request_(request), paths_(paths_of(options)) {}

  Result<RecoverReport> run() {
    SY_RETURN_IF_ERROR(find_tier());
    if (!request_.dry_run) {
      SY_RETURN_IF_ERROR(make_store_folder(runtime_, paths_.store));
      SY_ASSIGN_OR_RETURN(lock_, own_store(paths_.store));
      if (!request_.force) SY_RETURN_IF_ERROR(check_no_records());
    }
    SY_RETURN_IF_ERROR(open_tier());
    SY_ASSIGN_OR_RETURN(RebuiltCatalog rebuilt, rebuild_catalog(*cold_));
    if (!request_.dry_run) {
      if (Status made = make_catalog(rebuilt.snapshot); !made.ok()) return give_up(std::move(made), rebuilt.snapshot);
      SY_RETURN_IF_ERROR(move_aside());
      SY_RETURN_IF_ERROR(publish());
      keep_copy(rebuilt.snapshot);
    }
    report_.recovered = std::move(rebuilt.published);
    report_.skipped = std::move(rebuilt.skipped);
    return std::move(report_);
  }

 private:
  Status find_tier() {
    auto id = tiers::directory_store_id(paths_.cold);
    if (id.ok()) {
      store_id_ = std::move(id).value();
      return {};
    }
    if (id.code() != Code::kNotFound) return std::move(id).status();
    return {Code::kNotFound,
            fmt::format("there is nothing to recover from: {} is no cold tier of a store", printable(paths_.cold)),
            "name the store with --store DIR, and its cold tier with --cold-path where that lies elsewhere"};
  }

  Status open_tier() {
    tiers::DirectoryOptions cold;
    cold.path = paths_.cold;
    cold.store_id = store_id_;
    cold.read_only = request_.dry_run;
    cold.medium = options_.cold_medium;
    cold.reserve_free_bytes = options_.cold_reserve_free;
    SY_ASSIGN_OR_RETURN(cold_, tiers::open_directory(runtime_, cold));
    return {};
  }

  /// OK where nothing would be lost from sight: no catalog, or one without records.
  Status check_no_records() {
    if (!is_there(paths_.catalog)) return {};
    constexpr std::string_view kHint =
        "`steelyard recover --force` moves it aside first; `--dry-run` shows what is found";
    oplog::SqliteOptions log;
    log.path = paths_.catalog;
    log.store_id = store_id_;
    log.read_only = true;
    bool records = false;
    Status status;
    {
      const auto opened = oplog::open_sqlite(runtime_, log);
      status = opened.status();
      if (opened.ok()) {
        status = (*opened)->view([&records](const oplog::StateView& view) {
          const auto found = [&records](std::string_view, std::string_view) {
            records = true;
            return false;
          };
          for (const char table : {metadata::keys::kRevision, metadata::keys::kWatermark}) {
            const std::string prefix(1, table);
            SY_RETURN_IF_ERROR(view.scan(prefix, metadata::keys::after_prefix(prefix), false, found));
          }
          return Status();
        });
      }
    }
    if (!status.ok()) {
      return {Code::kConflict,
              fmt::format("there is a catalog, {}, and what it holds cannot be read: {}", printable(paths_.catalog),
                          status.message()),
              std::string(kHint)};
    }
    if (!records) return {};
    return {Code::kConflict, fmt::format("the catalog {} is there and has records", printable(paths_.catalog)),
            std::string(kHint)};
  }

  std::string work_folder() const { return (fs::path(paths_.store) / "catalog.recover").native(); }
  std::string new_catalog() const { return (fs::path(work_folder()) / "catalog.db").native(); }

  Status make_catalog(const oplog::Snapshot& snapshot) {
    std::error_code error;
    fs::remove_all(work_folder(), error);
    if (!error) fs::create_directory(work_folder(), error);
    if (error) return errno_status(error.value(), "make", work_folder());
    SY_POINT(runtime_, "recover.before_restore");
    {
      oplog::SqliteOptions options;
      options.path = new_catalog();
      options.store_id = store_id_;
      options.create = true;
      SY_ASSIGN_OR_RETURN(const auto log, oplog::open_sqlite(runtime_, options));
      SY_RETURN_IF_ERROR(log->restore(snapshot));
      SY_RETURN_IF_ERROR(oplog::verify_state(*log).annotate("reading back", "the catalog that was rebuilt"));
    }
    struct stat wal {};
    if (stat((new_catalog() + "-wal").c_str(), &wal) == 0 && wal.st_size > 0) {
      return {Code::kUnavailable,
              fmt::format("{} could not be closed: its WAL still has {} bytes", new_catalog(), wal.st_size),
              "run the same command again"};
    }
    SY_POINT(runtime_, "recover.after_restore");
    return {};
  }

  /// What was made is of no use, and nothing else was touched.
  Status give_up(Status status, const oplog::Snapshot& snapshot) {
    std::error_code error;
    std::uint64_t wanted = kCatalogBytesMin;
    for (const auto& [name, bytes] : snapshot.sections) wanted += 2 * bytes.size();
    const fs::space_info space = fs::space(paths_.store, error);
    const bool full = !error && space.available < wanted;
    fs::remove_all(work_folder(), error);
    // Of a catalog that nobody has seen nothing has to be known.
    if (status.code() != Code::kUnknownOutcome && status.code() != Code::kNoSpace) return status;
    if (!full) return {Code::kUnavailable, status.message(), "nothing was changed; check the disk, then run it again"};
    const auto size = format_sizes_apart({wanted, space.available});
    return {Code::kNoSpace,
            fmt::format("{}; the new catalog wants some {} in {}, and {} are free", status.message(), size[0],
                        printable(paths_.store), size[1]),
            "nothing was changed; free space on that filesystem, then run the same command again"};
  }

  /// Where a recovery was killed between the files of a catalog: the name to which it moved the database, so that what
  /// is left joins it. The newest by name whose WAL and index are not there.
  std::optional<std::string> interrupted_aside() const {
    if (is_there(paths_.catalog)) return std::nullopt;
    std::optional<std::string> newest;
    std::error_code error;
    for (const fs::path& entry : list_folder(paths_.store, error)) {
      const std::string name = entry.filename().native();
      if (!name.starts_with("catalog.") || !name.ends_with(".aside")) continue;
      const std::string& path = entry.native();
      const bool room = std::ranges::none_of(kSuffixes, [&](std::string_view suffix) {
        return !suffix.empty() && is_there(paths_.catalog + std::string(suffix)) &&
               is_there(path + std::string(suffix));
      });
      if (room && (!newest || *newest < path)) newest = path;
    }
    return newest;
  }

  /// A name that is not taken, by the time of day: for people.
  std::string aside_name() {
    if (const auto interrupted = interrupted_aside()) return *interrupted;
    std::string stamp;
    for (const char c : format_rfc3339(runtime_.wall_ms()).substr(0, 19)) {
      if (c != '-' && c != ':') stamp.push_back(c);
    }
    const std::string base = (fs::path(paths_.store) / ("catalog." + stamp)).native();
    std::string name = base + ".aside";
    for (int i = 2; is_there(name) || is_there(name + "-wal"); ++i) name = fmt::format("{}-{}.aside", base, i);
    return name;
  }

  Status move_aside() {
    bool any = false;
    for (const std::string_view suffix : kSuffixes) any = any || is_there(paths_.catalog + std::string(suffix));
    if (!any) return {};
    const std::string aside = aside_name();
    // What joins a database that a killed recovery moved is a part of it; a WAL alone is no catalog.
    if (is_there(paths_.catalog) || is_there(aside)) report_.moved_to = aside;
    for (const std::string_view suffix : kSuffixes) {
      const std::string from = paths_.catalog + std::string(suffix);
      if (const int fault = runtime_.point("recover.move_aside"); fault != 0)
        return errno_status(fault, "rename", from);
      if (std::rename(from.c_str(), (aside + std::string(suffix)).c_str()) != 0 && errno != ENOENT) {
        return errno_status(errno, "rename", from);
      }
    }
    if (report_.moved_to.empty()) {
      log_info("what was left of a catalog without its database is now {}", printable(aside + "-wal"));
    }
    return sync_folder(paths_.store);
  }

  Status publish() {
    if (const int fault = runtime_.point("recover.publish"); fault != 0) {
      return errno_status(fault, "rename", new_catalog());
    }
    int result = renameat2(AT_FDCWD, new_catalog().c_str(), AT_FDCWD, paths_.catalog.c_str(), RENAME_NOREPLACE);
    if (result != 0 && errno == EINVAL) result = link(new_catalog().c_str(), paths_.catalog.c_str());
    if (result != 0) return errno_status(errno, "rename", new_catalog());
    SY_RETURN_IF_ERROR(sync_folder(paths_.store));
    SY_POINT(runtime_, "recover.after_publish");
    std::error_code error;
    fs::remove_all(work_folder(), error);
    return {};
  }

  /// The catalog is there, whether the copy can be kept or not; the next snapshot brings another.
  void keep_copy(const oplog::Snapshot& snapshot) {
    const Status status = cold_->put_catalog_copy(snapshot.sequence, oplog::encode_snapshot(snapshot));
    if (!status.ok()) log_warning("the catalog was rebuilt, but no copy of it could be kept: {}", status.message());
  }

  Runtime& runtime_;
  const StoreOptions& options_;
  const RecoverRequest& request_;
  const StorePaths paths_;
  std::string store_id_;
  UniqueFd lock_;
  std::unique_ptr<tiers::Tier> cold_;
  RecoverReport report_;
};

}  // namespace

Result<RecoverReport> recover_store(Runtime& runtime, const StoreOptions& options, const RecoverRequest& request) {
  return Recovery(runtime, options, request).run();
}

}  // namespace steelyard::store
