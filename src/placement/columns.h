// Columns: tables of a million rows without an object per row. Manifests are made of them; readers get at them by row
// number.
//
// Thread-compatible values. A row number outside of the table is a programmer's error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/tensor_table.h"
#include "placement/types.h"

namespace steelyard::placement {

using formats::StringColumn;

/// Lists of integers, one after the other.
class IntegerLists {
 public:
  std::size_t size() const { return ends_.size(); }
  std::span<const std::int64_t> at(std::size_t row) const {
    const std::uint64_t begin = row == 0 ? 0 : ends_[row - 1];
    return {values_.data() + begin, ends_[row] - begin};
  }
  void push_back(std::span<const std::int64_t> values) {
    values_.insert(values_.end(), values.begin(), values.end());
    ends_.push_back(values_.size());
  }
  void reserve(std::size_t rows, std::size_t values) { ends_.reserve(rows), values_.reserve(values); }
  std::size_t value_count() const { return values_.size(); }

 private:
  std::vector<std::int64_t> values_;
  std::vector<std::uint64_t> ends_;
};

/// Lists of strings; costs nothing as long as every list is empty.
class StringLists {
 public:
  std::size_t count(std::size_t row) const { return row < ends_.size() ? ends_[row] - begin(row) : 0; }
  std::string_view at(std::size_t row, std::size_t index) const { return strings_.at(begin(row) + index); }
  std::vector<std::string_view> list(std::size_t row) const;
  /// The list of `row`; rows come in ascending order.
  void set(std::size_t row, std::span<const std::string_view> list);

 private:
  std::size_t begin(std::size_t row) const { return row == 0 ? 0 : ends_[row - 1]; }

  StringColumn strings_;
  std::vector<std::uint64_t> ends_;
};

/// Distinct strings, numbered in the order in which they came; finding one costs a hash.
class NamePool {
 public:
  std::size_t size() const { return names_.size(); }
  std::string_view at(std::size_t number) const { return names_.at(number); }
  std::uint32_t intern(std::string_view name);
  std::optional<std::uint32_t> find(std::string_view name) const;
  void reserve(std::size_t names, std::size_t text_bytes);

 private:
  std::size_t slot_of(std::string_view name, std::uint64_t hash) const;
  void rehash(std::size_t slots);

  struct Slot {
    std::uint32_t tag = 0;
    std::uint32_t number_plus_1 = 0;  ///< 0: free
  };
  StringColumn names_;
  std::vector<Slot> slots_;
};

/// Descriptors of tensors. Ids are distinct.
class TensorColumns {
 public:
  std::size_t size() const { return rows_.size(); }
  std::string_view tensor_id(std::size_t row) const { return ids_.at(row); }
  std::span<const std::int64_t> shape(std::size_t row) const { return shapes_.at(row); }
  std::string_view dtype(std::size_t row) const { return dtypes_.at(rows_[row].dtype); }
  std::int64_t itemsize(std::size_t row) const { return rows_[row].itemsize; }
  std::string_view layout_fingerprint(std::size_t row) const { return layouts_.at(rows_[row].layout); }
  std::optional<std::int64_t> partition_dim(std::size_t row) const { return optional(rows_[row].partition_dim); }
  std::optional<std::int64_t> layer_id(std::size_t row) const { return optional(rows_[row].layer_id); }
  std::optional<std::int64_t> expert_id(std::size_t row) const { return optional(rows_[row].expert_id); }
  /// As given; in a PlacementManifest always the effective ones.
  std::optional<std::span<const std::int64_t>> shard_dims(std::size_t row) const;
  TensorDescriptorRow row(std::size_t row) const;

  std::optional<std::size_t> find(std::string_view tensor_id) const;
  /// A checked row with a new id.
  void add(const TensorDescriptorRow& row);
  void reserve(std::size_t rows, std::size_t id_bytes);

