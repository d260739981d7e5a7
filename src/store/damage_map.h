// DamageMap: which files and tensors a place in a payload object belongs to.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "formats/stored_manifest.h"
#include "store/verified_reader.h"

namespace steelyard::store {

/// The problem as a person needs it: file, all tensors whose bytes touch the bad block (the whole object when no block
/// is known), object key. Linear in the manifest; damage is rare.
Problem describe(const formats::StoredManifest& manifest, const BadObject& bad);

}  // namespace steelyard::store
