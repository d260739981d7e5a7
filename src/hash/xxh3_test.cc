#include "hash/xxh3.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#define XXH_INLINE_ALL
#define XXH_VECTOR XXH_SCALAR
#include <xxhash.h>

#include <algorithm>
#include <random>

namespace steelyard::hash {
namespace {

std::vector<std::byte> noise(std::size_t bytes, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::byte> out(bytes);
  for (auto& byte : out) byte = static_cast<std::byte>(random());
  return out;
}

/// The scalar code, without any vector instruction.
std::uint64_t oracle(ByteView bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

TEST(Xxh3, PublishedVectorsAndHex) {
  EXPECT_EQ(xxh3_hex(xxh3({})), "2d06800538d394c2");
  EXPECT_EQ(xxh3_hex(0x0123456789abcdefULL), "0123456789abcdef");
}

TEST(Xxh3, TheChosenVectorsAgreeWithTheScalarCode) {
  const auto bytes = noise(3000, 1);
  for (std::size_t size = 0; size <= bytes.size(); ++size) {
    ASSERT_EQ(xxh3(ByteView(bytes).first(size)), oracle(ByteView(bytes).first(size))) << size;
  }
  const auto large = noise((1 << 20) + 77, 2);
  for (const std::size_t cut : {0, 1, 63, 64, 77}) {
    EXPECT_EQ(xxh3(ByteView(large).subspan(cut)), oracle(ByteView(large).subspan(cut)));
  }
}

TEST(Xxh3, AnySplitGivesTheSame) {
  EXPECT_TRUE(rc::check([] {
    const auto bytes = noise(*rc::gen::inRange<std::size_t>(0, 6000), *rc::gen::arbitrary<std::uint64_t>());
    auto cuts = *rc::gen::container<std::vector<std::size_t>>(rc::gen::inRange<std::size_t>(0, bytes.size() + 1));
    cuts.push_back(0);
    cuts.push_back(bytes.size());
    std::sort(cuts.begin(), cuts.end());
    Xxh3 sum;
    for (int again = 0; again < 2; ++again) {
      for (std::size_t i = 1; i < cuts.size(); ++i) {
        sum.update(ByteView(bytes).subspan(cuts[i - 1], cuts[i] - cuts[i - 1]));
      }
      RC_ASSERT(sum.finish() == oracle(bytes));
    }
  }));
}

TEST(BlockSums, TheLastMayBeShort) {
  const auto bytes = noise(2500, 3);
  std::vector<std::uint64_t> sums;
  append_block_sums(bytes, 1000, sums);
  const ByteView view(bytes);
  EXPECT_EQ(sums, (std::vector<std::uint64_t>{oracle(view.first(1000)), oracle(view.subspan(1000, 1000)),
                                              oracle(view.subspan(2000))}));
  append_block_sums({}, 1000, sums);
  EXPECT_EQ(sums.size(), 3U);
}

}  // namespace
}  // namespace steelyard::hash
