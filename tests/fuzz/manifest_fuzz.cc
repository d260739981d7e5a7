// Whatever read_manifest takes is spelt in the one canonical way.
// rooms: base hash formats
#include <cstddef>
#include <string_view>

#include "formats/stored_manifest.h"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto manifest = steelyard::formats::read_manifest(text);
  if (manifest.ok() && *steelyard::formats::write_manifest(*manifest) != text) __builtin_trap();
  return 0;
}
