// XXH3-64 with seed 0, as a number. The widest vectors that the CPU has are chosen at run time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/bytes.h"

namespace steelyard::hash {

std::uint64_t xxh3(ByteView bytes);

/// A running XXH3-64. Thread-compatible; not copyable.
class Xxh3 {
 public:
  Xxh3();
  ~Xxh3();
  Xxh3(const Xxh3&) = delete;
  Xxh3& operator=(const Xxh3&) = delete;
  void update(ByteView bytes);
  /// The sum of everything so far. The object is then as new.
  std::uint64_t finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Sums of the blocks of `block_bytes` (the last may be short) of an object's bytes, in order.
void append_block_sums(ByteView bytes, std::uint64_t block_bytes, std::vector<std::uint64_t>& sums);

/// 16 lower-case hex digits, most significant first.
std::string xxh3_hex(std::uint64_t sum);

}  // namespace steelyard::hash
