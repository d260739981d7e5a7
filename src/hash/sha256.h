// SHA-256 (FIPS 180-4). Thread-compatible values.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/bytes.h"

namespace steelyard::hash {

/// A running SHA-256. Copying copies the state so far.
class Sha256 {
 public:
  Sha256();
  void update(ByteView bytes);
  /// The digest of everything so far. The object is then as new.
  Digest finish();

  /// Advances two independent digests at once, each over its own bytes; on a CPU with SHA instructions both together
  /// cost little more than one. Same result as two calls of update.
  static void update_two(Sha256& a, ByteView a_bytes, Sha256& b, ByteView b_bytes);

 private:
  std::array<std::uint32_t, 8> state_;
  std::array<std::byte, 64> tail_;  ///< bytes that do not fill a block yet
  std::uint64_t total_bytes_ = 0;
};

Digest sha256(ByteView bytes);
std::string sha256_hex(std::string_view text);

}  // namespace steelyard::hash
