// How a plan is found:
//   1. objects of the most frequent size (the larger one of two) are the bulk; any number of them may be hot;
//   2. the largest 16 of the others are the core: every subset of it is tried, with the number of bulk objects that
//      comes nearest from below and the one that comes nearest from above;
//   3. what is left below the target is filled with the remaining objects, the small ones, largest first, each if it
//      still fits;
//   4. the nearest of three is taken: the set from above; the filled one; the filled one and the smallest of the small
//      ones that did not fit, or, if that is all there is, all but the smallest object.
// Without small ones step 2 has seen every sum there is, so the plan is exact. With them: the filled set is r short of
// the target, and every object it leaves cold is larger than r (bulk and core because step 2 took the most that fits,
// a small one because it did not fit when less was used up). Let u be the smallest of these. If it is a small one, the
// third set is u - r above the target, or less; otherwise the set from above is. So the best is within
// min(r, u - r) <= u / 2. Where a target is less than an object away from none or all, the smallest object alone, or
// all but it, is the nearest there is, and is found.
#include "metadata/mixed_plan.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/checked.h"
#include "hash/framed.h"
#include "metadata/shares.h"

namespace steelyard::metadata {
namespace {

/// Bulk and core objects that are hot.
struct Choice {
  std::uint32_t core = 0;  ///< a bit for each core object
  std::uint64_t bulk = 0;
  std::uint64_t bytes = 0;
};

class Planner {
 public:
  Planner(std::span<const std::uint64_t> sizes, std::uint64_t bytes, std::uint64_t target)
      : sizes_(sizes), bytes_(bytes), target_(target) {
    sort_out();
  }

  std::vector<bool> hot() {
    search();
    std::vector<bool> filled(sizes_.size(), false);
    std::optional<std::uint64_t> smallest_cold;
    std::uint64_t filled_bytes = fill(filled, smallest_cold);
    if (filled_bytes == 0) filled.clear();

    std::uint64_t best = filled.empty() ? UINT64_MAX : target_ - filled_bytes;
    if (smallest_cold) {
      std::vector<bool> more = filled;
      more.resize(sizes_.size(), false);
      more[*smallest_cold] = true;
      std::uint64_t more_bytes = filled_bytes + sizes_[*smallest_cold];
      if (more_bytes == bytes_) {
        const std::size_t smallest = static_cast<std::size_t>(std::ranges::min_element(sizes_) - sizes_.begin());
        more[smallest] = false;
        more_bytes -= sizes_[smallest];
      }
      const std::uint64_t off = more_bytes > target_ ? more_bytes - target_ : target_ - more_bytes;
      if (off < best) {
        filled = std::move(more);
        best = off;
      }
    }
    if (above_ && above_->bytes - target_ < best) {
      filled.assign(sizes_.size(), false);
      put(*above_, filled);
    }
    return filled;
  }

 private:
  void sort_out() {
    std::vector<std::uint64_t> sorted(sizes_.begin(), sizes_.end());
    std::ranges::sort(sorted);
    std::ptrdiff_t most = 0;
    for (auto first = sorted.begin(); first != sorted.end();) {
      const auto last = std::upper_bound(first, sorted.end(), *first);
      if (last - first >= most) {
        most = last - first;
        bulk_bytes_ = *first;
      }
      first = last;
    }
    for (std::uint64_t i = 0; i < sizes_.size(); ++i) (sizes_[i] == bulk_bytes_ ? bulk_ : small_).push_back(i);
    std::ranges::stable_sort(small_, std::ranges::greater{}, [this](std::uint64_t i) { return sizes_[i]; });
    const std::size_t core = std::min(small_.size(), kMixedExactMax);
    core_.assign(small_.begin(), small_.begin() + static_cast<std::ptrdiff_t>(core));
    small_.erase(small_.begin(), small_.begin() + static_cast<std::ptrdiff_t>(core));
  }

  /// The most bytes of bulk and core that are at most the target, and the fewest that are at least it.
  void search() {
    std::vector<std::uint64_t> sums(std::size_t{1} << core_.size(), 0);
    for (std::uint32_t core = 0; core < sums.size(); ++core) {
      if (core != 0) {
        const auto lowest = static_cast<std::size_t>(__builtin_ctz(core));
        sums[core] = sums[core & (core - 1)] + sizes_[core_[lowest]];
      }
      const std::uint64_t sum = sums[core];
      if (sum >= target_) {
        offer_above({core, 0, sum});
        if (sum > target_) continue;
      }
      const std::uint64_t fit = std::min<std::uint64_t>((target_ - sum) / bulk_bytes_, bulk_.size());
      const std::uint64_t below = sum + fit * bulk_bytes_;
      if (below > below_.bytes) below_ = {core, fit, below};
      if (fit < bulk_.size()) offer_above({core, fit + 1, below + bulk_bytes_});
    }
  }

