// The shared cases on the directory tier, on the disk and in memory.
#include <gtest/gtest.h>

#include "tests/conformance/tier_in_folder.h"
#include "tiers/directory/test_folder.h"
#include "tiers/open.h"

namespace steelyard::tiers {
namespace {

class DirectoryConformance : public testing::TestWithParam<const char*> {};

TEST_P(DirectoryConformance, AllCases) {
  const TestFolder folder(GetParam());
  if (!folder.made()) GTEST_SKIP() << GetParam() << " cannot be used here";
  const std::string path = folder.path() + "/tier";
  expect_all_cases(path, [&] { return open_directory(real_runtime(), test_options(path)); });
}

INSTANTIATE_TEST_SUITE_P(Filesystems, DirectoryConformance, testing::Values("/tmp", "/dev/shm"));

}  // namespace
}  // namespace steelyard::tiers
