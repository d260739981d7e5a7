#include <array>
#include <charconv>

#include "base/check.h"
#include "formats/canonical_json.h"

namespace steelyard::formats {
namespace {

using ByteSet = std::array<bool, 256>;

constexpr ByteSet kEscapedInUtf8 = [] {
  ByteSet needs{};
  for (unsigned c = 0; c < 0x20; ++c) needs[c] = true;
  needs['"'] = true;
  needs['\\'] = true;
  return needs;
}();

constexpr ByteSet kEscapedInAscii = [] {
  ByteSet needs = kEscapedInUtf8;
  for (unsigned c = 0x7F; c < 0x100; ++c) needs[c] = true;
  return needs;
}();

bool needs_escape(const ByteSet& set, char c) { return set[static_cast<unsigned char>(c)]; }

void append_escape(char c, std::string& out) {
  static constexpr char kHex[] = "0123456789abcdef";
  switch (c) {
    case '\b':
      out += "\\b";
      return;
    case '\f':
      out += "\\f";
      return;
    case '\n':
      out += "\\n";
      return;
    case '\r':
      out += "\\r";
      return;
    case '\t':
      out += "\\t";
      return;
    case '"':
      out += "\\\"";
      return;
    case '\\':
      out += "\\\\";
      return;
    default:
      out += "\\u00";
      out += kHex[static_cast<unsigned char>(c) >> 4];
      out += kHex[static_cast<unsigned char>(c) & 15];
  }
}

void append_unit(std::uint32_t unit, std::string& out) {
  static constexpr char kHex[] = "0123456789abcdef";
  out += "\\u";
  for (const int shift : {12, 8, 4, 0}) out += kHex[unit >> shift & 15U];
}

/// Escapes the character of valid UTF-8 that begins at `at`; gives its length.
std::size_t append_character_escape(std::string_view text, std::size_t at, std::string& out) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint32_t>(static_cast<unsigned char>(text[i])); };
  const std::uint32_t lead = byte(at);
  const std::size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  SY_CHECK(lead >= 0xC2 && at + length <= text.size(), "canonical JSON is made of valid UTF-8");
  std::uint32_t code = lead & (0xFFU >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) code = code << 6 | (byte(at + i) & 0x3FU);
  if (code < 0x10000) {
    append_unit(code, out);
  } else {
    append_unit(0xD800 + ((code - 0x10000) >> 10), out);
    append_unit(0xDC00 + ((code - 0x10000) & 0x3FFU), out);
  }
  return length;
}

template <typename T>
void append_number(T value, std::string& out) {
  char digits[24];
  const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
  out.append(digits, end);
}

}  // namespace

void CanonicalJsonWriter::before_value() {
  if (levels_.empty()) return;
  Level& level = levels_.back();
  if (level.object) {
    SY_CHECK(key_pending_, "a value in an object needs its key first");
    key_pending_ = false;
  } else {
    if (!level.first) out_ += ',';
    level.first = false;
  }
}

void CanonicalJsonWriter::begin_object() {
  before_value();
  out_ += '{';
  levels_.push_back({true, true, {}});
}

void CanonicalJsonWriter::key(std::string_view name) {
  SY_CHECK(!levels_.empty() && levels_.back().object && !key_pending_, "a key stands only in an object");
  Level& level = levels_.back();
  if (!level.first) {
    SY_CHECK(level.last_key < name, "keys of canonical JSON ascend");
    out_ += ',';
  }
  level.first = false;
  level.last_key = name;
  put_string(name);
  out_ += ':';
  key_pending_ = true;
}

void CanonicalJsonWriter::end_object() {
  SY_CHECK(!levels_.empty() && levels_.back().object && !key_pending_, "no object to end");
  levels_.pop_back();
  out_ += '}';
}

void CanonicalJsonWriter::begin_array() {
  before_value();
  out_ += '[';
  levels_.push_back({false, true, {}});
}

void CanonicalJsonWriter::end_array() {
  SY_CHECK(!levels_.empty() && !levels_.back().object, "no array to end");
  levels_.pop_back();
  out_ += ']';
}

void CanonicalJsonWriter::string(std::string_view text) {
  before_value();
  put_string(text);
}

void CanonicalJsonWriter::put_string(std::string_view text) {
  const ByteSet& escaped = form_ == CanonicalForm::kAscii ? kEscapedInAscii : kEscapedInUtf8;
  out_ += '"';
  std::size_t plain = 0;
  for (std::size_t i = 0; i < text.size();) {
    if (!needs_escape(escaped, text[i])) {
      ++i;
      continue;
    }
    out_.append(text, plain, i - plain);
    if (static_cast<unsigned char>(text[i]) < 0x80) {
      append_escape(text[i++], out_);
    } else {
      i += append_character_escape(text, i, out_);
    }
    plain = i;
  }
  out_.append(text, plain, text.size() - plain);
  out_ += '"';
}

void CanonicalJsonWriter::integer(std::int64_t value) {
  before_value();
  append_number(value, out_);
}

void CanonicalJsonWriter::integer(std::uint64_t value) {
  before_value();
  append_number(value, out_);
}

void CanonicalJsonWriter::null() {
  before_value();
  out_ += "null";
}

}  // namespace steelyard::formats
