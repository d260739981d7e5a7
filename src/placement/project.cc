#include "placement/project.h"

#include "base/bytes.h"
#include "hash/sha256.h"
#include "placement/errors.h"
#include "placement/gather.h"
#include "placement/identity.h"

namespace steelyard::placement {
namespace {

/// The fragment without its memory; `id` holds the id of one that has none.
PlacementFragmentRow placed(const RuntimeManifest& manifest, std::size_t row, std::string& id) {
  const BoxColumns& boxes = manifest.fragments().boxes;
  PlacementFragmentRow out;
  out.tensor_id = manifest.tensors().tensor_id(boxes.tensor(row));
  out.global_offset = boxes.offset(row);
  out.local_shape = boxes.shape(row);
  out.nbytes = boxes.nbytes(row);
  out.rank = boxes.rank(row);
  out.aliases = boxes.aliases(row);
  if (const auto given = manifest.fragments().placement_fragment_id(row)) {
    out.placement_fragment_id = *given;
  } else {
    id = logical_fragment_id(out);
    out.placement_fragment_id = id;
  }
  return out;
}

}  // namespace

std::string logical_fragment_id(const PlacementFragmentRow& row) {
  PlacementFragmentRow canonical_row = row;
  canonical_row.aliases = sorted(row.aliases);
  return "logical:" + hash::sha256_hex(logical_fragment_text(canonical_row));
}

Result<PlacementManifest> placement_of(const RuntimeManifest& manifest, std::optional<std::string_view> placement_id) {
  const RuntimeHeader& header = manifest.header();
  if (!placement_id && header.placement_id) placement_id = *header.placement_id;
  PlacementBuilder builder(header.model_id, header.revision, placement_id);
  builder.reserve(manifest.tensors().size(), manifest.fragments().size());
  for (std::size_t i = 0; i < manifest.tensors().size(); ++i) {
    SY_RETURN_IF_ERROR(builder.add_tensor(manifest.tensors().row(i)));
  }
  std::string id;
  for (std::size_t i = 0; i < manifest.fragments().size(); ++i) {
    SY_RETURN_IF_ERROR(builder.add_fragment(placed(manifest, i, id)));
  }
  return std::move(builder).build();
}

Result<RuntimeBindingManifest> binding_of(const RuntimeManifest& manifest,
                                          std::optional<std::string_view> placement_id) {
  const RuntimeHeader& header = manifest.header();
  if (!header.lease_id) return contract_error(Path("lease_id"), "runtime manifest has no lease_id");
  if (!header.generation) return contract_error(Path("generation"), "runtime manifest has no generation");
  SY_ASSIGN_OR_RETURN(const PlacementManifest placement, placement_of(manifest, placement_id));
  BindingBuilder builder({.model_id = header.model_id,
                          .revision = header.revision,
                          .placement_id = placement.placement_id(),
                          .placement_digest = placement.digest(),
                          .instance_id = header.instance_id,
                          .generation = *header.generation,
                          .lease_id = *header.lease_id});
  const RuntimeFragments& fragments = manifest.fragments();
  builder.reserve(fragments.size());
  std::string id;
  for (std::size_t i = 0; i < fragments.size(); ++i) {
    SY_RETURN_IF_ERROR(builder.add_fragment({.placement_fragment_id = placed(manifest, i, id).placement_fragment_id,
                                             .fragment_id = fragments.ids.at(i),
                                             .place = fragments.places.place(i),
                                             .nbytes = fragments.boxes.nbytes(i),
                                             .owner = fragments.places.owner(i)}));
  }
  return std::move(builder).build();
}

}  // namespace steelyard::placement
