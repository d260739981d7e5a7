// Inventories: what a framework's adapter says about its tensors, one record a fragment, each with the descriptor of
// its tensor. The adapter reads the fields; these builders apply the rules.
//
// Errors are INVALID_ARGUMENT. The path of what is wrong with a record alone begins with `tensors[i]`, i in the order
// of add(); rules that concern several speak of `fragments[i]`, i the same. Not thread-safe.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "placement/errors.h"
#include "placement/placement_manifest.h"
#include "placement/runtime_manifest.h"
#include "placement/types.h"

namespace steelyard::placement {

/// What an allocator says about the memory behind an address. The address is always that of the first byte to move; the
/// offsets are facts about the allocation and are never added to it.
struct AllocationFacts {
  /// `True` itself; anything else is false.
  bool is_contiguous = false;
  /// In elements. Absent: not asked for (bindings).
  std::optional<std::span<const std::int64_t>> stride;
  std::int64_t storage_offset = 0;
  std::int64_t byte_offset = 0;
  std::optional<std::uint64_t> lease_generation;
  /// Absent or "view".
  std::optional<std::string_view> address_semantics;
};

/// Contiguous, row-major but for dimensions of extent 1, offsets that are known to be a view's, item-aligned. `shape`
/// and `itemsize` are those of the fragment; an itemsize of 0 is one that is not known (bindings).
Status check_allocation(const AllocationFacts& facts, std::span<const std::int64_t> shape, std::int64_t itemsize,
                        std::uint64_t generation, const Path& path);
/// The same for whole columns of a builder's fragments (BoxArrays::tensor counts its tensors).
Status check_allocations(const AllocationArrays& facts, const BoxArrays& boxes,
                         std::span<const std::int64_t> itemsizes);

/// PlacementManifest.from_runtime_inventory.
class PlacementInventory {
 public:
  PlacementInventory(std::string_view model_id, std::string_view revision,
                     std::optional<std::string_view> placement_id = std::nullopt);
  /// fragment.tensor_id is that of the tensor.
  Status add(const TensorDescriptorRow& tensor, const PlacementFragmentRow& fragment);
  Result<PlacementManifest> build() &&;

 private:
  PlacementBuilder builder_;
  std::size_t records_ = 0;
};

/// runtime_manifest_from_inventory. Tensors come in the order of their first records.
class RuntimeInventory {
 public:
  /// header.generation is required.
  explicit RuntimeInventory(RuntimeHeader header);
  Status add(const TensorDescriptorRow& tensor, const RuntimeFragmentRow& fragment, const AllocationFacts& facts);
  Result<RuntimeManifest> build() &&;

 private:
  std::optional<std::uint64_t> generation_;
  RuntimeBuilder builder_;
  std::size_t records_ = 0;
};

/// runtime_binding_from_inventory.
class BindingInventory {
 public:
  explicit BindingInventory(BindingHeader header);
  Status add(const BindingFragmentRow& fragment, const AllocationFacts& facts);
  Result<RuntimeBindingManifest> build() &&;

 private:
  std::uint64_t generation_ = 0;
  BindingBuilder builder_;
  std::size_t records_ = 0;
};

}  // namespace steelyard::placement
