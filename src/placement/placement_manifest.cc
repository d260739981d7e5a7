#include "placement/placement_manifest.h"

#include <fmt/format.h>

#include <algorithm>

#include "placement/errors.h"
#include "placement/identity.h"
#include "placement/validate.h"

namespace steelyard::placement {
namespace {

/// The tensors by id, in canonical form; `row_of_old` tells where each went.
TensorColumns sorted_tensors(const TensorColumns& tensors, std::vector<std::uint32_t>& row_of_old) {
  StringColumn ids;
  ids.reserve(tensors.size(), 0);
  for (std::size_t i = 0; i < tensors.size(); ++i) ids.push_back(tensors.tensor_id(i));
  const std::vector<std::uint32_t> order = sorted_order(ids);
  TensorColumns out;
  out.reserve(tensors.size(), ids.text_bytes());
  row_of_old.resize(tensors.size());
  for (const std::uint32_t old : order) {
    row_of_old[old] = static_cast<std::uint32_t>(out.size());
    const TensorDescriptorRow row = tensors.row(old);
    out.add(canonical(row));
  }
  return out;
}

}  // namespace

std::optional<std::size_t> PlacementFragments::find(std::string_view placement_fragment_id) const {
  return find_sorted(ids, placement_fragment_id);
}

PlacementFragmentRow PlacementManifest::fragment(std::size_t row) const {
  const BoxColumns& boxes = fragments().boxes;
  return {.placement_fragment_id = fragments().ids.at(row),
          .tensor_id = tensors().tensor_id(boxes.tensor(row)),
          .global_offset = boxes.offset(row),
          .local_shape = boxes.shape(row),
          .nbytes = boxes.nbytes(row),
          .rank = boxes.rank(row),
          .aliases = boxes.aliases(row)};
}

std::string PlacementManifest::to_json() const {
  return write_placement({model_id(), revision(), tensors(), fragments()}, placement_id());
}

PlacementBuilder::PlacementBuilder(std::string_view model_id, std::string_view revision,
                                   std::optional<std::string_view> placement_id) {
  set_names(model_id, revision, placement_id);
}

void PlacementBuilder::set_names(std::string_view model_id, std::string_view revision,
                                 std::optional<std::string_view> placement_id) {
  model_id_ = model_id;
  revision_ = revision;
  wanted_id_ = placement_id;
}

void PlacementBuilder::reserve(std::size_t tensors, std::size_t fragments) {
  tensors_.reserve(tensors);
  fragments_.ids.reserve(fragments, 0);
  fragments_.boxes.reserve(fragments, fragments * 2);
}

Status PlacementBuilder::add_tensor(const TensorDescriptorRow& row) { return tensors_.add(row); }

Status PlacementBuilder::add_tensors(const TensorArrays& columns) { return tensors_.add(columns); }

Status PlacementBuilder::add_row(const PlacementFragmentRow& row, std::uint32_t tensor_name) {
  const Path fragments("fragments");
  SY_RETURN_IF_ERROR(check_fragment(row, Path(&fragments, fragments_.size())));
  fragments_.ids.push_back(row.placement_fragment_id);
  fragments_.boxes.add(tensor_name, row.global_offset, row.local_shape, row.nbytes, row.rank, sorted(row.aliases));
  return {};
}

Status PlacementBuilder::add_fragment(const PlacementFragmentRow& row) {
  return add_row(row, tensors_.number_of_name(row.tensor_id));
}

Status PlacementBuilder::add_fragments(const PlacementFragmentArrays& columns) {
  SY_RETURN_IF_ERROR(check_arrays(columns.boxes, tensors_.columns().size()));
  const std::size_t rows = columns.boxes.tensor.size();
  SY_RETURN_IF_ERROR(check_array(columns.placement_fragment_id, rows, Path("placement_fragment_id")));
  reserve(tensors_.columns().size(), fragments_.size() + rows);
  PlacementFragmentRow row;
  for (std::size_t i = 0; i < rows; ++i) {
    const std::uint32_t tensor = columns.boxes.tensor[i];
    row.placement_fragment_id = columns.placement_fragment_id.at(i);
    row.tensor_id = tensors_.columns().tensor_id(tensor);
    fill_box(columns.boxes, i, row);
    SY_RETURN_IF_ERROR(add_row(row, tensors_.number_of_row(tensor)));
  }
  return {};
}

Result<PlacementManifest> PlacementBuilder::build() && {
  SY_RETURN_IF_ERROR(check_text(model_id_, Path("model_id")));
  SY_RETURN_IF_ERROR(check_text(revision_, Path("revision")));
  if (wanted_id_) SY_RETURN_IF_ERROR(check_text(*wanted_id_, Path("placement_id")));
  SY_RETURN_IF_ERROR(tensors_.resolve(fragments_.boxes));
  SY_ASSIGN_OR_RETURN(const std::vector<std::uint32_t> order,
                      sorted_distinct(fragments_.ids, "placement_fragment_id", "duplicate placement_fragment_id"));

  auto parts = std::make_shared<PlacementManifest::Parts>();
  parts->model_id = std::move(model_id_);
  parts->revision = std::move(revision_);
  std::vector<std::uint32_t> row_of_old;
  parts->tensors = sorted_tensors(tensors_.columns(), row_of_old);
  tensors_ = {};
  fragments_.boxes.renumber_tensors(row_of_old);
  fragments_.boxes.sort_ranks();
  if (is_identity(order)) {
    parts->fragments = std::move(fragments_);
  } else {
    parts->fragments.ids = in_order(fragments_.ids, order);
    fragments_.ids = {};
    parts->fragments.boxes = fragments_.boxes.in_order(order);
  }
  fragments_ = {};
  const BoxColumns& boxes = parts->fragments.boxes;
  parts->by_tensor = FragmentsOfTensors(parts->tensors.size(), boxes);
  SY_RETURN_IF_ERROR(
      check_boxes_disjoint(parts->tensors, boxes, parts->by_tensor, [&order](std::size_t row) { return order[row]; }));

  PlacementIdentity identity = identify({parts->model_id, parts->revision, parts->tensors, parts->fragments});
  if (wanted_id_ && *wanted_id_ != identity.placement_id) {
    return contract_error(Path("placement_id"),
                          fmt::format("placement_id does not match canonical logical content: found {}, derived {}",
                                      shown(*wanted_id_), identity.placement_id));
  }
  parts->placement_id = std::move(identity.placement_id);
  parts->digest = std::move(identity.digest);
  parts->layout_digest = std::move(identity.layout_digest);
  return PlacementManifest(std::move(parts));
}

}  // namespace steelyard::placement
