#include <array>
#include <charconv>

#include "base/check.h"
#include "formats/canonical_json.h"

namespace steelyard::formats {
namespace {

constexpr auto kNeedsEscape = [] {
  std::array<bool, 256> needs{};
  for (unsigned c = 0; c < 0x20; ++c) needs[c] = true;
  needs['"'] = true;
  needs['\\'] = true;
  return needs;
}();

bool needs_escape(char c) { return kNeedsEscape[static_cast<unsigned char>(c)]; }

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
  static_assert(static_cast<int>(CanonicalForm::kUtf8) == 0, "another form spells strings here");
  SY_CHECK(form_ == CanonicalForm::kUtf8, "unknown form of canonical JSON");
  out_ += '"';
  std::size_t plain = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (!needs_escape(text[i])) continue;
    out_.append(text, plain, i - plain);
    append_escape(text[i], out_);
    plain = i + 1;
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

}  // namespace steelyard::formats
