#include "store/io_budget.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/limits.h"
#include "tiers/directory/test_folder.h"

namespace steelyard::store {
namespace {

using limits::kGiB;
using limits::kMiB;

TEST(IoBudget, FollowsTheContainersLimit) {
  EXPECT_EQ(io_budget(256 * kMiB, std::nullopt), 256 * kMiB);
  EXPECT_EQ(io_budget(256 * kMiB, 512 * kMiB), 208 * kMiB);
  EXPECT_EQ(io_budget(256 * kMiB, 64 * kMiB), 16 * kMiB);
  EXPECT_EQ(io_budget(8 * kMiB, std::nullopt), 16 * kMiB);
}

TEST(IoBudget, MemoryIsScarceWellBelowWhatTheMachineHas) {
  EXPECT_FALSE(memory_is_scarce(std::nullopt, 16 * kGiB));
  EXPECT_FALSE(memory_is_scarce(16 * kGiB, 16 * kGiB));
  EXPECT_FALSE(memory_is_scarce(8 * kGiB, 16 * kGiB));
  EXPECT_TRUE(memory_is_scarce(8 * kGiB - 1, 16 * kGiB));
  EXPECT_FALSE(memory_is_scarce(512 * kMiB, 0)) << "an unknown size of the machine says nothing";
  EXPECT_GT(physical_memory_bytes(), 64 * kMiB);
}

/// A made-up /proc/self/cgroup and /sys/fs/cgroup.
class CgroupLimitTest : public testing::Test {
 protected:
  void write(const std::string& path, const std::string& text) const {
    const std::filesystem::path whole = folder_.path() + "/" + path;
    std::filesystem::create_directories(whole.parent_path());
    std::ofstream(whole) << text;
  }
  std::optional<std::uint64_t> limit() const {
    return cgroup_memory_limit(folder_.path() + "/own", folder_.path() + "/sys");
  }
  tiers::TestFolder folder_;
};

TEST_F(CgroupLimitTest, Version2TakesTheSmallestOnTheWayUp) {
  write("own", "0::/pods/one\n");
  EXPECT_EQ(limit(), std::nullopt);
  write("sys/pods/one/memory.max", "max\n");
  EXPECT_EQ(limit(), std::nullopt);
  write("sys/pods/memory.max", "1073741824\n");
  EXPECT_EQ(limit(), kGiB);
  write("sys/pods/one/memory.max", "536870912\n");
  EXPECT_EQ(limit(), 512 * kMiB);
  write("sys/pods/one/memory.high", "268435456\n");
  EXPECT_EQ(limit(), 256 * kMiB);
}

TEST_F(CgroupLimitTest, Version1KnowsItsLimitAmongOtherControllers) {
  write("own", "12:cpu,cpuacct:/elsewhere\n4:hugetlb,memory:/docker/one\n1:name=systemd:/docker/one\n0::/\n");
  write("sys/memory/docker/one/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(limit(), std::nullopt) << "the largest number is no limit";
  write("sys/memory/docker/memory.limit_in_bytes", "1073741824\n");
  EXPECT_EQ(limit(), kGiB);
}

TEST_F(CgroupLimitTest, AContainerSeesItsGroupAsTheRoot) {
  write("own", "4:memory:/docker/not-visible-here\n");
  write("sys/memory/memory.limit_in_bytes", "536870912\n");
  EXPECT_EQ(limit(), 512 * kMiB);
}

TEST_F(CgroupLimitTest, NonsenseIsNoLimit) {
  write("own", "nothing\n:\n4:memory\n0::\n");
  write("sys/memory.max", "12 MiB\n");
  EXPECT_EQ(limit(), std::nullopt);
  std::filesystem::remove(folder_.path() + "/own");
  EXPECT_EQ(limit(), std::nullopt);
}

}  // namespace
}  // namespace steelyard::store