  void offer_above(const Choice& choice) {
    const bool all = choice.bytes == bytes_;
    if (!all && (!above_ || choice.bytes < above_->bytes)) above_ = choice;
  }

  void put(const Choice& choice, std::vector<bool>& hot) const {
    for (std::size_t i = 0; i < core_.size(); ++i) {
      if ((choice.core >> i & 1U) != 0) hot[core_[i]] = true;
    }
    for (std::uint64_t i = 0; i < choice.bulk; ++i) hot[bulk_[i]] = true;
  }

  /// Gives the bytes, and the smallest of the small ones that stays cold.
  std::uint64_t fill(std::vector<bool>& hot, std::optional<std::uint64_t>& smallest_cold) const {
    put(below_, hot);
    std::uint64_t bytes = below_.bytes;
    for (const std::uint64_t i : small_) {
      if (sizes_[i] <= target_ - bytes) {
        hot[i] = true;
        bytes += sizes_[i];
      } else {
        smallest_cold = i;
      }
    }
    return bytes;
  }

  const std::span<const std::uint64_t> sizes_;
  const std::uint64_t bytes_;
  const std::uint64_t target_;
  std::uint64_t bulk_bytes_ = 0;
  std::vector<std::uint64_t> bulk_;   ///< object numbers, ascending
  std::vector<std::uint64_t> core_;   ///< by size, descending
  std::vector<std::uint64_t> small_;  ///< by size, descending
  Choice below_;                      ///< {}: nothing fits
  std::optional<Choice> above_;
};

/// Framed SHA-256 over a name, the number of objects, and the first and the end of each range of hot ones, in decimal.
std::string digest_of(const std::vector<bool>& hot) {
  hash::FramedSha256 sha;
  sha.add("steelyard mixed plan 1").add(std::to_string(hot.size()));
  for (std::size_t i = 0; i < hot.size();) {
    std::size_t end = i;
    while (end < hot.size() && hot[end] == hot[i]) ++end;
    if (hot[i]) sha.add(std::to_string(i)).add(std::to_string(end));
    i = end;
  }
  return sha.finish().hex();
}

}  // namespace

Result<MixedPlan> plan_mixed(std::span<const std::uint64_t> object_bytes, std::uint32_t ratio_millionths) {
  const auto invalid = [](const std::string& why) { return Status(Code::kInvalidArgument, why); };
  if (ratio_millionths < 1 || ratio_millionths >= kMillion) {
    return invalid("the hot share is " + std::to_string(ratio_millionths) + " millionths, wanted 1 to 999999");
  }
  if (object_bytes.size() < 2) {
    return Status(Code::kInvalidArgument,
                  "a revision of " + std::to_string(object_bytes.size()) +
                      (object_bytes.size() == 1 ? " object" : " objects") + " cannot be MIXED, wanted 2 or more",
                  "an object is hot or cold as a whole: make it HOT or COLD");
  }
  MixedPlan plan;
  for (std::size_t i = 0; i < object_bytes.size(); ++i) {
    if (object_bytes[i] == 0) return invalid("object " + std::to_string(i) + " has no bytes");
    const auto sum = checked_add(plan.bytes, object_bytes[i]);
    if (!sum) return invalid("the objects have more bytes than 64 bits can count");
    plan.bytes = *sum;
  }
  const std::uint64_t exact = bytes_of_share(ratio_millionths, plan.bytes);
  const Wide rest = Wide{plan.bytes} * ratio_millionths % kMillion;
  const std::uint64_t target = std::clamp<std::uint64_t>(exact + (rest * 2 >= kMillion ? 1 : 0), 1, plan.bytes - 1);

  plan.hot = Planner(object_bytes, plan.bytes, target).hot();
  for (std::size_t i = 0; i < plan.hot.size(); ++i) {
    if (!plan.hot[i]) continue;
    ++plan.hot_members;
    plan.hot_bytes += object_bytes[i];
  }
  plan.hot_millionths = share_of(plan.hot_bytes, plan.bytes);
  plan.digest = digest_of(plan.hot);
  return plan;
}

}  // namespace steelyard::metadata
