// TensorTable: the tensors of a checkpoint or of a stored manifest, in columns.
//
// Thread-compatible values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace steelyard::formats {

/// Where a whole tensor lies.
struct TensorPlace {
  std::uint32_t run = 0;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  bool operator==(const TensorPlace&) const = default;
};

/// One row of a TensorTable. Views point into the table (or, when adding, into the caller's memory).
struct TensorRow {
  std::string_view tensor_id;
  std::string_view dtype;  ///< as in safetensors
  std::span<const std::int64_t> shape;
  std::string_view layout_fingerprint;
  std::optional<TensorPlace> place;  ///< absent for tensors stored as fragments
  std::optional<std::int64_t> layer_id;
  std::optional<std::int64_t> expert_id;
  std::vector<std::string_view> aliases;  ///< sorted
};

/// Strings one after the other in one piece of memory: 8 bytes a string beside its text.
class StringColumn {
 public:
  std::size_t size() const { return ends_.size(); }
  std::size_t text_bytes() const { return text_.size(); }
  std::string_view at(std::size_t index) const;
  void push_back(std::string_view text);
  void reserve(std::size_t strings, std::size_t text_bytes);
  /// Same strings in the same order; costs a comparison of two pieces of memory.
  bool operator==(const StringColumn&) const = default;

 private:
  std::string text_;
  std::vector<std::uint64_t> ends_;
};

/// Few distinct strings, each kept once and known by its number.
class StringPool {
 public:
  std::uint32_t intern(std::string_view text);
  std::string_view at(std::uint32_t number) const { return strings_.at(number); }

 private:
  StringColumn strings_;
  std::map<std::string, std::uint32_t> numbers_;  // ordered: no choice of texts makes it slow
  std::uint32_t last_ = 0;
};

/// Tensors in columns: a million of them cost about 60 bytes each and their names. Rows keep the order in which they
/// were added until sort() puts them in tensor_id order. Tensor ids may repeat here; the validators refuse that.
class TensorTable {
 public:
  std::size_t size() const { return names_.size(); }
  bool empty() const { return size() == 0; }
  TensorRow row(std::size_t index) const;
  std::string_view tensor_id(std::size_t index) const { return names_.at(index); }
  bool has_place(std::size_t index) const { return facts_[index].has_place; }
  /// Sum of all tensor ids' lengths.
  std::size_t name_bytes() const { return names_.text_bytes(); }
  /// `row` may not point into this table.
  void add(const TensorRow& row);
  /// `name_bytes` is the sum of all tensor ids' lengths. Both are hints.
  void reserve(std::size_t rows, std::size_t name_bytes);
  /// By tensor_id, in byte order; equal ids keep their order. Nothing to do when rows were added in order.
  void sort();
  /// Index of a tensor; the table must be sorted.
  std::optional<std::size_t> find(std::string_view tensor_id) const;
  /// Same rows in the same order.
  bool operator==(const TensorTable& other) const;

 private:
  struct Facts {
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
    std::uint32_t run = 0;
    std::uint32_t dtype = 0;   ///< in dtypes_
    std::uint32_t layout = 0;  ///< in layouts_
    bool has_place = false;
    bool has_layer = false;
    bool has_expert = false;
  };

  std::span<const std::int64_t> shape(std::size_t index) const;
  std::pair<std::size_t, std::size_t> alias_range(std::size_t index) const;

  StringColumn names_;
  std::vector<Facts> facts_;
  std::vector<std::int64_t> dims_;
  std::vector<std::uint64_t> dims_end_;
  StringPool dtypes_;
  StringPool layouts_;
  bool sorted_ = true;
  // Rare facts: these columns stay empty until a row has one, and end at the last such row.
  std::vector<std::int64_t> layers_;
  std::vector<std::int64_t> experts_;
  StringColumn aliases_;
  std::vector<std::uint64_t> aliases_end_;
};

}  // namespace steelyard::formats
