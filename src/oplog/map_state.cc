#include "oplog/map_state.h"

#include <iterator>
#include <utility>

namespace steelyard::oplog {

Result<std::optional<std::string>> MapState::get(std::string_view key) const {
  const auto found = rows_.find(key);
  if (found == rows_.end()) return std::optional<std::string>();
  return std::optional<std::string>(found->second);
}

Status MapState::scan(std::string_view from, std::string_view to, bool descending, const Visitor& visit) const {
  if (!to.empty() && to <= from) return Status();
  const auto begin = rows_.lower_bound(from);
  const auto end = to.empty() ? rows_.end() : rows_.lower_bound(to);
  if (descending) {
    for (auto it = end; it != begin;) {
      --it;
      if (!visit(it->first, it->second)) break;
    }
    return Status();
  }
  for (auto it = begin; it != end; ++it) {
    if (!visit(it->first, it->second)) break;
  }
  return Status();
}

void MapState::apply(std::vector<metadata::RowChange> changes) {
  for (metadata::RowChange& change : changes) {
    if (change.value && (rows_.empty() || rows_.rbegin()->first < change.key)) {
      rows_.emplace_hint(rows_.end(), std::move(change.key), *std::move(change.value));
    } else if (change.value) {
      rows_.insert_or_assign(std::move(change.key), *std::move(change.value));
    } else {
      rows_.erase(change.key);
    }
  }
}

}  // namespace steelyard::oplog
