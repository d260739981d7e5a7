// Views of a state with changes over it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "metadata/state.h"

namespace steelyard::metadata {

/// Rows as they will be; without a value: removed.
using ChangedRows = std::map<std::string, std::optional<std::string>, std::less<>>;

/// `base` with `changes` over it, at `sequence`. Both must outlive it; `changes` may grow between calls.
/// Thread-compatible.
class LayeredView final : public StateView {
 public:
  LayeredView(const StateView& base, const ChangedRows& changes, std::uint64_t sequence)
      : base_(base), changes_(changes), sequence_(sequence) {}

  std::uint64_t sequence() const override { return sequence_; }
  Result<std::optional<std::string>> get(std::string_view key) const override;
  Status scan(std::string_view from, std::string_view to, bool descending, const Visitor& visit) const override;

 private:
  const StateView& base_;
  const ChangedRows& changes_;
  std::uint64_t sequence_;
};

/// A view that holds its changes itself: those of entries that are not applied yet. `base` must outlive it.
/// Thread-compatible. Its sequence is that of `base`.
class Overlay final : public StateView {
 public:
  explicit Overlay(const StateView& base) : base_(base) {}

  void add(std::vector<RowChange> changes);
  /// Everything that was added, each row once.
  std::vector<RowChange> take();

  std::uint64_t sequence() const override { return base_.sequence(); }
  Result<std::optional<std::string>> get(std::string_view key) const override { return layered().get(key); }
  Status scan(std::string_view from, std::string_view to, bool descending, const Visitor& visit) const override {
    return layered().scan(from, to, descending, visit);
  }

 private:
  LayeredView layered() const { return {base_, changes_, base_.sequence()}; }

  const StateView& base_;
  ChangedRows changes_;
};

}  // namespace steelyard::metadata
