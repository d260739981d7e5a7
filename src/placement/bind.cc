#include "placement/bind.h"

#include <fmt/format.h>

#include "placement/errors.h"

namespace steelyard::placement {
namespace {

Status differ(std::string_view field, std::string_view placement, std::string_view binding) {
  return contract_error(
      Path(field), fmt::format("placement and binding {} differ: {} and {}", field, shown(placement), shown(binding)));
}

}  // namespace

Status check_binding_of(const PlacementManifest& placement, const RuntimeBindingManifest& binding) {
  const BindingHeader& header = binding.header();
  if (placement.model_id() != header.model_id) return differ("model_id", placement.model_id(), header.model_id);
  if (placement.revision() != header.revision) return differ("revision", placement.revision(), header.revision);
  if (placement.placement_id() != header.placement_id) {
    return differ("placement_id", placement.placement_id(), header.placement_id);
  }
  if (placement.digest() != header.placement_digest) {
    return differ("placement_digest", placement.digest(), header.placement_digest);
  }
  return {};
}

Result<RuntimeManifest> bind(const PlacementManifest& placement, const RuntimeBindingManifest& binding) {
  SY_RETURN_IF_ERROR(check_binding_of(placement, binding));
  const PlacementFragments& placed = placement.fragments();
  const BindingFragments& bound = binding.fragments();
  // Both ascend by the placement's ids.
  const Path fragments("fragments");
  std::size_t at = 0;
  for (std::size_t i = 0; i < bound.size(); ++i, ++at) {
    while (at < placed.size() && placed.ids.at(at) < bound.placement_ids.at(i)) ++at;
    if (at < placed.size() && placed.ids.at(at) == bound.placement_ids.at(i)) continue;
    return contract_error(Path(&fragments, i), fmt::format("binding has an unknown placement fragment {}",
                                                           shown(bound.placement_ids.at(i))));
  }
  for (std::size_t i = 0; i < placed.size(); ++i) {
    if (i < bound.size() && bound.placement_ids.at(i) == placed.ids.at(i)) continue;
    return contract_error(Path("fragments"), fmt::format("binding has a missing placement fragment: {} is not in it",
                                                         shown(placed.ids.at(i))));
  }
  const BindingHeader& header = binding.header();
  RuntimeBuilder builder({.model_id = header.model_id,
                          .revision = header.revision,
                          .instance_id = header.instance_id,
                          .lease_id = header.lease_id,
                          .placement_id = header.placement_id,
                          .generation = header.generation});
  builder.reserve(placement.tensors().size(), placed.size());
  for (std::size_t i = 0; i < placement.tensors().size(); ++i) {
    SY_RETURN_IF_ERROR(builder.add_tensor(placement.tensors().row(i)));
  }
  for (std::size_t i = 0; i < placed.size(); ++i) {
    if (placed.boxes.nbytes(i) != bound.nbytes[i]) {
      const Path path(&fragments, i);
      return contract_error(Path(&path, "nbytes"),
                            fmt::format("binding byte size mismatch: fragment {} has {} bytes in the placement, {} in "
                                        "the binding",
                                        shown(placed.ids.at(i)), placed.boxes.nbytes(i), bound.nbytes[i]));
    }
    SY_RETURN_IF_ERROR(builder.add_fragment({.fragment_id = bound.ids.at(i),
                                             .tensor_id = placement.tensors().tensor_id(placed.boxes.tensor(i)),
                                             .global_offset = placed.boxes.offset(i),
                                             .local_shape = placed.boxes.shape(i),
                                             .place = bound.places.place(i),
                                             .nbytes = bound.nbytes[i],
                                             .rank = placed.boxes.rank(i),
                                             .lease_generation = header.generation,
                                             .owner = bound.places.owner(i),
                                             .aliases = placed.boxes.aliases(i),
                                             .placement_fragment_id = placed.ids.at(i)}));
  }
  return std::move(builder).build();
}

Status check_fence(const RuntimeBindingManifest& binding, std::string_view lease_id, std::uint64_t generation) {
  const BindingHeader& header = binding.header();
  if (header.lease_id != lease_id) {
    return contract_error(Path("lease_id"), fmt::format("binding fence: lease_id differ: the binding has {}, wanted {}",
                                                        shown(header.lease_id), shown(lease_id)));
  }
  if (header.generation != generation) {
    return contract_error(
        Path("generation"),
        fmt::format("binding fence: generation differ: the binding has {}, wanted {}", header.generation, generation));
  }
  return {};
}

}  // namespace steelyard::placement
