// The canary: a parser with a mistake in it. If fuzzing does not find it, fuzzing finds nothing.
//
// rooms: base
#include <cstddef>
#include <cstdint>

#include "base/check.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // Four nested comparisons: random bytes would need 2^32 tries, coverage needs a few thousand.
  const bool found = size >= 4 && data[0] == 'b' && data[1] == 'a' && data[2] == 'd' && data[3] == '!';
  SY_CHECK(!found, "the planted mistake");
  return 0;
}
