#include "base/bytes.h"

#include <gtest/gtest.h>

#include "base/checked.h"

namespace steelyard {
namespace {

TEST(Hex, BothWays) {
  const std::array<std::byte, 4> bytes = {std::byte{0}, std::byte{0x9a}, std::byte{0xff}, std::byte{0x10}};
  EXPECT_EQ(to_hex(bytes), "009aff10");
  std::array<std::byte, 4> back{};
  ASSERT_TRUE(from_hex("009aff10", back));
  EXPECT_EQ(back, bytes);
  for (const char* text : {"", "009aff1", "009aff100", "009aff1g", "009AFF10", "009aff1 "}) {
    EXPECT_FALSE(from_hex(text, back)) << text;
  }
}

TEST(Checked, Edges) {
  EXPECT_EQ(checked_add<std::uint64_t>(UINT64_MAX, 0), UINT64_MAX);
  EXPECT_EQ(checked_add<std::uint64_t>(UINT64_MAX, 1), std::nullopt);
  EXPECT_EQ(checked_sub<std::uint64_t>(0, 1), std::nullopt);
  EXPECT_EQ(checked_mul<std::int64_t>(INT64_MIN, -1), std::nullopt);
  EXPECT_EQ(checked_mul<std::uint64_t>(1ULL << 32, 1ULL << 31), 1ULL << 63);
  EXPECT_EQ(div_ceil<std::uint64_t>(UINT64_MAX, 2), 1ULL << 63);
  EXPECT_EQ(div_ceil<std::uint64_t>(0, 5), 0U);
}

}  // namespace
}  // namespace steelyard
