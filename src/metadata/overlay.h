// A view of a state with changes over it that are not applied yet.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "metadata/state.h"

namespace steelyard::metadata {

/// `base` must outlive it. Thread-compatible. Its sequence is that of `base`.
class Overlay final : public StateView {
 public:
  explicit Overlay(const StateView& base) : base_(base) {}

  /// Lays the changes of an entry over the view.
  Status add(const Entry& entry);

  std::uint64_t sequence() const override { return base_.sequence(); }
  Result<std::optional<std::string>> get(std::string_view key) const override;
  Status scan(std::string_view from, std::string_view to, bool descending, const Visitor& visit) const override;

 private:
  const StateView& base_;
  std::map<std::string, std::optional<std::string>, std::less<>> changes_;
};

}  // namespace steelyard::metadata
