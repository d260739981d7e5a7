#include "reshard/execute.h"

#include <algorithm>
#include <atomic>
#include <string>
#include <vector>

#include "base/checked.h"
#include "base/workers.h"
#include "placement/aliases.h"
#include "reshard/copy_runs.h"
#include "reshard/execute_verify.h"
#include "reshard/plan_side.h"

namespace steelyard::reshard {
namespace {

/// What a thread takes at once: large enough that taking costs nothing, small enough that threads end together.
constexpr std::uint64_t kUnitBytes = 2 << 20;
/// Copies of more than this leave nothing useful in the caches anyway.
constexpr std::uint64_t kPastCacheBytes = 32 << 20;
constexpr std::size_t kThreadsMax = 1024;

Status refuse(std::string message) { return Status(Code::kInvalidArgument, std::move(message)); }

/// A part of one region: some of its segments, or, of a region with one segment, some of its bytes.
struct Unit {
  std::uint32_t region = 0;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  bool of_bytes = false;
};

std::vector<Unit> cut_into_units(const RegionTable& regions) {
  std::vector<Unit> units;
  units.reserve(regions.size());
  for (std::size_t r = 0; r < regions.size(); ++r) {
    const RegionRow row = regions.row(r);
    const bool of_bytes = row.loop_count.empty();
    const std::uint64_t all = of_bytes ? row.inner_bytes : row.segments();
    const std::uint64_t step = of_bytes ? kUnitBytes : std::max<std::uint64_t>(kUnitBytes / row.inner_bytes, 1);
    for (std::uint64_t begin = 0; begin < all; begin += step) {
      units.push_back({static_cast<std::uint32_t>(r), begin, std::min(all, begin + step), of_bytes});
    }
  }
  return units;
}

class Copier {
 public:
  Copier(const RegionTable& regions, std::span<const FragmentMemory> source, std::span<const FragmentMemory> target,
         bool past_cache)
      : regions_(regions), source_(source), target_(target), past_cache_(past_cache) {}

  void copy(const Unit& unit) const {
    const RegionRow row = regions_.row(unit.region);
    CopyRuns runs;
    runs.source = reinterpret_cast<const std::byte*>(source_[row.source].address + row.source_base);
    runs.target = reinterpret_cast<std::byte*>(target_[row.target].address + row.target_base);
    runs.bytes = row.inner_bytes;
    runs.count = 1;
    if (unit.of_bytes) {
      runs.source += unit.begin;
      runs.target += unit.begin;
      runs.bytes = unit.end - unit.begin;
      copy_runs(runs, past_cache_);
      return;
    }
    const std::uint64_t turns = row.loop_count.back();
    runs.source_stride = row.source_stride.back();
    runs.target_stride = row.target_stride.back();
    const std::byte* source = runs.source;
    std::byte* target = runs.target;
    for (std::uint64_t at = unit.begin; at < unit.end; at += runs.count) {
      // Position of segment `at` in the loops, the innermost first.
      std::uint64_t rest = at / turns;
      std::uint64_t source_at = at % turns * runs.source_stride;
      std::uint64_t target_at = at % turns * runs.target_stride;
      for (std::size_t loop = row.loop_count.size() - 1; loop-- > 0;) {
        source_at += rest % row.loop_count[loop] * row.source_stride[loop];
        target_at += rest % row.loop_count[loop] * row.target_stride[loop];
        rest /= row.loop_count[loop];
      }
      runs.count = std::min(turns - at % turns, unit.end - at);
      runs.source = source + source_at;
      runs.target = target + target_at;
      copy_runs(runs, past_cache_);
    }
  }

