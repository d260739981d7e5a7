#include "hash/framed.h"

#include <string>

namespace steelyard::hash {

FramedSha256& FramedSha256::add(std::string_view part) {
  std::string frame = std::to_string(part.size());
  frame.push_back(':');
  sha_.update(as_bytes(frame));
  sha_.update(as_bytes(part));
  sha_.update(as_bytes("\n"));
  return *this;
}

}  // namespace steelyard::hash
