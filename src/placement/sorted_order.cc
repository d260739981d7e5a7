#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/check.h"
#include "placement/columns.h"

namespace steelyard::placement {
namespace {

/// Eight bytes from `begin` on as one number that orders as the bytes do; zeros after a shorter text.
std::uint64_t eight_bytes(std::string_view text, std::size_t begin) {
  std::uint64_t value = 0;
  if (begin < text.size()) std::memcpy(&value, text.data() + begin, std::min<std::size_t>(8, text.size() - begin));
  return __builtin_bswap64(value);
}

struct Entry {
  std::uint64_t key = 0;
  std::uint32_t row = 0;
};

/// Entries that agree in all bytes before `depth`.
struct Group {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::size_t depth = 0;
};

}  // namespace

// Names of weights agree in long stretches, where a sort that compares whole texts spends its time. This one looks at
// eight bytes at a time: it skips what a group has in common, sorts by the eight bytes that follow, and goes on with
// the groups that are still equal.
std::vector<std::uint32_t> sorted_order(const StringColumn& texts) {
  SY_CHECK(texts.size() < UINT32_MAX, "a column has less than 2^32 rows");
  std::vector<std::uint32_t> order(texts.size());
  std::iota(order.begin(), order.end(), 0U);
  bool sorted = true;
  for (std::size_t i = 1; i < texts.size() && sorted; ++i) sorted = texts.at(i - 1) <= texts.at(i);
  if (sorted) return order;

  std::vector<Entry> entries(texts.size());
  for (std::size_t i = 0; i < entries.size(); ++i) entries[i].row = static_cast<std::uint32_t>(i);
  std::vector<Group> groups = {{0, entries.size(), 0}};
  while (!groups.empty()) {
    Group group = groups.back();
    groups.pop_back();
    const auto rows = std::span(entries).subspan(group.begin, group.end - group.begin);
    if (rows.size() < 32) {
      std::ranges::sort(rows, [&](const Entry& a, const Entry& b) {
        const int compared = texts.at(a.row).substr(group.depth).compare(texts.at(b.row).substr(group.depth));
        return compared != 0 ? compared < 0 : a.row < b.row;
      });
      continue;
    }
    std::string_view common = texts.at(rows[0].row).substr(group.depth);
    bool all_equal = true;
    for (const Entry& entry : rows.subspan(1)) {
      const std::string_view text = texts.at(entry.row).substr(group.depth);
      const auto same = std::ranges::mismatch(common, text);
      all_equal = all_equal && same.in1 == common.end() && same.in2 == text.end();
      common = common.substr(0, static_cast<std::size_t>(same.in1 - common.begin()));
    }
    if (all_equal) {
      std::ranges::sort(rows, {}, &Entry::row);
      continue;
    }
    group.depth += common.size();
    for (Entry& entry : rows) entry.key = eight_bytes(texts.at(entry.row), group.depth);
    std::ranges::sort(rows, {}, &Entry::key);
    for (std::size_t i = 0; i < rows.size();) {
      std::size_t next = i + 1;
      while (next < rows.size() && rows[next].key == rows[i].key) ++next;
      if (next - i > 1) {
        // A text that ended is padded with zeros, so equal keys may still hide an end: those are compared as they are.
        const auto ends = [&](const Entry& entry) { return texts.at(entry.row).size() < group.depth + 8; };
        const auto equal = rows.subspan(i, next - i);
        if (std::ranges::any_of(equal, ends)) {
          std::ranges::sort(equal, [&](const Entry& a, const Entry& b) {
            const int compared = texts.at(a.row).compare(texts.at(b.row));
            return compared != 0 ? compared < 0 : a.row < b.row;
          });
        } else {
          groups.push_back({group.begin + i, group.begin + next, group.depth + 8});
        }
      }
      i = next;
    }
  }
  for (std::size_t i = 0; i < entries.size(); ++i) order[i] = entries[i].row;
  return order;
}

}  // namespace steelyard::placement
