#include "hash/framed.h"

#include <gtest/gtest.h>

namespace steelyard::hash {
namespace {

TEST(FramedSha256, DesignVectors) {
  EXPECT_EQ(FramedSha256().add("p1").add("p2").finish().hex(),
            "ff2c110b8f18291ea676be2af036320944751c4b3e6a65b3c1153721c61c2b26");
  EXPECT_EQ(FramedSha256().add("default").add("production").add("llama-70b").add("step-100").add("7").finish().hex(),
            "5dbbea14aa75c98a5b3fbb576a9c612d64fc6bc8f490f24a7ff017fcfe321b7d");
}

TEST(FramedSha256, PartsCannotRunIntoEachOther) {
  EXPECT_NE(FramedSha256().add("ab").add("c").finish(), FramedSha256().add("a").add("bc").finish());
}

TEST(FramedSha256, OfPartsOfAnyLength) {
  for (std::size_t bytes = 0; bytes < 600; ++bytes) {
    const std::string part(bytes, 'p');
    const std::string framed = std::to_string(bytes) + ":" + part + "\n";
    ASSERT_EQ(FramedSha256().add("a").add(part).add("b").finish(), sha256(as_bytes("1:a\n" + framed + "1:b\n")))
        << bytes;
  }
}

}  // namespace
}  // namespace steelyard::hash
