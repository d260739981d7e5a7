// Reading a revision's manifest from a tier, and checking that it is the one the record names.
#pragma once

#include <string>

#include "base/status.h"
#include "formats/stored_manifest.h"
#include "metadata/types.h"
#include "tiers/tier.h"

namespace steelyard::store {

/// The bytes of an attempt's manifest. NOT_FOUND, CORRUPT when it is larger than a manifest may be.
Result<std::string> read_manifest_bytes(tiers::Tier& tier, const tiers::AttemptName& attempt);

/// The manifest of a committed revision: its SHA-256 is the record's and its identity too, else CORRUPT (a missing one
/// is CORRUPT as well: the record says that it must be there).
Result<formats::StoredManifest> load_manifest(tiers::Tier& tier, const metadata::RevisionRecord& record);

}  // namespace steelyard::store
