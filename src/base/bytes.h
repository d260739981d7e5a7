// Views of raw bytes, and the few conversions everybody needs.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace steelyard {

using ByteView = std::span<const std::byte>;
using ByteSpan = std::span<std::byte>;

inline ByteView as_bytes(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}
inline std::string_view as_text(ByteView bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

/// Lower-case hex, two digits a byte.
std::string to_hex(ByteView bytes);
/// Fills `out` from exactly 2 * out.size() lower-case hex digits; false for anything else.
bool from_hex(std::string_view hex, ByteSpan out);

/// A SHA-256 value. Ordered by bytes.
struct Digest {
  std::array<std::byte, 32> bytes{};
  std::string hex() const { return to_hex(bytes); }
  auto operator<=>(const Digest&) const = default;
};

}  // namespace steelyard
