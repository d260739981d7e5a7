#include "placement/runtime_manifest.h"

#include <fmt/format.h>

#include <algorithm>

#include "placement/errors.h"
#include "placement/validate.h"

namespace steelyard::placement {
namespace {

bool same_row(const TensorDescriptorRow& a, const TensorDescriptorRow& b) {
  // As they were said, not only in effect.
  return same_descriptor(a, b) && a.partition_dim == b.partition_dim &&
         a.shard_dims.has_value() == b.shard_dims.has_value();
}

bool same_place(const MemoryPlace& a, const MemoryPlace& b) {
  return a.address == b.address && a.worker_id == b.worker_id && a.endpoint == b.endpoint && a.device == b.device;
}

bool same_row(const RuntimeFragmentRow& a, const RuntimeFragmentRow& b) {
  return a.fragment_id == b.fragment_id && a.tensor_id == b.tensor_id &&
         std::ranges::equal(a.global_offset, b.global_offset) && std::ranges::equal(a.local_shape, b.local_shape) &&
         same_place(a.place, b.place) && a.nbytes == b.nbytes && a.rank == b.rank &&
         a.lease_generation == b.lease_generation && a.aliases == b.aliases &&
         a.placement_fragment_id == b.placement_fragment_id;
}

}  // namespace

std::optional<std::string_view> RuntimeFragments::placement_fragment_id(std::size_t row) const {
  if (placement_ids.size() == 0 || placement_ids.at(row).empty()) return std::nullopt;
  return placement_ids.at(row);
}

RuntimeFragmentRow RuntimeManifest::fragment(std::size_t row) const {
  const BoxColumns& boxes = fragments().boxes;
  return {.fragment_id = fragments().ids.at(row),
          .tensor_id = tensors().tensor_id(boxes.tensor(row)),
          .global_offset = boxes.offset(row),
          .local_shape = boxes.shape(row),
          .place = fragments().places.place(row),
          .nbytes = boxes.nbytes(row),
          .rank = boxes.rank(row),
          .lease_generation = generation().value_or(0),
          .owner = fragments().places.owner(row),
          .aliases = boxes.aliases(row),
          .placement_fragment_id = fragments().placement_fragment_id(row)};
}

bool RuntimeManifest::operator==(const RuntimeManifest& other) const {
  if (parts_ == other.parts_) return true;
  if (header() != other.header() || tensors().size() != other.tensors().size() ||
      fragments().size() != other.fragments().size()) {
    return false;
  }
  for (std::size_t i = 0; i < tensors().size(); ++i) {
    if (!same_row(tensors().row(i), other.tensors().row(i))) return false;
  }
  for (std::size_t i = 0; i < fragments().size(); ++i) {
    if (!same_row(fragment(i), other.fragment(i))) return false;
  }
  return true;
}

void RuntimeBuilder::reserve(std::size_t tensors, std::size_t fragments) {
  tensors_.reserve(tensors);
  fragments_.ids.reserve(fragments, 0);
  fragments_.boxes.reserve(fragments, fragments * 2);
  fragments_.places.reserve(fragments);
}

Status RuntimeBuilder::add_tensor(const TensorDescriptorRow& row) { return tensors_.add(row); }

Status RuntimeBuilder::add_tensors(const TensorArrays& columns) { return tensors_.add(columns); }

Status RuntimeBuilder::add_row(const RuntimeFragmentRow& row, std::uint32_t tensor_name) {
  const Path fragments("fragments");
  const Path path(&fragments, fragments_.size());
  SY_RETURN_IF_ERROR(check_fragment(row, path));
  if (!lease_generation_) lease_generation_ = row.lease_generation;
  if (*lease_generation_ != row.lease_generation) {
    return contract_error(Path(&path, "lease_generation"),
                          fmt::format("inconsistent lease generations: found {}, fragments[0] has {}",
                                      row.lease_generation, *lease_generation_));
  }
  if (row.placement_fragment_id) {
    while (fragments_.placement_ids.size() < fragments_.size()) fragments_.placement_ids.push_back({});
    fragments_.placement_ids.push_back(*row.placement_fragment_id);
  }
  fragments_.ids.push_back(row.fragment_id);
  fragments_.boxes.add(tensor_name, row.global_offset, row.local_shape, row.nbytes, row.rank, sorted(row.aliases));
  fragments_.places.add(row.place, row.owner);
  return {};
}

Status RuntimeBuilder::add_fragment(const RuntimeFragmentRow& row) {
  return add_row(row, tensors_.number_of_name(row.tensor_id));
}

Status RuntimeBuilder::add_fragments(const RuntimeFragmentArrays& columns) {
  SY_RETURN_IF_ERROR(check_arrays(columns.boxes, tensors_.columns().size()));
  const std::size_t rows = columns.boxes.tensor.size();
  SY_RETURN_IF_ERROR(check_array(columns.fragment_id, rows, Path("fragment_id")));
  SY_RETURN_IF_ERROR(check_arrays(columns.places, rows));
  SY_RETURN_IF_ERROR(check_array(columns.lease_generation.size(), rows, Path("lease_generation")));
  if (columns.placement_fragment_id) {
    SY_RETURN_IF_ERROR(check_array(*columns.placement_fragment_id, rows, Path("placement_fragment_id")));
  }
  if (!columns.owners.empty()) SY_RETURN_IF_ERROR(check_array(columns.owners.size(), rows, Path("owner")));
  reserve(tensors_.columns().size(), fragments_.size() + rows);
  RuntimeFragmentRow row;
  for (std::size_t i = 0; i < rows; ++i) {
    const std::uint32_t tensor = columns.boxes.tensor[i];
    row.fragment_id = columns.fragment_id.at(i);
    row.tensor_id = tensors_.columns().tensor_id(tensor);
    fill_box(columns.boxes, i, row);
    row.place = place_at(columns.places, i);
    row.lease_generation = columns.lease_generation[i];
    row.placement_fragment_id.reset();
    if (columns.placement_fragment_id && !columns.placement_fragment_id->at(i).empty()) {
      row.placement_fragment_id = columns.placement_fragment_id->at(i);
    }
    if (!columns.owners.empty()) row.owner = columns.owners[i];
    SY_RETURN_IF_ERROR(add_row(row, tensors_.number_of_row(tensor)));
  }
  return {};
}

Result<RuntimeManifest> RuntimeBuilder::build() && {
  SY_RETURN_IF_ERROR(check_text(header_.model_id, Path("model_id")));
  SY_RETURN_IF_ERROR(check_text(header_.revision, Path("revision")));
  SY_RETURN_IF_ERROR(check_text(header_.instance_id, Path("instance_id")));
  if (header_.lease_id) SY_RETURN_IF_ERROR(check_text(*header_.lease_id, Path("lease_id")));
  if (header_.placement_id) SY_RETURN_IF_ERROR(check_text(*header_.placement_id, Path("placement_id")));
  if (lease_generation_) {
    if (header_.generation && *header_.generation != *lease_generation_) {
      return contract_error(Path("generation"), fmt::format("generation does not match fragment generation: {} and {}",
                                                            *header_.generation, *lease_generation_));
    }
    header_.generation = lease_generation_;
  }
  SY_RETURN_IF_ERROR(tensors_.resolve(fragments_.boxes));
  SY_RETURN_IF_ERROR(sorted_distinct(fragments_.ids, "fragment_id", "duplicate fragment_id").status());
  fragments_.boxes.sort_ranks();
  const FragmentsOfTensors by_tensor(tensors_.columns().size(), fragments_.boxes);
  SY_RETURN_IF_ERROR(
      check_boxes_disjoint(tensors_.columns(), fragments_.boxes, by_tensor, [](std::size_t row) { return row; }));
  SY_RETURN_IF_ERROR(check_addresses_disjoint(tensors_.columns(), fragments_.boxes, fragments_.places));
  if (fragments_.placement_ids.size() != 0) {
    while (fragments_.placement_ids.size() < fragments_.size()) fragments_.placement_ids.push_back({});
  }
  auto parts = std::make_shared<RuntimeManifest::Parts>();
  parts->header = std::move(header_);
  parts->tensors = tensors_.take();
  parts->fragments = std::move(fragments_);
  return RuntimeManifest(std::move(parts));
}

}  // namespace steelyard::placement
