#include "hash/framed.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <limits>
#include <string_view>

namespace steelyard::hash {

FramedSha256& FramedSha256::add(std::string_view part) {
  // In one piece where it is short, as names are: an update costs more than the bytes of a name.
  constexpr std::size_t kDigitsMax = std::numeric_limits<std::size_t>::digits10 + 1;
  char frame[256];
  char* const digits_end = std::to_chars(frame, frame + kDigitsMax, part.size()).ptr;
  *digits_end = ':';
  char* const begin = digits_end + 1;
  const auto framed = [&](const char* end) {
    return as_bytes(std::string_view(frame, static_cast<std::size_t>(end - frame)));
  };
  if (part.size() < sizeof frame - kDigitsMax - 1) {
    char* const end = std::copy(part.begin(), part.end(), begin);
    *end = '\n';
    sha_.update(framed(end + 1));
    return *this;
  }
  sha_.update(framed(begin));
  sha_.update(as_bytes(part));
  sha_.update(as_bytes("\n"));
  return *this;
}

}  // namespace steelyard::hash
