// The folders of a hub cache: `models--ORG--NAME` with `blobs`, `refs` and `snapshots/COMMIT` of links into `blobs`.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace steelyard::store {

struct HubPlace {
  std::string repository;  ///< `.../models--ORG--NAME`
  std::string resource_id;
  std::string revision;
};

/// Reads `.../models--ORG--NAME/snapshots/SHA`, by its spelling alone.
std::optional<HubPlace> hub_place(std::string_view path);

/// The ref whose content is the place's revision, `main` before others: its name may have several parts (`pr/1`).
std::optional<std::string> hub_ref_of(const HubPlace& hub);

/// INVALID_ARGUMENT for a folder of a hub cache that is no snapshot, naming the snapshots that may be meant: a whole
/// cache (or what holds it as `hub`) without a weight file of its own, one repository, its `snapshots`.
Status refuse_hub_folder(const std::string& path);

}  // namespace steelyard::store
