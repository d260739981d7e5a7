#include "metadata/keys.h"

#include <gtest/gtest.h>

namespace steelyard::metadata {
namespace {

Identity make(std::string tenant, std::string space, std::string resource, std::string revision,
              std::int64_t generation) {
  return {{std::move(tenant), std::move(space), std::move(resource), std::move(revision)}, generation};
}

TEST(Keys, WorkedExample) {
  EXPECT_EQ(to_hex(as_bytes(keys::of(keys::kWriter, make("t", "n", "r", "v", 7)))),
            "7774"
            "0001"
            "6e"
            "0001"
            "72"
            "0001"
            "76"
            "0001"
            "0000000000000007");
}

TEST(Keys, PartsCannotRunIntoEachOther) {
  const std::string nul("\0", 1);
  EXPECT_NE(keys::of('r', make("a", "b", "c", "d", 1)), keys::of('r', make("a", "bc", "", "d", 1)));
  EXPECT_NE(keys::of('r', make("a" + nul, "b", "c", "d", 1)), keys::of('r', make("a", nul + "b", "c", "d", 1)));
  // A text comes before every longer one that it begins, a NUL after the end of a text.
  EXPECT_LT(keys::of('r', make("a", "b", "c", "d", INT64_MAX)), keys::of('r', make("a", "b", "c", "d" + nul, 1)));
  EXPECT_LT(keys::of('r', make("a", "b", "c", "d", INT64_MAX)), keys::of('r', make("a", "b", "c", "d!", 1)));
  EXPECT_LT(keys::of('r', make("a", "b", "c", "d", 255)), keys::of('r', make("a", "b", "c", "d", 256)));
}

TEST(Keys, AfterPrefix) {
  EXPECT_EQ(keys::after_prefix("a"), "b");
  EXPECT_EQ(keys::after_prefix("a\xff\xff"), "b");
  EXPECT_EQ(keys::after_prefix("\xff"), "");
}

}  // namespace
}  // namespace steelyard::metadata
