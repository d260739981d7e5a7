// The state in memory.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "metadata/state.h"

namespace steelyard::metadata {

/// An ordered map of rows. Thread-compatible. `visit` may read the view, not change it.
class MemoryState final : public StateView {
 public:
  std::uint64_t sequence() const override { return sequence_; }
  Result<std::optional<std::string>> get(std::string_view key) const override;
  Status scan(std::string_view from, std::string_view to, bool descending, const Visitor& visit) const override;

  /// Applies the entries of one append, all or none. Does not check them against the state (check_entries does).
  Status apply(std::uint64_t sequence, const std::vector<Entry>& entries);
  /// Replaces everything, for a snapshot that was loaded.
  void reset(std::uint64_t sequence, std::vector<RowChange> rows);

 private:
  void change(RowChange row);

  std::uint64_t sequence_ = 0;
  std::map<std::string, std::string, std::less<>> rows_;
};

}  // namespace steelyard::metadata
