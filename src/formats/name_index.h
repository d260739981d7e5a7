// NameIndex: finds names and repeated names in a column of a million of them, at 16 bytes a name.
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
  NameIndex() = default;
  /// `name_at(i)` gives the i-th of `names` names.
  template <typename NameAt>
  NameIndex(std::size_t names, const NameAt& name_at) {
    slots_.reserve(names);
    for (std::size_t i = 0; i < names; ++i) slots_.emplace_back(hash::xxh3(as_bytes(name_at(i))), i);
    std::sort(slots_.begin(), slots_.end());
  }

  /// The first name of the column that stood there before: its two lowest positions.
  template <typename NameAt>
  std::optional<std::pair<std::size_t, std::size_t>> first_repeat(const NameAt& name_at) const {
    std::optional<std::pair<std::size_t, std::size_t>> first;
    // Equal names have equal hashes; unequal ones with equal hashes are too rare to matter for speed.
    for (std::size_t begin = 0; begin < slots_.size(); ++begin) {
      for (std::size_t i = begin + 1; i < slots_.size() && slots_[i].first == slots_[begin].first; ++i) {
        if (name_at(slots_[i].second) != name_at(slots_[begin].second)) continue;
        if (!first || slots_[i].second < first->second) first = {slots_[begin].second, slots_[i].second};
        break;
      }
    }
    return first;
  }

  /// Lowest position of a name.
  template <typename NameAt>
  std::optional<std::size_t> find(std::string_view name, const NameAt& name_at) const {
    const std::uint64_t sum = hash::xxh3(as_bytes(name));
    auto slot = std::lower_bound(slots_.begin(), slots_.end(), std::pair<std::uint64_t, std::size_t>(sum, 0));
    for (; slot != slots_.end() && slot->first == sum; ++slot) {
      if (name_at(slot->second) == name) return slot->second;
    }
    return std::nullopt;
  }

 private:
  std::vector<std::pair<std::uint64_t, std::size_t>> slots_;
};

}  // namespace steelyard::formats
