#include "store/damage_map.h"

#include <algorithm>

#include "base/limits.h"
#include "formats/identity.h"

namespace steelyard::store {
namespace {

/// A byte range of a run.
struct RunRange {
  std::uint32_t run = 0;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;

  bool touches(std::uint32_t other_run, std::uint64_t offset, std::uint64_t bytes) const {
    return other_run == run && bytes > 0 && offset < end && begin < offset + bytes;
  }
};

RunRange bad_range(const formats::StoredManifest& manifest, const BadObject& bad) {
  // Runs take consecutive objects: the last run whose first object is not behind the bad one.
  const auto after =
      std::upper_bound(manifest.runs.begin(), manifest.runs.end(), bad.object,
                       [](std::uint32_t object, const formats::Run& run) { return object < run.first_object; });
  const auto run = static_cast<std::uint32_t>(after - manifest.runs.begin() - 1);
  const std::uint64_t object_begin = (bad.object - manifest.runs[run].first_object) * manifest.runs[run].chunk_bytes;
  const std::uint64_t object_end = object_begin + manifest.objects[bad.object].bytes;
  if (!bad.offset) return {run, object_begin, object_end};
  const std::uint64_t begin = object_begin + *bad.offset;
  return {run, begin, std::min(begin + limits::kBlockBytes, object_end)};
}

}  // namespace

Problem describe(const formats::StoredManifest& manifest, const BadObject& bad) {
  Problem problem;
  problem.kind = bad.kind;
  problem.object = formats::payload_key(manifest.identity, bad.object);
  problem.offset = bad.offset;
  problem.expected = bad.expected;
  problem.actual = bad.actual;

  const RunRange range = bad_range(manifest, bad);
  for (const formats::FileEntry& file : manifest.files) {
    const bool hit = std::any_of(file.pieces.begin(), file.pieces.end(), [&](const formats::Piece& piece) {
      return range.touches(piece.run, piece.offset, piece.bytes);
    });
    if (hit) {
      problem.file = file.path;
      break;
    }
  }
  for (std::size_t i = 0; i < manifest.tensors.size(); ++i) {
    const formats::TensorRow row = manifest.tensors.row(i);
    if (row.place && range.touches(row.place->run, row.place->offset, row.place->bytes)) {
      problem.tensors.emplace_back(row.tensor_id);
    }
  }
  for (const formats::FragmentEntry& fragment : manifest.fragments) {
    if (range.touches(fragment.place.run, fragment.place.offset, fragment.place.bytes) &&
        (problem.tensors.empty() || problem.tensors.back() != fragment.tensor_id)) {
      problem.tensors.push_back(fragment.tensor_id);
    }
  }
  std::sort(problem.tensors.begin(), problem.tensors.end());
  problem.tensors.erase(std::unique(problem.tensors.begin(), problem.tensors.end()), problem.tensors.end());
  return problem;
}

}  // namespace steelyard::store
