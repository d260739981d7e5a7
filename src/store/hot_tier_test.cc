#include "store/hot_tier.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <utility>

#include "base/runtime.h"
#include "tiers/memory/test_instance.h"

namespace steelyard::store {
namespace {

namespace fs = std::filesystem;

/// Two tasks hold an instance that goes away. One finds that none is there while the other makes one.
TEST(HotTierTest, TheOneThatWasMadeIsGivenWhateverOthersFound) {
  const tiers::TestTmpfs memory;
  if (!memory.made()) GTEST_SKIP() << "/dev/shm cannot be used here";
  std::function<void()> meanwhile;
  HotTier hot([&](bool create) -> Result<std::unique_ptr<tiers::Tier>> {
    auto options = tiers::memory_test_options(memory.path());
    options.create = create;
    auto opened = tiers::open_memory(real_runtime(), options);
    if (auto others = std::exchange(meanwhile, nullptr)) others();
    return opened;
  });
  ASSERT_NE(hot.make().value(), nullptr);
  fs::remove_all(tiers::instance_path(memory.path()));
  std::shared_ptr<tiers::Tier> found;
  meanwhile = [&] {
    fs::rename(tiers::instance_path(memory.path()), memory.path() + "/aside");
    found = hot.find().value();
    fs::rename(memory.path() + "/aside", tiers::instance_path(memory.path()));
  };
  const auto made = hot.make();
  ASSERT_TRUE(made.ok()) << made.status().to_string();
  EXPECT_EQ(found, nullptr);
  ASSERT_NE(*made, nullptr);
  EXPECT_TRUE((*made)->instance().ok());
  EXPECT_EQ(hot.find().value(), *made);
}

}  // namespace
}  // namespace steelyard::store
