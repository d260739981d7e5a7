#include "cli/suggest.h"

#include <algorithm>

namespace steelyard::cli {
namespace {

std::size_t edits(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] == b[j - 1] ? 0U : 1U)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before.swap(last);
    last.swap(row);
  }
  return last[b.size()];
}

}  // namespace

std::string nearest(std::string_view found, const std::vector<std::string_view>& known) {
  constexpr std::size_t kNameBytesMax = 64;  // longer words are no misspelt names
  if (found.empty() || found.size() > kNameBytesMax) return {};
  std::string_view best;
  std::size_t best_edits = found.size() <= 4 ? 2 : 3 + found.size() / 8;
  for (std::string_view name : known) {
    const std::size_t count = edits(found, name);
    if (count < best_edits) {
      best = name;
      best_edits = count;
    }
  }
  if (!best.empty()) return std::string(best);
  // A shortened name: `inc` for `include`, `path` for `cold.path`.
  for (std::string_view name : known) {
    if (found.size() >= 3 && (name.starts_with(found) || name.ends_with(std::string(".") + std::string(found)))) {
      return std::string(name);
    }
  }
  return {};
}

}  // namespace steelyard::cli
