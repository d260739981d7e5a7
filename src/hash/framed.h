// Framed digests: SHA-256 over parts that cannot run into each other.
//
// Each part is framed as its decimal byte length, `:`, its bytes, `\n`. {"p1", "p2"} digests "2:p1\n2:p2\n".
#pragma once

#include <span>
#include <string_view>

#include "base/bytes.h"
#include "hash/sha256.h"

namespace steelyard::hash {

class FramedSha256 {
 public:
  FramedSha256& add(std::string_view part);
  Digest finish() { return sha_.finish(); }

 private:
  Sha256 sha_;
};

}  // namespace steelyard::hash
