// Checked arithmetic: sizes that come from input are only ever combined through these.
#pragma once

#include <concepts>
#include <optional>

namespace steelyard {

template <std::integral T>
[[nodiscard]] constexpr std::optional<T> checked_add(T a, T b) {
  T out{};
  if (__builtin_add_overflow(a, b, &out)) return std::nullopt;
  return out;
}

template <std::integral T>
[[nodiscard]] constexpr std::optional<T> checked_sub(T a, T b) {
  T out{};
  if (__builtin_sub_overflow(a, b, &out)) return std::nullopt;
  return out;
}

template <std::integral T>
[[nodiscard]] constexpr std::optional<T> checked_mul(T a, T b) {
  T out{};
  if (__builtin_mul_overflow(a, b, &out)) return std::nullopt;
  return out;
}

/// ceil(a / b) for b > 0, without overflow.
template <std::unsigned_integral T>
[[nodiscard]] constexpr T div_ceil(T a, T b) {
  return a / b + (a % b != 0 ? T{1} : T{0});
}

}  // namespace steelyard
