#include "store/doctor_memory.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include "base/units.h"
#include "base/utf8.h"
#include "catalog/catalog.h"
#include "formats/ref.h"
#include "metadata/memory_instance.h"
#include "metadata/rules.h"
#include "store/context.h"
#include "store/group_observer.h"
#include "store/manifest_file.h"
#include "tiers/open.h"

namespace steelyard::store {
namespace {

using Check = DoctorReport::Check;
using State = DoctorReport::State;
using metadata::InstanceView;

constexpr std::string_view kName = "hot tier";
constexpr std::size_t kNamedMax = 4;

Check check(State state, std::string found, std::string next_step = {}) {
  return {std::string(kName), state, std::move(found), std::move(next_step), {}};
}

Check problem(const Status& status) {
  return {std::string(kName), State::kProblem, status.message(), status.hint(), status.code()};
}

struct Occupied {
  std::uint64_t bytes = 0;
  bool whole = true;  ///< false: not all of it may be seen
};

/// What a folder takes of its filesystem: bytes that several names share count once.
Occupied occupied_by(const std::filesystem::path& folder) {
  constexpr std::uint64_t kStatBlockBytes = 512;
  Occupied occupied;
  std::set<ino_t> counted;
  std::error_code error;
  std::filesystem::recursive_directory_iterator at(folder, error);
  for (; !error && at != std::filesystem::recursive_directory_iterator(); at.increment(error)) {
    struct stat info {};
    if (::lstat(at->path().c_str(), &info) != 0) {
      occupied.whole = occupied.whole && errno == ENOENT;
    } else if (counted.insert(info.st_ino).second) {
      occupied.bytes += static_cast<std::uint64_t>(info.st_blocks) * kStatBlockBytes;
    }
  }
  if (error && error != std::errc::no_such_file_or_directory) occupied.whole = false;
  return occupied;
}

/// "a, b and 3 more".
std::string some_of(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size() && i < kNamedMax; ++i) text += (i > 0 ? ", " : "") + names[i];
  return names.size() <= kNamedMax ? text : fmt::format("{} and {} more", text, names.size() - kNamedMax);
}

/// The instances of other stores. Whether one's store still exists cannot be known: it may be anybody's.
Check others_of(const std::string& hot_path, const std::vector<std::string>& names) {
  std::vector<std::string> sized;
  std::uint64_t total = 0;
  bool whole = true;
  for (const std::string& name : names) {
    const Occupied occupied = occupied_by(std::filesystem::path(hot_path) / name);
    total += occupied.bytes;
    whole = whole && occupied.whole;
    sized.push_back(fmt::format("{} ({}{})", name, occupied.whole ? "" : "at least ", format_size(occupied.bytes)));
  }
  return check(
      State::kOk,
      fmt::format("{} of other stores there, which take {}{} of the same filesystem: {}",
                  counted(names.size(), "instance"), whole ? "" : "at least ", format_size(total), some_of(sized)),
      "one whose store was removed is freed by nobody: its name ends with the id in that store's "
      "cold/store.json; remove the folder if there is no such store any more");
}

std::string describe(const tiers::MemoryPlace& place) {
  std::string text = fmt::format("capacity {} on a filesystem of {} with {} free", format_size(place.capacity_bytes),
                                 format_size(place.filesystem_bytes), format_size(place.free_bytes));
  for (const MemoryLimit& limit : place.limits) {
    text += limit.used == 0 ? fmt::format("; {} allows {} more", limit.file, format_size(limit.free()))
                            : fmt::format("; {} allows {}, of which {} are in use", limit.file,
                                          format_size(limit.bytes), format_size(limit.used));
  }
  return text + "; its copies are gone with the next boot";
}

/// A limit in which nothing is left but what the process needs for itself.
void look_at_limits(const tiers::MemoryPlace& place, std::vector<Check>& checks) {
  for (const MemoryLimit& limit : place.limits) {
    if (limit.free() > place.process_reserve_bytes) continue;
    checks.push_back(check(
        State::kWarning,
        fmt::format("{} leaves {} of {}, and a process keeps {} for its work", limit.file, format_size(limit.free()),
                    format_size(limit.bytes), format_size(place.process_reserve_bytes)),
        "nothing can be brought into memory: evict what is not needed, or raise the limit (the container's --memory)"));
  }
}

/// What lies in the instance that is mounted here, beside what the records say of it.
class Contents {
 public:
  Contents(tiers::Tier& tier, std::string instance, const std::string& boot_id, catalog::Catalog& catalog)
      : tier_(tier), instance_(std::move(instance)), boot_id_(boot_id), catalog_(catalog) {}

