#include "geometry/disjoint.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "base/check.h"

namespace steelyard::geometry {
namespace {

using Pair = std::optional<std::pair<std::size_t, std::size_t>>;
using Indexes = std::vector<std::uint32_t>;

/// Boxes so few that comparing all of them is the fastest.
constexpr std::size_t kFew = 16;

/// A plane between elements `at - 1` and `at` of a dimension, with how many boxes reach to either side.
struct Cut {
  std::size_t dimension = 0;
  std::int64_t at = 0;
  std::size_t before = 0;
  std::size_t behind = 0;

  /// What comparing all pairs on both sides would cost; a box that is cut counts twice.
  double cost() const {
    const auto a = static_cast<double>(before);
    const auto b = static_cast<double>(behind);
    return a * a + b * b;
  }
};

class Search {
 public:
  Search(std::size_t rank, std::span<const std::int64_t> begins, std::span<const std::int64_t> ends)
      : rank_(rank), begins_(begins), ends_(ends) {}

  Pair run(Indexes all) {
    // Depth first, the side before the cut first.
    std::vector<Indexes> waiting;
    waiting.push_back(std::move(all));
    while (!waiting.empty()) {
      Indexes boxes = std::move(waiting.back());
      waiting.pop_back();
      if (boxes.size() <= kFew) {
        if (const Pair pair = among_few(boxes)) return pair;
        continue;
      }
      const Cut cut = best_cut(boxes);
      // A cut must make the rest of the work smaller, whatever the boxes.
      if (const auto n = static_cast<double>(boxes.size()); cut.before == 0 || cut.cost() > 0.95 * n * n) {
        if (const Pair pair = swept(boxes, cut.dimension)) return pair;
        continue;
      }
      Indexes before;
      Indexes behind;
      before.reserve(cut.before);
      behind.reserve(cut.behind);
      for (const std::uint32_t i : boxes) {
        if (begin(i, cut.dimension) < cut.at) before.push_back(i);
        if (end(i, cut.dimension) > cut.at) behind.push_back(i);
      }
      waiting.push_back(std::move(behind));
      waiting.push_back(std::move(before));
    }
    return std::nullopt;
  }

 private:
  std::int64_t begin(std::uint32_t box, std::size_t dimension) const { return begins_[box * rank_ + dimension]; }
  std::int64_t end(std::uint32_t box, std::size_t dimension) const { return ends_[box * rank_ + dimension]; }

  bool overlap(std::uint32_t a, std::uint32_t b) const {
    for (std::size_t d = 0; d < rank_; ++d) {
      if (begin(a, d) >= end(b, d) || begin(b, d) >= end(a, d)) return false;
    }
    return true;
  }
  static Pair ordered(std::uint32_t a, std::uint32_t b) { return std::minmax<std::size_t>(a, b); }

  Pair among_few(const Indexes& boxes) const {
    for (std::size_t i = 0; i < boxes.size(); ++i) {
      for (std::size_t j = i + 1; j < boxes.size(); ++j) {
        if (overlap(boxes[i], boxes[j])) return ordered(boxes[i], boxes[j]);
      }
    }
    return std::nullopt;
  }

  Pair swept(Indexes& boxes, std::size_t along) const {
    std::ranges::sort(boxes, [&](std::uint32_t a, std::uint32_t b) {
      return std::pair(begin(a, along), a) < std::pair(begin(b, along), b);
    });
    for (std::size_t i = 0; i < boxes.size(); ++i) {
      for (std::size_t j = i + 1; j < boxes.size() && begin(boxes[j], along) < end(boxes[i], along); ++j) {
        if (overlap(boxes[i], boxes[j])) return ordered(boxes[i], boxes[j]);
      }
    }
    return std::nullopt;
  }

  /// The best of the cuts through the middle of the begins and of the ends in each dimension; one without boxes before
  /// it when no cut has any.
  Cut best_cut(const Indexes& boxes) {
    std::optional<Cut> best;
    const auto consider = [&](std::size_t dimension, std::int64_t at) {
      Cut cut{dimension, at, 0, 0};
      for (const std::uint32_t i : boxes) {
        cut.before += begin(i, dimension) < at ? 1U : 0U;
        cut.behind += end(i, dimension) > at ? 1U : 0U;
      }
      if (cut.before != 0 && cut.behind != 0 && (!best || cut.cost() < best->cost())) best = cut;
    };
    for (std::size_t d = 0; d < rank_; ++d) {
      consider(d, middle(boxes, d, begins_));
      consider(d, middle(boxes, d, ends_));
    }
    return best.value_or(Cut{});
  }

  std::int64_t middle(const Indexes& boxes, std::size_t dimension, std::span<const std::int64_t> numbers) {
    values_.clear();
    for (const std::uint32_t i : boxes) values_.push_back(numbers[i * rank_ + dimension]);
    const auto half = values_.begin() + static_cast<std::ptrdiff_t>(values_.size() / 2);
    std::nth_element(values_.begin(), half, values_.end());
    return *half;
  }

  std::size_t rank_;
  std::span<const std::int64_t> begins_;
  std::span<const std::int64_t> ends_;
  std::vector<std::int64_t> values_;
};

}  // namespace

std::optional<std::pair<std::size_t, std::size_t>> find_overlapping_pair(std::size_t rank,
                                                                         std::span<const std::int64_t> begins,
                                                                         std::span<const std::int64_t> ends,
                                                                         std::size_t boxes) {
  SY_CHECK(begins.size() == boxes * rank && ends.size() == boxes * rank, "as many numbers as boxes have dimensions");
  SY_CHECK(boxes <= UINT32_MAX, "less than 2^32 boxes");
  if (boxes < 2) return std::nullopt;
  Indexes all(boxes);
  std::iota(all.begin(), all.end(), 0U);
  return Search(rank, begins, ends).run(std::move(all));
}

}  // namespace steelyard::geometry
