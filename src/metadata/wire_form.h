// The one byte form of what is stored: protobuf's, with the fields in the order of their numbers, the shortest numbers,
// and defaults left out (docs/formats/op-log.md).
//
// What a message holds is listed once, in a function `fields(wire, value)` that serves both of the classes here: with a
// FieldReader it fills the value, with a FieldWriter it takes the value as it is. Nested ones are found by their
// argument's namespace.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/bytes.h"
#include "base/check.h"

namespace steelyard::metadata::wire {

inline constexpr std::size_t kDigestBytes = 32;

/// How `fields` names its value, which is const for a writer.
template <typename Value, typename T>
concept Of = std::same_as<std::remove_const_t<Value>, T>;

enum class WireType : unsigned { kVarint = 0, kBytes = 2 };

/// Takes fields from the front, in ascending order. The first byte that is not the only form fails it for good.
class FieldReader {
 public:
  explicit FieldReader(std::string_view bytes) : at_(bytes.data()), end_(bytes.data() + bytes.size()) {}

  bool whole() const { return !failed_ && at_ == end_; }
  void fail() {
    failed_ = true;
    at_ = end_;
  }

  /// A number that is left out when it is 0.
  template <typename T>
  void number(unsigned field, T& out) {
    if (!tag(field, WireType::kVarint)) return;
    const std::uint64_t value = varint();
    if (value == 0) fail();
    out = narrow<T>(value);
  }
  /// A number that says by itself whether it is there.
  template <typename T>
  void optional_number(unsigned field, std::optional<T>& out) {
    if (tag(field, WireType::kVarint)) out = narrow<T>(varint());
  }
  template <typename E>
  void enumeration(unsigned field, E& out, std::uint64_t first, std::uint64_t last) {
    const std::uint64_t value = tag(field, WireType::kVarint) ? varint() : 0;
    if (value < first || value > last) return fail();
    out = static_cast<E>(value);
  }
  void text(unsigned field, std::string& out) {
    if (!tag(field, WireType::kBytes)) return;
    const std::string_view value = bytes();
    if (value.empty()) fail();
    out = value;
  }
  /// Hex of 32 raw bytes, after a prefix that is not stored.
  void digest(unsigned field, std::string& out, std::string_view prefix = {}) {
    if (!tag(field, WireType::kBytes)) return;
    const std::string_view value = bytes();
    if (value.size() != kDigestBytes) return fail();
    out = std::string(prefix);
    out += to_hex(as_bytes(value));
  }
  /// The bytes of a message or of one more of a repeated field; absent when the next field is another.
  std::optional<std::string_view> find_part(unsigned field) {
    if (!tag(field, WireType::kBytes)) return std::nullopt;
    return bytes();
  }
  /// A message that is always written.
  template <typename T>
  void part(unsigned field, T& out) {
    if (tag(field, WireType::kBytes)) return read(bytes(), out);
    fail();
  }
  template <typename T>
  void optional_part(unsigned field, std::optional<T>& out) {
    if (const auto body = find_part(field)) read(*body, out.emplace());
  }
  /// A message that is left out when it holds nothing.
  template <typename T>
  void part_unless_empty(unsigned field, T& out) {
    const auto body = find_part(field);
    if (!body) return;
    read(*body, out);
    must(out != T{});
  }
  template <typename T>
  void parts(unsigned field, std::vector<T>& out) {
    while (const auto body = find_part(field)) read(*body, out.emplace_back());
  }
  void texts(unsigned field, std::vector<std::string>& out) {
    while (const auto body = find_part(field)) out.emplace_back(*body);
  }
  void must(bool right) {
    if (!right) fail();
  }

