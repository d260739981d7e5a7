#include <fmt/format.h>

#include "placement/errors.h"
#include "placement/runtime_manifest.h"
#include "placement/validate.h"

namespace steelyard::placement {

std::optional<std::size_t> BindingFragments::find(std::string_view placement_fragment_id) const {
  return find_sorted(placement_ids, placement_fragment_id);
}

BindingFragmentRow RuntimeBindingManifest::fragment(std::size_t row) const {
  const BindingFragments& all = fragments();
  return {.placement_fragment_id = all.placement_ids.at(row),
          .fragment_id = all.ids.at(row),
          .place = all.places.place(row),
          .nbytes = all.nbytes[row],
          .owner = all.places.owner(row)};
}

bool RuntimeBindingManifest::operator==(const RuntimeBindingManifest& other) const {
  if (parts_ == other.parts_) return true;
  if (header() != other.header() || fragments().nbytes != other.fragments().nbytes) return false;
  for (std::size_t i = 0; i < fragments().size(); ++i) {
    const BindingFragmentRow a = fragment(i);
    const BindingFragmentRow b = other.fragment(i);
    if (a.placement_fragment_id != b.placement_fragment_id || a.fragment_id != b.fragment_id ||
        a.place.address != b.place.address || a.place.worker_id != b.place.worker_id ||
        a.place.endpoint != b.place.endpoint || a.place.device != b.place.device) {
      return false;
    }
  }
  return true;
}

void BindingBuilder::reserve(std::size_t fragments) {
  fragments_.placement_ids.reserve(fragments, 0);
  fragments_.ids.reserve(fragments, 0);
  fragments_.places.reserve(fragments);
  fragments_.nbytes.reserve(fragments);
}

Status BindingBuilder::add_fragment(const BindingFragmentRow& row) {
  const Path fragments("fragments");
  SY_RETURN_IF_ERROR(check_fragment(row, Path(&fragments, fragments_.size())));
  fragments_.placement_ids.push_back(row.placement_fragment_id);
  fragments_.ids.push_back(row.fragment_id);
  fragments_.places.add(row.place, row.owner);
  fragments_.nbytes.push_back(row.nbytes);
  return {};
}

Status BindingBuilder::add_fragments(const BindingFragmentArrays& columns) {
  const std::size_t rows = columns.fragment_id.size();
  SY_RETURN_IF_ERROR(check_array(columns.fragment_id, rows, Path("fragment_id")));
  SY_RETURN_IF_ERROR(check_array(columns.placement_fragment_id, rows, Path("placement_fragment_id")));
  SY_RETURN_IF_ERROR(check_arrays(columns.places, rows));
  SY_RETURN_IF_ERROR(check_array(columns.nbytes.size(), rows, Path("nbytes")));
  if (!columns.owners.empty()) SY_RETURN_IF_ERROR(check_array(columns.owners.size(), rows, Path("owner")));
  reserve(fragments_.size() + rows);
  for (std::size_t i = 0; i < rows; ++i) {
    BindingFragmentRow row;
    row.placement_fragment_id = columns.placement_fragment_id.at(i);
    row.fragment_id = columns.fragment_id.at(i);
    row.place = place_at(columns.places, i);
    row.nbytes = columns.nbytes[i];
    if (!columns.owners.empty()) row.owner = columns.owners[i];
    SY_RETURN_IF_ERROR(add_fragment(row));
  }
  return {};
}

Result<RuntimeBindingManifest> BindingBuilder::build() && {
  SY_RETURN_IF_ERROR(check_text(header_.model_id, Path("model_id")));
  SY_RETURN_IF_ERROR(check_text(header_.revision, Path("revision")));
  SY_RETURN_IF_ERROR(check_text(header_.placement_id, Path("placement_id")));
  SY_RETURN_IF_ERROR(check_digest(header_.placement_digest, Path("placement_digest")));
  SY_RETURN_IF_ERROR(check_text(header_.instance_id, Path("instance_id")));
  SY_RETURN_IF_ERROR(check_text(header_.lease_id, Path("lease_id")));
  SY_ASSIGN_OR_RETURN(const std::vector<std::uint32_t> order,
                      sorted_distinct(fragments_.placement_ids, "placement_fragment_id",
                                      "duplicate placement fragment in runtime binding"));
  SY_RETURN_IF_ERROR(
      sorted_distinct(fragments_.ids, "fragment_id", "duplicate runtime fragment_id in runtime binding").status());
  auto parts = std::make_shared<RuntimeBindingManifest::Parts>();
  parts->header = std::move(header_);
  if (is_identity(order)) {
    parts->fragments = std::move(fragments_);
  } else {
    BindingFragments& out = parts->fragments;
    out.placement_ids = in_order(fragments_.placement_ids, order);
    out.ids = in_order(fragments_.ids, order);
    out.places = fragments_.places.in_order(order);
    out.nbytes.reserve(order.size());
    for (const std::uint32_t row : order) out.nbytes.push_back(fragments_.nbytes[row]);
  }
  return RuntimeBindingManifest(std::move(parts));
}

}  // namespace steelyard::placement
