// The state in memory.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "metadata/sorted_rows.h"
#include "metadata/state.h"

namespace steelyard::metadata {

/// Rows: those of a loaded snapshot, and what was changed since. Thread-compatible. `visit` may read the view, not
/// change it. A copy shares the snapshot's rows.
class MemoryState final : public StateView {
 public:
  std::uint64_t sequence() const override { return sequence_; }
  Result<std::optional<std::string>> get(std::string_view key) const override;
  Status scan(std::string_view from, std::string_view to, bool descending, const Visitor& visit) const override;

  /// Applies the entries of one append, all or none. Does not check them against the state (check_entries does).
  Status apply(std::uint64_t sequence, const std::vector<Entry>& entries);
  /// The same of changes, which stand in the order of their making.
  void apply_changes(std::uint64_t sequence, std::vector<RowChange> changes);
  /// Replaces everything, for a snapshot that was loaded.
  void reset(std::uint64_t sequence, std::shared_ptr<const SortedRows> rows);

 private:
  /// Absent: a row of the snapshot that is removed.
  using Table = std::map<std::string, std::optional<std::string>, std::less<>>;

  bool in_snapshot(std::string_view key) const { return loaded_ != nullptr && loaded_->find(key) != nullptr; }
  void change(RowChange row);

  std::uint64_t sequence_ = 0;
  std::shared_ptr<const SortedRows> loaded_;
  /// By the first byte of their keys: the small tables, which every append reads, stay small.
  std::map<unsigned char, Table> tables_;
};

}  // namespace steelyard::metadata
