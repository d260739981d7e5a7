#include "tiers/tier.h"

#include <gtest/gtest.h>

#include <cstdint>

#include "base/units.h"

namespace steelyard::tiers {
namespace {

TEST(AlignedBuffer, IsWholePages) {
  const auto buffer = AlignedBuffer::allocate(5000);
  ASSERT_TRUE(buffer.ok());
  EXPECT_EQ(buffer->size(), 8192U);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer->data()) % 4096, 0U);
  EXPECT_EQ(AlignedBuffer::allocate(0)->size(), 0U);
}

TEST(AlignedBuffer, NoMemoryIsAStatus) {
  for (const std::size_t bytes : {std::size_t{1} << 60, SIZE_MAX}) {
    const auto buffer = AlignedBuffer::allocate(bytes);
    ASSERT_EQ(buffer.code(), Code::kUnavailable);
    EXPECT_NE(buffer.status().message().find(format_size(bytes)), std::string::npos) << buffer.status().to_string();
    EXPECT_NE(buffer.status().hint().find("--io-memory"), std::string::npos);
  }
}

}  // namespace
}  // namespace steelyard::tiers
