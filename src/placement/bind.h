// From placement and addresses to memory, and the fences in front of it.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/status.h"
#include "placement/placement_manifest.h"
#include "placement/runtime_manifest.h"

namespace steelyard::placement {

/// The binding belongs to the placement: model, revision, placement_id, digest. The errors say that they differ, with
/// both values.
Status check_binding_of(const PlacementManifest& placement, const RuntimeBindingManifest& binding);

/// The placement with addresses, fragments in the placement's order. Everything is checked: both belong together, no
/// fragment is unknown or missing, sizes agree, addresses do not overlap.
Result<RuntimeManifest> bind(const PlacementManifest& placement, const RuntimeBindingManifest& binding);

/// For the moment before memory is touched: the binding is of this lease and this generation.
Status check_fence(const RuntimeBindingManifest& binding, std::string_view lease_id, std::uint64_t generation);

}  // namespace steelyard::placement
