#include "base/bytes.h"

#include <gtest/gtest.h>

#include "base/checked.h"
#include "base/utf8.h"

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

TEST(Utf8, ShortestFormsOnly) {
  for (const char* text : {"", "a", "\xc2\x80", "\xdf\xbf", "\xe0\xa0\x80", "\xed\x9f\xbf", "\xef\xbf\xbf",
                           "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf"}) {
    EXPECT_TRUE(is_valid_utf8(text)) << printable(text);
  }
  for (const char* text :
       {"\x80", "\xc0\x80", "\xc1\xbf", "\xc2", "\xc2x", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xed\xbf\xbf",
        "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff", "a\xe2\x82"}) {
    EXPECT_FALSE(is_valid_utf8(text)) << printable(text);
  }
}

TEST(Utf8, Controls) {
  EXPECT_FALSE(has_control_character("a b\xc2\xa0\xf0\x9f\x98\x80"));
  for (const std::string& text :
       {std::string("\0", 1), std::string("\n"), std::string("\x7f"), std::string("a\xc2\x9f")}) {
    EXPECT_TRUE(has_control_character(text));
  }
  EXPECT_EQ(printable("a\n\xc2\x85\xff\xc3\xa9"), "a\\x0a\\xc2\\x85\\xff\xc3\xa9");
}

}  // namespace
}  // namespace steelyard
