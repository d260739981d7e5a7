#include "hash/sha256.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "hash/sha256_compress.h"

namespace steelyard::hash {
namespace {

constexpr std::size_t kBlock = 64;
constexpr compress::State kInitialState = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                           0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

}  // namespace

Sha256::Sha256() : state_(kInitialState), tail_{} {}

ByteView Sha256::fill_tail(ByteView bytes) {
  const std::size_t held = total_bytes_ % kBlock;
  if (held == 0 || bytes.empty()) return bytes;
  const std::size_t take = std::min(kBlock - held, bytes.size());
  std::memcpy(tail_.data() + held, bytes.data(), take);
  total_bytes_ += take;
  if (held + take == kBlock) compress::best().one(state_, tail_.data(), 1);
  return bytes.subspan(take);
}

void Sha256::take_blocks_and_tail(ByteView bytes, std::size_t compressed) {
  const std::size_t blocks = bytes.size() / kBlock;
  if (blocks > compressed) {
    compress::best().one(state_, bytes.data() + compressed * kBlock, blocks - compressed);
  }
  const ByteView rest = bytes.subspan(blocks * kBlock);
  if (!rest.empty()) std::memcpy(tail_.data(), rest.data(), rest.size());
  total_bytes_ += bytes.size();
}

void Sha256::update(ByteView bytes) { take_blocks_and_tail(fill_tail(bytes), 0); }

void Sha256::update_two(Sha256& a, ByteView a_bytes, Sha256& b, ByteView b_bytes) {
  SY_CHECK(&a != &b, "update_two advances two digests");
  a_bytes = a.fill_tail(a_bytes);
  b_bytes = b.fill_tail(b_bytes);
  const std::size_t both = std::min(a_bytes.size(), b_bytes.size()) / kBlock;
  if (both > 0) compress::best().two(a.state_, a_bytes.data(), b.state_, b_bytes.data(), both);
  a.take_blocks_and_tail(a_bytes, both);
  b.take_blocks_and_tail(b_bytes, both);
}

Digest Sha256::finish() {
  std::array<std::byte, 2 * kBlock> padding{};
  const std::size_t held = total_bytes_ % kBlock;
  const std::size_t padded = held < kBlock - 8 ? kBlock : 2 * kBlock;
  std::memcpy(padding.data(), tail_.data(), held);
  padding[held] = std::byte{0x80};
  const std::uint64_t bits = total_bytes_ * 8;
  for (std::size_t i = 0; i < 8; ++i) padding[padded - 1 - i] = static_cast<std::byte>((bits >> (8 * i)) & 0xFFU);
  compress::best().one(state_, padding.data(), padded / kBlock);
  Digest digest;
  for (std::size_t i = 0; i < digest.bytes.size(); ++i) {
    digest.bytes[i] = static_cast<std::byte>((state_[i / 4] >> (24 - 8 * (i % 4))) & 0xFFU);
  }
  *this = Sha256();
  return digest;
}

Digest sha256(ByteView bytes) {
  Sha256 sha;
  sha.update(bytes);
  return sha.finish();
}

std::string sha256_hex(std::string_view text) { return sha256(as_bytes(text)).hex(); }

}  // namespace steelyard::hash