 private:
  const RegionTable& regions_;
  std::span<const FragmentMemory> source_;
  std::span<const FragmentMemory> target_;
  bool past_cache_;
};

/// Which fragments of a side the regions use.
std::vector<std::uint8_t> used(std::span<const std::uint32_t> column, std::size_t fragments) {
  std::vector<std::uint8_t> flags(fragments);
  for (const std::uint32_t fragment : column) flags[fragment] = 1;
  return flags;
}

Status check_fragments(const PlanSide& side, std::span<const FragmentMemory> memory,
                       const std::vector<std::uint8_t>& is_used, std::string_view name) {
  if (memory.size() != side.fragments()) {
    return refuse(std::string(name) + "_memory: " + std::to_string(memory.size()) + " ranges for the " +
                  std::to_string(side.fragments()) + " fragments of the plan's " + std::string(name));
  }
  for (std::size_t f = 0; f < memory.size(); ++f) {
    if (!is_used[f]) continue;
    const auto who = [&] { return std::string(name) + " fragment \"" + side.fragment_id(f) + "\""; };
    if (memory[f].address == 0) return refuse(who() + ": it has no address and the plan uses it");
    if (memory[f].nbytes < side.fragment_bytes(f)) {
      return refuse(who() + ": its memory has " + std::to_string(memory[f].nbytes) + " bytes, the plan needs " +
                    std::to_string(side.fragment_bytes(f)));
    }
    if (!checked_add(memory[f].address, memory[f].nbytes)) {
      return refuse(who() + ": address range must fit in an unsigned 64-bit integer");
    }
  }
  return {};
}

/// The last byte that a region touches on each side lies in its fragment. The planner made it so; this looks again.
Status check_regions(const TransferPlan& plan) {
  const RegionTable& regions = plan.regions();
  for (std::size_t r = 0; r < regions.size(); ++r) {
    const RegionRow row = regions.row(r);
    const auto end_of = [&](std::uint64_t base, std::span<const std::uint64_t> strides) {
      std::optional<std::uint64_t> end = checked_add(base, row.inner_bytes);
      for (std::size_t loop = 0; loop < strides.size() && end; ++loop) {
        const auto reach = checked_mul(row.loop_count[loop] - 1, strides[loop]);
        end = reach ? checked_add(*end, *reach) : std::nullopt;
      }
      return end.value_or(UINT64_MAX);
    };
    const bool inside = end_of(row.source_base, row.source_stride) <= plan.source().fragment_bytes(row.source) &&
                        end_of(row.target_base, row.target_stride) <= plan.target().fragment_bytes(row.target);
    if (!inside) {
      return refuse("region " + std::to_string(r) + " of tensor \"" + std::string(plan.tensor_id(row.tensor)) +
                    "\" reaches out of its fragments");
    }
  }
  return {};
}

struct Range {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::size_t fragment = 0;
  bool target = false;
};

/// Both targets write the same bytes to one range, and said so.
bool are_aliases(const TransferPlan& plan, const Range& a, const Range& b) {
  if (a.begin != b.begin || a.end != b.end) return false;
  const placement::PlacementManifest& placed = *plan.target().placement();
  return placement::declared_aliases(placed.tensors(), placed.fragments().boxes, a.fragment, b.fragment);
}

/// Targets lie apart from sources, and from each other but for declared aliases.
Status check_apart(const TransferPlan& plan, std::span<const FragmentMemory> source,
                   const std::vector<std::uint8_t>& source_used, std::span<const FragmentMemory> target,
                   const std::vector<std::uint8_t>& target_used) {
  std::vector<Range> ranges;
  for (std::size_t f = 0; f < source.size(); ++f) {
    if (source_used[f])
      ranges.push_back({source[f].address, source[f].address + plan.source().fragment_bytes(f), f, false});
  }
  for (std::size_t f = 0; f < target.size(); ++f) {
    if (target_used[f])
      ranges.push_back({target[f].address, target[f].address + plan.target().fragment_bytes(f), f, true});
  }
  std::sort(ranges.begin(), ranges.end(), [](const Range& a, const Range& b) { return a.begin < b.begin; });
  const Range* last_source = nullptr;  // that reaches the farthest
  const Range* last_target = nullptr;
  const auto id = [&](const Range& range) {
    return std::string(range.target ? "target" : "source") + " fragment \"" +
           (range.target ? plan.target() : plan.source()).fragment_id(range.fragment) + "\"";
  };
  for (const Range& range : ranges) {
    const Range* clash = nullptr;
    if (last_target != nullptr && range.begin < last_target->end) {
      if (!range.target || !are_aliases(plan, range, *last_target)) clash = last_target;
    }
    if (range.target && last_source != nullptr && range.begin < last_source->end) clash = last_source;
    if (clash != nullptr) {
      return refuse(id(*clash) + " and " + id(range) + ": address ranges overlap; a target must lie apart");
    }
    const Range*& last = range.target ? last_target : last_source;
    if (last == nullptr || range.end > last->end) last = &range;
  }
  return {};
}

void run_units(const Copier& copier, const std::vector<Unit>& units, const ExecuteOptions& options) {
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i = next.fetch_add(1); i < units.size(); i = next.fetch_add(1)) copier.copy(units[i]);
    finish_copies();
  };
  Runtime& runtime = options.runtime != nullptr ? *options.runtime : real_runtime();
  const std::size_t threads = std::max<std::size_t>(std::min({options.threads, units.size(), kThreadsMax}), 1);
  const auto tasks = spawn_workers(runtime, "reshard-copy", threads - 1, work);
  work();
  for (const auto& task : tasks) task->join();
}

}  // namespace

Result<ExecuteReport> execute(const TransferPlan& plan, std::span<const FragmentMemory> source,
                              std::span<const FragmentMemory> target, const ExecuteOptions& options) {
  if (options.threads < 1) return refuse("threads: threads must be at least 1");
  if (plan.source().stored()) {
    return refuse("the plan's source is a stored revision: it is read through the store, not from memory");
  }
  const RegionTable& regions = plan.regions();
  const auto source_used = used(regions.sources(), plan.source().fragments());
  const auto target_used = used(regions.targets(), plan.target().fragments());
  SY_RETURN_IF_ERROR(check_fragments(plan.source(), source, source_used, "source"));
  SY_RETURN_IF_ERROR(check_fragments(plan.target(), target, target_used, "target"));
  SY_RETURN_IF_ERROR(check_regions(plan));
  SY_RETURN_IF_ERROR(check_apart(plan, source, source_used, target, target_used));
  if (options.fence) SY_RETURN_IF_ERROR(options.fence());

  ExecuteReport report;
  report.bytes = plan.bytes();
  report.regions = regions.size();
  report.segments = plan.segments();
  report.source_fragments = static_cast<std::uint64_t>(std::count(source_used.begin(), source_used.end(), 1));
  report.target_fragments = static_cast<std::uint64_t>(std::count(target_used.begin(), target_used.end(), 1));
  if (options.dry_run) return report;

  run_units(Copier(regions, source, target, plan.bytes() > kPastCacheBytes), cut_into_units(regions), options);
  if (options.fence) {
    if (Status lost = options.fence(); !lost.ok()) {
      return std::move(lost).annotate("copying", "weights, with the targets already written");
    }
  }
  if (options.verify) {
    SY_ASSIGN_OR_RETURN(report.verified_fragments, verify_targets(plan, source, target));
  }
  return report;
}

}  // namespace steelyard::reshard
