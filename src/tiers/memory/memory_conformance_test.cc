// The shared cases on the memory tier.
#include <gtest/gtest.h>

#include "tests/conformance/tier_in_folder.h"
#include "tiers/memory/test_instance.h"

namespace steelyard::tiers {
namespace {

TEST(MemoryConformance, AllCases) {
  const TestTmpfs folder;
  if (!folder.made()) GTEST_SKIP() << "/dev/shm cannot be used here";
  expect_all_cases(instance_path(folder.path()),
                   [&] { return open_memory(real_runtime(), memory_test_options(folder.path())); });
}

}  // namespace
}  // namespace steelyard::tiers