 private:
  template <typename T>
  void read(std::string_view body, T& out) {
    FieldReader in(body);
    fields(in, out);
    must(in.whole());
  }
  /// Takes the next tag if it is this one.
  bool tag(unsigned field, WireType type) {
    const unsigned wanted = field << 3 | static_cast<unsigned>(type);
    if (wanted < 0x80) {
      if (at_ == end_ || static_cast<unsigned char>(*at_) != wanted) return false;
      ++at_;
      return true;
    }
    if (end_ - at_ < 2 || static_cast<unsigned char>(at_[0]) != ((wanted & 0x7f) | 0x80) ||
        static_cast<unsigned char>(at_[1]) != wanted >> 7) {
      return false;
    }
    at_ += 2;
    return true;
  }
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; at_ != end_; shift += 7) {
      const auto byte = static_cast<unsigned char>(*at_++);
      if (shift == 63 && byte > 1) break;
      value |= std::uint64_t{byte & 0x7fU} << shift;
      if (byte < 0x80) {
        if (byte == 0 && shift > 0) break;  // it could be shorter
        return value;
      }
    }
    fail();
    return 0;
  }
  std::string_view bytes() {
    const std::uint64_t size = varint();
    if (size > static_cast<std::uint64_t>(end_ - at_)) {
      fail();
      return {};
    }
    const std::string_view value(at_, static_cast<std::size_t>(size));
    at_ += size;
    return value;
  }
  template <typename T>
  T narrow(std::uint64_t value) {
    if constexpr (std::is_same_v<T, bool>) {
      if (value > 1) fail();
      return value == 1;
    } else if constexpr (sizeof(T) < sizeof value) {
      if (value > std::numeric_limits<T>::max()) fail();
      return static_cast<T>(value);
    } else {
      return static_cast<T>(value);
    }
  }

  const char* at_;
  const char* end_;
  bool failed_ = false;
};

/// Appends fields, which come in ascending order. The same names as above, and what is legal there is written here.
class FieldWriter {
 public:
  explicit FieldWriter(std::string& out) : out_(out) {}

  template <typename T>
  void number(unsigned field, const T& value) {
    if (value != T{}) varint_field(field, widened(value));
  }
  template <typename T>
  void optional_number(unsigned field, const std::optional<T>& value) {
    if (value) varint_field(field, widened(*value));
  }
  template <typename E>
  void enumeration(unsigned field, const E& value, std::uint64_t /*first*/, std::uint64_t /*last*/) {
    number(field, static_cast<std::uint64_t>(value));
  }
  /// Bytes that are written even if there are none: one of a repeated field.
  void blob(unsigned field, std::string_view value) {
    tag(field, WireType::kBytes);
    varint(value.size());
    out_.append(value);
  }
  void text(unsigned field, std::string_view value) {
    if (!value.empty()) blob(field, value);
  }
  void digest(unsigned field, std::string_view hex, std::string_view prefix = {}) {
    if (hex.empty()) return;
    SY_CHECK(hex.starts_with(prefix), "a digest without its prefix reached the encoder");
    Digest raw;
    SY_CHECK(from_hex(hex.substr(prefix.size()), raw.bytes), "a digest that is not hex reached the encoder");
    blob(field, as_text(raw.bytes));
  }
  template <typename T>
  void part(unsigned field, const T& value) {
    tag(field, WireType::kBytes);
    const std::size_t at = out_.size();
    out_.push_back('\0');  // most are short: one byte for the length
    fields(*this, value);
    std::size_t left = out_.size() - at - 1;
    for (std::size_t next = at; true; ++next, left >>= 7) {
      out_[next] = static_cast<char>(left < 0x80 ? left : (left & 0x7f) | 0x80);
      if (left < 0x80) return;
      out_.insert(next + 1, 1, '\0');
    }
  }
  template <typename T>
  void optional_part(unsigned field, const std::optional<T>& value) {
    if (value) part(field, *value);
  }
  template <typename T>
  void part_unless_empty(unsigned field, const T& value) {
    if (value != T{}) part(field, value);
  }
  template <typename T>
  void parts(unsigned field, const std::vector<T>& values) {
    for (const T& value : values) part(field, value);
  }
  void texts(unsigned field, const std::vector<std::string>& values) {
    for (const std::string& value : values) blob(field, value);
  }
  void must(bool right) { SY_CHECK(right, "a value without a form reached the encoder"); }

 private:
  template <typename T>
  static std::uint64_t widened(T value) {
    static_assert(std::is_unsigned_v<T> || sizeof(T) == sizeof(std::uint64_t));
    return static_cast<std::uint64_t>(value);
  }
  void tag(unsigned field, WireType type) { varint(field << 3 | static_cast<unsigned>(type)); }
  void varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) out_.push_back(static_cast<char>(value | 0x80));
    out_.push_back(static_cast<char>(value));
  }
  void varint_field(unsigned field, std::uint64_t value) {
    tag(field, WireType::kVarint);
    varint(value);
  }
  std::string& out_;
};

}  // namespace steelyard::metadata::wire
