#include <algorithm>

#include "base/check.h"
#include "base/utf8.h"
#include "formats/canonical_json.h"

namespace steelyard::formats {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

std::string CanonicalJsonReader::path() const {
  std::string out;
  for (const Level& level : levels_) {
    switch (level.kind) {
      case Kind::kObject:
        if (level.current.empty()) break;
        if (!out.empty()) out += '.';
        out += level.current;
        break;
      case Kind::kMap:
        if (!level.first) out += "[" + in_quotes(level.map_key) + "]";
        break;
      case Kind::kArray:
        if (level.index > 0) out += "[" + std::to_string(level.index - 1) + "]";
        break;
    }
  }
  return out;
}

bool CanonicalJsonReader::refuse(std::string_view found_and_wanted) {
  if (error_) return false;
  const std::string where = path();
  error_ = (where.empty() ? std::string("the document") : where) + ": " + std::string(found_and_wanted);
  return false;
}

/// What stands at the current byte, in words.
std::string CanonicalJsonReader::describe() const {
  if (at_ >= text_.size()) return "the end of the text";
  const char c = text_[at_];
  if (c == '{') return "an object";
  if (c == '[') return "an array";
  if (c == '"') return "a string";
  if (is_digit(c) || c == '-') return "a number";
  if (c == ' ' || c == '\n' || c == '\r' || c == '\t') return "white space, which the canonical form does not have";
  for (const std::string_view word : {"true", "false", "null", "NaN", "Infinity"}) {
    if (text_.substr(at_, word.size()) == word) return std::string(word);
  }
  return "byte " + in_quotes(text_.substr(at_, 1));
}

bool CanonicalJsonReader::wrong_value(std::string_view wanted) {
  return refuse("found " + describe() + " at byte " + std::to_string(at_) + "; wanted " + std::string(wanted));
}

bool CanonicalJsonReader::take(char c) {
  if (at_ >= text_.size() || text_[at_] != c) return false;
  ++at_;
  return true;
}

bool CanonicalJsonReader::open(char bracket, Kind kind, std::string_view wanted) {
  if (error_) return false;
  if (!take(bracket)) return wrong_value(wanted);
  levels_.emplace_back();
  levels_.back().kind = kind;
  return true;
}

bool CanonicalJsonReader::begin_object(std::span<const std::string_view> fields) {
  SY_CHECK(fields.size() <= 64, "an object of the format has at most 64 fields");
  if (!open('{', Kind::kObject, "an object")) return false;
  levels_.back().fields = fields;
  return true;
}

/// Looks at the name of the next field without taking it. Field names of the formats have no escapes.
bool CanonicalJsonReader::peek_key(std::string_view& name) {
  std::size_t at = at_;
  if (!levels_.back().first) {
    if (at >= text_.size() || text_[at] != ',') return false;
    ++at;
  }
  if (at >= text_.size() || text_[at] != '"') return false;
  const std::size_t end = text_.find('"', at + 1);
  if (end == std::string_view::npos) return false;
  name = text_.substr(at + 1, end - at - 1);
  return true;
}

bool CanonicalJsonReader::optional_key(std::string_view name) {
  if (error_) return false;
  Level& level = levels_.back();
  const auto field =
      std::find(level.fields.begin() + static_cast<std::ptrdiff_t>(level.next_field), level.fields.end(), name);
  SY_CHECK(level.kind == Kind::kObject && field != level.fields.end(), "fields are asked for in their order");
  // The usual case in one comparison: `,"name":`.
  const std::size_t begin = at_ + (level.first ? 0 : 1);
  const std::size_t after = begin + name.size() + 2;
  const bool there = after < text_.size() && (level.first || text_[at_] == ',') && text_[begin] == '"' &&
                     text_.compare(begin + 1, name.size(), name) == 0 && text_[after - 1] == '"';
  if (!there) return false;
  const auto position = static_cast<std::size_t>(field - level.fields.begin());
  level.seen |= 1ULL << position;
  level.next_field = position + 1;
  level.first = false;
  level.current = *field;
  at_ = after;
  if (!take(':')) return wrong_value("\":\"");
  return true;
}

bool CanonicalJsonReader::key(std::string_view name) {
  if (optional_key(name)) return true;
  return error_ ? false : wrong_key(name);
}

/// The next field is not `wanted` ("" for the end of the object): says why that is wrong.
bool CanonicalJsonReader::wrong_key(std::string_view wanted) {
  Level& level = levels_.back();
  level.current = wanted;
  std::string_view name;
  if (!peek_key(name)) {
    if (!wanted.empty() && at_ < text_.size() && text_[at_] == '}') return refuse("the field is missing");
    return wrong_value(wanted.empty() ? "\"}\" or a field" : "the field");
  }
  const auto field = std::ranges::find(level.fields, name);
  if (field == level.fields.end()) {
    level.current = {};
    return refuse("the field " + in_quotes(name) + " is unknown; wanted only the fields of the format");
  }
  const auto position = static_cast<std::size_t>(field - level.fields.begin());
  if (position >= level.next_field && !wanted.empty()) {
    return refuse("the field is missing: " + in_quotes(name) + " stands in its place");
  }
  level.current = *field;
  if ((level.seen >> position & 1U) != 0) return refuse("the field stands there twice");
  if (position < level.next_field) return refuse("the field is out of order; wanted fields sorted by name");
  return refuse("the field may not stand here");
}

bool CanonicalJsonReader::end_object() {
  if (error_) return false;
  if (!take('}')) return wrong_key({});
  levels_.pop_back();
  return true;
}

bool CanonicalJsonReader::begin_map() { return open('{', Kind::kMap, "an object"); }

bool CanonicalJsonReader::next_entry(std::string& name) {
  if (error_) return false;
  Level& level = levels_.back();
  if (take('}')) {
    levels_.pop_back();
    return false;
  }
  if (!level.first && !take(',')) return wrong_value("\",\" or \"}\"");
  if (at_ >= text_.size() || text_[at_] != '"') return wrong_value("a name");
  std::string_view text;
  if (!scan_string(text)) return false;
  if (!level.first && text <= level.map_key) {
    return refuse(text == level.map_key ? "the name stands there twice"
                                        : in_quotes(text) + " follows it; names are sorted");
  }
  level.first = false;
  level.map_key = text;
  name = text;
  if (!take(':')) return wrong_value("\":\"");
  return true;
}

bool CanonicalJsonReader::begin_array() { return open('[', Kind::kArray, "an array"); }

bool CanonicalJsonReader::next_element() {
  if (error_) return false;
  Level& level = levels_.back();
  if (take(']')) {
    levels_.pop_back();
    return false;
  }
  if (!level.first && !take(',')) return wrong_value("\",\" or \"]\"");
  if (at_ < text_.size() && text_[at_] == ']') return wrong_value("an element after \",\"");
  level.first = false;
  ++level.index;
  return true;
}

bool CanonicalJsonReader::string(std::string_view& out) {
  if (error_) return false;
  if (at_ >= text_.size() || text_[at_] != '"') return wrong_value("a string");
  return scan_string(out);
}

/// At the opening quote. Without escapes the result is a view of the text.
bool CanonicalJsonReader::scan_string(std::string_view& out) {
  const std::size_t begin = ++at_;
  std::size_t plain = begin;
  unsigned char high_bits = 0;
  bool escaped = false;
  for (;; ++at_) {
    if (at_ >= text_.size()) return wrong_value("the closing quote of a string");
    const auto byte = static_cast<unsigned char>(text_[at_]);
    if (byte == '"') break;
    if (byte < 0x20) return wrong_value("its escape: control characters in strings are escaped");
    high_bits |= byte;
    if (byte != '\\') continue;
    if (!escaped) scratch_.clear();
    escaped = true;
    scratch_.append(text_, plain, at_ - plain);
    if (!scan_escape()) return false;
    plain = at_ + 1;
  }
  out = text_.substr(begin, at_ - begin);
  if (escaped) {
    scratch_.append(text_, plain, at_ - plain);
    out = scratch_;
  }
  ++at_;
  if (high_bits >= 0x80 && !is_valid_utf8(out)) return refuse("found " + in_quotes(out) + "; wanted valid UTF-8");
  return true;
}

/// At the backslash; ends at the escape's last byte.
bool CanonicalJsonReader::scan_escape() {
  const auto bad = [&] {
    return refuse("found the escape " + in_quotes(text_.substr(at_, text_.substr(at_, 2) == "\\u" ? 6 : 2)) +
                  "; wanted one of \\b \\f \\n \\r \\t \\\" \\\\, or \\u00xx for another control character");
  };
  const char c = at_ + 1 < text_.size() ? text_[at_ + 1] : '\0';
  static constexpr std::string_view kNames = "bfnrt\"\\";
  static constexpr std::string_view kValues = "\b\f\n\r\t\"\\";
  if (const std::size_t found = kNames.find(c); c != '\0' && found != std::string_view::npos) {
    scratch_ += kValues[found];
    ++at_;
    return true;
  }
  const std::string_view code = text_.substr(at_, 6);
  if (code.size() != 6 || code.substr(0, 4) != "\\u00" || (code[4] != '0' && code[4] != '1')) return bad();
  const bool letter = code[5] >= 'a' && code[5] <= 'f';
  if (!is_digit(code[5]) && !letter) return bad();
  const char value = static_cast<char>((code[4] - '0') * 16 + (letter ? code[5] - 'a' + 10 : code[5] - '0'));
  if (kValues.find(value) != std::string_view::npos) return bad();
  scratch_ += value;
  at_ += 5;
  return true;
}

bool CanonicalJsonReader::scan_number(bool& negative, std::uint64_t& magnitude) {
  if (error_) return false;
  const std::size_t begin = at_;
  negative = take('-');
  if (at_ >= text_.size() || !is_digit(text_[at_])) {
    at_ = begin;
    return wrong_value("an integer");
  }
  const std::size_t digits = at_;
  magnitude = 0;
  bool fits = true;
  for (; at_ < text_.size() && is_digit(text_[at_]); ++at_) {
    const auto digit = static_cast<std::uint64_t>(text_[at_] - '0');
    fits = fits && !__builtin_mul_overflow(magnitude, 10U, &magnitude) &&
           !__builtin_add_overflow(magnitude, digit, &magnitude);
  }
  const std::string_view number = text_.substr(begin, at_ - begin);
  if (at_ < text_.size() && (text_[at_] == '.' || text_[at_] == 'e' || text_[at_] == 'E')) {
    return refuse("found a number with " + in_quotes(text_.substr(at_, 1)) + "; wanted an integer");
  }
  if (text_[digits] == '0' && (at_ - digits > 1 || negative)) {
    return refuse("found " + in_quotes(number) + "; wanted an integer without leading zeros");
  }
  if (!fits) return refuse("found " + in_quotes(number) + "; wanted an integer of 64 bits");
  return true;
}

bool CanonicalJsonReader::integer(std::uint64_t& out) {
  bool negative = false;
  if (!scan_number(negative, out)) return false;
  if (negative) return refuse("found -" + std::to_string(out) + "; wanted at least 0");
  return true;
}

bool CanonicalJsonReader::integer(std::uint32_t& out) {
  std::uint64_t wide = 0;
  if (!integer(wide)) return false;
  if (wide > UINT32_MAX) return refuse("found " + std::to_string(wide) + "; wanted at most 4294967295");
  out = static_cast<std::uint32_t>(wide);
  return true;
}

bool CanonicalJsonReader::integer(std::int64_t& out) {
  bool negative = false;
  std::uint64_t magnitude = 0;
  if (!scan_number(negative, magnitude)) return false;
  constexpr std::uint64_t kMax = INT64_MAX;
  if (magnitude > kMax + (negative ? 1U : 0U)) {
    return refuse("found " + std::string(negative ? "-" : "") + std::to_string(magnitude) +
                  "; wanted an integer of 63 bits and a sign");
  }
  out = static_cast<std::int64_t>(negative ? 0 - magnitude : magnitude);
  return true;
}

bool CanonicalJsonReader::end() {
  if (error_) return false;
  if (at_ == text_.size()) return true;
  return refuse("found " + std::to_string(text_.size() - at_) + " bytes after the end; wanted none");
}

}  // namespace steelyard::formats