 private:
  static std::optional<std::int64_t> optional(std::int64_t value) {
    return value < 0 ? std::nullopt : std::optional(value);
  }
  struct Row {
    std::int64_t itemsize = 0;
    std::int64_t partition_dim = -1;
    std::int64_t layer_id = -1;
    std::int64_t expert_id = -1;
    std::uint32_t dtype = 0;
    std::uint32_t layout = 0;
    bool has_shard_dims = false;
  };
  NamePool ids_;
  std::vector<Row> rows_;
  IntegerLists shapes_;
  IntegerLists shard_dims_;
  NamePool dtypes_;
  NamePool layouts_;
};

/// What every kind of fragment says about the tensor: which box of it, for which rank, under which other names.
class BoxColumns {
 public:
  std::size_t size() const { return tensors_.size(); }
  /// Row of the manifest's tensors.
  std::uint32_t tensor(std::size_t row) const { return tensors_[row]; }
  std::span<const std::int64_t> offset(std::size_t row) const { return offsets_.at(row); }
  std::span<const std::int64_t> shape(std::size_t row) const { return shapes_.at(row); }
  std::uint64_t nbytes(std::size_t row) const { return nbytes_[row]; }
  const ParallelRank& rank(std::size_t row) const { return ranks_[rank_numbers_[row]]; }
  /// Index into ranks().
  std::uint32_t rank_number(std::size_t row) const { return rank_numbers_[row]; }
  /// The distinct ranks; ascending in a manifest.
  std::span<const ParallelRank> ranks() const { return ranks_; }
  std::size_t alias_count(std::size_t row) const { return aliases_.count(row); }
  /// Ascending.
  std::string_view alias(std::size_t row, std::size_t index) const { return aliases_.at(row, index); }
  std::vector<std::string_view> aliases(std::size_t row) const { return aliases_.list(row); }

  void reserve(std::size_t rows, std::size_t dimensions);
  /// `aliases` are sorted.
  void add(std::uint32_t tensor, std::span<const std::int64_t> offset, std::span<const std::int64_t> shape,
           std::uint64_t nbytes, const ParallelRank& rank, std::span<const std::string_view> aliases);
  /// Puts ranks() into ascending order.
  void sort_ranks();
  /// Tensor numbers become tensor_numbers[number].
  void renumber_tensors(std::span<const std::uint32_t> tensor_numbers);
  /// The rows in the given order.
  BoxColumns in_order(std::span<const std::uint32_t> order) const;

 private:
  std::uint32_t number_of(const ParallelRank& rank);

  std::vector<std::uint32_t> tensors_;
  std::vector<std::uint32_t> rank_numbers_;
  std::vector<std::uint64_t> nbytes_;
  IntegerLists offsets_;
  IntegerLists shapes_;
  std::vector<ParallelRank> ranks_;
  std::vector<std::uint32_t> rank_slots_;  ///< hash table over ranks_: number + 1, 0 is free
  StringLists aliases_;
};

/// Fragments of each tensor, by rank number, then by row.
class FragmentsOfTensors {
 public:
  FragmentsOfTensors() = default;
  FragmentsOfTensors(std::size_t tensors, const BoxColumns& boxes);
  std::span<const std::uint32_t> of(std::size_t tensor) const {
    const std::uint32_t begin = tensor == 0 ? 0 : ends_[tensor - 1];
    return {rows_.data() + begin, ends_[tensor] - begin};
  }

 private:
  std::vector<std::uint32_t> ends_;
  std::vector<std::uint32_t> rows_;
};

/// Where fragments lie in memory.
class PlaceColumns {
 public:
  std::size_t size() const { return addresses_.size(); }
  std::uint64_t address(std::size_t row) const { return addresses_[row]; }
  std::string_view worker_id(std::size_t row) const { return names_.at(rows_[row].worker); }
  std::string_view endpoint(std::size_t row) const { return names_.at(rows_[row].endpoint); }
  std::string_view device(std::size_t row) const { return names_.at(rows_[row].device); }
  /// Null where nobody said one.
  Owner owner(std::size_t row) const { return row < owners_.size() ? owners_[row] : nullptr; }
  MemoryPlace place(std::size_t row) const { return {address(row), worker_id(row), endpoint(row), device(row)}; }
  /// One number for one (worker, device).
  std::uint64_t space(std::size_t row) const { return std::uint64_t{rows_[row].worker} << 32 | rows_[row].device; }

  void reserve(std::size_t rows);
  void add(const MemoryPlace& place, Owner owner);
  PlaceColumns in_order(std::span<const std::uint32_t> order) const;

 private:
  struct Row {
    std::uint32_t worker = 0;
    std::uint32_t endpoint = 0;
    std::uint32_t device = 0;
  };
  std::vector<std::uint64_t> addresses_;
  std::vector<Row> rows_;
  NamePool names_;
  std::vector<Owner> owners_;  ///< ends at the last row that has one
};

/// The order that sorts texts by code point; equal texts keep their order.
std::vector<std::uint32_t> sorted_order(const StringColumn& texts);
StringColumn in_order(const StringColumn& texts, std::span<const std::uint32_t> order);
/// Position of a text in an ascending column.
std::optional<std::size_t> find_sorted(const StringColumn& texts, std::string_view wanted);

}  // namespace steelyard::placement