  void look(const std::vector<MemoryRecord>& recorded, std::vector<Check>& checks) {
    const auto usage = tier_.usage([this](const tiers::ObjectStat& object) {
      Group& group = groups_[object.name.in.group];
      Objects& objects = group.by_attempt[object.name.in.attempt];
      if (objects.numbers.insert(object.name.index).second) objects.bytes += object.bytes;
      group.bytes += object.bytes;
    });
    if (!usage.ok()) {
      checks.push_back(problem(usage.status()));
      return;
    }
    checks.push_back(use_of(*usage));
    find_orphans(checks);
    find_missing(recorded, checks);
  }

 private:
  /// Different objects.
  struct Objects {
    std::set<std::uint32_t> numbers;
    std::uint64_t bytes = 0;
  };
  struct Group {
    std::map<std::uint32_t, Objects> by_attempt;
    std::uint64_t bytes = 0;
  };

  Check use_of(const tiers::TierUsage& usage) const {
    const std::string found =
        fmt::format("instance {}: {} used, {} claimed by operations under way, {} may be brought", instance_,
                    format_size(usage.bytes), format_size(usage.claimed_bytes), format_size(usage.free_bytes));
    if (usage.bytes > usage.capacity_bytes) {
      return check(
          State::kWarning,
          fmt::format("{}; that is {} more than hot.capacity", found, format_size(usage.bytes - usage.capacity_bytes)),
          "evict what is not needed with `steelyard evict REF`, or raise hot.capacity");
    }
    if (usage.free_bytes > 0) return check(State::kOk, found);
    return check(State::kWarning, found,
                 "evict what is not needed with `steelyard evict REF`, or raise the limit that is in the way");
  }

  /// What no revision can use.
  void find_orphans(std::vector<Check>& checks) {
    std::uint64_t count = 0;
    std::uint64_t bytes = 0;
    std::uint64_t stray_bytes = 0;
    std::vector<std::string> stray;
    for (const auto& [group, there] : groups_) {
      const auto record = catalog_.find_by_group(group);
      if (!record.ok()) return checks.push_back(problem(record.status()));
      if (!*record || !is_published((*record)->availability)) {
        ++count;
        bytes += there.bytes;
        continue;
      }
      if (!is_stray(**record, there)) continue;
      stray.push_back(formats::format_ref((*record)->identity));
      stray_bytes += there.bytes;
    }
    if (count > 0) {
      checks.push_back(check(
          State::kWarning,
          fmt::format("{} that no readable revision refers to, with {}", counted(count, "group"), format_size(bytes)),
          "`steelyard reconcile` ends what is being deleted, `steelyard gc` frees the rest"));
    }
    if (stray.empty()) return;
    checks.push_back(check(State::kWarning,
                           fmt::format("{} here of {}, recorded in another memory instance: {}",
                                       format_size(stray_bytes), counted(stray.size(), "revision"), some_of(stray)),
                           "nobody reads it here: `steelyard evict REF` frees it"));
  }

  bool is_stray(const metadata::RevisionRecord& record, const Group& there) const {
    const auto committed = there.by_attempt.find(attempt_of(record).attempt);
    if (committed == there.by_attempt.end()) return false;
    metadata::Observation seen;
    seen.boot_id = boot_id_;
    seen.hot_instance = instance_;
    seen.hot_members = committed->second.numbers.size();
    seen.hot_bytes = committed->second.bytes;
    return metadata::is_stray(record, seen);
  }

