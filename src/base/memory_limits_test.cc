#include "base/memory_limits.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

namespace steelyard {
namespace {

class MemoryLimits : public testing::Test {
 protected:
  MemoryLimits() { EXPECT_NE(::mkdtemp(path_.data()), nullptr); }
  ~MemoryLimits() override {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  void write(const std::string& path, const std::string& text) const {
    const std::filesystem::path whole = path_ + "/" + path;
    std::filesystem::create_directories(whole.parent_path());
    std::ofstream(whole) << text;
  }
  std::vector<MemoryLimit> limits() const { return cgroup_memory_limits(path_ + "/own", path_ + "/sys"); }
  std::string path_ = "/tmp/steelyard-limits-XXXXXX";
};

TEST_F(MemoryLimits, WhatCanBeDroppedIsNotUsed) {
  write("own", "0::/pod\n");
  write("sys/pod/memory.max", "1000000\n");
  write("sys/pod/memory.current", "700000\n");
  write("sys/pod/memory.stat", "anon 100000\nfile 600000\nshmem 300000\nactive_file 100000\ninactive_file 200000\n");
  write("sys/memory.high", "500000\n");
  const auto found = limits();
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].file, path_ + "/sys/pod/memory.max");
  EXPECT_EQ(found[0].bytes, 1'000'000U);
  EXPECT_EQ(found[0].used, 400'000U);
  EXPECT_EQ(found[0].free(), 600'000U);
  EXPECT_EQ(found[1].file, path_ + "/sys/memory.high");
  EXPECT_EQ(found[1].used, 0U);
}

TEST_F(MemoryLimits, Version1CountsItsChildren) {
  write("own", "4:memory:/docker/one\n0::/\n");
  write("sys/memory/docker/one/memory.limit_in_bytes", "1000000\n");
  write("sys/memory/docker/one/memory.usage_in_bytes", "1200000\n");
  write("sys/memory/docker/one/memory.stat", "inactive_file 1\ntotal_inactive_file 100000\ntotal_active_file 50000\n");
  const auto found = limits();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].used, 1'050'000U);
  EXPECT_EQ(found[0].free(), 0U);
}

TEST_F(MemoryLimits, NonsenseIsNoLimit) {
  EXPECT_TRUE(limits().empty());
  write("own", "nothing\n0::/pod\n");
  write("sys/pod/memory.max", "max\n");
  write("sys/memory.max", "9223372036854771712\n");
  EXPECT_TRUE(limits().empty());
}

TEST_F(MemoryLimits, TheMachineGivesWhatIsAvailableAndItsSwap) {
  write("meminfo", "MemTotal:  100 kB\nMemAvailable:      60 kB\nSwapTotal: 50 kB\nSwapFree:  40 kB\n");
  EXPECT_EQ(machine_memory(path_ + "/meminfo").bytes, 100U * 1024);
  EXPECT_EQ(machine_memory(path_ + "/absent").bytes, 0U);
  write("meminfo", "MemAvailable: 99999999999999999 kB\nSwapFree:\n");
  EXPECT_GT(machine_memory(path_ + "/meminfo").bytes, 0U);
  EXPECT_GT(machine_memory().bytes, 1024U * 1024);
}

}  // namespace
}  // namespace steelyard
