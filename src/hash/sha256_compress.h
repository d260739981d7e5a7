// The compression function of SHA-256: the part that depends on the CPU. For sha256.cc and its tests.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace steelyard::hash::compress {

using State = std::array<std::uint32_t, 8>;

/// Advances one or two states over `count` blocks of 64 bytes each.
struct Functions {
  void (*one)(State& state, const std::byte* blocks, std::size_t count);
  /// Two states, each over its own bytes. The states are distinct; the bytes may be the same.
  void (*two)(State& a, const std::byte* a_blocks, State& b, const std::byte* b_blocks, std::size_t count);
};

/// OpenSSL's, which runs everywhere.
const Functions& openssl();
/// With the CPU's SHA instructions; null where it has none.
const Functions* sha_instructions();
/// The fastest here.
const Functions& best();

}  // namespace steelyard::hash::compress
