// From memory to placement: what a runtime manifest says about the layout, without its addresses.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "placement/placement_manifest.h"
#include "placement/runtime_manifest.h"

namespace steelyard::placement {

/// The id of a fragment that has none of its own: "logical:" and the SHA-256 of its canonical JSON. The same box gives
/// the same id after a restart.
std::string logical_fragment_id(const PlacementFragmentRow& row);

/// `placement_id`, else the manifest's own, must be the one derived.
Result<PlacementManifest> placement_of(const RuntimeManifest& manifest,
                                       std::optional<std::string_view> placement_id = std::nullopt);

/// The addresses of a manifest as a binding to its placement. It needs a lease and a generation.
Result<RuntimeBindingManifest> binding_of(const RuntimeManifest& manifest,
                                          std::optional<std::string_view> placement_id = std::nullopt);

}  // namespace steelyard::placement