  void find_missing(const std::vector<MemoryRecord>& recorded, std::vector<Check>& checks) {
    std::vector<std::string> lacking;
    for (const MemoryRecord& record : recorded) {
      if (record.instance != instance_) continue;
      const auto now = catalog_.get_weight_revision(record.identity);
      // It was moved meanwhile, or is: its operation tells.
      if (!now.ok() || now->metadata_generation != record.metadata_generation || now->operation) continue;
      const tiers::AttemptName committed = attempt_of(*now);
      const std::uint64_t there = groups_[committed.group].by_attempt[committed.attempt].numbers.size();
      if (there >= record.members) continue;
      lacking.push_back(
          fmt::format("{} ({} of {})", formats::format_ref(record.identity), there, counted(record.members, "object")));
    }
    if (lacking.empty()) return;
    checks.push_back(check(State::kWarning, "less in memory than is recorded: " + some_of(lacking),
                           "`steelyard reconcile` records what is there, `steelyard rehydrate REF` brings the rest"));
  }

  tiers::Tier& tier_;
  const std::string instance_;
  const std::string& boot_id_;
  catalog::Catalog& catalog_;
  std::map<std::string, Group> groups_;
};

/// Of instances that are not mounted here. `known`: whether it could be seen what is.
void look_elsewhere(Runtime& runtime, const std::string& mounted, bool known, const std::vector<MemoryRecord>& recorded,
                    std::vector<Check>& checks) {
  std::map<std::pair<std::string, std::string>, std::vector<std::string>> by_instance;
  for (const MemoryRecord& record : recorded) {
    by_instance[{record.instance, record.boot_id}].push_back(formats::format_ref(record.identity));
  }
  for (const auto& [named, refs] : by_instance) {
    const auto& [instance, boot_id] = named;
    const InstanceView view = metadata::view_of_instance({instance, boot_id}, {mounted, runtime.epoch()});
    if (view == InstanceView::kMounted) continue;
    const std::string what =
        fmt::format("{} recorded in memory instance {}, ", counted(refs.size(), "revision"), instance);
    if (view == InstanceView::kGone) {
      checks.push_back(check(State::kWarning,
                             what + "which is gone (the machine restarted, or it was wiped): " + some_of(refs),
                             "`steelyard reconcile` records that it is gone"));
    } else if (!known) {
      checks.push_back(check(State::kWarning, what + "and what is mounted here cannot be read: " + some_of(refs)));
    } else {
      checks.push_back(check(State::kWarning, what + "which is not mounted here: " + some_of(refs),
                             "look where it is mounted (hot.path); `steelyard reconcile` records what was wiped; where "
                             "nobody has it any more, `steelyard rehydrate REF` brings them into the memory here"));
    }
  }
}

}  // namespace

std::vector<Check> examine_memory(Runtime& runtime, const StoreOptions& options, const StoreParts& parts,
                                  const std::vector<MemoryRecord>& recorded) {
  std::vector<Check> checks;
  tiers::MemoryOptions where = memory_options(options);
  where.store_id = parts.store_id;
  const auto place = tiers::look_at_memory_place(where);
  std::string mounted;
  bool known = true;
  if (!place.ok()) {
    checks.push_back(check(State::kWarning, place.status().message(),
                           place.status().hint() + "; without one nothing can be brought into memory"));
  } else {
    checks.push_back(check(State::kOk, printable(options.hot_path) + ": " + describe(*place)));
    look_at_limits(*place, checks);
    if (!place->others.empty()) checks.push_back(others_of(options.hot_path, place->others));
    std::vector<std::string> older = place->boots;
    std::erase(older, runtime.epoch());
    if (!older.empty()) {
      checks.push_back(check(State::kWarning, "an instance of another boot lies there: " + some_of(older),
                             "it says nothing any more; remove its file instance-<boot id>"));
    }
    const auto tier = parts.open_hot(false);
    const auto instance = tier.ok() ? (*tier)->instance() : Result<std::string>(tier.status());
    if (instance.code() == Code::kNotFound) {
      checks.push_back(check(State::kOk, "no instance there yet: nothing of this store lies in memory here"));
    } else if (!instance.ok()) {
      known = false;
      checks.push_back(problem(instance.status()));
    } else {
      mounted = *instance;
      TierObserver observer(*parts.cold);
      catalog::Catalog catalog(runtime, *parts.log, observer, {});
      Contents(**tier, mounted, runtime.epoch(), catalog).look(recorded, checks);
    }
  }
  look_elsewhere(runtime, mounted, known, recorded, checks);
  return checks;
}

}  // namespace steelyard::store
