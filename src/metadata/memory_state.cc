#include "metadata/memory_state.h"

#include <iterator>
#include <ranges>
#include <span>
#include <utility>

namespace steelyard::metadata {
namespace {

unsigned char table_of(std::string_view key) { return key.empty() ? 0 : static_cast<unsigned char>(key.front()); }

}  // namespace

Result<std::optional<std::string>> MemoryState::get(std::string_view key) const {
  if (const auto table = tables_.find(table_of(key)); table != tables_.end()) {
    if (const auto row = table->second.find(key); row != table->second.end()) return row->second;
  }
  const SortedRows::Row* const row = loaded_ != nullptr ? loaded_->find(key) : nullptr;
  return row != nullptr ? std::optional<std::string>(row->value) : std::nullopt;
}

Status MemoryState::scan(std::string_view from, std::string_view to, bool descending, const Visitor& visit) const {
  if (!to.empty() && from >= to) return {};
  std::span<const SortedRows::Row> loaded;
  if (loaded_ != nullptr) {
    loaded = loaded_->rows().first(to.empty() ? loaded_->rows().size() : loaded_->rank(to));
    loaded = loaded.subspan(loaded_->rank(from));
  }
  struct Range {
    Table::const_iterator first;
    Table::const_iterator last;
  };
  std::vector<Range> changed;
  for (const auto& [letter, table] : tables_) {
    if (letter < table_of(from) || (!to.empty() && letter > table_of(to))) continue;
    const Range range{table.lower_bound(from), to.empty() ? table.end() : table.lower_bound(to)};
    if (range.first != range.last) changed.push_back(range);
  }
  if (descending) {
    for (const Range& range : std::views::reverse(changed)) {
      for (auto row = range.last; row != range.first;) {
        const auto& [key, value] = *--row;
        for (; !loaded.empty() && loaded.back().key > key; loaded = loaded.first(loaded.size() - 1)) {
          if (!visit(loaded.back().key, loaded.back().value)) return {};
        }
        if (!loaded.empty() && loaded.back().key == key) loaded = loaded.first(loaded.size() - 1);
        if (value && !visit(key, *value)) return {};
      }
    }
    for (const SortedRows::Row& row : std::views::reverse(loaded)) {
      if (!visit(row.key, row.value)) return {};
    }
    return {};
  }
  for (const Range& range : changed) {
    for (auto row = range.first; row != range.last; ++row) {
      const auto& [key, value] = *row;
      for (; !loaded.empty() && loaded.front().key < key; loaded = loaded.subspan(1)) {
        if (!visit(loaded.front().key, loaded.front().value)) return {};
      }
      if (!loaded.empty() && loaded.front().key == key) loaded = loaded.subspan(1);
      if (value && !visit(key, *value)) return {};
    }
  }
  for (const SortedRows::Row& row : loaded) {
    if (!visit(row.key, row.value)) return {};
  }
  return {};
}

Status MemoryState::apply(std::uint64_t sequence, const std::vector<Entry>& entries) {
  std::vector<RowChange> changes;
  for (const Entry& entry : entries) {
    SY_ASSIGN_OR_RETURN(std::vector<RowChange> of_entry, changes_of(entry));
    changes.insert(changes.end(), std::make_move_iterator(of_entry.begin()), std::make_move_iterator(of_entry.end()));
  }
  apply_changes(sequence, std::move(changes));
  return {};
}

void MemoryState::apply_changes(std::uint64_t sequence, std::vector<RowChange> changes) {
  for (RowChange& row : changes) change(std::move(row));
  sequence_ = sequence;
}

void MemoryState::reset(std::uint64_t sequence, std::shared_ptr<const SortedRows> rows) {
  loaded_ = std::move(rows);
  tables_.clear();
  sequence_ = sequence;
}

void MemoryState::change(RowChange row) {
  Table& table = tables_[table_of(row.key)];
  if (!row.value && !in_snapshot(row.key)) {
    table.erase(row.key);
  } else if (table.empty() || table.rbegin()->first < row.key) {
    table.emplace_hint(table.end(), std::move(row.key), std::move(row.value));
  } else {
    table.insert_or_assign(std::move(row.key), std::move(row.value));
  }
}

}  // namespace steelyard::metadata
