// Whatever parse_ref takes can be printed and parsed again.
//
// rooms: base hash formats
#include <cstddef>
#include <string_view>

#include "formats/ref.h"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  const auto ref = steelyard::formats::parse_ref({reinterpret_cast<const char*>(data), size});
  if (!ref.ok()) return 0;
  const steelyard::formats::Identity identity{{"t", "n", ref->resource_id, ref->revision.value_or("main")},
                                              ref->weight_generation.value_or(1)};
  const auto again = steelyard::formats::parse_ref(steelyard::formats::format_ref(identity));
  if (!again.ok() || again->resource_id != ref->resource_id) __builtin_trap();
  return 0;
}
