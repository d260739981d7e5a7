// The canonical text of a placement, and what is digested of it. docs/formats/placement.md has the grammar.
#pragma once

#include <string>
#include <string_view>

#include "formats/canonical_json.h"
#include "placement/columns.h"
#include "placement/placement_manifest.h"
#include "placement/types.h"

namespace steelyard::placement {

/// The content of a placement in canonical order.
struct PlacementContent {
  std::string_view model_id;
  std::string_view revision;
  const TensorColumns& tensors;
  const PlacementFragments& fragments;
};

struct PlacementIdentity {
  std::string placement_id;   ///< "sha256:…"
  std::string digest;         ///< hex
  std::string layout_digest;  ///< hex
};

PlacementIdentity identify(const PlacementContent& content);
/// The text of PlacementManifest::to_json.
std::string write_placement(const PlacementContent& content, std::string_view placement_id);

/// The canonical JSON that a logical fragment id is the digest of. The row's aliases are sorted.
std::string logical_fragment_text(const PlacementFragmentRow& row);

}  // namespace steelyard::placement
