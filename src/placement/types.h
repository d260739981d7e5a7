// The rows of the weight contracts: what is said about a tensor, a placed fragment, a fragment in somebody's memory.
//
// Rows are views: strings and spans point into a manifest's columns or, where a row is handed in, into the caller's
// memory. Numbers that come from outside must be brought into these types by the caller (a number that does not fit is
// refused there); what they may be is checked by validate.h, which every builder calls.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "steelyard/values.h"

namespace steelyard::placement {

using steelyard::ParallelRank;

/// What a tensor is, whoever holds it.
struct TensorDescriptorRow {
  std::string_view tensor_id;
  std::span<const std::int64_t> global_shape;
  std::string_view dtype;
  std::int64_t itemsize = 0;
  std::optional<std::int64_t> partition_dim;
  std::string_view layout_fingerprint;
  std::optional<std::int64_t> layer_id;
  std::optional<std::int64_t> expert_id;
  /// Dimensions in which the tensor may be cut, ascending. Absent: those that partition_dim says.
  std::optional<std::span<const std::int64_t>> shard_dims;
};

/// shard_dims, else partition_dim alone, else none. The span may point into `row`.
std::span<const std::int64_t> effective_shard_dims(const TensorDescriptorRow& row);
/// The same as the same row in canonical form: shard_dims are the effective ones, partition_dim is their only member or
/// absent. The result may point into `row`.
TensorDescriptorRow canonical(const TensorDescriptorRow& row);
/// Equal in canonical form.
bool same_descriptor(const TensorDescriptorRow& a, const TensorDescriptorRow& b);
/// Equal in canonical form but for the tensor_id.
bool same_but_for_id(const TensorDescriptorRow& a, const TensorDescriptorRow& b);

/// A box of a tensor that a rank holds, wherever it lies.
struct PlacementFragmentRow {
  std::string_view placement_fragment_id;
  std::string_view tensor_id;
  std::span<const std::int64_t> global_offset;
  std::span<const std::int64_t> local_shape;
  std::uint64_t nbytes = 0;
  ParallelRank rank;
  std::vector<std::string_view> aliases;  ///< any order; manifests give them sorted
};

/// Keeps an allocation alive; never compared, hashed, or written.
using Owner = std::shared_ptr<void>;

/// Where a fragment lies in a running process. `address` is that of its first byte.
struct MemoryPlace {
  std::uint64_t address = 0;
  std::string_view worker_id;
  std::string_view endpoint;
  std::string_view device;
};

struct RuntimeFragmentRow {
  std::string_view fragment_id;
  std::string_view tensor_id;
  std::span<const std::int64_t> global_offset;
  std::span<const std::int64_t> local_shape;
  MemoryPlace place;
  std::uint64_t nbytes = 0;
  ParallelRank rank;
  std::uint64_t lease_generation = 0;
  Owner owner;
  std::vector<std::string_view> aliases;  ///< any order; manifests give them sorted
  std::optional<std::string_view> placement_fragment_id;
};

struct BindingFragmentRow {
  std::string_view placement_fragment_id;
  std::string_view fragment_id;
  MemoryPlace place;
  std::uint64_t nbytes = 0;
  Owner owner;
};

}  // namespace steelyard::placement
