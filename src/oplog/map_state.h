// The state as a map in memory: the memory log's view, and what replay builds.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "metadata/state.h"

namespace steelyard::oplog {

/// Thread-compatible.
class MapState final : public metadata::StateView {
 public:
  std::uint64_t sequence() const override { return sequence_; }
  Result<std::optional<std::string>> get(std::string_view key) const override;
  Status scan(std::string_view from, std::string_view to, bool descending, const Visitor& visit) const override;

  void set_sequence(std::uint64_t sequence) { sequence_ = sequence; }
  void apply(std::vector<metadata::RowChange> changes);
  const std::map<std::string, std::string, std::less<>>& rows() const { return rows_; }

 private:
  std::uint64_t sequence_ = 0;
  std::map<std::string, std::string, std::less<>> rows_;
};

}  // namespace steelyard::oplog
