#include "store/file_segments.h"

#include <algorithm>

namespace steelyard::store {

std::vector<formats::ObjectRange> segments_of(const formats::StoredManifest& manifest, const formats::FileEntry& file,
                                              std::uint64_t first, std::uint64_t bytes) {
  std::vector<formats::ObjectRange> segments;
  std::uint64_t piece_begin = 0;
  const std::uint64_t end = first + bytes;
  for (const formats::Piece& piece : file.pieces) {
    const std::uint64_t piece_end = piece_begin + piece.bytes;
    const std::uint64_t begin = std::max(first, piece_begin);
    const std::uint64_t stop = std::min(end, piece_end);
    if (begin < stop) {
      const auto ranges =
          formats::ranges_of(manifest.runs[piece.run], piece.offset + (begin - piece_begin), stop - begin);
      segments.insert(segments.end(), ranges.begin(), ranges.end());
    }
    piece_begin = piece_end;
  }
  return segments;
}

const formats::FileEntry* find_file(const formats::StoredManifest& manifest, std::string_view path) {
  const auto found =
      std::lower_bound(manifest.files.begin(), manifest.files.end(), path,
                       [](const formats::FileEntry& file, std::string_view key) { return file.path < key; });
  return found != manifest.files.end() && found->path == path ? &*found : nullptr;
}

}  // namespace steelyard::store
