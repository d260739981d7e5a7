#include "store/doctor_memory.h"

#include <fmt/format.h>

#include <utility>

#include "base/units.h"
#include "base/utf8.h"
#include "tiers/open.h"

namespace steelyard::store {
namespace {

using Check = DoctorReport::Check;
using State = DoctorReport::State;

constexpr std::string_view kName = "hot tier";
constexpr std::size_t kNamedMax = 4;

Check check(State state, std::string found, std::string next_step = {}) {
  return {std::string(kName), state, std::move(found), std::move(next_step), {}};
}

Check problem(const Status& status) {
  return {std::string(kName), State::kProblem, status.message(), status.hint(), status.code()};
}

/// "a, b and 3 more".
std::string some_of(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size() && i < kNamedMax; ++i) text += (i > 0 ? ", " : "") + names[i];
  return names.size() <= kNamedMax ? text : fmt::format("{} and {} more", text, names.size() - kNamedMax);
}

std::string describe(const tiers::MemoryPlace& place) {
  std::string text = fmt::format("capacity {} on a filesystem of {} with {} free", format_size(place.capacity_bytes),
                                 format_size(place.filesystem_bytes), format_size(place.free_bytes));
  for (const MemoryLimit& limit : place.limits) {
    text += fmt::format("; {} allows {} more", limit.file, format_size(limit.free()));
  }
  return text + "; its copies are gone with the next boot";
}

Check use_of(tiers::Tier& tier, const std::string& instance) {
  const auto usage = tier.usage();
  if (!usage.ok()) return problem(usage.status());
  const std::string found =
      fmt::format("instance {}: {} used, {} claimed by operations under way, {} may be brought", instance,
                  format_size(usage->bytes), format_size(usage->claimed_bytes), format_size(usage->free_bytes));
  if (usage->free_bytes > 0) return check(State::kOk, found);
  return check(State::kWarning, found, "free what is not needed, or raise the limit that is in the way");
}

}  // namespace

std::vector<Check> examine_memory(Runtime& runtime, const StoreOptions& options, const StoreParts& parts,
                                  const std::map<std::string, std::vector<std::string>>& recorded) {
  std::vector<Check> checks;
  tiers::MemoryOptions where = memory_options(options);
  where.store_id = parts.store_id;
  const auto place = tiers::look_at_memory_place(where);
  std::string mounted;
  if (!place.ok()) {
    checks.push_back(check(State::kWarning, place.status().message(),
                           place.status().hint() + "; without one nothing can be brought into memory"));
  } else {
    checks.push_back(check(State::kOk, printable(options.hot_path) + ": " + describe(*place)));
    if (!place->others.empty()) {
      checks.push_back(
          check(State::kOk, fmt::format("{} of other stores there, which take room of the same filesystem: {}",
                                        counted(place->others.size(), "instance"), some_of(place->others))));
    }
    const auto tier = parts.open_hot(false);
    const auto instance = tier.ok() ? (*tier)->instance() : Result<std::string>(tier.status());
    if (instance.code() == Code::kNotFound) {
      checks.push_back(check(State::kOk, "no instance there yet: nothing of this store lies in memory here"));
    } else if (!instance.ok()) {
      checks.push_back(problem(instance.status()));
    } else {
      mounted = *instance;
      checks.push_back(use_of(**tier, mounted));
    }
  }
  for (const auto& [instance, refs] : recorded) {
    const tiers::InstanceView view = tiers::view_of_instance(instance, mounted, runtime.epoch());
    if (view == tiers::InstanceView::kMounted) continue;
    const std::string what =
        fmt::format("{} recorded in memory instance {}, ", counted(refs.size(), "revision"), instance);
    if (view == tiers::InstanceView::kGone) {
      checks.push_back(check(State::kWarning, what + "which an earlier boot had: " + some_of(refs),
                             "`steelyard reconcile` records that it is gone"));
    } else {
      checks.push_back(check(State::kWarning, what + "which is not mounted here: " + some_of(refs),
                             "look where it is mounted (hot.path); if nobody has it any more, `steelyard rehydrate "
                             "REF` brings them into the memory here"));
    }
  }
  return checks;
}

}  // namespace steelyard::store
