// rooms: base hash formats metadata
#include <cstdint>

#include "base/check.h"
#include "metadata/state.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const steelyard::metadata::Entry entry{std::string(reinterpret_cast<const char*>(data), size)};
  const auto changes = steelyard::metadata::changes_of(entry);
  SY_CHECK(!changes.ok() || !changes->empty(), "an accepted entry changes rows");
  steelyard::metadata::load_section(entry.bytes, UINT64_MAX).status().ignore("only crashes are of interest");
  return 0;
}
