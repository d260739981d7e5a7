// Whole columns as callers have them: numpy arrays, buffers, Arrow-like strings. Views into the caller's memory.
//
// Thread-compatible. Lengths that do not fit each other are errors of the builders that take them, not of these views.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "placement/errors.h"
#include "placement/types.h"

namespace steelyard::placement {

/// Strings: the text of all of them, and where each ends in it. With `codes`, row i is string number codes[i]
/// (dictionary-encoded).
struct TextArray {
  std::string_view text;
  std::span<const std::uint64_t> ends;
  std::optional<std::span<const std::uint32_t>> codes;

  std::size_t size() const { return codes ? codes->size() : ends.size(); }
  /// For a checked array.
  std::string_view at(std::size_t row) const {
    const std::size_t number = codes ? (*codes)[row] : row;
    const std::uint64_t begin = number == 0 ? 0 : ends[number - 1];
    return text.substr(begin, ends[number] - begin);
  }
};

/// Lists of integers: `values`, and either one `width` for all rows (a matrix) or where each row ends.
struct ListArray {
  std::span<const std::int64_t> values;
  std::span<const std::uint64_t> ends;
  std::size_t width = 0;  ///< used when `ends` is empty
  std::size_t rows = 0;   ///< used when `ends` is empty

  std::size_t size() const { return ends.empty() ? rows : ends.size(); }
  /// For a checked array.
  std::span<const std::int64_t> at(std::size_t row) const {
    if (ends.empty()) return values.subspan(row * width, width);
    const std::uint64_t begin = row == 0 ? 0 : ends[row - 1];
    return values.subspan(begin, ends[row] - begin);
  }
};

/// Lists of strings; no row has any when it is left empty.
struct TextListArray {
  TextArray strings;
  std::span<const std::uint64_t> ends;

  std::size_t size() const { return ends.size(); }
  /// For a checked array; `out` is emptied first. No row has any in an empty array.
  void list(std::size_t row, std::vector<std::string_view>& out) const;
};

/// Optional integers are -1 where absent; an optional column may be left empty.
struct TensorArrays {
  TextArray tensor_id;
  ListArray global_shape;
  TextArray dtype;
  std::span<const std::int64_t> itemsize;
  std::span<const std::int64_t> partition_dim;
  TextArray layout_fingerprint;
  std::span<const std::int64_t> layer_id;
  std::span<const std::int64_t> expert_id;
  std::optional<ListArray> shard_dims;
};

/// What placed and runtime fragments have in common.
struct BoxArrays {
  /// Number of the tensor among those added to the builder so far.
  std::span<const std::uint32_t> tensor;
  ListArray global_offset;
  ListArray local_shape;
  std::span<const std::uint64_t> nbytes;
  /// Four numbers a row: dp, tp, pp, ep. Left empty: all zero.
  std::span<const std::int64_t> rank;
  TextListArray aliases;
};

struct PlacementFragmentArrays {
  TextArray placement_fragment_id;
  BoxArrays boxes;
};

struct PlaceArrays {
  std::span<const std::uint64_t> address;
  TextArray worker_id;
  TextArray endpoint;
  TextArray device;
};

/// What an allocator says about the memory of each fragment; see AllocationFacts.
struct AllocationArrays {
  std::span<const std::uint8_t> is_contiguous;
  std::optional<ListArray> stride;
  std::span<const std::int64_t> storage_offset;
  std::span<const std::int64_t> byte_offset;
  /// "view" for all rows where true.
  bool view_addresses = false;
};

struct RuntimeFragmentArrays {
  TextArray fragment_id;
  BoxArrays boxes;
  PlaceArrays places;
  std::span<const std::uint64_t> lease_generation;
  std::optional<TextArray> placement_fragment_id;  ///< an empty text: none
  std::span<const Owner> owners;
};

struct BindingFragmentArrays {
  TextArray placement_fragment_id;
  TextArray fragment_id;
  PlaceArrays places;
  std::span<const std::uint64_t> nbytes;
  std::span<const Owner> owners;
};

/// INVALID_ARGUMENT, naming the column, when it has not `rows` rows or does not fit together.
Status check_array(const TextArray& array, std::size_t rows, const Path& path);
Status check_array(const ListArray& array, std::size_t rows, const Path& path);
Status check_array(const TextListArray& array, std::size_t rows, const Path& path);
Status check_array(std::size_t size, std::size_t rows, const Path& path);
/// All columns of a table.
Status check_arrays(const TensorArrays& arrays);
Status check_arrays(const BoxArrays& arrays, std::size_t tensors);
Status check_arrays(const PlaceArrays& arrays, std::size_t rows);

}  // namespace steelyard::placement
