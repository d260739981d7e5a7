// From a file of a manifest to the object ranges that hold its bytes.
#pragma once

#include <cstdint>
#include <vector>

#include "formats/stored_manifest.h"

namespace steelyard::store {

/// The ranges of payload objects that hold [first, first + bytes) of the file, in file order.
std::vector<formats::ObjectRange> segments_of(const formats::StoredManifest& manifest, const formats::FileEntry& file,
                                              std::uint64_t first, std::uint64_t bytes);
inline std::vector<formats::ObjectRange> segments_of(const formats::StoredManifest& manifest,
                                                     const formats::FileEntry& file) {
  return segments_of(manifest, file, 0, file.bytes);
}

/// Finds a file by path in a manifest (its files are sorted); null when it is not there.
const formats::FileEntry* find_file(const formats::StoredManifest& manifest, std::string_view path);

}  // namespace steelyard::store
