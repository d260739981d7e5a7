// Whatever from_json takes writes itself again, in the one canonical way, and that is taken too.
//
// rooms: base hash geometry formats placement
#include <cstddef>
#include <string_view>

#include "base/check.h"
#include "placement/placement_manifest.h"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  using steelyard::placement::PlacementManifest;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto manifest = PlacementManifest::from_json(text);
  if (!manifest.ok()) {
    SY_CHECK(manifest.code() == steelyard::Code::kInvalidArgument, "bad text is a bad argument");
    return 0;
  }
  const std::string written = manifest->to_json();
  const auto again = PlacementManifest::from_json(written);
  SY_CHECK(again.ok() && *again == *manifest && again->to_json() == written, "a placement has one form");
  return 0;
}
