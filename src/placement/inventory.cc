#include "placement/inventory.h"

#include <fmt/format.h>

#include "placement/validate.h"

namespace steelyard::placement {
namespace {

Status check_stride(std::span<const std::int64_t> stride, std::span<const std::int64_t> shape, const Path& path) {
  std::int64_t wanted = 1;
  bool canonical_stride = stride.size() == shape.size();
  for (std::size_t d = shape.size(); canonical_stride && d-- > 0;) {
    // A dimension of one element is never stepped through.
    canonical_stride = shape[d] == 1 || stride[d] == wanted;
    wanted *= shape[d];
  }
  if (canonical_stride) return {};
  return contract_error(path, fmt::format("fragment must use canonical stride: found {} for the shape {}; wanted "
                                          "row-major, in elements",
                                          shown(stride), shown(shape)));
}

Status check_offsets(const AllocationFacts& facts, std::int64_t itemsize, const Path& path) {
  const Path storage(&path, "storage_offset");
  const Path bytes(&path, "byte_offset");
  if (facts.storage_offset < 0) return below_minimum(storage, 0, std::to_string(facts.storage_offset));
  if (facts.byte_offset < 0) return below_minimum(bytes, 0, std::to_string(facts.byte_offset));
  if (itemsize > 0 && facts.byte_offset % itemsize != 0) {
    return contract_error(
        bytes, fmt::format("byte_offset must be item-aligned: {} is no multiple of {}", facts.byte_offset, itemsize));
  }
  const Path semantics(&path, "address_semantics");
  if (facts.address_semantics) {
    if (*facts.address_semantics == "view") return {};
    return contract_error(semantics, fmt::format("address_semantics must be 'view' or absent, found {}",
                                                 shown(*facts.address_semantics)));
  }
  if (facts.storage_offset == 0 && facts.byte_offset == 0) return {};
  return contract_error(semantics, fmt::format("address_semantics must be 'view' where an offset is not 0: "
                                               "storage_offset {}, byte_offset {}",
                                               facts.storage_offset, facts.byte_offset));
}

/// The descriptor of a record: a new tensor, or exactly what was said of it before.
template <typename Builder>
Status add_descriptor(Builder& builder, const TensorDescriptorRow& tensor, const Path& path) {
  SY_RETURN_IF_ERROR(check_tensor(tensor, path));
  const auto before = builder.tensors().find(tensor.tensor_id);
  if (!before) return builder.add_tensor(tensor);
  if (same_descriptor(builder.tensors().row(*before), tensor)) return {};
  return contract_error(path, fmt::format("placement descriptor mismatch: tensor {} was described differently before",
                                          shown(tensor.tensor_id)));
}

}  // namespace

Status check_allocation(const AllocationFacts& facts, std::span<const std::int64_t> shape, std::int64_t itemsize,
                        std::uint64_t generation, const Path& path) {
  if (!facts.is_contiguous) return contract_error(Path(&path, "is_contiguous"), "fragment must be contiguous");
  if (facts.stride) SY_RETURN_IF_ERROR(check_stride(*facts.stride, shape, Path(&path, "stride")));
  SY_RETURN_IF_ERROR(check_offsets(facts, itemsize, path));
  if (!facts.lease_generation || *facts.lease_generation == generation) return {};
  return contract_error(Path(&path, "lease_generation"), fmt::format("lease generation mismatch: found {}, wanted {}",
                                                                     *facts.lease_generation, generation));
}

Status check_allocations(const AllocationArrays& facts, const BoxArrays& boxes,
                         std::span<const std::int64_t> itemsizes) {
  const std::size_t rows = boxes.tensor.size();
  SY_RETURN_IF_ERROR(check_arrays(boxes, itemsizes.size()));
  SY_RETURN_IF_ERROR(check_array(facts.is_contiguous.size(), rows, Path("is_contiguous")));
  if (facts.stride) SY_RETURN_IF_ERROR(check_array(*facts.stride, rows, Path("stride")));
  SY_RETURN_IF_ERROR(check_array(facts.storage_offset.size(), rows, Path("storage_offset")));
  SY_RETURN_IF_ERROR(check_array(facts.byte_offset.size(), rows, Path("byte_offset")));
  const Path fragments("fragments");
  AllocationFacts row;
  if (facts.view_addresses) row.address_semantics = "view";
  for (std::size_t i = 0; i < rows; ++i) {
    row.is_contiguous = facts.is_contiguous[i] != 0;
    row.storage_offset = facts.storage_offset[i];
    row.byte_offset = facts.byte_offset[i];
    if (facts.stride) row.stride = facts.stride->at(i);
    const auto shape = boxes.local_shape.at(i);
    SY_RETURN_IF_ERROR(check_allocation(row, shape, itemsizes[boxes.tensor[i]], 0, Path(&fragments, i)));
  }
  return {};
}

PlacementInventory::PlacementInventory(std::string_view model_id, std::string_view revision,
                                       std::optional<std::string_view> placement_id)
    : builder_(model_id, revision, placement_id) {}

Status PlacementInventory::add(const TensorDescriptorRow& tensor, const PlacementFragmentRow& fragment) {
  const Path tensors("tensors");
  const Path path(&tensors, records_++);
  SY_RETURN_IF_ERROR(add_descriptor(builder_, tensor, path));
  PlacementFragmentRow row = fragment;
  row.tensor_id = tensor.tensor_id;
  SY_RETURN_IF_ERROR(check_fragment(row, path));
  SY_RETURN_IF_ERROR(check_box(tensor, row.global_offset, row.local_shape, row.nbytes, path));
  return builder_.add_fragment(row);
}

Result<PlacementManifest> PlacementInventory::build() && { return std::move(builder_).build(); }

RuntimeInventory::RuntimeInventory(RuntimeHeader header)
    : generation_(header.generation), builder_(std::move(header)) {}

Status RuntimeInventory::add(const TensorDescriptorRow& tensor, const RuntimeFragmentRow& fragment,
                             const AllocationFacts& facts) {
  if (!generation_) return contract_error(Path("generation"), "missing required field: generation");
  const Path tensors("tensors");
  const Path path(&tensors, records_++);
  SY_RETURN_IF_ERROR(add_descriptor(builder_, tensor, path));
  RuntimeFragmentRow row = fragment;
  row.tensor_id = tensor.tensor_id;
  SY_RETURN_IF_ERROR(check_fragment(row, path));
  SY_RETURN_IF_ERROR(check_box(tensor, row.global_offset, row.local_shape, row.nbytes, path));
  AllocationFacts known = facts;
  known.lease_generation = row.lease_generation;
  SY_RETURN_IF_ERROR(check_allocation(known, row.local_shape, tensor.itemsize, *generation_, path));
  return builder_.add_fragment(row);
}

Result<RuntimeManifest> RuntimeInventory::build() && {
  if (!generation_) return contract_error(Path("generation"), "missing required field: generation");
  return std::move(builder_).build();
}

BindingInventory::BindingInventory(BindingHeader header)
    : generation_(header.generation), builder_(std::move(header)) {}

Status BindingInventory::add(const BindingFragmentRow& fragment, const AllocationFacts& facts) {
  const Path fragments("fragments");
  const Path path(&fragments, records_++);
  SY_RETURN_IF_ERROR(check_fragment(fragment, path));
  AllocationFacts known = facts;
  known.stride.reset();
  SY_RETURN_IF_ERROR(check_allocation(known, {}, 0, generation_, path));
  return builder_.add_fragment(fragment);
}

Result<RuntimeBindingManifest> BindingInventory::build() && { return std::move(builder_).build(); }

}  // namespace steelyard::placement
