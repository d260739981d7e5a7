#include "base/bytes.h"

#include <array>

namespace steelyard {
namespace {

constexpr std::array<signed char, 256> kHexValues = [] {
  std::array<signed char, 256> values{};
  values.fill(-1);
  for (int i = 0; i < 10; ++i) values[static_cast<std::size_t>('0' + i)] = static_cast<signed char>(i);
  for (int i = 0; i < 6; ++i) values[static_cast<std::size_t>('a' + i)] = static_cast<signed char>(10 + i);
  return values;
}();

int hex_value(char c) { return kHexValues[static_cast<unsigned char>(c)]; }

}  // namespace

std::string to_hex(ByteView bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text(bytes.size() * 2, '\0');
  char* out = text.data();
  for (std::byte b : bytes) {
    *out++ = kDigits[std::to_integer<unsigned>(b) >> 4];
    *out++ = kDigits[std::to_integer<unsigned>(b) & 15];
  }
  return text;
}

bool from_hex(std::string_view hex, ByteSpan out) {
  if (hex.size() != out.size() * 2) return false;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const int high = hex_value(hex[2 * i]);
    const int low = hex_value(hex[2 * i + 1]);
    if (high < 0 || low < 0) return false;
    out[i] = static_cast<std::byte>(high * 16 + low);
  }
  return true;
}

}  // namespace steelyard
