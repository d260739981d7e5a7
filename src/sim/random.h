// The dice of a simulation: one seed, one sequence, the same everywhere.
#pragma once

#include <cstdint>

namespace steelyard::sim {

/// splitmix64. Thread-compatible value; a copy goes on by itself.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    state_ += 0x9e3779b97f4a7c15ULL;
    std::uint64_t value = state_;
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ULL;
    value = (value ^ (value >> 27)) * 0x94d049bb133111ebULL;
    return value ^ (value >> 31);
  }
  /// 0..bound-1; the bound is not 0.
  std::uint64_t below(std::uint64_t bound) { return next() % bound; }
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(below(static_cast<std::uint64_t>(high - low) + 1));
  }
  bool per_mille(std::uint64_t chance) { return chance > 0 && below(1000) < chance; }
  /// One of the given values.
  template <typename T, std::size_t n>
  T one_of(const T (&values)[n]) {
    return values[below(n)];
  }

 private:
  std::uint64_t state_;
};

}  // namespace steelyard::sim
