#include "metadata/memory_state.h"

#include <iterator>
#include <utility>

namespace steelyard::metadata {

Result<std::optional<std::string>> MemoryState::get(std::string_view key) const {
  const auto found = rows_.find(key);
  if (found == rows_.end()) return std::optional<std::string>();
  return std::optional<std::string>(found->second);
}

Status MemoryState::scan(std::string_view from, std::string_view to, bool descending, const Visitor& visit) const {
  if (!to.empty() && from >= to) return {};
  const auto first = rows_.lower_bound(from);
  auto last = to.empty() ? rows_.end() : rows_.lower_bound(to);
  if (!descending) {
    for (auto row = first; row != last; ++row) {
      if (!visit(row->first, row->second)) break;
    }
    return {};
  }
  while (last != first) {
    --last;
    if (!visit(last->first, last->second)) break;
  }
  return {};
}

Status MemoryState::apply(std::uint64_t sequence, const std::vector<Entry>& entries) {
  std::vector<RowChange> changes;
  for (const Entry& entry : entries) {
    SY_ASSIGN_OR_RETURN(std::vector<RowChange> of_entry, changes_of(entry));
    changes.insert(changes.end(), std::make_move_iterator(of_entry.begin()), std::make_move_iterator(of_entry.end()));
  }
  for (RowChange& row : changes) change(std::move(row));
  sequence_ = sequence;
  return {};
}

void MemoryState::reset(std::uint64_t sequence, std::vector<RowChange> rows) {
  rows_.clear();
  for (RowChange& row : rows) change(std::move(row));
  sequence_ = sequence;
}

void MemoryState::change(RowChange row) {
  if (row.value) {
    rows_.insert_or_assign(std::move(row.key), *std::move(row.value));
  } else {
    rows_.erase(row.key);
  }
}

}  // namespace steelyard::metadata
