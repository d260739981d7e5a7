#include "hash/fused.h"

#include <algorithm>

#include "base/check.h"
#include "base/limits.h"
#include "hash/xxh3.h"

namespace steelyard::hash {
namespace {

/// Small enough to stay in the second-level cache between the two digests, large enough that their set-up does not
/// count.
constexpr std::size_t kPieceBytes = 64 * limits::kKiB;

/// SHA-256 goes first: it is slow enough for the hardware to fetch ahead of it, and XXH3 then reads from the cache.
template <typename UpdateSha>
void pass(ByteView bytes, std::vector<std::uint64_t>& block_sums, UpdateSha update_sha) {
  while (!bytes.empty()) {
    ByteView block = bytes.first(std::min<std::size_t>(bytes.size(), limits::kBlockBytes));
    bytes = bytes.subspan(block.size());
    Xxh3 sum;
    while (!block.empty()) {
      const ByteView piece = block.first(std::min(block.size(), kPieceBytes));
      block = block.subspan(piece.size());
      update_sha(piece);
      sum.update(piece);
    }
    block_sums.push_back(sum.finish());
  }
}

}  // namespace

void hash_pass(Sha256& file, Sha256& object, ByteView bytes, std::vector<std::uint64_t>& block_sums) {
  SY_CHECK(&file != &object, "a file and its object have digests of their own");
  pass(bytes, block_sums, [&](ByteView piece) { Sha256::update_two(file, piece, object, piece); });
}

void hash_pass(Sha256& object, ByteView bytes, std::vector<std::uint64_t>& block_sums) {
  pass(bytes, block_sums, [&](ByteView piece) { object.update(piece); });
}

}  // namespace steelyard::hash
