// NameIndex: finds names and repeated names in a column of a million of them, at 16 bytes a name.
//
// Whoever wrote a header may have chosen its names so that their hashes are equal. Among equal hashes the names decide,
// by binary search, so that such a header costs what sorting its names costs and no more.
//
// Thread-compatible value; the column it was built over must stay as it was.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "hash/xxh3.h"

namespace steelyard::formats {

class NameIndex {
 public:
  using Hash = std::uint64_t (*)(ByteView);

  NameIndex() = default;
  /// `name_at(i)` gives the i-th of `names` names. `hash`: another one for tests.
  template <typename NameAt>
  NameIndex(std::size_t names, const NameAt& name_at, Hash hash = &hash::xxh3) : hash_(hash) {
    slots_.reserve(names);
    for (std::size_t i = 0; i < names; ++i) slots_.emplace_back(hash_(as_bytes(name_at(i))), i);
    std::sort(slots_.begin(), slots_.end());
    for (std::size_t begin = 0; begin < slots_.size();) {
      const std::size_t end = end_of_run(begin);
      std::sort(slots_.begin() + static_cast<std::ptrdiff_t>(begin), slots_.begin() + static_cast<std::ptrdiff_t>(end),
                [&name_at](const Slot& a, const Slot& b) {
                  const int order = std::string_view(name_at(a.second)).compare(name_at(b.second));
                  return order != 0 ? order < 0 : a.second < b.second;
                });
      begin = end;
    }
  }

  /// The first name of the column that stood there before: its two lowest positions.
  template <typename NameAt>
  std::optional<std::pair<std::size_t, std::size_t>> first_repeat(const NameAt& name_at) const {
    std::optional<std::pair<std::size_t, std::size_t>> first;
    // Equal names stand side by side, by position: a repeat that is not the second of its name cannot be the first.
    for (std::size_t i = 1; i < slots_.size(); ++i) {
      const Slot& before = slots_[i - 1];
      const Slot& slot = slots_[i];
      if (slot.first != before.first || (first && slot.second >= first->second)) continue;
      if (name_at(slot.second) == name_at(before.second)) first = {before.second, slot.second};
    }
    return first;
  }

  /// Lowest position of a name.
  template <typename NameAt>
  std::optional<std::size_t> find(std::string_view name, const NameAt& name_at) const {
    const std::uint64_t sum = hash_(as_bytes(name));
    const auto begin = std::lower_bound(slots_.begin(), slots_.end(), Slot(sum, 0),
                                        [](const Slot& a, const Slot& b) { return a.first < b.first; });
    const auto end = std::upper_bound(begin, slots_.end(), Slot(sum, 0),
                                      [](const Slot& a, const Slot& b) { return a.first < b.first; });
    const auto slot = std::lower_bound(begin, end, name, [&name_at](const Slot& a, std::string_view wanted) {
      return std::string_view(name_at(a.second)) < wanted;
    });
    if (slot == end || name_at(slot->second) != name) return std::nullopt;
    return slot->second;
  }

 private:
  using Slot = std::pair<std::uint64_t, std::size_t>;

  std::size_t end_of_run(std::size_t begin) const {
    std::size_t end = begin + 1;
    while (end < slots_.size() && slots_[end].first == slots_[begin].first) ++end;
    return end;
  }

  Hash hash_ = &hash::xxh3;
  std::vector<Slot> slots_;  ///< by hash, then name, then position
};

}  // namespace steelyard::formats
