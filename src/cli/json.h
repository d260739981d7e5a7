// A writer of one JSON document, compact, with the keys in the order in which they are written.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace steelyard::cli {

class Json {
 public:
  Json& begin_object() { return open('{'); }
  Json& end_object() { return close('}'); }
  Json& begin_array() { return open('['); }
  Json& end_array() { return close(']'); }

  Json& key(std::string_view name);
  /// Bytes that are not UTF-8 are written as text, `\xNN`.
  Json& string(std::string_view text);
  /// `null` for an empty text.
  Json& string_or_null(std::string_view text) { return text.empty() ? null() : string(text); }
  Json& integer(std::uint64_t number) { return raw(std::to_string(number)); }
  Json& signed_integer(std::int64_t number) { return raw(std::to_string(number)); }
  /// Three decimals.
  Json& seconds(double number);
  /// A number already written as JSON wants it.
  Json& raw(std::string_view text);
  Json& boolean(bool on) { return raw(on ? "true" : "false"); }
  Json& null() { return raw("null"); }

  const std::string& text() const { return out_; }

 private:
  Json& open(char bracket);
  Json& close(char bracket);
  void separate();

  std::string out_;
  bool first_ = true;  ///< of its object or array
  bool after_key_ = false;
};

}  // namespace steelyard::cli
