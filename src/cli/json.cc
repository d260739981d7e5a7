#include "cli/json.h"

#include <cstdio>

#include "base/utf8.h"

namespace steelyard::cli {
namespace {

void append_escaped(std::string& out, std::string_view text) {
  static constexpr char kHex[] = "0123456789abcdef";
  out.push_back('"');
  for (char c : text) {
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20U) {
          out += "\\u00";
          out.push_back(kHex[static_cast<unsigned char>(c) >> 4U]);
          out.push_back(kHex[static_cast<unsigned char>(c) & 0xFU]);
        } else {
          out.push_back(c);
        }
    }
  }
  out.push_back('"');
}

}  // namespace

void Json::separate() {
  if (after_key_) {
    after_key_ = false;
    return;
  }
  if (!first_) out_.push_back(',');
  first_ = false;
}

Json& Json::open(char bracket) {
  separate();
  out_.push_back(bracket);
  first_ = true;
  return *this;
}

Json& Json::close(char bracket) {
  out_.push_back(bracket);
  first_ = false;
  return *this;
}

Json& Json::key(std::string_view name) {
  separate();
  append_escaped(out_, name);
  out_.push_back(':');
  after_key_ = true;
  return *this;
}

Json& Json::string(std::string_view text) {
  separate();
  if (is_valid_utf8(text)) {
    append_escaped(out_, text);
  } else {
    append_escaped(out_, printable(text));
  }
  return *this;
}

Json& Json::seconds(double number) {
  char digits[64];
  std::snprintf(digits, sizeof digits, "%.3f", number);
  return raw(digits);
}

Json& Json::raw(std::string_view text) {
  separate();
  out_.append(text);
  return *this;
}

}  // namespace steelyard::cli
