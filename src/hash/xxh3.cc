#include "hash/xxh3.h"

#include <xxhash.h>

#include <algorithm>

namespace steelyard::hash {

std::uint64_t xxh3(ByteView bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

void append_block_sums(ByteView bytes, std::uint64_t block_bytes, std::vector<std::uint64_t>& sums) {
  while (!bytes.empty()) {
    const std::size_t size = std::min<std::size_t>(bytes.size(), block_bytes);
    sums.push_back(xxh3(bytes.first(size)));
    bytes = bytes.subspan(size);
  }
}

std::string xxh3_hex(std::uint64_t sum) {
  std::array<std::byte, 8> big_endian;
  for (std::size_t i = 0; i < big_endian.size(); ++i) {
    big_endian[i] = static_cast<std::byte>((sum >> (56 - 8 * i)) & 0xFFU);
  }
  return to_hex(big_endian);
}

}  // namespace steelyard::hash
