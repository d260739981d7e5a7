// XXH3-64 with seed 0, as a number.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.h"

namespace steelyard::hash {

std::uint64_t xxh3(ByteView bytes);

/// Sums of the blocks of `block_bytes` (the last may be short) of an object's bytes, in order.
void append_block_sums(ByteView bytes, std::uint64_t block_bytes, std::vector<std::uint64_t>& sums);

/// 16 lower-case hex digits, most significant first.
std::string xxh3_hex(std::uint64_t sum);

}  // namespace steelyard::hash
