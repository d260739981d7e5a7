#include "formats/json_cursor.h"

#include <fmt/format.h>

#include <bit>
#include <charconv>
#include <cstring>
#include <vector>

#include "base/checked.h"
#include "base/utf8.h"

namespace steelyard::formats {
namespace {

constexpr std::size_t kDepthMax = 128;

bool is_space(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Marks each byte of `word` that ends a run of plain ASCII: a quote, a backslash, a control or a non-ASCII byte.
std::uint64_t special_bytes(std::uint64_t word) {
  constexpr std::uint64_t kOnes = 0x0101010101010101U;
  constexpr std::uint64_t kHighs = 0x8080808080808080U;
  const auto zero_bytes = [](std::uint64_t value) { return (value - kOnes) & ~value & kHighs; };
  // The lowest marked byte is exact; bytes above it may be marked by a borrow, which nobody looks at.
  return zero_bytes(word ^ (kOnes * '"')) | zero_bytes(word ^ (kOnes * '\\')) |
         ((word - kOnes * 0x20) & ~word & kHighs) | (word & kHighs);
}

/// Index of the first special byte at or after `from`, or text.size().
std::size_t find_special(std::string_view text, std::size_t from) {
  static_assert(std::endian::native == std::endian::little);
  while (from + 8 <= text.size()) {
    std::uint64_t word = 0;
    std::memcpy(&word, text.data() + from, 8);
    const std::uint64_t marks = special_bytes(word);
    if (marks != 0) return from + static_cast<std::size_t>(std::countr_zero(marks)) / 8;
    from += 8;
  }
  for (; from < text.size(); ++from) {
    const auto byte = static_cast<unsigned char>(text[from]);
    if (byte == '"' || byte == '\\' || byte < 0x20 || byte >= 0x80) break;
  }
  return from;
}

void append_utf8(std::uint32_t code, std::string& out) {
  const auto push = [&out](std::uint32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (code < 0x80) {
    push(code);
  } else if (code < 0x800) {
    push(0xC0U | (code >> 6));
    push(0x80U | (code & 0x3FU));
  } else if (code < 0x10000) {
    push(0xE0U | (code >> 12));
    push(0x80U | ((code >> 6) & 0x3FU));
    push(0x80U | (code & 0x3FU));
  } else {
    push(0xF0U | (code >> 18));
    push(0x80U | ((code >> 12) & 0x3FU));
    push(0x80U | ((code >> 6) & 0x3FU));
    push(0x80U | (code & 0x3FU));
  }
}

}  // namespace

std::string JsonCursor::found() const {
  if (at_ >= text_.size()) return "the end of the text";
  return fmt::format("'{}'", printable(text_.substr(at_, 1)));
}

Status JsonCursor::error(std::string_view what) const {
  return {Code::kCorrupt, fmt::format("bad JSON at byte {}: {}", at_, what)};
}

void JsonCursor::skip_space() {
  while (at_ < text_.size() && is_space(text_[at_])) ++at_;
}

char JsonCursor::peek() {
  skip_space();
  return at_ < text_.size() ? text_[at_] : '\0';
}

bool JsonCursor::take(char token) {
  skip_space();
  if (at_ >= text_.size() || text_[at_] != token) return false;
  ++at_;
  return true;
}

Status JsonCursor::expect(char token) {
  if (take(token)) return {};
  return error(fmt::format("wanted '{}', found {}", token, found()));
}

Result<std::string_view> JsonCursor::string(std::string& scratch) {
  SY_RETURN_IF_ERROR(expect('"'));
  const std::size_t begin = at_;
  bool ascii = true;
  bool escaped = false;
  scratch.clear();
  std::size_t piece = begin;  // what is not yet in scratch, once there was an escape
  while (true) {
    at_ = find_special(text_, at_);
    if (at_ >= text_.size()) return error("a string that does not end");
    const auto byte = static_cast<unsigned char>(text_[at_]);
    if (byte == '"') break;
    if (byte >= 0x80) {
      ascii = false;
      ++at_;
    } else if (byte == '\\') {
      scratch.append(text_.substr(piece, at_ - piece));
      escaped = true;
      SY_RETURN_IF_ERROR(unescape(scratch));
      piece = at_;
    } else {
      return error(fmt::format("a raw control character \\x{:02x} in a string", byte));
    }
  }
  const std::string_view raw = text_.substr(begin, at_ - begin);
  if (!ascii && !is_valid_utf8(raw)) {
    at_ = begin;
    return error(fmt::format("bad UTF-8 in the string \"{}\"", printable(raw.substr(0, 200))));
  }
  if (escaped) scratch.append(text_.substr(piece, at_ - piece));
  ++at_;
  return escaped ? std::string_view(scratch) : raw;
}

Result<std::uint32_t> JsonCursor::hex4() {
  if (text_.size() - at_ < 4) return error("a \\u escape needs four hex digits");
  std::uint32_t value = 0;
  for (int i = 0; i < 4; ++i, ++at_) {
    const char c = text_[at_];
    std::uint32_t digit = 0;
    if (is_digit(c)) {
      digit = static_cast<std::uint32_t>(c - '0');
    } else if (c >= 'a' && c <= 'f') {
      digit = static_cast<std::uint32_t>(c - 'a') + 10;
    } else if (c >= 'A' && c <= 'F') {
      digit = static_cast<std::uint32_t>(c - 'A') + 10;
    } else {
      return error("a \\u escape needs four hex digits");
    }
    value = value * 16 + digit;
  }
  return value;
}

Status JsonCursor::unescape(std::string& out) {
  ++at_;  // the backslash
  if (at_ >= text_.size()) return error("a string that does not end");
  const char kind = text_[at_];
  static constexpr std::string_view kEscapes = "\"\\/bfnrt";
  static constexpr std::string_view kMeanings = "\"\\/\b\f\n\r\t";
  if (const std::size_t index = kEscapes.find(kind); index != std::string_view::npos) {
    out.push_back(kMeanings[index]);
    ++at_;
    return {};
  }
  if (kind != 'u') return error(fmt::format("unknown escape {} in a string", found()));
  ++at_;
  SY_ASSIGN_OR_RETURN(std::uint32_t code, hex4());
  if (code >= 0xDC00 && code <= 0xDFFF) return error("a low surrogate without its high one");
  if (code >= 0xD800 && code <= 0xDBFF) {
    if (text_.substr(at_, 2) != "\\u") return error("a high surrogate without its low one");
    at_ += 2;
    SY_ASSIGN_OR_RETURN(const std::uint32_t low, hex4());
    if (low < 0xDC00 || low > 0xDFFF) return error("a high surrogate without its low one");
    code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
  }
  append_utf8(code, out);
  return {};
}

Result<std::uint64_t> JsonCursor::unsigned_integer() {
  const char first = peek();
  // Most of these are good JSON of another kind.
  const auto wrong = [this](std::size_t position, std::string_view what) {
    return Status(Code::kCorrupt, fmt::format("at byte {}: {}", position, what));
  };
  if (first == '-') return wrong(at_, "wanted an integer from 0, found a negative number");
  if (!is_digit(first)) return wrong(at_, fmt::format("wanted an integer, found {}", found()));
  const std::size_t begin = at_;
  std::uint64_t value = 0;
  for (; at_ < text_.size() && is_digit(text_[at_]); ++at_) {
    const auto ten_times = checked_mul<std::uint64_t>(value, 10);
    const auto next =
        ten_times ? checked_add<std::uint64_t>(*ten_times, static_cast<std::uint64_t>(text_[at_] - '0')) : std::nullopt;
    if (!next) return wrong(begin, "an integer of more than 64 bits");
    value = *next;
  }
  if (first == '0' && at_ - begin > 1) {
    at_ = begin;
    return error("an integer with a leading zero");
  }
  if (at_ < text_.size() && (text_[at_] == '.' || text_[at_] == 'e' || text_[at_] == 'E')) {
    return wrong(begin, "wanted an integer, found a number with a fraction or an exponent");
  }
  return value;
}

Status JsonCursor::skip_number() {
  if (text_[at_] == '-') ++at_;
  const auto digits = [this] {
    const std::size_t begin = at_;
    while (at_ < text_.size() && is_digit(text_[at_])) ++at_;
    return at_ - begin;
  };
  const std::size_t begin = at_;
  if (digits() == 0) return error(fmt::format("wanted a digit, found {}", found()));
  if (text_[begin] == '0' && at_ - begin > 1) return error("a number with a leading zero");
  if (at_ < text_.size() && text_[at_] == '.') {
    ++at_;
    if (digits() == 0) return error(fmt::format("wanted a digit, found {}", found()));
  }
  if (at_ < text_.size() && (text_[at_] == 'e' || text_[at_] == 'E')) {
    ++at_;
    if (at_ < text_.size() && (text_[at_] == '+' || text_[at_] == '-')) ++at_;
    if (digits() == 0) return error(fmt::format("wanted a digit, found {}", found()));
  }
  return {};
}

Result<JsonNumber> JsonCursor::number() {
  const char first = peek();
  if (first != '-' && !is_digit(first)) return error(fmt::format("wanted a number, found {}", found()));
  const std::size_t begin = at_;
  SY_RETURN_IF_ERROR(skip_number());
  JsonNumber number;
  number.text = text_.substr(begin, at_ - begin);
  number.negative = first == '-';
  const std::string_view digits = number.text.substr(number.negative ? 1 : 0);
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), number.magnitude);
  number.integral = digits.find_first_not_of("0123456789") == std::string_view::npos;
  number.fits = number.integral && parsed.ec == std::errc();
  return number;
}

bool JsonCursor::take_word(std::string_view word) {
  skip_space();
  if (!rest().starts_with(word)) return false;
  at_ += word.size();
  return true;
}

Status JsonCursor::skip_scalar() {
  const char first = peek();
  if (first == '"') {
    std::string scratch;
    return string(scratch).status();
  }
  if (first == '-' || is_digit(first)) return skip_number();
  for (const std::string_view word : {"true", "false", "null"}) {
    if (text_.substr(at_, word.size()) == word) {
      at_ += word.size();
      return {};
    }
  }
  return error(fmt::format("wanted a value, found {}", found()));
}

Status JsonCursor::skip_value() {
  // One open bracket a level, so that deep text cannot exhaust the stack.
  std::vector<char> open;
  std::string scratch;
  const auto key = [&]() -> Status {
    SY_RETURN_IF_ERROR(string(scratch).status());
    return expect(':');
  };
  while (true) {
    const char first = peek();
    if (first == '{' || first == '[') {
      if (open.size() == kDepthMax) return error(fmt::format("more than {} levels", kDepthMax));
      ++at_;
      const char close = first == '{' ? '}' : ']';
      if (!take(close)) {
        open.push_back(close);
        if (first == '{') SY_RETURN_IF_ERROR(key());
        continue;
      }
    } else {
      SY_RETURN_IF_ERROR(skip_scalar());
    }
    while (!open.empty() && take(open.back())) open.pop_back();
    if (open.empty()) return {};
    SY_RETURN_IF_ERROR(expect(','));
    if (open.back() == '}') SY_RETURN_IF_ERROR(key());
  }
}

Status JsonCursor::expect_end(std::string_view padding) {
  if (padding.empty()) {
    skip_space();
  } else {
    while (at_ < text_.size() && padding.find(text_[at_]) != std::string_view::npos) ++at_;
  }
  if (at_ == text_.size()) return {};
  return error(fmt::format("wanted nothing more, found {}", found()));
}

}  // namespace steelyard::formats
