// JsonCursor: walks strict JSON text from front to back, without a tree, an index or a copy of it.
//
// For headers and indexes of a hundred megabytes: memory stays at the text itself, every error knows its byte position,
// and nothing is accepted that RFC 8259 does not allow. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace steelyard::formats {

/// A number as it is spelt. `integral`: without fraction and exponent; then `magnitude` is its value without the sign,
/// if that `fits` into 64 bits.
struct JsonNumber {
  std::string_view text;
  std::uint64_t magnitude = 0;
  bool negative = false;
  bool integral = false;
  bool fits = false;
};

class JsonCursor {
 public:
  /// `text` must outlive the cursor. Errors are CORRUPT and say the byte position; the caller annotates them.
  explicit JsonCursor(std::string_view text) : text_(text) {}

  std::size_t position() const { return at_; }
  /// What was not taken yet.
  std::string_view rest() const { return text_.substr(at_); }

  /// Skips whitespace; the next character, or '\0' at the end.
  char peek();
  /// Skips whitespace; takes `token` if it comes next.
  bool take(char token);
  /// The same, an error if it does not come.
  Status expect(char token);
  /// A string, unescaped. The view lives in the text where it holds no escape, else in `scratch`, which must stay
  /// unchanged as long as the view is used.
  Result<std::string_view> string(std::string& scratch);
  /// An integer from 0 to 2^64-1; an error naming what is there instead: a sign, a fraction, an exponent, too large.
  Result<std::uint64_t> unsigned_integer();
  /// Any number.
  Result<JsonNumber> number();
  /// Skips whitespace; takes the word ("null", "true") if it comes next.
  bool take_word(std::string_view word);
  /// Checks and passes any value.
  Status skip_value();
  /// Only `padding` characters may follow (all whitespace when it is empty).
  Status expect_end(std::string_view padding = {});

  /// An error at this position: "bad JSON at byte 17: wanted ':', found '}'".
  Status error(std::string_view what) const;
  /// What stands at this position, for messages: "'}'", "the end of the text".
  std::string found() const;

 private:
  void skip_space();
  Status unescape(std::string& out);
  Result<std::uint32_t> hex4();
  Status skip_number();
  Status skip_scalar();

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace steelyard::formats
