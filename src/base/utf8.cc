#include "base/utf8.h"

#include <cstdint>
#include <cstring>

namespace steelyard {
namespace {

struct Decoded {
  char32_t code_point = 0;
  std::size_t bytes = 0;  ///< 0: not valid here
};

Decoded decode(std::string_view text) {
  const auto byte_at = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte_at(0);
  if (lead < 0x80) return {lead, 1};
  std::size_t bytes = 0;
  char32_t value = 0;
  char32_t least = 0;
  if (lead >= 0xC2 && lead <= 0xDF) {
    bytes = 2, value = lead & 0x1FU, least = 0x80;
  } else if ((lead & 0xF0U) == 0xE0) {
    bytes = 3, value = lead & 0x0FU, least = 0x800;
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    bytes = 4, value = lead & 0x07U, least = 0x10000;
  } else {
    return {};
  }
  if (text.size() < bytes) return {};
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte_at(i) & 0xC0U) != 0x80) return {};
    value = (value << 6) | (byte_at(i) & 0x3FU);
  }
  if (value < least || value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF)) return {};
  return {value, bytes};
}

/// Bytes at the beginning that are ASCII, in whole words of eight: most names are nothing else.
std::size_t leading_ascii_words(std::string_view text) {
  std::size_t at = 0;
  for (; at + 8 <= text.size(); at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, text.data() + at, 8);
    if ((word & 0x8080808080808080U) != 0) break;
  }
  return at;
}

bool is_control(char32_t code_point) { return code_point < 0x20 || (code_point >= 0x7F && code_point <= 0x9F); }

}  // namespace

bool is_valid_utf8(std::string_view text) {
  while (!text.empty()) {
    text.remove_prefix(leading_ascii_words(text));
    if (text.empty()) break;
    const Decoded next = decode(text);
    if (next.bytes == 0) return false;
    text.remove_prefix(next.bytes);
  }
  return true;
}

bool has_control_character(std::string_view text) {
  while (!text.empty()) {
    const Decoded next = decode(text);
    if (next.bytes == 0 || is_control(next.code_point)) return true;
    text.remove_prefix(next.bytes);
  }
  return false;
}

std::string printable(std::string_view text) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  while (!text.empty()) {
    const Decoded next = decode(text);
    const std::size_t bytes = next.bytes == 0 ? 1 : next.bytes;
    if (next.bytes == 0 || is_control(next.code_point)) {
      for (const char c : text.substr(0, bytes)) {
        const auto byte = static_cast<unsigned char>(c);
        out.append("\\x").append(1, kDigits[byte >> 4]).append(1, kDigits[byte & 15]);
      }
    } else {
      out.append(text.substr(0, bytes));
    }
    text.remove_prefix(bytes);
  }
  return out;
}

std::string in_quotes(std::string_view text) {
  if (text.size() <= kQuotedBytesMax) return "\"" + printable(text) + "\"";
  std::size_t end = kQuotedBytesMax;
  // Back to the beginning of a character; text that is no UTF-8 is cut where it is.
  constexpr std::size_t kCharacterBytesMax = 4;
  for (std::size_t at = end; at > end - kCharacterBytesMax; --at) {
    if ((static_cast<unsigned char>(text[at]) & 0xC0U) == 0x80U) continue;
    end = at;
    break;
  }
  return "\"" + printable(text.substr(0, end)) + "…\" (" + std::to_string(text.size()) + " bytes)";
}

std::string shell_word(std::string_view text) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=:,./@%#";
  // A `#` in a word is no comment; one that begins it is.
  const bool plain = !text.empty() && text[0] != '#' && text.find_first_not_of(kPlain) == std::string_view::npos;
  if (plain) return std::string(text);
  std::string word = "'";
  for (const char c : text) {
    if (c == '\'') {
      word += "'\\''";  // the quotes end, and begin again
    } else {
      word += c;
    }
  }
  return printable(word + "'");
}

}  // namespace steelyard
