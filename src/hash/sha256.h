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
  /// cost much less than twice one, least when the bytes are the same and so are the positions modulo 64. Same result
  /// as two calls of update.
  static void update_two(Sha256& a, ByteView a_bytes, Sha256& b, ByteView b_bytes);

 private:
  /// Completes the block begun in the tail and compresses it if it is full; returns the bytes not taken. While some are
  /// left the tail is empty.
  ByteView fill_tail(ByteView bytes);
  /// Takes bytes that begin on a block boundary, of which the first `compressed` blocks are in the state already.
  void take_blocks_and_tail(ByteView bytes, std::size_t compressed);

  std::array<std::uint32_t, 8> state_;
  std::array<std::byte, 64> tail_;  ///< bytes that do not fill a block yet
  std::uint64_t total_bytes_ = 0;
};

Digest sha256(ByteView bytes);
std::string sha256_hex(std::string_view text);

}  // namespace steelyard::hash
