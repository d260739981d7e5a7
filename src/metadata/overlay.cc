#include "metadata/overlay.h"

#include <utility>
#include <vector>

namespace steelyard::metadata {

void Overlay::add(std::vector<RowChange> changes) {
  for (RowChange& row : changes) changes_.insert_or_assign(std::move(row.key), std::move(row.value));
}

std::vector<RowChange> Overlay::take() {
  std::vector<RowChange> changes;
  changes.reserve(changes_.size());
  while (!changes_.empty()) {
    auto row = changes_.extract(changes_.begin());
    changes.push_back({std::move(row.key()), std::move(row.mapped())});
  }
  return changes;
}

Result<std::optional<std::string>> LayeredView::get(std::string_view key) const {
  const auto found = changes_.find(key);
  if (found != changes_.end()) return found->second;
  return base_.get(key);
}

Status LayeredView::scan(std::string_view from, std::string_view to, bool descending, const Visitor& visit) const {
  if (!to.empty() && from >= to) return {};
  using Change = std::pair<std::string_view, const std::optional<std::string>*>;
  std::vector<Change> changes;
  const auto end = to.empty() ? changes_.end() : changes_.lower_bound(to);
  for (auto row = changes_.lower_bound(from); row != end; ++row) changes.emplace_back(row->first, &row->second);
  if (descending) changes = std::vector<Change>(changes.rbegin(), changes.rend());

  std::size_t next = 0;
  bool going = true;
  const auto comes_before = [descending](std::string_view a, std::string_view b) { return descending ? a > b : a < b; };
  const auto visit_change = [&] {
    const auto& [key, value] = changes[next++];
    if (value->has_value()) going = visit(key, **value);
  };
  SY_RETURN_IF_ERROR(base_.scan(from, to, descending, [&](std::string_view key, std::string_view value) {
    while (going && next < changes.size() && comes_before(changes[next].first, key)) visit_change();
    if (!going) return false;
    if (next < changes.size() && changes[next].first == key) {
      visit_change();
    } else {
      going = visit(key, value);
    }
    return going;
  }));
  while (going && next < changes.size()) visit_change();
  return {};
}

}  // namespace steelyard::metadata
