// Many rows in the order of their keys, in few pieces of memory: what a loaded snapshot is.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace steelyard::metadata {

/// Immutable. Its rows stay where they are when it is moved.
class SortedRows {
 public:
  struct Row {
    std::string_view key;
    std::string_view value;
  };

  SortedRows() = default;
  SortedRows(SortedRows&&) = default;
  SortedRows& operator=(SortedRows&&) = default;

  /// All rows, by key; no two have the same.
  std::span<const Row> rows() const { return rows_; }
  /// The number of rows whose keys are less.
  std::size_t rank(std::string_view key) const;
  const Row* find(std::string_view key) const;

  /// Takes rows in any order.
  class Builder {
   public:
    /// A copy that lives as long as the rows.
    std::string_view keep(std::string_view bytes);
    /// Both must be kept, or parts of what is.
    void add(std::string_view key, std::string_view value);
    /// Absent when two rows have one key.
    std::optional<SortedRows> finish() &&;

   private:
    std::vector<std::unique_ptr<char[]>> blocks_;
    char* free_ = nullptr;
    std::size_t free_bytes_ = 0;
    std::array<std::vector<Row>, 256> tables_;  ///< by the first byte of the key
  };

 private:
  std::vector<std::unique_ptr<char[]>> blocks_;
  std::vector<Row> rows_;
};

}  // namespace steelyard::metadata
